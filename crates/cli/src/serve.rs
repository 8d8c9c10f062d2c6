//! `serve`: the HTTP service, until a signal ends it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use dirigent::config::ServiceLimits;
use dirigent::{Config, Dirigent, DirigentError, UserPresence, default_journal};
use dirigent_server::{
    LoadedToken, RunSlots, Server, ServerLimits, ServerOptions, Token, TokenOrigin, Webhook, WebhookError,
    WebhookOptions, reachable,
};
use serde_json::json;
use tokio::sync::oneshot;

use crate::args::ServeCommand;
use crate::config;
use crate::exit::{Exit, UsageError};
use crate::open::open_configured;
use crate::output::{Output, sanitize};
use crate::signals::ShutdownSignals;

pub(crate) async fn serve(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: ServeCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let mut signals = ShutdownSignals::listen()?;
    if !command.listen.ip().is_loopback() && command.token_file.is_none() {
        let problem = format!(
            "other computers can reach {}, so choose who has the token: add --token-file FILE, or listen on a loopback address",
            command.listen
        );
        return Err(UsageError(problem).into());
    }
    let config = config::load(file, command.model.model.clone())?;
    config::warn_unread_config(&config, &[Path::new("."), &command.workspace], output);
    config::warn_unconfined(&config, output);
    let webhooks = webhooks(&config, &db)?;
    let token_file = token_file(&db, &command)?;
    refuse_in_workspace(&token_file, &command.workspace)?;
    let loaded = load_token(token_file.clone()).await?;
    let dirigent = open_configured(db, &config).await?;
    let options = ServerOptions {
        listen: command.listen,
        hosts: command.host.clone(),
        workspace: command.workspace.clone(),
        token_file: Some(token_file.clone()),
        limits: limits(&command, config.service_limits()),
        webhooks,
    };
    let server = Server::bind(dirigent.clone(), loaded.token.clone(), options).await?;
    announce(&server, &loaded, &token_file, command.json, output);
    let slots = server.run_slots();
    let (stop, stopped) = oneshot::channel();
    let serving = async {
        let running = server.run(async { drop(stopped.await) });
        let (result, ()) = tokio::join!(running, resume(&dirigent, &slots, &command, output));
        result
    };
    let killed = async {
        signals.next().await;
        // The receiver is dropped only when the server has ended.
        let _ = stop.send(());
        signals.interrupted().await;
    };
    tokio::select! {
        result = serving => result.map(|()| Exit::Success).map_err(anyhow::Error::from),
        () = killed => Ok(Exit::Killed),
    }
}

/// The limits of the command line, else of the configuration, else the defaults.
fn limits(command: &ServeCommand, configured: ServiceLimits) -> ServerLimits {
    let default = ServerLimits::default();
    let number = |given: Option<u32>, configured: Option<u32>, default: usize| {
        let number = given.or(configured).map(usize::try_from);
        number.and_then(Result::ok).unwrap_or(default)
    };
    let max_body = configured
        .max_body
        .map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
    ServerLimits {
        body_bytes: number(command.max_body, max_body, default.body_bytes),
        requests: number(command.max_requests, configured.max_requests, default.requests),
        runs: number(command.max_runs, configured.max_runs, default.runs),
        connections: number(
            command.max_connections,
            configured.max_connections,
            default.connections,
        ),
        mcp_sessions: number(None, configured.max_mcp_sessions, default.mcp_sessions),
        mcp_idle_time: configured.mcp_idle_time.unwrap_or(default.mcp_idle_time),
        ..default
    }
}

/// The webhooks of the configuration. They keep what they have delivered next to the journal.
fn webhooks(config: &Config, db: &Option<PathBuf>) -> anyhow::Result<WebhookOptions> {
    Ok(WebhookOptions {
        hooks: usable_webhooks(config)?,
        progress_file: Some(next_to_journal(db, "-webhooks")?),
        ..WebhookOptions::default()
    })
}

/// The webhooks of the configuration with their secrets.
pub(crate) fn usable_webhooks(config: &Config) -> anyhow::Result<Vec<Webhook>> {
    let configured = config.webhooks().map_err(DirigentError::from)?;
    let variable = |name: &str| std::env::var(name).ok();
    let hooks: Result<Vec<Webhook>, WebhookError> = configured
        .iter()
        .map(|hook| Webhook::new(hook, variable))
        .collect();
    Ok(hooks.map_err(|error| UsageError(error.to_string()))?)
}

/// The file of the token: by default next to the journal.
fn token_file(db: &Option<PathBuf>, command: &ServeCommand) -> Result<PathBuf, DirigentError> {
    match &command.token_file {
        Some(file) => Ok(file.clone()),
        None => next_to_journal(db, "-token"),
    }
}

/// The journal's path with this end.
fn next_to_journal(db: &Option<PathBuf>, end: &str) -> Result<PathBuf, DirigentError> {
    let journal = db.clone().map_or_else(default_journal, Ok)?;
    let mut path: OsString = journal.into_os_string();
    path.push(end);
    Ok(path.into())
}

/// Refuses a token file that agents could read.
fn refuse_in_workspace(token_file: &Path, workspace: &Path) -> Result<(), UsageError> {
    let folder = match token_file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    match (folder.canonicalize(), workspace.canonicalize()) {
        (Ok(folder), Ok(workspace)) if folder.starts_with(&workspace) => Err(UsageError(format!(
            "the token file {} lies in the workspace {}, where agents can read it: choose another file with --token-file FILE",
            token_file.display(),
            workspace.display()
        ))),
        _ => Ok(()),
    }
}

async fn load_token(path: PathBuf) -> anyhow::Result<LoadedToken> {
    Ok(tokio::task::spawn_blocking(move || Token::load_or_create(&path)).await??)
}

/// Tells where the server listens. The link with the token is shown only to a person at a terminal: what is written to a file or a pipe may be kept or read by others.
fn announce(server: &Server, loaded: &LoadedToken, token_file: &Path, is_json: bool, output: &Output) {
    let address = server.address();
    let url = format!("http://{}", reachable(address));
    if is_json {
        let line = json!({"event": "listening", "address": address, "url": url, "token_file": token_file});
        return output.print(&line.to_string());
    }
    let file = token_file.display();
    output.print(&match address.ip().is_unspecified() {
        false => format!("Listening on {url}"),
        true => format!(
            "Listening on port {} of all addresses of this computer, such as {url}",
            address.port()
        ),
    });
    output.print(&match loaded.origin {
        TokenOrigin::Created if output.is_terminal() => sanitize(&format!(
            "Open {}\nThis link is shown only now. The token in it is kept in {file}.",
            loaded.token.link(address)
        )),
        TokenOrigin::Created | TokenOrigin::Read => sanitize(&format!(
            "The token is in {file}: open {url}/?token=TOKEN in a browser, or send it with each request."
        )),
    });
}

/// Resumes the interrupted runs, unless the user does not want it.
async fn resume(dirigent: &Dirigent, slots: &RunSlots, command: &ServeCommand, output: &Output) {
    if command.no_resume {
        return;
    }
    let resumed = match dirigent.resume_interrupted(UserPresence::Present).await {
        Ok(resumed) => resumed,
        Err(error) => return output.error(&sanitize(&format!("interrupted runs are not resumed: {error}"))),
    };
    for run in resumed {
        if let Ok(handle) = &run.result {
            slots.count(handle);
        }
        match run.result {
            Ok(handle) if command.json => {
                output.print(&json!({"event": "resumed", "run": handle.id()}).to_string());
            }
            Ok(handle) => output.print(&format!("Resumed run {}", handle.id().short())),
            // The server ends.
            Err(DirigentError::StartCancelled) => {}
            Err(error) => output.error(&sanitize(&format!(
                "run {} is not resumed: {error}",
                run.run.short()
            ))),
        }
    }
}

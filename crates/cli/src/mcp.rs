//! `mcp`, except `mcp serve`: the services of the Model Context Protocol.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use dirigent::approval_rules::ApprovalRule;
use dirigent::services::{RegisteredService, ServiceError, ServiceOrigin, ServiceSettings};
use dirigent::{Dirigent, DirigentError, OfflineModel, render};

use crate::agents::existing_folder;
use crate::args::{
    AddServiceCommand, ImportServicesCommand, ListServicesCommand, ServiceCommand, ServiceOptions,
    ServicesCommand, ShowServiceCommand, TrustServicesCommand, UpdateServiceCommand,
};
use crate::config;
use crate::exit::Exit;
use crate::mcp_text::{endpoint_of, line, list_text, show_text, skipped_line, tools_text, untrusted_text};
use crate::open::build;
use crate::output::{Output, sanitize};
use crate::request_text::one_line;
use crate::time::local;

/// Maximum size of a file to import, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

pub(crate) async fn mcp(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: ServicesCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let config = config::load(file, None)?;
    // No model is needed.
    let builder = Dirigent::builder().config(&config).model(OfflineModel);
    let dirigent = build(builder, db).await?;
    let done = match command {
        ServicesCommand::Add(command) => add(&dirigent, command, output).await,
        ServicesCommand::Update(command) => update(&dirigent, command, output).await,
        ServicesCommand::Remove(command) => remove(&dirigent, &command.name, output).await,
        ServicesCommand::List(command) => list(&dirigent, &command, output).await,
        ServicesCommand::Show(command) => show(&dirigent, &command, output).await,
        ServicesCommand::Start(command) => start(&dirigent, &command, output).await,
        ServicesCommand::Stop(command) => stop(&dirigent, &command, output).await,
        ServicesCommand::Logs(command) => logs(&dirigent, &command, output).await,
        ServicesCommand::Import(command) => import(&dirigent, &command, output).await,
        ServicesCommand::Trust(command) => trust(&dirigent, &command, output).await,
    };
    dirigent.shutdown().await?;
    done
}

/// Warns, before a run, that the project's services are not used because the user has not trusted them.
pub(crate) async fn warn_untrusted(
    dirigent: &Dirigent,
    workspace: &Path,
    output: &Output,
) -> Result<(), DirigentError> {
    let listed = dirigent.services(Some(workspace)).await?;
    if let Some(file) = listed.untrusted {
        let why = if file.changed {
            "has changed since you trusted it"
        } else {
            "is not trusted yet"
        };
        output.note(&sanitize(&format!(
            "the project's services in {} are not used, because the file {why}: read it, then run `dirigent mcp trust`",
            file.path.display()
        )));
    }
    for skipped in &listed.skipped {
        output.note(&format!("warning: service {}", skipped_line(skipped)));
    }
    Ok(())
}

async fn add(dirigent: &Dirigent, command: AddServiceCommand, output: &Output) -> anyhow::Result<Exit> {
    let settings = changed(ServiceSettings::default(), command.options)?;
    let service = dirigent.add_service(&command.name, settings).await?;
    Ok(report_start("Added", &service, output))
}

async fn update(dirigent: &Dirigent, command: UpdateServiceCommand, output: &Output) -> anyhow::Result<Exit> {
    let services = dirigent.services(None).await?;
    let service = services.find(&command.name).map_err(DirigentError::from)?;
    let settings = ServiceSettings {
        enabled: command.enabled.unwrap_or(service.settings.enabled),
        ..changed(service.settings.clone(), command.options)?
    };
    let before = service.settings.clone();
    let updated = dirigent.update_service(&command.name, settings).await?;
    let endpoint = |settings: &ServiceSettings| {
        let program = (
            settings.command.clone(),
            settings.args.clone(),
            settings.cwd.clone(),
        );
        (program, settings.url.clone())
    };
    if endpoint(&before) != endpoint(&updated.settings) {
        output.note(&format!("before: {}", one_line(&endpoint_of(&before))));
        note_outdated_rules(dirigent, &updated, output).await?;
    }
    Ok(report_start("Updated", &updated, output))
}

/// Says that rules about the tools of a service do not count for its new program or address.
async fn note_outdated_rules(
    dirigent: &Dirigent,
    service: &RegisteredService,
    output: &Output,
) -> Result<(), DirigentError> {
    let prefix = format!("mcp__{}__", service.name);
    let rules = dirigent.approval_rules().list().await?;
    let is_outdated = |rule: &&ApprovalRule| rule.calls.tool.starts_with(&prefix);
    let outdated: Vec<String> = rules
        .iter()
        .filter(is_outdated)
        .map(|rule| one_line(&rule.calls.to_string()))
        .collect();
    if !outdated.is_empty() {
        output.note(&format!(
            "the service {} is another one now, so what you always allowed of it asks again: {}",
            service.name,
            outdated.join(", ")
        ));
    }
    Ok(())
}

/// Returns the settings with those that the options give.
fn changed(settings: ServiceSettings, options: ServiceOptions) -> anyhow::Result<ServiceSettings> {
    let mut settings = settings;
    if let Some((command, args)) = options.command.split_first() {
        settings.command = Some(command.clone());
        settings.args = args.to_vec();
        settings.url = None;
        settings.headers.clear();
        settings.bearer_token_env = None;
    }
    if let Some(url) = options.url {
        settings.url = Some(url);
        settings.command = None;
        settings.args.clear();
        settings.env.clear();
        settings.cwd = None;
    }
    settings.env.extend(options.env);
    settings.headers.extend(options.headers);
    if let Some(folder) = options.cwd {
        settings.cwd =
            Some(std::path::absolute(&folder).with_context(|| format!("--cwd {}", folder.display()))?);
    }
    if !options.keywords.is_empty() {
        settings.trigger_keywords = options.keywords;
    }
    settings.bearer_token_env = options.bearer_token_env.or(settings.bearer_token_env);
    settings.timeout = options.timeout.unwrap_or(settings.timeout);
    settings.start_timeout = options.start_timeout.unwrap_or(settings.start_timeout);
    settings.description = options.description.or(settings.description);
    settings.trust = options.trust.unwrap_or(settings.trust);
    Ok(settings)
}

/// Reports the result of starting a service once.
fn report_start(done: &str, service: &RegisteredService, output: &Output) -> Exit {
    output.print(&format!("{done} {}", line(service)));
    output.print(&tools_text(service));
    let last_start = service.last_start.as_ref().filter(|_| service.settings.enabled);
    if let Some(error) = last_start.and_then(|start| start.error.as_ref()) {
        output.error(&sanitize(&format!(
            "the service {} is saved, but cannot be started: {error}",
            service.name
        )));
        output.note(&format!(
            "next: dirigent mcp logs {name}, or dirigent mcp update {name}",
            name = service.name
        ));
        return Exit::Failed;
    }
    Exit::Success
}

async fn remove(dirigent: &Dirigent, name: &str, output: &Output) -> anyhow::Result<Exit> {
    dirigent.remove_service(name).await?;
    output.print(&sanitize(&format!("Removed {name}")));
    Ok(Exit::Success)
}

async fn list(dirigent: &Dirigent, command: &ListServicesCommand, output: &Output) -> anyhow::Result<Exit> {
    let folder = existing_folder(&command.workspace)?;
    let listed = dirigent.services(Some(&folder)).await?;
    if command.json {
        output.print(&render::services(&listed).to_string());
        return Ok(Exit::Success);
    }
    output.print(&list_text(&listed));
    if listed.services.is_empty() {
        output.note("no services yet; add one with `dirigent mcp add NAME -- COMMAND`");
    }
    if listed.untrusted.is_some() {
        output.note("next: read the file, then dirigent mcp trust");
    }
    Ok(Exit::Success)
}

async fn show(dirigent: &Dirigent, command: &ShowServiceCommand, output: &Output) -> anyhow::Result<Exit> {
    let service = find(dirigent, &command.name, &command.workspace).await?;
    output.print(&match command.json {
        true => render::service(&service).to_string(),
        false => show_text(&service),
    });
    Ok(Exit::Success)
}

async fn find(dirigent: &Dirigent, name: &str, workspace: &Path) -> anyhow::Result<RegisteredService> {
    let listed = dirigent.services(Some(&existing_folder(workspace)?)).await?;
    Ok(listed.find(name).map_err(DirigentError::from)?.clone())
}

async fn start(dirigent: &Dirigent, command: &ServiceCommand, output: &Output) -> anyhow::Result<Exit> {
    let folder = existing_folder(&command.workspace)?;
    let service = dirigent.start_service(&command.name, Some(&folder)).await?;
    output.print(&tools_text(&service));
    output.note(&format!(
        "the service {} can be started; it stops when this command ends, and runs start it when they need it",
        service.name
    ));
    Ok(Exit::Success)
}

async fn stop(dirigent: &Dirigent, command: &ServiceCommand, output: &Output) -> anyhow::Result<Exit> {
    let folder = existing_folder(&command.workspace)?;
    let service = dirigent.stop_service(&command.name, Some(&folder)).await?;
    output.print(&format!("Stopped {}", service.name));
    output.note(&format!(
        "runs that already use it are not affected; to let runs use it again: dirigent mcp start {}",
        service.name
    ));
    Ok(Exit::Success)
}

async fn logs(dirigent: &Dirigent, command: &ServiceCommand, output: &Output) -> anyhow::Result<Exit> {
    let service = find(dirigent, &command.name, &command.workspace).await?;
    let Some(start) = &service.last_start else {
        output.note(&format!(
            "the service {name} has not been started with these settings yet; dirigent mcp start {name} starts it",
            name = service.name
        ));
        return Ok(Exit::Success);
    };
    if !start.stderr.is_empty() {
        output.print(&sanitize(&start.stderr.join("\n")));
    }
    let at = local(start.at);
    output.note(&match &start.error {
        Some(error) => sanitize(&format!("{at}: it could not be started, or ended: {error}")),
        None if start.stderr.is_empty() => format!("{at}: it ran, and wrote nothing to its standard error"),
        None => format!("{at}: it ran"),
    });
    Ok(Exit::Success)
}

async fn import(
    dirigent: &Dirigent,
    command: &ImportServicesCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let text = read(&command.file).await?;
    let imported = dirigent.import_services(&text).await;
    let imported = imported.map_err(|error| match error {
        DirigentError::Service(ServiceError::Import(problem)) => {
            file_error(&command.file, problem.to_string())
        }
        error => error,
    })?;
    let mut exit = Exit::Success;
    for service in &imported.added {
        let started = report_start("Added", service, output);
        exit = if exit == Exit::Success { started } else { exit };
    }
    for note in &imported.notes {
        output.note(&sanitize(note));
    }
    for skipped in &imported.skipped {
        output.error(&format!("skipped {}", skipped_line(skipped)));
        exit = Exit::Failed;
    }
    Ok(exit)
}

async fn read(path: &Path) -> Result<String, DirigentError> {
    let failed = |error: std::io::Error| file_error(path, error.to_string());
    let metadata = tokio::fs::metadata(path).await.map_err(failed)?;
    if !metadata.is_file() {
        return Err(file_error(path, "it is not a file".to_owned()));
    }
    if metadata.len() > MAX_FILE {
        let problem = format!("it has more than {MAX_FILE} bytes");
        return Err(file_error(path, problem));
    }
    tokio::fs::read_to_string(path).await.map_err(failed)
}

fn file_error(path: &Path, problem: String) -> DirigentError {
    let path = path.to_owned();
    ServiceError::File { path, problem }.into()
}

async fn trust(dirigent: &Dirigent, command: &TrustServicesCommand, output: &Output) -> anyhow::Result<Exit> {
    let folder = existing_folder(&command.workspace)?;
    let listed = dirigent.services(Some(&folder)).await?;
    let Some(file) = listed.untrusted else {
        for skipped in &listed.skipped {
            output.error(&skipped_line(skipped));
        }
        let of_project = |service: &&RegisteredService| matches!(service.origin, ServiceOrigin::Project(_));
        let trusted = listed.services.iter().filter(of_project).count();
        if trusted > 0 {
            output.note("the project's .mcp.json is trusted already");
            return Ok(Exit::Success);
        }
        if listed.skipped.is_empty() {
            output.error("the project has no .mcp.json with services");
        }
        return Ok(Exit::Failed);
    };
    output.print(&untrusted_text(&file));
    if !command.yes {
        if !output.is_interactive() {
            output.error("nothing was trusted: read what it starts, then add --yes");
            return Ok(Exit::Usage);
        }
        let answer = output.ask("Trust this file, and start these services once? [y/N] ");
        if !answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes")) {
            output.note("nothing was trusted");
            return Ok(Exit::Success);
        }
    }
    let trusted = dirigent.trust_services(&file).await?;
    output.print(&sanitize(&format!("{} is trusted", file.path.display())));
    let mut exit = Exit::Success;
    let origin = ServiceOrigin::Project(file.path.clone());
    for service in &trusted.services {
        if service.origin == origin {
            let started = report_start("It has", service, output);
            exit = if exit == Exit::Success { started } else { exit };
        } else if service.hides.contains(&origin) {
            output.note(&format!(
                "its service {} is not used, because a service with this name already exists",
                service.name
            ));
        }
    }
    for skipped in &trusted.skipped {
        output.error(&format!("skipped {}", skipped_line(skipped)));
    }
    Ok(exit)
}

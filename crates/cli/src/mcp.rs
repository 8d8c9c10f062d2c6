//! `mcp`, except `mcp serve`: the services of the Model Context Protocol.

use std::path::{Path, PathBuf};
use std::pin::pin;

use dirigent::approval_rules::ApprovalRule;
use dirigent::mcp::{ServiceEvent, ServiceState};
use dirigent::services::{
    RegisteredService, ServiceError, ServiceList, ServiceOrigin, ServiceSettings, UntrustedServices,
};
use dirigent::{ConversationId, Dirigent, DirigentError, OfflineModel, render};

use crate::agents::existing_folder;
use crate::approvals::outdated;
use crate::args::{
    AddServiceCommand, ImportServicesCommand, ListServicesCommand, ServiceCommand, ServicesCommand,
    ShowServiceCommand, TrustServicesCommand, UntrustServicesCommand, UpdateServiceCommand,
};
use crate::config;
use crate::exit::Exit;
use crate::hint::change_service;
use crate::mcp_settings::{as_options, changed, with_options};
use crate::mcp_text::{
    enable_service, endpoint_of, line, list_text, show_text, skipped_line, tools_text, untrusted_text,
};
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
        ServicesCommand::Remove(command) => remove(&dirigent, &command, output).await,
        ServicesCommand::List(command) => list(&dirigent, &command, output).await,
        ServicesCommand::Show(command) => show(&dirigent, &command, output).await,
        ServicesCommand::Start(command) => start(&dirigent, &command, output).await,
        ServicesCommand::Stop(command) => stop(&dirigent, &command, output).await,
        ServicesCommand::Logs(command) => logs(&dirigent, &command, output).await,
        ServicesCommand::Import(command) => import(&dirigent, &command, output).await,
        ServicesCommand::Trust(command) => trust(&dirigent, &command, output).await,
        ServicesCommand::Untrust(command) => untrust(&dirigent, &command, output).await,
    };
    dirigent.shutdown().await?;
    done
}

/// Warns, before a run or a conversation, about services that are not used because the user has not trusted them or their settings are
/// invalid, and about approval rules that do not count because their service is another one now.
pub(crate) async fn warn(
    dirigent: &Dirigent,
    workspace: &Path,
    conversation: Option<ConversationId>,
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
    let rules = dirigent.approval_rules();
    note_outdated_rules(&rules.outdated_in(workspace, conversation).await?, output);
    Ok(())
}

/// Says which approval rules do not count, because their service has another program or address now.
fn note_outdated_rules(rules: &[ApprovalRule], output: &Output) {
    for rule in rules {
        output.note(&format!(
            "your rule {} about {} does not count, because its service has another program or address now: such calls ask again",
            rule.id,
            one_line(&rule.calls.to_string())
        ));
    }
    if let Some(rule) = rules.first() {
        output.note(&format!(
            "to delete a rule: dirigent approvals remove {}",
            rule.id
        ));
    }
}

/// Runs an operation, and says which services it starts.
async fn with_progress<T>(dirigent: &Dirigent, output: &Output, operation: impl Future<Output = T>) -> T {
    let mut events = dirigent.mcp().watch();
    let mut operation = pin!(operation);
    loop {
        tokio::select! {
            biased;
            done = &mut operation => return done,
            event = events.recv() => {
                if let Ok(ServiceEvent::State { service, state: ServiceState::Starting }) = event {
                    output.note(&format!("starting {service} to learn its tools"));
                }
            }
        }
    }
}

async fn add(dirigent: &Dirigent, command: AddServiceCommand, output: &Output) -> anyhow::Result<Exit> {
    let settings = changed(ServiceSettings::default(), command.options)?;
    let adding = dirigent.add_service(&command.name, settings);
    let service = with_progress(dirigent, output, adding)
        .await
        .map_err(as_options)?;
    Ok(report_start("Added", &service, output))
}

async fn update(dirigent: &Dirigent, command: UpdateServiceCommand, output: &Output) -> anyhow::Result<Exit> {
    let service = find(dirigent, &command.name, &command.workspace).await?;
    let settings = ServiceSettings {
        enabled: command.enabled.unwrap_or(service.settings.enabled),
        ..changed(service.settings.clone(), command.options)?
    };
    let before = service.settings.clone();
    if !matches!(service.origin, ServiceOrigin::Store { .. }) {
        return Err(not_stored(service).into());
    }
    let updating = dirigent.update_service(&command.name, settings);
    let updated = with_progress(dirigent, output, updating)
        .await
        .map_err(as_options)?;
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
        let prefix = dirigent::mcp::tool_prefix(&updated.name);
        let outdated = outdated(dirigent).await?;
        let mut rules = dirigent.approval_rules().list().await?;
        rules.retain(|rule| rule.calls.tool.starts_with(&prefix) && outdated.contains(&rule.id));
        note_outdated_rules(&rules, output);
    }
    Ok(report_start("Updated", &updated, output))
}

fn not_stored(service: RegisteredService) -> DirigentError {
    ServiceError::NotStored {
        name: service.name,
        origin: service.origin,
    }
    .into()
}

/// Reports the result of starting a service once.
fn report_start(done: &str, service: &RegisteredService, output: &Output) -> Exit {
    output.print(&format!("{done} {}", line(service)));
    print_tools(service, output);
    let last_start = service.last_start.as_ref().filter(|_| service.settings.enabled);
    let Some((start, error)) = last_start.and_then(|start| Some((start, start.error.as_ref()?))) else {
        return Exit::Success;
    };
    let (is_saved, error) = match &service.origin {
        ServiceOrigin::Store { .. } => ("is saved, but cannot be started", with_options(error)),
        ServiceOrigin::Configuration | ServiceOrigin::Project(_) => ("cannot be started", error.clone()),
    };
    output.error(&sanitize(&format!(
        "the service {} {is_saved}: {error}",
        service.name
    )));
    for message in &start.stderr {
        output.note(&format!("  | {}", one_line(message)));
    }
    output.note(&format!(
        "next: {}",
        change_service(&service.name, &service.origin)
    ));
    Exit::Failed
}

fn print_tools(service: &RegisteredService, output: &Output) {
    let tools = tools_text(service);
    if !tools.is_empty() {
        output.print(&tools);
    }
}

async fn remove(dirigent: &Dirigent, command: &ServiceCommand, output: &Output) -> anyhow::Result<Exit> {
    let name = &command.name;
    match dirigent.remove_service(name).await {
        Err(DirigentError::Service(ServiceError::NoSuchService { .. })) => {
            // It may be a service of the project.
            return Err(not_stored(find(dirigent, name, &command.workspace).await?).into());
        }
        removed => removed?,
    }
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
    if listed != ServiceList::default() {
        output.print(&list_text(&listed));
    }
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
    let changes = service.last_start.as_ref().map_or(0, |start| start.changed.len());
    if changes > 0 && !command.json {
        dirigent.acknowledge_tool_changes(&service).await?;
        output.note("you have seen what has changed: the marks are removed");
    }
    Ok(Exit::Success)
}

async fn find(dirigent: &Dirigent, name: &str, workspace: &Path) -> anyhow::Result<RegisteredService> {
    let listed = dirigent.services(Some(&existing_folder(workspace)?)).await?;
    Ok(listed.find(name).map_err(DirigentError::from)?.clone())
}

async fn start(dirigent: &Dirigent, command: &ServiceCommand, output: &Output) -> anyhow::Result<Exit> {
    let folder = existing_folder(&command.workspace)?;
    let service = find(dirigent, &command.name, &command.workspace).await?;
    if !service.settings.enabled {
        output.error(&format!("the service {} is disabled", service.name));
        output.note(&format!("next: {}", enable_service(&service)));
        return Ok(Exit::Usage);
    }
    let starting = dirigent.start_service(&command.name, Some(&folder));
    let service = with_progress(dirigent, output, starting).await?;
    print_tools(&service, output);
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
    let folder = existing_folder(&command.workspace)?;
    let importing = dirigent.import_services(&text, &folder);
    let imported = with_progress(dirigent, output, importing)
        .await
        .map_err(|error| match error {
            DirigentError::Service(ServiceError::Import(problem)) => {
                file_error(&command.file, problem.to_string())
            }
            error => error,
        })?;
    if imported.added.is_empty() && imported.skipped.is_empty() {
        output.error(&sanitize(&format!("{} has no services", command.file.display())));
        return Ok(Exit::Usage);
    }
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
    let Some(file) = &listed.untrusted else {
        return Ok(report_no_untrusted(&listed, output));
    };
    if file.services.is_empty() {
        output.error(&sanitize(&format!("{} has no services", file.path.display())));
        return Ok(Exit::Usage);
    }
    output.print(&untrusted_text(file));
    if !command.yes {
        if !output.is_interactive() {
            output.error("nothing was trusted: read what it starts, then add --yes");
            return Ok(Exit::Usage);
        }
        let answer = output.ask("Trust this file, and start these services once? [y/N] ");
        if !answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes")) {
            output.note("nothing was trusted");
            return Ok(Exit::Usage);
        }
    }
    let trusted = with_progress(dirigent, output, dirigent.trust_services(file)).await?;
    output.print(&sanitize(&format!("{} is trusted", file.path.display())));
    Ok(report_trusted(file, &trusted, output))
}

/// Reports why a project has no file to trust.
fn report_no_untrusted(listed: &ServiceList, output: &Output) -> Exit {
    for skipped in &listed.skipped {
        output.error(&skipped_line(skipped));
    }
    let is_of_project = |service: &RegisteredService| matches!(service.origin, ServiceOrigin::Project(_));
    if listed.services.iter().any(is_of_project) {
        output.note("the project's .mcp.json is trusted already");
        return Exit::Success;
    }
    if listed.skipped.is_empty() {
        output.error("the project has no .mcp.json with services");
    }
    Exit::Usage
}

/// Reports the services of a file that was just trusted.
fn report_trusted(file: &UntrustedServices, trusted: &ServiceList, output: &Output) -> Exit {
    let mut exit = Exit::Success;
    let origin = ServiceOrigin::Project(file.path.clone());
    for service in &trusted.services {
        if service.origin == origin {
            let started = report_start("It has", service, output);
            exit = if exit == Exit::Success { started } else { exit };
        } else if service.hides.contains(&origin) {
            output.note(&format!(
                "its service {} is not used, because there is one with this name in {}",
                service.name, service.origin
            ));
        }
    }
    for skipped in &trusted.skipped {
        output.error(&format!("skipped {}", skipped_line(skipped)));
        exit = Exit::Failed;
    }
    exit
}

async fn untrust(
    dirigent: &Dirigent,
    command: &UntrustServicesCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let folder = existing_folder(&command.workspace)?;
    match dirigent.withdraw_services_trust(&folder).await? {
        Some(path) => {
            output.print(&sanitize(&format!("{} is no longer trusted", path.display())));
            output.note("runs that already use its services are not affected");
        }
        None => output.note("the project's .mcp.json is not trusted, so nothing has changed"),
    }
    Ok(Exit::Success)
}

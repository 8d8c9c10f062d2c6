//! Services as text.

use std::fmt::Write as _;

use console::style;
use dirigent::mcp::{ServiceState, SkippedService};
use dirigent::services::{RegisteredService, ServiceList, ServiceOrigin, ServiceSettings, UntrustedServices};

use crate::hint::change_service;
use crate::request_text::one_line;
use crate::time::local;

/// Lists all services, one per line, the services that cannot be used, and the project's file if it is not trusted.
pub(crate) fn list_text(listed: &ServiceList) -> String {
    let mut text = String::new();
    for service in &listed.services {
        let _ = writeln!(text, "{}", line(service));
        if let Some(reason) = reason(service) {
            let _ = writeln!(text, "    {}", one_line(&reason));
        }
        for hidden in &service.hides {
            let _ = writeln!(text, "    hides the one from {}", one_line(&hidden.to_string()));
        }
    }
    if let Some(file) = &listed.untrusted {
        let title = match file.changed {
            true => "changed since you trusted it, so it is not used: read it, then dirigent mcp trust",
            false => "not trusted yet, so it is not used: read it, then dirigent mcp trust",
        };
        let _ = writeln!(text, "{}", style(title).yellow().bold());
        let path = file.path.display().to_string();
        let _ = writeln!(
            text,
            "  {}: {}",
            one_line(&path),
            one_line(&file.services.join(", "))
        );
    }
    if !listed.skipped.is_empty() {
        let _ = writeln!(text, "{}", style("cannot be used").red().bold());
        for skipped in &listed.skipped {
            let _ = writeln!(text, "  {}", skipped_line(skipped));
        }
    }
    for note in &listed.notes {
        let _ = writeln!(text, "{} {}", style("note:").yellow(), one_line(note));
    }
    text
}

/// The name, the state, the number of known tools, the origin and the endpoint.
pub(crate) fn line(service: &RegisteredService) -> String {
    let tools = match (service.tools.specs().count(), &service.last_start) {
        (0, None) => "tools not known yet".to_owned(),
        (1, _) => "1 tool".to_owned(),
        (count, _) => format!("{count} tools"),
    };
    let changed = match &service.last_start {
        Some(start) if !start.changed.is_empty() => ", some changed",
        Some(_) | None => "",
    };
    format!(
        "{}  {}, {tools}{changed}  {}  {}",
        style(&service.name).bold(),
        service.state_name(),
        style(format!("({})", origin(&service.origin))).dim(),
        one_line(&endpoint(service))
    )
}

/// Why runs do not use a service, or some of its tools, and what to do; `None` if they do.
fn reason(service: &RegisteredService) -> Option<String> {
    let name = &service.name;
    let error = service.last_start.as_ref().and_then(|start| start.error.as_ref());
    let changed = service.last_start.as_ref().map_or(0, |start| start.changed.len());
    match service.state_name() {
        "disabled" => Some(format!("its settings disable it: {}", enable_service(service))),
        "stopped" => Some(format!("you have stopped it: dirigent mcp start {name}")),
        "error" => {
            let error = match (&service.state, error) {
                (ServiceState::Error { reason, .. }, _) => reason,
                (_, Some(error)) => error,
                (_, None) => return None,
            };
            Some(format!(
                "{error}: dirigent mcp logs {name}, then dirigent mcp start {name}"
            ))
        }
        _ if changed > 0 => Some(format!(
            "tools have changed since they were listed first: dirigent mcp show {name}"
        )),
        _ => None,
    }
}

/// How to enable a service.
pub(crate) fn enable_service(service: &RegisteredService) -> String {
    match &service.origin {
        ServiceOrigin::Store { .. } => format!("dirigent mcp update {} --enabled true", service.name),
        origin => change_service(&service.name, origin),
    }
}

fn origin(origin: &ServiceOrigin) -> String {
    match origin {
        ServiceOrigin::Configuration => "configuration".to_owned(),
        ServiceOrigin::Store { .. } => "yours".to_owned(),
        ServiceOrigin::Project(_) => "project".to_owned(),
    }
}

fn endpoint(service: &RegisteredService) -> String {
    endpoint_of(&service.settings)
}

/// The command line or the address.
pub(crate) fn endpoint_of(settings: &ServiceSettings) -> String {
    match (&settings.command, &settings.url) {
        (Some(command), _) => [command]
            .into_iter()
            .chain(&settings.args)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" "),
        (None, Some(url)) => url.clone(),
        (None, None) => String::new(),
    }
}

/// The services of a project's file that is not trusted, as what they start.
pub(crate) fn untrusted_text(file: &UntrustedServices) -> String {
    let mut text = format!("{}\n", one_line(&file.path.display().to_string()));
    for (name, settings) in &file.settings {
        let _ = writeln!(
            text,
            "  {}  {}",
            style(name).bold(),
            one_line(&endpoint_of(settings))
        );
        for (name, value) in &settings.env {
            let _ = writeln!(text, "    variable: {}", one_line(&format!("{name}={value}")));
        }
        if !settings.headers.is_empty() {
            let names: Vec<&str> = settings.headers.keys().map(String::as_str).collect();
            let _ = writeln!(text, "    headers: {}", one_line(&names.join(", ")));
        }
        if let Some(variable) = &settings.bearer_token_env {
            let _ = writeln!(text, "    bearer token from: {}", one_line(variable));
        }
        if let Some(folder) = &settings.cwd {
            let _ = writeln!(text, "    folder: {}", one_line(&folder.display().to_string()));
        }
    }
    for skipped in &file.skipped {
        let _ = writeln!(
            text,
            "  {}  {} {}",
            one_line(&skipped.name),
            style("cannot be used:").red(),
            one_line(&skipped.reason)
        );
    }
    text
}

/// A service that cannot be used, and why, on one line.
pub(crate) fn skipped_line(skipped: &SkippedService) -> String {
    format!("{}: {}", one_line(&skipped.name), one_line(&skipped.reason))
}

/// The settings of a service, and its tools.
pub(crate) fn show_text(service: &RegisteredService) -> String {
    let mut text = format!("{}\n", line(service));
    if let Some(reason) = reason(service) {
        let _ = writeln!(text, "  {}", one_line(&reason));
    }
    let settings = &service.settings;
    let mut field = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "  {name}: {}", one_line(&value));
        }
    };
    field(
        "from",
        Some(match &service.origin {
            ServiceOrigin::Store { version, at } => {
                format!("{}, version {version} of {}", service.origin, local(*at))
            }
            origin @ (ServiceOrigin::Configuration | ServiceOrigin::Project(_)) => origin.to_string(),
        }),
    );
    field("description", settings.description.clone());
    let words = (!settings.trigger_keywords.is_empty()).then(|| settings.trigger_keywords.join(", "));
    field("keywords", words);
    for (name, value) in &settings.env {
        field("env", Some(format!("{name}={value}")));
    }
    for (name, value) in &settings.headers {
        field("header", Some(format!("{name}: {value}")));
    }
    field("bearer token from", settings.bearer_token_env.clone());
    field(
        "folder",
        settings.cwd.as_ref().map(|folder| folder.display().to_string()),
    );
    field(
        "timeout",
        Some(format!(
            "{}, of a start {}",
            settings.timeout, settings.start_timeout
        )),
    );
    field(
        "trusted",
        settings.trust.then(|| "what it says about its tools".to_owned()),
    );
    if let Some(start) = &service.last_start {
        let result = start
            .error
            .as_ref()
            .map_or("it ran".to_owned(), |error| format!("error: {error}"));
        field("latest start", Some(format!("{}: {result}", local(start.at))));
    }
    text + &tools_text(service)
}

/// Lists the tools of a service with one sentence each, the tools that have changed, and the tools that cannot be called.
pub(crate) fn tools_text(service: &RegisteredService) -> String {
    let mut text = String::new();
    for (name, summary) in service.tool_summaries() {
        let _ = writeln!(text, "  {}  {}", style(name).bold(), one_line(&summary));
        let changed = service
            .last_start
            .as_ref()
            .and_then(|start| start.changed.get(name));
        if let Some(at) = changed {
            let _ = writeln!(
                text,
                "    {} its description or parameters changed on {}: check what it does now",
                style("changed:").yellow(),
                local(*at)
            );
        }
    }
    for tool in service.tools.unavailable() {
        let _ = writeln!(
            text,
            "  {}  {} {}",
            style(one_line(&tool.tool)).bold(),
            style("cannot be called:").red(),
            one_line(&tool.reason)
        );
    }
    text
}

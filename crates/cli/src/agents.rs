//! `agents`: the sub-agents with their sources, and the files that were refused.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use console::style;
use dirigent::{
    AgentSource, Agents, Dirigent, DirigentError, ListedAgent, OfflineModel, RefusedAgent, StoreError, render,
};

use crate::args::AgentsCommand;
use crate::config;
use crate::exit::Exit;
use crate::open::build;
use crate::output::{Output, sanitize};

pub(crate) async fn list(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: &AgentsCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let config = config::load(file, None)?;
    let folder = existing_folder(&command.workspace)?;
    let builder = Dirigent::builder().config(&config);
    // Agent files may name the tools of services that are stored in the journal.
    let reading = builder.clone().model(OfflineModel).read_only_journal();
    let agents = match build(reading, db).await {
        Ok(dirigent) => dirigent.agents(Some(&folder)).await?,
        Err(error) if matches!(error.store_error(), Some(StoreError::Missing { .. })) => {
            builder.agents(Some(&folder)).await?
        }
        Err(error) => return Err(error.into()),
    };
    let text = if command.json {
        render::agents(&agents).to_string()
    } else {
        as_text(&agents, &folder)
    };
    output.print(&text);
    Ok(Exit::Success)
}

/// Returns the canonical path of a project's folder.
pub(crate) fn existing_folder(path: &Path) -> Result<PathBuf, DirigentError> {
    let folder = path.canonicalize().ok().filter(|folder| folder.is_dir());
    folder.ok_or_else(|| DirigentError::Workspace {
        path: path.to_owned(),
        reason: "there is no such folder".to_owned(),
    })
}

/// Warns about refused agent files before a run starts.
pub(crate) fn warn_refused(agents: &Agents, output: &Output) {
    for refused in &agents.refused {
        output.note(&line(&format!("warning: {refused}")));
    }
}

fn as_text(agents: &Agents, folder: &Path) -> String {
    let mut text = String::new();
    for agent in &agents.agents {
        write_agent(agent, folder, &mut text);
    }
    if !agents.refused.is_empty() {
        let _ = writeln!(text, "\n{}", style("Refused").bold());
        for refused in &agents.refused {
            let _ = writeln!(text, "  {}", style(location(refused, folder)).red());
            let _ = writeln!(text, "    {}", line(&refused.reason));
        }
    }
    text
}

fn write_agent(agent: &ListedAgent, folder: &Path, text: &mut String) {
    let _ = writeln!(
        text,
        "{}  {}",
        style(line(&agent.name)).bold(),
        style(line(&origin(&agent.source, folder))).dim()
    );
    let first = agent.description.lines().next().unwrap_or_default();
    let _ = writeln!(text, "  {}", line(first));
    let tools = match agent.tools.as_slice() {
        [] => "no tools".to_owned(),
        tools => tools.join(", "),
    };
    let _ = writeln!(text, "  {}: {}", agent.access, line(&tools));
    let model = agent.model.as_deref().unwrap_or("default");
    let limits = &agent.limits;
    let _ = writeln!(
        text,
        "  model: {}; {} turns, {}",
        line(model),
        limits.max_turns,
        limits.timeout
    );
    for note in &agent.notes {
        let _ = writeln!(text, "  {} {}", style("note:").yellow(), line(note));
    }
}

/// Returns a path relative to the project if it is inside the project, otherwise unchanged.
fn display_path(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

fn origin(source: &AgentSource, folder: &Path) -> String {
    match source {
        AgentSource::Shipped => "shipped".to_owned(),
        AgentSource::Program => "program".to_owned(),
        AgentSource::User(path) => format!("yours, {}", path.display()),
        AgentSource::Project(path) => format!("project, {}", display_path(path, folder)),
    }
}

fn location(refused: &RefusedAgent, folder: &Path) -> String {
    let number = refused.line.map(|line| format!(":{line}")).unwrap_or_default();
    let path = refused.source.file().map(|path| display_path(path, folder));
    line(&format!("{}{number}", path.unwrap_or_default()))
}

/// Untrusted text, sanitized and on one line.
fn line(text: &str) -> String {
    sanitize(&text.replace(char::is_control, " "))
}

//! `prompts`: the user's base system prompts, and the prompts and tools that agents' models receive before any task.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use console::style;
use dirigent::system_prompts::{DEFAULT_PROMPT, MAX_PROMPT_BYTES, SystemPrompt, SystemPromptError};
use dirigent::tools::ToolSpec;
use dirigent::{AgentPrompt, Dirigent, DirigentError, PromptOptions};
use serde_json::{Value, json};

use crate::agents::existing_folder;
use crate::args::{
    AddPromptCommand, DeletePromptCommand, EditPromptCommand, ListPromptsCommand, PromptsCommand,
    ShowPromptCommand, TextSource,
};
use crate::config;
use crate::exit::Exit;
use crate::interactive::external_editor;
use crate::open::{open, open_existing, open_if_exists};
use crate::output::{Output, sanitize};
use crate::time::local;

/// The number of characters of a prompt that a list shows.
const LISTED_CHARS: usize = 60;

pub(crate) async fn prompts(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: PromptsCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    match command {
        PromptsCommand::List(command) => list(db, &command, output).await,
        PromptsCommand::Add(command) => add(db, &command, output).await,
        PromptsCommand::Edit(command) => edit(db, &command, output).await,
        PromptsCommand::Delete(command) => delete(db, &command, output).await,
        PromptsCommand::Show(command) if command.enhanced => show_enhanced(db, file, command, output).await,
        PromptsCommand::Show(command) => show(db, &command, output).await,
    }
}

async fn list(db: Option<PathBuf>, command: &ListPromptsCommand, output: &Output) -> anyhow::Result<Exit> {
    let prompts = match open_if_exists(db).await? {
        Some(dirigent) => dirigent.system_prompts().list().await?,
        None => vec![SystemPrompt::shipped(DEFAULT_PROMPT, None)?],
    };
    for prompt in prompts {
        output.print(&if command.json {
            json!(prompt).to_string()
        } else {
            let first = prompt.text.lines().next().unwrap_or_default();
            let beginning: String = first.chars().take(LISTED_CHARS).collect();
            format!(
                "{:20} {:>8}  {}",
                style(&prompt.name).bold(),
                version(&prompt),
                sanitize(&beginning)
            )
        });
    }
    Ok(Exit::Success)
}

async fn add(db: Option<PathBuf>, command: &AddPromptCommand, output: &Output) -> anyhow::Result<Exit> {
    let text = read_text(&command.source, "")?;
    let prompt = open(db)
        .await?
        .system_prompts()
        .create(&command.name, &text)
        .await?;
    output.note(&format!(
        "added; `dirigent chat --system-prompt {}` begins a conversation with it",
        prompt.name
    ));
    Ok(Exit::Success)
}

async fn edit(db: Option<PathBuf>, command: &EditPromptCommand, output: &Output) -> anyhow::Result<Exit> {
    let prompts = open(db).await?.system_prompts();
    let present = prompts.get(&command.name, None).await?;
    if let Some(expected) = command.version.filter(|expected| *expected != present.version) {
        let (name, latest) = (present.name, present.version);
        return Err(DirigentError::from(SystemPromptError::Conflict {
            name,
            version: expected,
            latest,
        })
        .into());
    }
    let text = read_text(&command.source, &present.text)?;
    let changed = match prompts.update(&present.name, present.version, &text).await {
        // Text from the editor must not be lost.
        Err(error) if command.source.is_editor() => {
            output.print(&text);
            return Err(error).context("your text was not stored; it is printed above");
        }
        changed => changed?,
    };
    output.note(&if changed.version == present.version {
        format!("nothing was changed: `{}` has this text already", changed.name)
    } else {
        format!("`{}` is at version {} now", changed.name, changed.version)
    });
    Ok(Exit::Success)
}

async fn delete(db: Option<PathBuf>, command: &DeletePromptCommand, output: &Output) -> anyhow::Result<Exit> {
    let dirigent = open_existing(Dirigent::builder(), db).await?;
    dirigent.system_prompts().delete(&command.name).await?;
    output.note(&format!("deleted `{}` with all its versions", command.name));
    Ok(Exit::Success)
}

async fn show(db: Option<PathBuf>, command: &ShowPromptCommand, output: &Output) -> anyhow::Result<Exit> {
    if command.versions {
        let versions = match open_if_exists(db).await? {
            Some(dirigent) => dirigent.system_prompts().versions(&command.name).await?,
            None => vec![SystemPrompt::shipped(&command.name, None)?],
        };
        for prompt in versions {
            if command.json {
                output.print(&json!(prompt).to_string());
            } else {
                output.print(&style(version(&prompt)).bold().to_string());
                output.print(&format!("{}\n", sanitize(&prompt.text)));
            }
        }
        return Ok(Exit::Success);
    }
    let prompt = read(db, &command.name, command.version).await?;
    if command.json {
        output.print(&json!(prompt).to_string());
    } else {
        output.print(&sanitize(&prompt.text));
        output.note(&style(version(&prompt)).dim().to_string());
    }
    Ok(Exit::Success)
}

async fn show_enhanced(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: ShowPromptCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let config = config::load(file, command.model.model)?;
    let base = read(db, &command.name, command.version).await?;
    let options = PromptOptions {
        mode: command.mode.into(),
        calls: command.form.map(Into::into),
        base_prompt: Some(base.into()),
    };
    let builder = Dirigent::builder().config(&config);
    let folder = existing_folder(&command.workspace)?;
    let prompts = builder.prompts(Some(&folder), options).await?;
    let Some(prompt) = prompts.iter().find(|prompt| prompt.agent == command.agent) else {
        return Err(unknown(command.agent, &prompts).into());
    };
    if command.json {
        output.print(&as_json(prompt).to_string());
    } else {
        output.print(&as_text(prompt));
        output.note(&format!("this prompt has about {} tokens", prompt.tokens));
    }
    Ok(Exit::Success)
}

/// Reads a prompt; without a journal there is only the default prompt.
async fn read(db: Option<PathBuf>, name: &str, version: Option<u32>) -> anyhow::Result<SystemPrompt> {
    Ok(match open_if_exists(db).await? {
        Some(dirigent) => dirigent.system_prompts().get(name, version).await?,
        None => SystemPrompt::shipped(name, version)?,
    })
}

impl TextSource {
    /// Returns true if the text comes from the user's editor.
    fn is_editor(&self) -> bool {
        self.text.is_none() && self.file.is_none()
    }
}

/// Reads a prompt's text from the arguments, standard input, a file, or the user's editor, in which `present` is edited.
fn read_text(source: &TextSource, present: &str) -> anyhow::Result<String> {
    // Reads one byte more than the limit, so that longer text is refused instead of truncated.
    let limit = MAX_PROMPT_BYTES as u64 + 1;
    let mut text = String::new();
    match (&source.text, &source.file) {
        (Some(dash), _) if dash == "-" => {
            std::io::stdin()
                .take(limit)
                .read_to_string(&mut text)
                .context("cannot read the prompt from standard input")?;
        }
        (Some(given), _) => text.clone_from(given),
        (None, Some(file)) => {
            std::fs::File::open(file)
                .and_then(|opened| opened.take(limit).read_to_string(&mut text))
                .with_context(|| format!("cannot read the prompt from {}", file.display()))?;
        }
        (None, None) => match external_editor::command() {
            Some(editor) => text = external_editor::edit(&editor, &format!("{present}\n"), ".md")?,
            None => bail!(
                "no text was given, and no editor is set: give the text as an argument, use --file, or set EDITOR"
            ),
        },
    }
    Ok(text)
}

/// Formats a version as `v2, 2026-11-26 19:30`.
fn version(prompt: &SystemPrompt) -> String {
    match prompt.at {
        Some(at) => format!("v{}, {}", prompt.version, local(at)),
        None => format!("v{}", prompt.version),
    }
}

fn unknown(name: String, prompts: &[AgentPrompt]) -> DirigentError {
    let names: Vec<&str> = prompts.iter().map(|prompt| prompt.agent.as_str()).collect();
    let reason = format!("there is no such agent: use one of {}", names.join(", "));
    DirigentError::Agent { name, reason }
}

fn as_text(prompt: &AgentPrompt) -> String {
    let mut text = sanitize(&prompt.system);
    if !prompt.tools.is_empty() {
        text.push_str("\n\n--- tools, as the provider gets them ---\n");
        for tool in &prompt.tools {
            text.push_str(&sanitize(&format!("\n{:#}\n", definition(tool))));
        }
    }
    text
}

fn as_json(prompt: &AgentPrompt) -> Value {
    json!({
        "agent": prompt.agent,
        "calls": prompt.calls,
        "system": prompt.system,
        "tools": prompt.tools.iter().map(definition).collect::<Vec<_>>(),
        "tokens": prompt.tokens,
    })
}

fn definition(tool: &ToolSpec) -> Value {
    json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters_for_model()})
}

//! `prompts`: the user's base system prompts, and the prompts and tools that agents' models receive before any task.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use console::style;
use dirigent::system_prompts::{DEFAULT_PROMPT, MAX_PROMPT_BYTES, SystemPrompt, SystemPromptError};
use dirigent::tools::ToolSpec;
use dirigent::{AgentPrompt, BasePrompt, Config, Dirigent, DirigentError, PromptOptions};
use serde_json::{Value, json};

use crate::agents::existing_folder;
use crate::args::{
    AddPromptCommand, DeletePromptCommand, EditPromptCommand, ListPromptsCommand, PromptsCommand,
    ShowPromptCommand, TextSource,
};
use crate::config;
use crate::exit::{Exit, UsageError};
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
        PromptsCommand::Show(command) if command.shows_agent() => {
            show_enhanced(db, file, command, output).await
        }
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
    let prompts = open(db).await?.system_prompts();
    let text = read_text(&command.source, "")?;
    let created = prompts.create(&command.name, &text).await;
    let prompt = or_print(created, &command.source, &text, output)?;
    output.note(&format!(
        "added; `dirigent chat --system-prompt {}` begins a conversation with it",
        prompt.name
    ));
    Ok(Exit::Success)
}

/// Returns the stored prompt. If storing failed, prints the text that the user typed in the editor, so that it is not lost.
fn or_print(
    stored: Result<SystemPrompt, DirigentError>,
    source: &TextSource,
    text: &str,
    output: &Output,
) -> anyhow::Result<SystemPrompt> {
    match stored {
        Err(error) if source.is_editor() => {
            output.print(&sanitize(text));
            Err(error).context("your text was not stored; it is printed above")
        }
        stored => Ok(stored?),
    }
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
    let updated = prompts.update(&present.name, present.version, &text).await;
    let changed = or_print(updated, &command.source, &text, output)?;
    output.note(&if changed.version == present.version {
        format!("nothing was changed: `{}` has this text already", changed.name)
    } else {
        format!("`{}` is at version {} now", changed.name, changed.version)
    });
    Ok(Exit::Success)
}

async fn delete(db: Option<PathBuf>, command: &DeletePromptCommand, output: &Output) -> anyhow::Result<Exit> {
    let dirigent = open_existing(Dirigent::builder(), db).await?;
    let users = dirigent.system_prompts().delete(&command.name).await?;
    output.note(&format!("deleted `{}` with all its versions", command.name));
    if users > 0 {
        let conversations = if users == 1 {
            "1 conversation uses"
        } else {
            &format!("{users} conversations use")
        };
        output.note(&format!(
            "{conversations} it and cannot continue without another prompt: set one with `dirigent chat --context ID --system-prompt NAME`"
        ));
    }
    Ok(Exit::Success)
}

async fn show(db: Option<PathBuf>, command: &ShowPromptCommand, output: &Output) -> anyhow::Result<Exit> {
    let name = command.name.as_deref().unwrap_or(DEFAULT_PROMPT);
    if command.versions {
        let versions = match open_if_exists(db).await? {
            Some(dirigent) => dirigent.system_prompts().versions(name).await?,
            None => vec![SystemPrompt::shipped(name, None)?],
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
    let prompt = read(db, name, command.version).await?;
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
    let config = config::load(file, command.model.model.clone())?;
    let mut builder = Dirigent::builder().config(&config);
    if let Some(path) = &db {
        builder = builder.journal(path);
    }
    let options = PromptOptions {
        mode: command.mode.into(),
        calls: command.form.map(Into::into),
        base_prompts: base_prompts(db, &config, &command).await?,
    };
    let folder = existing_folder(&command.workspace)?;
    let prompts = builder.prompts(Some(&folder), options).await?;
    let Some(prompt) = prompts.iter().find(|prompt| prompt.agent == command.agent()) else {
        return Err(unknown(command.agent().to_owned(), &prompts).into());
    };
    if command.json {
        output.print(&as_json(prompt).to_string());
    } else {
        output.print(&as_text(prompt));
        output.note(&format!("this prompt has about {} tokens", prompt.tokens));
    }
    Ok(Exit::Success)
}

/// Reads the base prompts of agents: the configured prompts, and the prompt that the command line sets for the agent.
async fn base_prompts(
    db: Option<PathBuf>,
    config: &Config,
    command: &ShowPromptCommand,
) -> anyhow::Result<BTreeMap<String, BasePrompt>> {
    let mut names: BTreeMap<&str, (&str, Option<u32>)> = config
        .base_prompts()
        .map(|(agent, name)| (agent, (name, None)))
        .collect();
    if let Some(name) = &command.name {
        names.insert(command.agent(), (name, command.version));
    } else if !names.contains_key("lead") {
        names.insert("lead", (DEFAULT_PROMPT, None));
    }
    let mut prompts = BTreeMap::new();
    for (agent, (name, version)) in names {
        prompts.insert(agent.to_owned(), read(db.clone(), name, version).await?.into());
    }
    Ok(prompts)
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

/// Reads a prompt's text from the arguments, standard input, a file, or the user's editor, which opens with the text `present`.
fn read_text(source: &TextSource, present: &str) -> anyhow::Result<String> {
    match (&source.text, &source.file) {
        (Some(dash), _) if dash == "-" => {
            read_bounded(std::io::stdin()).map_err(|error| unreadable("standard input", &error))
        }
        (Some(given), _) => Ok(given.clone()),
        (None, Some(file)) => std::fs::File::open(file)
            .map_err(anyhow::Error::from)
            .and_then(read_bounded)
            .map_err(|error| unreadable(&file.display().to_string(), &error)),
        (None, None) => match external_editor::command() {
            Some(editor) => external_editor::edit(&editor, &format!("{present}\n"), ".md"),
            None => Err(UsageError(
                "no text was given, and no editor is set: give the text as an argument, use --file, or set EDITOR"
                    .to_owned(),
            )
            .into()),
        },
    }
}

fn unreadable(source: &str, error: &anyhow::Error) -> anyhow::Error {
    UsageError(format!("cannot read the prompt from {source}: {error:#}")).into()
}

/// Reads text, unless it is longer than a prompt can be.
fn read_bounded(input: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    input.take(MAX_PROMPT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_PROMPT_BYTES {
        bail!("it has more than {MAX_PROMPT_BYTES} bytes: shorten it");
    }
    String::from_utf8(bytes).context("it is not UTF-8 text")
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

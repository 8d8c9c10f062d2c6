//! `prompts show`: what an agent's model gets before any task.

use std::path::PathBuf;

use dirigent::tools::ToolSpec;
use dirigent::{AgentPrompt, Dirigent, DirigentError, Mode, PromptOptions};
use serde_json::{Value, json};

use crate::agents::existing_folder;
use crate::args::{ModeChoice, ShowPromptCommand};
use crate::config;
use crate::exit::Exit;
use crate::output::{Output, sanitize};

pub(crate) async fn show(
    file: Option<PathBuf>,
    command: ShowPromptCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let config = config::load(file, command.model.model)?;
    let options = PromptOptions {
        mode: match command.mode {
            ModeChoice::Auto => Mode::Auto,
            ModeChoice::Plan => Mode::Plan,
        },
        calls: command.form.map(Into::into),
    };
    let builder = Dirigent::builder().config(&config);
    let folder = existing_folder(&command.workspace)?;
    let prompts = builder.prompts(Some(&folder), options).await?;
    let Some(prompt) = prompts.iter().find(|prompt| prompt.agent == command.role) else {
        return Err(unknown(command.role, &prompts).into());
    };
    if command.json {
        output.print(&as_json(prompt).to_string());
    } else {
        output.print(&as_text(prompt));
        output.note(&format!("this prompt has about {} tokens", prompt.tokens));
    }
    Ok(Exit::Success)
}

fn unknown(name: String, prompts: &[AgentPrompt]) -> DirigentError {
    let names: Vec<&str> = prompts.iter().map(|prompt| prompt.agent.as_str()).collect();
    let reason = format!("there is no such agent: name one of {}", names.join(", "));
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

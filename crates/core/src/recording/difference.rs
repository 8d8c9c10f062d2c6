//! The first difference between a replay and its recording, formatted for the user.

use std::fmt;

use similar::TextDiff;

use super::{RecordedRequest, Request};
use crate::call::CallForm;
use crate::id::Scope;
use crate::message::Message;

/// Number of context lines around each change in the diff.
const CONTEXT: usize = 3;
/// Maximum number of lines compared on each side, starting at the first different line.
const COMPARED: usize = 400;
/// Maximum length of a line in bytes. Longer lines are folded.
const LONG_LINE: usize = 200;

/// The first difference between a replay and its recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the replay differs from the recording in {part} ({location})\n{diff}")]
pub struct Difference {
    /// The entry at which the replay and the recording differ.
    pub location: EntryLocation,
    /// The part that differs.
    pub part: Part,
    /// A unified diff from the recorded to the replayed part. Long lines are folded, and lines far after the first change are omitted.
    pub diff: String,
}

/// An entry of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryLocation {
    /// The number of the recorded entry, counted from 1. The first line of the file is a header, so the entry is on line `seq + 1`.
    pub seq: u64,
    /// The machine that accepted the entry's input.
    pub scope: Scope,
    /// The agent's name; `None` for the run, and before the agent has started.
    pub agent: Option<String>,
    /// The number of the agent's latest model request, counted from 1; 0 for the run, and before the first request.
    pub turn: u32,
}

impl EntryLocation {
    /// Creates the location of an entry of the run's machine.
    pub(super) fn of_run(seq: u64) -> Self {
        EntryLocation {
            seq,
            scope: Scope::Run,
            agent: None,
            turn: 0,
        }
    }
}

/// Formats the location as ``entry 14, agent a3 `explore`, turn 2``.
impl fmt::Display for EntryLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}, ", self.seq)?;
        match self.scope {
            Scope::Run => f.write_str("the run")?,
            Scope::Agent(agent) => write!(f, "agent {agent}")?,
        }
        if let Some(name) = &self.agent {
            write!(f, " `{name}`")?;
        }
        match self.turn {
            0 => Ok(()),
            turn => write!(f, ", turn {turn}"),
        }
    }
}

/// A part of a replay that can differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The goal.
    Goal,
    /// The workspace folder.
    Workspace,
    /// The run's limits.
    Limits,
    /// The run's policy.
    Policy,
    /// The set of tools.
    Tools,
    /// A tool's definition, such as its description or its parameters.
    Tool {
        /// The name of the tool.
        name: String,
    },
    /// The set of agents.
    Agents,
    /// The tools of an agent.
    AgentTools {
        /// The agent's name.
        agent: String,
    },
    /// An agent's system prompt.
    SystemPrompt {
        /// The agent's name.
        agent: String,
    },
    /// Another part of an agent's definition, such as its access.
    AgentDefinition {
        /// The agent's name.
        agent: String,
    },
    /// An agent's brief.
    Brief,
    /// A model request.
    Request,
    /// A tool call.
    Call,
    /// The question to the user.
    Question,
    /// An approval.
    Approval,
    /// An agent's report.
    Report,
    /// An input that is not the answer to a request.
    Input,
    /// The end of the run.
    End,
}

/// Formats the part as ``the system prompt of `lead` ``.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Goal => f.write_str("the goal"),
            Part::Workspace => f.write_str("the workspace"),
            Part::Limits => f.write_str("the limits of the run"),
            Part::Policy => f.write_str("the policy"),
            Part::Tools => f.write_str("the set of tools"),
            Part::Tool { name } => write!(f, "the tool `{name}`"),
            Part::Agents => f.write_str("the set of agents"),
            Part::AgentTools { agent } => write!(f, "the tools of `{agent}`"),
            Part::SystemPrompt { agent } => write!(f, "the system prompt of `{agent}`"),
            Part::AgentDefinition { agent } => write!(f, "the definition of `{agent}`"),
            Part::Brief => f.write_str("the brief of an agent"),
            Part::Request => f.write_str("the request to the model"),
            Part::Call => f.write_str("the tool call"),
            Part::Question => f.write_str("the question to the user"),
            Part::Approval => f.write_str("the approval request"),
            Part::Report => f.write_str("the report of an agent"),
            Part::Input => f.write_str("the pending work"),
            Part::End => f.write_str("the end of the run"),
        }
    }
}

/// Formats a recorded request as text for comparison.
pub(super) fn request_text(recorded: Option<&RecordedRequest>) -> String {
    match recorded {
        None => "no request".to_owned(),
        Some(RecordedRequest::Request(asked)) => request(asked),
        Some(RecordedRequest::Call(call)) => json(call),
        Some(RecordedRequest::Question(question)) => json(question),
        Some(RecordedRequest::Approval(approval)) => json(approval),
    }
}

fn request(request: &Request) -> String {
    let calls = match request.calls {
        CallForm::Json => "json",
        CallForm::JsonSchema => "json_schema",
        CallForm::Native => "native",
        CallForm::ToolCall => "tool_call",
        CallForm::Auto => "auto",
        CallForm::AutoNative => "auto_native",
    };
    let mut text = format!(
        "model: {}\ncalls: {calls}\ntools: {}\n",
        request.model.as_deref().unwrap_or("the default"),
        request.tools.join(", ")
    );
    if request.shared > 0 {
        text.push_str(&format!(
            "[{} messages shared with the previous request]\n",
            request.shared
        ));
    }
    for message in &request.messages {
        let (speaker, calls) = match message {
            Message::System { .. } => ("system".to_owned(), None),
            Message::User { .. } => ("user".to_owned(), None),
            Message::Assistant { calls, .. } => {
                ("model".to_owned(), (!calls.is_empty()).then(|| json(calls)))
            }
            Message::Tool { name, call_id, .. } => (format!("result of {name}, {call_id}"), None),
        };
        text.push_str(&format!("[{speaker}]\n{}\n", message.content()));
        if let Some(calls) = calls {
            text.push_str(&format!("parsed as {calls}\n"));
        }
    }
    text
}

/// Formats a JSON value as text for comparison.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Computes a unified diff. Compares a limited number of lines, which bounds the time and the size of the result.
pub(super) fn diff(recorded: &str, present: &str) -> String {
    let (recorded, present) = (folded(recorded), folded(present));
    let same = recorded.iter().zip(&present).take_while(|(a, b)| a == b).count();
    let compared = |lines: Vec<String>| {
        let left_out = lines.len().saturating_sub(same + COMPARED);
        let mut text: String = lines
            .into_iter()
            .take(same + COMPARED)
            .map(|line| line + "\n")
            .collect();
        if left_out > 0 {
            text.push_str(&format!("… {left_out} more lines\n"));
        }
        text
    };
    let (recorded, present) = (compared(recorded), compared(present));
    TextDiff::from_lines(recorded.as_str(), present.as_str())
        .unified_diff()
        .context_radius(CONTEXT)
        .header("recorded", "present")
        .to_string()
}

/// Returns the lines of the text. Long lines, such as results in JSON, are folded at their escaped line breaks and between elements, so
/// that a small change affects only a few lines.
fn folded(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.len() <= LONG_LINE {
            lines.push(line.to_owned());
            continue;
        }
        let mut part = String::new();
        for (index, character) in line.char_indices() {
            part.push(character);
            let rest = &line[index + character.len_utf8()..];
            let breaks =
                part.ends_with("\\n") || part.ends_with(',') && rest.starts_with(['"', '{', '[', ' ']);
            if breaks && part.len() >= LONG_LINE / 8 || part.len() >= 2 * LONG_LINE {
                lines.push(std::mem::take(&mut part));
            }
        }
        lines.push(part);
    }
    lines
}

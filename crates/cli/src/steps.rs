//! `show --steps`: one line for each journal entry of a run, with the number that `fork --at` takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dirigent::events::AgentRole;
use dirigent::journal::Input;
use dirigent::journal::RecordedEntry;
use dirigent::journal::RunInput;
use dirigent::{Event, EventKind};
use serde_json::{Map, Value, json};

use crate::output::sanitize;
use crate::plain::{sharing_text, tools_changed_text};
use crate::request_text::{allowed_text, decision_text};
use crate::time::clock;

/// The maximum width of a description, in columns.
const WIDTH: usize = 96;

/// A run's journal entries with their descriptions.
pub(crate) struct Steps<'a> {
    entries: &'a [RecordedEntry],
    descriptions: BTreeMap<u64, Vec<String>>,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(entries: &'a [RecordedEntry], events: &[Event]) -> Self {
        let mut descriptions: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for event in events {
            descriptions
                .entry(event.seq)
                .or_default()
                .push(describe(&event.kind));
        }
        Steps {
            entries,
            descriptions,
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{:>5}  {:<8}  {:<5}  EVENT\n", "ENTRY", "TIME", "SCOPE");
        for entry in self.entries {
            let scope = entry.scope.to_string();
            let description = sanitize(&self.description(entry)).replace(['\n', '\t'], " ");
            let description = console::truncate_str(&description, WIDTH, "…");
            let _ = writeln!(
                text,
                "{:>5}  {}  {scope:<5}  {description}",
                entry.seq,
                clock(entry.at)
            );
        }
        text
    }

    pub(crate) fn as_json(&self) -> Vec<Value> {
        let entries = self.entries.iter();
        entries
            .map(|entry| json!({"seq": entry.seq, "at": entry.at, "scope": entry.scope, "event": self.description(entry)}))
            .collect()
    }

    fn description(&self, entry: &RecordedEntry) -> String {
        match self.descriptions.get(&entry.seq) {
            Some(events) => events.join("; "),
            None => match &entry.input {
                Input::Run(RunInput::CallSettled { effect }) => {
                    format!("{effect} is no longer waiting for you")
                }
                Input::Run(input) => input.description().to_owned(),
                Input::Agent(input) => input.description().to_owned(),
            },
        }
    }
}

/// A short description of an event.
fn describe(kind: &EventKind) -> String {
    match kind {
        EventKind::RunStarted { goal, .. } => format!("goal: {goal}"),
        EventKind::PhaseChanged { transition } => {
            format!("{} (iteration {})", transition.to, transition.iteration)
        }
        EventKind::PlanMade { plan } => format!("plan of {}: {}", plan.subtasks.len(), plan.summary),
        EventKind::SubTaskStarted { subtask, title, .. } => format!("{subtask} starts: {title}"),
        EventKind::SubTaskFinished { observation } => {
            format!("{} {}", observation.subtask, observation.status())
        }
        EventKind::AgentStarted { role, .. } => format!("{} starts", name(role)),
        EventKind::LeadContinued => "lead continues".to_owned(),
        EventKind::ModelReplied { turn, content, .. } => format!("reply {turn}: {content}"),
        EventKind::ModelFailed { error } => format!("no reply: {error}"),
        EventKind::ToolStarted { tool, parameters, .. } => format!("{tool} {parameters}"),
        EventKind::ToolFinished {
            tool,
            error: None,
            metadata,
            ..
        } => format!("{tool} done{}", metadata_text(metadata)),
        EventKind::ToolFinished {
            tool,
            error: Some(error),
            metadata,
            ..
        } => format!("{tool} failed: {error}{}", metadata_text(metadata)),
        EventKind::ToolRefused {
            tool,
            parameters,
            error,
        } => format!("{tool} {parameters} refused: {error}"),
        EventKind::Reflected { reflection } => {
            format!("{}: {}", reflection.verdict, reflection.summary)
        }
        EventKind::AgentFinished { failure: None, .. } => "done".to_owned(),
        EventKind::AgentFinished {
            failure: Some(failure),
            ..
        } => format!("ended: {failure}"),
        EventKind::Guided {
            guidance,
            immediate: false,
        } => format!("guidance: {guidance}"),
        EventKind::Guided {
            guidance,
            immediate: true,
        } => format!("immediate guidance: {guidance}"),
        EventKind::ApprovalAsked { approval } => {
            format!(
                "{} waits: {} {}",
                approval.effect, approval.tool, approval.parameters
            )
        }
        EventKind::ApprovalDecided { effect, decision } => format!("{effect} {}", decision_text(decision)),
        EventKind::ApprovalExpired { effect } => format!("{effect} expired"),
        EventKind::QuestionAsked { question, .. } => format!("question: {}", question.question),
        EventKind::QuestionAnswered { answer, .. } => format!("answer: {answer}"),
        EventKind::QuestionExpired { effect } => format!("{effect} expired"),
        EventKind::CallsAllowed { calls } => allowed_text(calls),
        EventKind::ToolsChanged {
            service,
            added,
            removed,
            changed,
        } => tools_changed_text(service, added, removed, changed),
        EventKind::WorkspaceShared { runs } => sharing_text(runs),
        EventKind::Resumed => "resumed".to_owned(),
        EventKind::RunFinished { reason, .. } => format!("end: {reason}"),
        other => other.name().replace('_', " "),
    }
}

/// A tool's metadata, such as ` (rows: 3, plan: "index")`; empty if there is none.
fn metadata_text(metadata: &Map<String, Value>) -> String {
    let fields: Vec<String> = metadata
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    if fields.is_empty() {
        return String::new();
    }
    format!(" ({})", fields.join(", "))
}

fn name(role: &AgentRole) -> &str {
    match role {
        AgentRole::Lead => "lead",
        AgentRole::Reflector => "reflector",
        AgentRole::Sub(name) => name,
    }
}

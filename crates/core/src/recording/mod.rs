//! Recordings: a run as a file that replays with no model and no tools (HOST-9).
//!
//! A [`Recording`] is a projection of a run's journal: every input in order, and beside each that answers something what it
//! answers (the request to the model, the tool call, the question, the call that was decided about), as the machines asked it. [`replay`] gives machines of
//! the present code and the present [`RunSpec`] what came from outside, derives the rest, and says where the two first
//! differ. Neither asks a model, runs a tool or reads a clock.

mod difference;
mod format;
mod machines;
mod replay;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use difference::{Difference, EntryLocation, Part};
pub use format::FormatError;
pub use replay::replay;

use crate::approval::Approval;
use crate::call::CallForm;
use crate::end_reason::EndReason;
use crate::id::Scope;
use crate::journal::{Entry, Input};
use crate::machine::Refusal;
use crate::message::{Message, ToolCall};
use crate::question::Question;
use crate::run::RunInput;
use crate::spec::RunSpec;
use crate::time::Timestamp;
use machines::Machines;

/// A recorded run. [`std::fmt::Display`] writes it as JSON Lines and [`Recording::parse`] reads them:
///
/// ```text
/// {"dirigent_recording": 1, "goal": "…", "started_at": 1795310060902}
/// {"seq": 1, "at": …, "scope": "run", "input": {"run": {"started": {"spec": {…}}}}}
/// {"seq": 2, "at": …, "scope": "a1", "input": {"agent": {"started": {"brief": {…}}}}}
/// {"seq": 3, "at": …, "scope": "a1", "input": {"agent": {"model_replied": {…}}}, "asked": {"request": {…}}}
/// …
/// {"end": {"reason": "goal_achieved"}, "entries": 42}
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    spec: Arc<RunSpec>,
    lines: Vec<RecordedEntry>,
    end: Option<EndReason>,
}

/// A journaled input with what it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedEntry {
    /// Its place in the run, from 1, without gaps.
    pub seq: u64,
    /// When it was accepted.
    pub at: Timestamp,
    /// Whose it is.
    pub scope: Scope,
    /// What came in.
    pub input: Input,
    /// What it answers; none for what nobody asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<RecordedRequest>,
}

/// What a machine had asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedRequest {
    /// A reply of the model.
    Request(Request),
    /// A tool call; it stands beside the call's start.
    Call(ToolCall),
    /// An answer of the user.
    Question(Question),
    /// A decision about a call.
    Approval(Approval),
}

/// A request to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The model that was asked; none for the run's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How it calls tools.
    pub calls: CallForm,
    /// The tools it was offered, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// How many messages it begins with that the agent's request before it began with, too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept: usize,
    /// The messages after those.
    pub messages: Vec<Message>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Recording {
    /// What the run was started with.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// Its entries in order; there is at least the first.
    pub fn entries(&self) -> &[RecordedEntry] {
        &self.lines
    }

    /// Why the run ended or, for [`EndReason::UserRequired`], why it stands still; none for one that was interrupted, or that
    /// was still going on.
    pub fn end(&self) -> Option<&EndReason> {
        self.end.as_ref()
    }

    /// When the run started.
    pub fn started_at(&self) -> Timestamp {
        self.lines.first().map_or_else(Timestamp::default, |line| line.at)
    }
}

/// Makes a [`Recording`] of a journal, entry by entry.
#[derive(Default)]
pub struct Recorder {
    machines: Machines,
    lines: Vec<RecordedEntry>,
}

impl Recorder {
    /// A recorder that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the journal's next entry.
    ///
    /// # Errors
    /// An entry that the machines refuse: the journal is not that of a run, or not in order.
    pub fn add(&mut self, entry: Entry) -> Result<(), Refusal> {
        let asked = self.machines.answered_request(entry.scope, &entry.input);
        self.machines.apply(entry.clone())?;
        self.lines.push(RecordedEntry {
            seq: self.lines.len() as u64 + 1,
            at: entry.at,
            scope: entry.scope,
            input: entry.input,
            asked,
        });
        Ok(())
    }

    /// The recording as far as the journal went; none where the run has not begun.
    pub fn finish(self) -> Option<Recording> {
        Some(Recording {
            spec: start_spec(self.lines.first()?)?.clone(),
            end: self.machines.run().end().cloned(),
            lines: self.lines,
        })
    }
}

/// The spec of a run's first entry; none for any other entry.
fn start_spec(line: &RecordedEntry) -> Option<&Arc<RunSpec>> {
    match (line.scope, &line.input) {
        (Scope::Run, Input::Run(RunInput::Started { spec })) => Some(spec),
        (Scope::Run | Scope::Agent(_), Input::Run(_) | Input::Agent(_)) => None,
    }
}

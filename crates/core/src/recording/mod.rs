//! Recordings: runs as files that can be replayed without models and tools (HOST-9).
//!
//! A [`Recording`] is created from a run's journal. It contains every input in order, with the request (to the model, a tool or the user)
//! that the input answers. [`replay`] feeds the recorded external inputs to state machines that run the current code with the caller's
//! [`RunSpec`], derives all other inputs, and reports the first difference. Neither recording nor replay calls a model, runs a tool or
//! reads a clock.

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

/// A recorded run. [`std::fmt::Display`] formats it as JSON Lines, and [`Recording::parse`] parses them:
///
/// ```text
/// {"dirigent_recording": 1, "goal": "…", "started_at": 1795310060902}
/// {"seq": 1, "at": …, "scope": "run", "input": {"run": {"started": {"spec": {…}}}}}
/// {"seq": 2, "at": …, "scope": "a1", "input": {"agent": {"started": {"brief": {…}}}}}
/// {"seq": 3, "at": …, "scope": "a1", "input": {"agent": {"model_replied": {…}}}, "answers": {"request": {…}}}
/// …
/// {"end": {"reason": "goal_achieved"}, "entries": 42}
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    spec: Arc<RunSpec>,
    lines: Vec<RecordedEntry>,
    end: Option<EndReason>,
}

/// A journaled input, and the request that it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedEntry {
    /// The number of the entry within its run, counted from 1 without gaps.
    pub seq: u64,
    /// The time at which the input was accepted.
    pub at: Timestamp,
    /// The machine that accepted the input.
    pub scope: Scope,
    /// The input, as in the journal.
    pub input: Input,
    /// The request that the input answers; `None` if it does not answer a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<RecordedRequest>,
}

/// A request that a machine made and that an input answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedRequest {
    /// A model request, answered by the model's reply.
    Request(Request),
    /// A tool call, recorded with the input that reports its start.
    Call(ToolCall),
    /// A question, answered by the user.
    Question(Question),
    /// An approval request, decided by the user.
    Approval(Approval),
}

/// The content of a model request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The name of the model; `None` for the run's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The form of tool calls.
    pub calls: CallForm,
    /// The names of the offered tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The number of leading messages that the agent's previous request also contains. They are omitted here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shared: usize,
    /// The messages after the shared ones.
    pub messages: Vec<Message>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Recording {
    /// Returns the spec with which the run started.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// Returns the entries in order. There is at least one.
    pub fn entries(&self) -> &[RecordedEntry] {
        &self.lines
    }

    /// Returns the reason why the run ended or, for [`EndReason::UserRequired`], why it waits; `None` if it was interrupted or had not
    /// ended.
    pub fn end(&self) -> Option<&EndReason> {
        self.end.as_ref()
    }

    /// Returns the time at which the run started.
    pub fn started_at(&self) -> Timestamp {
        self.lines.first().map_or_else(Timestamp::default, |line| line.at)
    }
}

/// Builds a [`Recording`] from journal entries.
#[derive(Default)]
pub struct Recorder {
    /// The machines after all entries added so far; `None` before the first entry.
    machines: Option<Machines>,
    lines: Vec<RecordedEntry>,
}

impl Recorder {
    /// Creates a recorder without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next journal entry.
    ///
    /// # Errors
    /// [`Refusal`] if the machines refuse the entry, because the journal is invalid or its entries are out of order.
    pub fn add(&mut self, entry: Entry) -> Result<(), Refusal> {
        let mut answers = None;
        match &mut self.machines {
            Some(machines) => {
                answers = machines.answered_request(entry.scope, &entry.input);
                machines.apply(entry.clone())?;
            }
            None => {
                let spec = start_spec(entry.scope, &entry.input).ok_or_else(|| Refusal::InvalidState {
                    input: entry.input.description(),
                    state: "the run has not started".to_owned(),
                })?;
                self.machines = Some(Machines::start(entry.at, spec.clone())?);
            }
        }
        self.lines.push(RecordedEntry {
            seq: self.lines.len() as u64 + 1,
            at: entry.at,
            scope: entry.scope,
            input: entry.input,
            answers,
        });
        Ok(())
    }

    /// Returns the recording of all entries added so far; `None` if there are none.
    pub fn finish(self) -> Option<Recording> {
        let (machines, first) = (self.machines?, self.lines.first()?);
        Some(Recording {
            // Use the first entry's spec, not the machines' spec: resuming the run may have changed its limits.
            spec: start_spec(first.scope, &first.input)?.clone(),
            end: machines.run().end().cloned(),
            lines: self.lines,
        })
    }
}

/// The spec in a run's first entry; `None` for any other entry.
fn start_spec(scope: Scope, input: &Input) -> Option<&Arc<RunSpec>> {
    match (scope, input) {
        (Scope::Run, Input::Run(RunInput::Started { spec })) => Some(spec),
        (Scope::Run | Scope::Agent(_), Input::Run(_) | Input::Agent(_)) => None,
    }
}

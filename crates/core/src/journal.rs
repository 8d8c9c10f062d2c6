//! The entries of a journal: all inputs that a run's state machines accepted, in order.

use serde::{Deserialize, Serialize};

use crate::agent::AgentInput;
use crate::id::{RunId, Scope};
use crate::run::RunInput;
use crate::shared_text::SharedText;
use crate::time::Timestamp;

/// A journal entry: one input that a machine accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The run's id.
    pub run: RunId,
    /// The number of the entry within its run, counted from 1 without gaps.
    pub seq: u64,
    /// The time at which the input was accepted.
    pub at: Timestamp,
    /// The machine that accepted the input.
    pub scope: Scope,
    /// The input.
    pub input: Input,
}

/// An input of the run machine or of an agent machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// An input of the run's machine.
    Run(RunInput),
    /// An input of an agent's machine.
    Agent(AgentInput),
}

impl Input {
    /// Borrows the input.
    pub fn as_ref(&self) -> InputRef<'_> {
        match self {
            Input::Run(input) => InputRef::Run(input),
            Input::Agent(input) => InputRef::Agent(input),
        }
    }

    /// The name of the input's variant, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Input::Run(input) => input.name(),
            Input::Agent(input) => input.name(),
        }
    }
}

/// A borrowed [`Input`], to serialise an input without cloning it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputRef<'a> {
    /// An input of the run's machine.
    Run(&'a RunInput),
    /// An input of an agent's machine.
    Agent(&'a AgentInput),
}

impl InputRef<'_> {
    /// The parts of the input's JSON that also occur in entries of other runs.
    pub fn shared_texts(&self) -> Vec<SharedText> {
        match self {
            InputRef::Run(RunInput::Started { spec }) => {
                let history = spec.earlier_turns().and_then(|earlier| earlier.history.text());
                spec.setup.text().into_iter().chain(history).cloned().collect()
            }
            InputRef::Run(_) | InputRef::Agent(_) => Vec::new(),
        }
    }
}

//! A journal's entries: the inputs of a run's machines, in the order in which they were accepted.

use serde::{Deserialize, Serialize};

use crate::agent::AgentInput;
use crate::id::{RunId, Scope};
use crate::run::RunInput;
use crate::time::Timestamp;

/// One accepted input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The run.
    pub run: RunId,
    /// Its place in the run, from 1, without gaps.
    pub seq: u64,
    /// When it was accepted.
    pub at: Timestamp,
    /// Whose it is.
    pub scope: Scope,
    /// What came in.
    pub input: Input,
}

/// An input of either machine; which one, the scope says too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// For the run machine.
    Run(RunInput),
    /// For an agent machine.
    Agent(AgentInput),
}

/// An [`Input`] that is somebody else's, to be written.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputRef<'a> {
    /// For the run machine.
    Run(&'a RunInput),
    /// For an agent machine.
    Agent(&'a AgentInput),
}

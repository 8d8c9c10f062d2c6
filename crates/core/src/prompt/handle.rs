//! Handles: how a prompt names what it shows shortened or not at all, so that `read_output` can read it (PAOR-6).

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::id::{AgentId, EffectId, Scope};

/// What a handle stands for. As text and JSON: `a3.7` or `run.7`, `a3`, `iteration.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum OutputHandle {
    /// The result of a tool call.
    Call(EffectId),
    /// The findings of an agent.
    Agent(AgentId),
    /// All observations of an iteration, by the iteration's number from 1.
    Iteration(u32),
}

/// Text that is no handle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no handle: write one as it stands in a prompt or a result, such as `a3.7`, `run.7`, `a3` or `iteration.2`"
)]
pub struct ParseHandleError(String);

impl fmt::Display for OutputHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputHandle::Call(effect) => effect.fmt(f),
            OutputHandle::Agent(agent) => agent.fmt(f),
            OutputHandle::Iteration(iteration) => write!(f, "iteration.{iteration}"),
        }
    }
}

impl FromStr for OutputHandle {
    type Err = ParseHandleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseHandleError(text.to_owned());
        if let Some(iteration) = text.strip_prefix("iteration.") {
            return iteration
                .parse()
                .map(OutputHandle::Iteration)
                .map_err(|_| wrong());
        }
        match text.parse() {
            Ok(Scope::Agent(agent)) => Ok(OutputHandle::Agent(agent)),
            Ok(Scope::Run) | Err(_) => text.parse().map(OutputHandle::Call).map_err(|_| wrong()),
        }
    }
}

impl TryFrom<String> for OutputHandle {
    type Error = ParseHandleError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

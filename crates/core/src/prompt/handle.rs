//! Handles: names in prompts for shortened or omitted output. `read_output` reads the complete output by its handle (PAOR-6).

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::id::{AgentId, EffectId, Scope};

/// The end of the handle of a call's parameters.
const PARAMETERS: &str = ".parameters";

/// The output to which a handle refers. Text and JSON form: `a3.7` or `run.7`, `a3.7.parameters`, `a3`, `iteration.2`, `diff`, `diff.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum OutputHandle {
    /// The result of a tool call.
    Call(EffectId),
    /// The parameters of a tool call.
    Parameters(EffectId),
    /// The findings of an agent.
    Agent(AgentId),
    /// All observations of an iteration. Iterations are numbered from 1.
    Iteration(u32),
    /// The run's net diff until now.
    RunDiff,
    /// The run's net diff that the reflector of an iteration was given.
    Diff(u32),
}

/// An error from parsing an [`OutputHandle`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a handle: copy one from a prompt or a result, such as `a3.7`, `run.7`, `a3`, `iteration.2`, `diff` or `diff.2`"
)]
pub struct ParseHandleError(String);

impl fmt::Display for OutputHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputHandle::Call(effect) => effect.fmt(f),
            OutputHandle::Parameters(effect) => write!(f, "{effect}{PARAMETERS}"),
            OutputHandle::Agent(agent) => agent.fmt(f),
            OutputHandle::Iteration(iteration) => write!(f, "iteration.{iteration}"),
            OutputHandle::RunDiff => f.write_str("diff"),
            OutputHandle::Diff(iteration) => write!(f, "diff.{iteration}"),
        }
    }
}

impl FromStr for OutputHandle {
    type Err = ParseHandleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseHandleError(text.to_owned());
        let number = |number: &str| number.parse::<u32>().map_err(|_| error());
        if text == "diff" {
            return Ok(OutputHandle::RunDiff);
        }
        if let Some(iteration) = text.strip_prefix("iteration.") {
            return number(iteration).map(OutputHandle::Iteration);
        }
        if let Some(iteration) = text.strip_prefix("diff.") {
            return number(iteration).map(OutputHandle::Diff);
        }
        if let Some(call) = text.strip_suffix(PARAMETERS) {
            return call.parse().map(OutputHandle::Parameters).map_err(|_| error());
        }
        match text.parse() {
            Ok(Scope::Agent(agent)) => Ok(OutputHandle::Agent(agent)),
            Ok(Scope::Run) | Err(_) => text.parse().map(OutputHandle::Call).map_err(|_| error()),
        }
    }
}

impl TryFrom<String> for OutputHandle {
    type Error = ParseHandleError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

//! Handles: how a prompt names what it shows shortened or not at all, so that `read_output` can read it (PAOR-6).

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::id::{AgentId, EffectId, Scope};

/// What a handle stands for. As text and JSON: `a3.7` or `run.7`, `a3`, `round.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Handle {
    /// The result of a tool call.
    Call(EffectId),
    /// The findings of an agent.
    Agent(AgentId),
    /// All observations of a round, by the round's number from 1.
    Round(u32),
}

/// Text that is no handle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no handle: write one as it stands in a prompt or a result, such as `a3.7`, `run.7`, `a3` or `round.2`"
)]
pub struct NoHandle(String);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Handle::Call(effect) => effect.fmt(f),
            Handle::Agent(agent) => agent.fmt(f),
            Handle::Round(round) => write!(f, "round.{round}"),
        }
    }
}

impl FromStr for Handle {
    type Err = NoHandle;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || NoHandle(text.to_owned());
        if let Some(round) = text.strip_prefix("round.") {
            return round.parse().map(Handle::Round).map_err(|_| wrong());
        }
        match text.parse() {
            Ok(Scope::Agent(agent)) => Ok(Handle::Agent(agent)),
            Ok(Scope::Run) | Err(_) => text.parse().map(Handle::Call).map_err(|_| wrong()),
        }
    }
}

impl TryFrom<String> for Handle {
    type Error = NoHandle;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

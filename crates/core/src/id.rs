//! Identifiers of runs, agents, sub-tasks and effects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// The id of a run. A version 7 UUID, so ids sort by creation time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl RunId {
    /// Returns the last eight hexadecimal digits, as a short id for display and input. The first digits encode the creation time, so runs
    /// that start together share them.
    pub fn short(&self) -> String {
        let text = self.0.simple().to_string();
        text[text.len() - 8..].to_owned()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RunId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(RunId)
    }
}

/// The id of a conversation. A version 7 UUID, so ids sort by creation time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConversationId(pub Uuid);

impl ConversationId {
    /// Returns the last eight hexadecimal digits, as a short id for display and input.
    pub fn short(&self) -> String {
        RunId(self.0).short()
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ConversationId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(ConversationId)
    }
}

/// The id of an agent within its run. Agents are numbered from 1 in the order in which they start. In a conversation, the numbering
/// continues from turn to turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentId(pub u32);

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}", self.0)
    }
}

/// The id of a sub-task within its plan, chosen by the lead, such as `edit-parser`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SubTaskId(pub String);

impl fmt::Display for SubTaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for SubTaskId {
    fn from(text: &str) -> Self {
        SubTaskId(text.to_owned())
    }
}

/// The machine to which an input or an effect belongs. Text and JSON form: `"run"`, `"a3"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The run machine.
    Run,
    /// An agent machine.
    Agent(AgentId),
}

impl Scope {
    /// The agent's id; `None` for the run machine.
    pub fn agent(self) -> Option<AgentId> {
        match self {
            Scope::Run => None,
            Scope::Agent(agent) => Some(agent),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Run => f.write_str("run"),
            Scope::Agent(agent) => agent.fmt(f),
        }
    }
}

impl FromStr for Scope {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "run" {
            return Ok(Scope::Run);
        }
        text.strip_prefix('a')
            .and_then(|number| number.parse().ok())
            .map(|number| Scope::Agent(AgentId(number)))
            .ok_or_else(|| IdError::Scope(text.to_owned()))
    }
}

/// The id of an effect, which is an operation that a machine has requested and waits for.
///
/// Text and JSON form: `"a3.7"` is step 7 of agent 3, and `"a3.7+1"` is its second attempt, after a restart. The completion of an effect
/// carries the same id, so that the machine can recognise late and duplicate completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId {
    /// The machine that requested the effect.
    pub scope: Scope,
    /// Number of the effect within its scope, counted from 1.
    pub step: u32,
    /// Number of the attempt, counted from 0.
    pub attempt: u32,
}

impl EffectId {
    /// Returns true if both are attempts of the same effect.
    pub fn is_same_effect(self, other: EffectId) -> bool {
        (self.scope, self.step) == (other.scope, other.step)
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.scope, self.step)?;
        if self.attempt > 0 {
            write!(f, "+{}", self.attempt)?;
        }
        Ok(())
    }
}

impl FromStr for EffectId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || IdError::Effect(text.to_owned());
        let (scope, rest) = text.split_once('.').ok_or_else(invalid)?;
        let (step, attempt) = rest.split_once('+').unwrap_or((rest, "0"));
        Ok(EffectId {
            scope: scope.parse().map_err(|_| invalid())?,
            step: step.parse().map_err(|_| invalid())?,
            attempt: attempt.parse().map_err(|_| invalid())?,
        })
    }
}

/// An error from parsing a [`Scope`] or an [`EffectId`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum IdError {
    /// The text is not a scope.
    #[error("`{0}` is not a scope: expected `run`, or `a` and the number of an agent, such as `a3`")]
    Scope(String),
    /// The text is not an effect id.
    #[error(
        "`{0}` is not the handle of a call: expected `run` or the id of an agent, a dot and a number, such as `run.2` or `a3.7`"
    )]
    Effect(String),
}

macro_rules! serde_as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
serde_as_text!(Scope, EffectId);

//! Identities: which run, which agent, which sub-task, which effect.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A run: one goal from its start to its end. A version 7 UUID, so that ids sort by the time they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl RunId {
    /// The last eight hexadecimal digits: what people see and type. (The first digits are a time, alike in runs
    /// that were started together.)
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

/// An agent within its run: the planner of the first iteration is 1, and so on in the order of their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentId(pub u32);

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}", self.0)
    }
}

/// A sub-task's name within its plan, chosen by the planner: `edit-parser`.
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

/// Whose input it is: the run's own or one of its agents'. As text and JSON: `"run"`, `"a3"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The run machine.
    Run,
    /// The machine of an agent.
    Agent(AgentId),
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

/// One thing that a machine commanded and waits for. As text and JSON `"a3.7"` (the seventh step of agent 3), and
/// `"a3.7+1"` where it is tried again after a restart. A completion brings the id back, so that a late or repeated
/// one is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId {
    /// Whose command it is.
    pub scope: Scope,
    /// The number of the command in its scope, from 1.
    pub step: u32,
    /// Which try of that command it is, from 0.
    pub attempt: u32,
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
        let wrong = || IdError::Effect(text.to_owned());
        let (scope, rest) = text.split_once('.').ok_or_else(wrong)?;
        let (step, attempt) = rest.split_once('+').unwrap_or((rest, "0"));
        Ok(EffectId {
            scope: scope.parse().map_err(|_| wrong())?,
            step: step.parse().map_err(|_| wrong())?,
            attempt: attempt.parse().map_err(|_| wrong())?,
        })
    }
}

/// Text that is no id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum IdError {
    /// Not a scope.
    #[error("`{0}` is no scope: write `run`, or `a` and an agent's number")]
    Scope(String),
    /// Not an effect.
    #[error("`{0}` is no call: write `run` or an agent, a dot and a number, such as `run.2` or `a3.7`")]
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

//! The seven phases of a run and the ways between them (PAOR-1).

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a run is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not started.
    #[default]
    Idle,
    /// The planner is at work.
    Planning,
    /// Sub-tasks run; none has ended yet.
    Acting,
    /// Sub-tasks have ended, and their ends are collected.
    Observing,
    /// The reflector is at work, or its question waits for the user.
    Reflecting,
    /// The goal is reached.
    Complete,
    /// The run ended without it.
    Failed,
}

/// A step from one phase to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The phase that ended.
    pub from: Phase,
    /// The phase that began.
    pub to: Phase,
    /// The planning iteration it belongs to, from 1.
    pub iteration: u32,
}

/// A step that PAOR-1 does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run cannot go from {from} to {to}")]
pub struct ImpossibleTransition {
    /// The phase it is in.
    pub from: Phase,
    /// The phase it cannot go to.
    pub to: Phase,
}

impl Phase {
    /// The phase after this one, if PAOR-1 has that step.
    pub fn enter(self, to: Phase) -> Result<Phase, ImpossibleTransition> {
        use Phase::{Acting, Complete, Failed, Idle, Observing, Planning, Reflecting};
        match (self, to) {
            (Idle, Planning)
            | (Planning, Acting)
            | (Acting, Observing)
            | (Observing, Reflecting)
            | (Reflecting, Planning | Complete)
            // Only of a run that can be resumed.
            | (Failed, Planning)
            | (Idle | Planning | Acting | Observing | Reflecting, Failed) => Ok(to),
            (from, to) => Err(ImpossibleTransition { from, to }),
        }
    }

    /// Whether nothing goes on: the run is over or, if it failed at a limit, waits to be resumed.
    pub fn is_terminal(self) -> bool {
        matches!(self, Phase::Complete | Phase::Failed)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Idle => "Idle",
            Phase::Planning => "Planning",
            Phase::Acting => "Acting",
            Phase::Observing => "Observing",
            Phase::Reflecting => "Reflecting",
            Phase::Complete => "Complete",
            Phase::Failed => "Failed",
        })
    }
}

//! The seven phases of a run and the transitions between them (PAOR-1).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The run has not received its first input.
    #[default]
    Idle,
    /// The lead is making a plan.
    Planning,
    /// Sub-tasks are running; none of them has ended yet.
    Acting,
    /// At least one sub-task has ended; the results are being collected.
    Observing,
    /// The reflector evaluates the results, or its question waits for the user's answer.
    Reflecting,
    /// The goal is reached.
    Complete,
    /// The run ended without reaching the goal.
    Failed,
}

/// A transition from one phase to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The previous phase.
    pub from: Phase,
    /// The new phase.
    pub to: Phase,
    /// The planning iteration, counted from 1.
    pub iteration: u32,
}

/// A transition that PAOR-1 does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run cannot change from phase {from} to {to}")]
pub struct ImpossibleTransition {
    /// The current phase.
    pub from: Phase,
    /// The requested phase.
    pub to: Phase,
}

impl Phase {
    /// Changes to the phase `to` and returns it.
    ///
    /// # Errors
    /// [`ImpossibleTransition`] if PAOR-1 does not allow the transition.
    pub fn enter(self, to: Phase) -> Result<Phase, ImpossibleTransition> {
        use Phase::{Acting, Complete, Failed, Idle, Observing, Planning, Reflecting};
        match (self, to) {
            (Idle, Planning)
            | (Planning, Acting)
            | (Acting, Observing)
            | (Observing, Reflecting)
            | (Reflecting, Planning | Complete)
            // A failed run is resumed.
            | (Failed, Planning)
            | (Idle | Planning | Acting | Observing | Reflecting, Failed) => Ok(to),
            (from, to) => Err(ImpossibleTransition { from, to }),
        }
    }

    /// Returns true if a run in this phase has ended. A failed run may be resumed.
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

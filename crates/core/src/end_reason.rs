//! The reasons for which a run ends.

use serde::{Deserialize, Serialize};

use crate::budget::BudgetKind;

/// The one reason for which a run ended (PAOR-12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum EndReason {
    /// Reflection found the goal reached, or the planner answered it.
    #[error("goal achieved")]
    GoalAchieved,
    /// PAOR-3.
    #[error(
        "iteration limit: {max_iterations} planning iteration{} did not reach the goal",
        if *max_iterations == 1 { "" } else { "s" }
    )]
    IterationLimit {
        /// The limit.
        max_iterations: u32,
    },
    /// The run's time was over.
    #[error("time limit")]
    TimeLimit,
    /// The run's tokens, money or model calls were used up, or left too little for another request (HOST-6).
    #[error("budget: {} used", budget.usage_of_limit(*used, *limit))]
    BudgetExhausted {
        /// Of what.
        budget: BudgetKind,
        /// What was used.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// Only the user can decide, and nobody was there.
    #[error("user intervention required")]
    UserRequired,
    /// The user ended it.
    #[error("cancelled")]
    Cancelled,
    /// It could not go on.
    #[error("{error}")]
    Failed {
        /// Why.
        error: String,
        /// Whether the run can be resumed.
        #[serde(default, skip_serializing_if = "FailureCause::is_final")]
        cause: FailureCause,
    },
}

impl EndReason {
    /// A failure that no resuming mends.
    pub fn failed(error: impl Into<String>) -> Self {
        EndReason::Failed {
            error: error.into(),
            cause: FailureCause::Unrecoverable,
        }
    }

    /// Whether `resume` takes up a run that ended for this reason (PAOR-1): it waits for the user, a limit ended it, or no model
    /// could be reached.
    pub fn is_resumable(&self) -> bool {
        match self {
            EndReason::UserRequired
            | EndReason::IterationLimit { .. }
            | EndReason::TimeLimit
            | EndReason::BudgetExhausted { .. } => true,
            EndReason::Failed { cause, .. } => !cause.is_final(),
            EndReason::GoalAchieved | EndReason::Cancelled => false,
        }
    }
}

/// What a failed run lacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// Nothing that resuming could give it: the goal is out of reach, or something broke.
    #[default]
    Unrecoverable,
    /// A model: none could be reached, or its configuration was wrong.
    ModelUnavailable,
    /// Turns or time of the planner or the reflector, or progress (LOOP-2, LOOP-5, LOOP-10).
    AgentLimit,
}

impl FailureCause {
    fn is_final(&self) -> bool {
        *self == FailureCause::Unrecoverable
    }
}

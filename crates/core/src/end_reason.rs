//! The reasons why a run ends.

use serde::{Deserialize, Serialize};

use crate::budget::BudgetKind;

/// The reason why a run ended (PAOR-12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum EndReason {
    /// The reflector's verdict was that the goal is reached, or the lead answered the goal directly.
    #[error("goal achieved")]
    GoalAchieved,
    /// The run used up its planning iterations (PAOR-3).
    #[error(
        "iteration limit: {max_iterations} planning iteration{} did not reach the goal",
        if *max_iterations == 1 { "" } else { "s" }
    )]
    IterationLimit {
        /// The limit that was reached.
        max_iterations: u32,
    },
    /// The run reached its time limit.
    #[error("time limit")]
    TimeLimit,
    /// The run's budget of tokens, cost or model calls is used up, or has no room for another request (HOST-6).
    #[error("budget: {} used", budget.usage_of_limit(*used, *limit))]
    BudgetExhausted {
        /// The quantity that is used up.
        budget: BudgetKind,
        /// The amount that the run used.
        used: u64,
        /// The limit that was reached.
        limit: u64,
    },
    /// The run needs a decision from the user, and no user was available.
    #[error("user intervention required")]
    UserRequired,
    /// The user cancelled the run.
    #[error("cancelled")]
    Cancelled,
    /// The run failed.
    #[error("{error}")]
    Failed {
        /// A description of the failure.
        error: String,
        /// The cause, which determines whether the run can be resumed.
        #[serde(default, skip_serializing_if = "FailureCause::is_final")]
        cause: FailureCause,
    },
}

impl EndReason {
    /// Creates a failure that resuming the run cannot fix.
    pub fn failed(error: impl Into<String>) -> Self {
        EndReason::Failed {
            error: error.into(),
            cause: FailureCause::Unrecoverable,
        }
    }

    /// Returns true if a run that ended for this reason can be resumed (PAOR-1): it waits for the user, reached a limit, or could not reach
    /// a model.
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

/// The cause of a run's failure, which determines whether the run can be resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// The goal cannot be reached, or an internal error occurred; resuming does not help.
    #[default]
    Unrecoverable,
    /// No model could be reached, or its configuration is wrong.
    ModelUnavailable,
    /// The lead or the reflector reached its limit of turns or time, or made no progress (LOOP-2, LOOP-5, LOOP-10).
    AgentLimit,
}

impl FailureCause {
    fn is_final(&self) -> bool {
        *self == FailureCause::Unrecoverable
    }
}

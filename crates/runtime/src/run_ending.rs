//! The end of a run as the journal records it.

use dirigent_core::end_reason::EndReason;

use crate::json::to_json;
use crate::run_log::RunEnding;

/// Returns whether a run that ends for this reason is finished or paused. A paused run keeps its pending
/// messages until it is resumed.
pub(crate) fn run_ending(reason: &EndReason) -> RunEnding {
    match reason {
        EndReason::UserRequired => RunEnding::Paused,
        EndReason::GoalAchieved
        | EndReason::IterationLimit { .. }
        | EndReason::TimeLimit
        | EndReason::BudgetExhausted { .. }
        | EndReason::Cancelled
        | EndReason::Failed { .. } => RunEnding::Finished,
    }
}

/// Returns the reason as the JSON that the journal stores.
pub(crate) fn end_status(reason: &EndReason) -> String {
    to_json(reason)
}

//! What the user rejected (APPROVE-2): a run that goes on, and even reaches its goal, says so.

use super::Round;
use crate::agent::AgentFailure;
use crate::approval::rejection;
use crate::observation::{Finding, Observation};

/// Each rejected call that ended a sub-task, with the user's reason, in the order of the rounds.
pub(super) fn rejections(rounds: &[Round]) -> Vec<String> {
    rounds
        .iter()
        .flat_map(|round| &round.observations)
        .filter_map(rejected)
        .collect()
}

fn rejected(observation: &Observation) -> Option<String> {
    let (tool, reason) = match &observation.finding {
        Finding::Agent {
            result: Err(AgentFailure::Rejected { tool, reason }),
            ..
        } => (tool, reason.as_deref()),
        Finding::Calls { calls } => {
            let last = calls.last()?;
            (&last.call.tool, rejection(&last.result)?)
        }
        Finding::Agent { .. } | Finding::Skipped { .. } => return None,
    };
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("{tool}, for {}{reason}", observation.title))
}

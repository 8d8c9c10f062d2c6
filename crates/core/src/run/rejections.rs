//! What the user rejected, or had other words for (APPROVE-2): a run that goes on, and even reaches its goal, says so.

use super::Round;
use crate::agent::AgentFailure;
use crate::approval::{guidance_instead, rejection};
use crate::observation::{Finding, Observation};
use crate::tool::{ToolOutcome, ToolResult};

/// Each rejected call that ended a sub-task, with the user's reason, in the order of the rounds.
pub(super) fn rejections(rounds: &[Round]) -> Vec<String> {
    rounds
        .iter()
        .flat_map(|round| &round.observations)
        .filter_map(rejected)
        .collect()
}

/// Each call of a plan for which the user had other words, with those, and each such call of an agent.
pub(super) fn guided(rounds: &[Round]) -> Vec<String> {
    let observations = rounds.iter().flat_map(|round| &round.observations);
    observations.flat_map(guided_calls).collect()
}

fn guided_calls(observation: &Observation) -> Vec<String> {
    let said = |tool: &str, words: &str| format!("{tool}, for {}: {words}", observation.title);
    match &observation.finding {
        Finding::Calls { calls } => calls
            .iter()
            .filter_map(|call| Some(said(&call.call.tool, guidance_instead(failure(&call.result)?)?)))
            .collect(),
        Finding::Agent { work, .. } => work
            .calls
            .iter()
            .filter_map(|call| Some(said(&call.tool, guidance_instead(call.error.as_deref()?)?)))
            .collect(),
        Finding::Skipped { .. } => Vec::new(),
    }
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

fn failure(result: &ToolResult) -> Option<&str> {
    match &result.outcome {
        ToolOutcome::Failure { error, .. } => Some(error),
        ToolOutcome::Success { .. } => None,
    }
}

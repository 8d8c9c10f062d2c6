//! The calls that the user rejected or answered with guidance (APPROVE-2), for the report of a run.

use super::Iteration;
use crate::agent_report::AgentFailure;
use crate::observation::{Observation, SubTaskResult};
use crate::tool::{ToolOutcome, ToolResult, guidance_from_error};

/// Describes each rejected call that ended a sub-task, with the user's reason, in order of the iterations.
pub(super) fn rejections(iterations: &[Iteration]) -> Vec<String> {
    iterations
        .iter()
        .flat_map(|iteration| &iteration.observations)
        .filter_map(rejected)
        .collect()
}

/// Describes each call of a plan or an agent that the user answered with guidance, together with the guidance.
pub(super) fn guided(iterations: &[Iteration]) -> Vec<String> {
    let observations = iterations.iter().flat_map(|iteration| &iteration.observations);
    observations.flat_map(guided_calls).collect()
}

fn guided_calls(observation: &Observation) -> Vec<String> {
    let line = |tool: &str, guidance: &str| format!("{tool}, for {}: {guidance}", observation.title);
    match &observation.finding {
        SubTaskResult::Calls { calls } => calls
            .iter()
            .filter_map(|call| {
                Some(line(
                    &call.call.tool,
                    guidance_from_error(failure(&call.result)?)?,
                ))
            })
            .collect(),
        SubTaskResult::Agent { work, .. } => work
            .calls
            .iter()
            .filter_map(|call| Some(line(&call.tool, guidance_from_error(call.error.as_deref()?)?)))
            .collect(),
        SubTaskResult::Skipped { .. } => Vec::new(),
    }
}

fn rejected(observation: &Observation) -> Option<String> {
    let (tool, reason) = match &observation.finding {
        SubTaskResult::Agent {
            result: Err(AgentFailure::Rejected { tool, reason }),
            ..
        } => (tool, reason.as_deref()),
        SubTaskResult::Calls { calls } => {
            let last = calls.last()?;
            (&last.call.tool, last.result.rejection_reason()?)
        }
        SubTaskResult::Agent { .. } | SubTaskResult::Skipped { .. } => return None,
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

//! Observations: the results of sub-tasks, with all their tool calls, for the reflector (PAOR-6).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::agent_report::{AgentFailure, AgentWork, AnswerOrFailure};
use crate::id::{AgentId, EffectId, SubTaskId};
use crate::message::ToolCall;
use crate::time::Millis;
use crate::tool::{StateChange, ToolResult, code};

/// The result of a sub-task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The id of the sub-task.
    pub subtask: SubTaskId,
    /// The sub-task's title in the plan.
    pub title: String,
    /// Duration from start to end; zero if the sub-task never started.
    pub duration: Millis,
    /// True if the plan says that the sub-task may fail (PAOR-4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fail: bool,
    /// The result of the sub-task's work.
    pub finding: SubTaskResult,
}

/// The result of a sub-task, depending on its kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SubTaskResult {
    /// The executed calls of a sequence of tool calls. Only the last call can have failed.
    Calls {
        /// Calls and results in order.
        calls: Vec<ObservedCall>,
    },
    /// The result of a sub-agent.
    Agent {
        /// The agent's id.
        agent: AgentId,
        /// The agent's name.
        name: String,
        /// The agent's findings, or the reason for its failure.
        #[serde(with = "AnswerOrFailure")]
        result: Result<String, AgentFailure>,
        /// The agent's calls, changes and usage.
        work: AgentWork,
    },
    /// The sub-task never started, because a dependency failed (PAOR-4) or the user's guidance changed the plan (PAOR-8).
    Skipped {
        /// The sub-task that failed; `None` if guidance changed the plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        because: Option<SubTaskId>,
    },
}

impl SubTaskResult {
    /// Returns true if the work succeeded.
    pub(crate) fn succeeded(&self) -> bool {
        match self {
            SubTaskResult::Calls { calls } => calls.iter().all(|call| call.result.succeeded()),
            SubTaskResult::Agent { result, .. } => result.is_ok(),
            SubTaskResult::Skipped { .. } => false,
        }
    }

    /// Records that immediate guidance stopped the running call, whatever code its tool gave it (PAOR-8).
    pub(crate) fn mark_redirected(&mut self) {
        if let SubTaskResult::Calls { calls } = self
            && let Some(ObservedCall { result, .. }) = calls.last_mut()
        {
            *result = result.clone().with_code(code::REDIRECTED);
        }
    }

    /// Returns true if the user ended the work: by a decision about one of its calls (APPROVE-2) or by immediate guidance (PAOR-8).
    pub(crate) fn was_stopped_by_user(&self) -> bool {
        match self {
            SubTaskResult::Agent { result, .. } => match result {
                Err(AgentFailure::Rejected { .. } | AgentFailure::Redirected) => true,
                Ok(_) | Err(_) => false,
            },
            SubTaskResult::Calls { calls } => {
                calls.last().is_some_and(|last| last.result.was_stopped_by_user())
            }
            SubTaskResult::Skipped { .. } => false,
        }
    }
}

/// The status of a finished sub-task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationStatus {
    /// The sub-task succeeded, and its dependents may run.
    Succeeded,
    /// The sub-task ran and failed.
    Failed,
    /// The sub-task never started.
    Skipped,
}

impl fmt::Display for ObservationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObservationStatus::Succeeded => "succeeded",
            ObservationStatus::Failed => "failed",
            ObservationStatus::Skipped => "skipped",
        })
    }
}

impl Observation {
    /// Returns the status of the sub-task.
    pub fn status(&self) -> ObservationStatus {
        match (&self.finding, self.succeeded()) {
            (SubTaskResult::Skipped { .. }, _) => ObservationStatus::Skipped,
            (SubTaskResult::Calls { .. } | SubTaskResult::Agent { .. }, true) => ObservationStatus::Succeeded,
            (SubTaskResult::Calls { .. } | SubTaskResult::Agent { .. }, false) => ObservationStatus::Failed,
        }
    }

    /// Returns true if the sub-task succeeded, so that its dependents may run.
    pub fn succeeded(&self) -> bool {
        self.finding.succeeded()
    }

    /// Returns true if the sub-task failed, but counts as done, because it may fail and was not stopped by the user (PAOR-4).
    pub fn failed_as_allowed(&self) -> bool {
        self.may_fail && self.status() == ObservationStatus::Failed && !self.finding.was_stopped_by_user()
    }

    /// Returns the changes that the sub-task made, in order.
    pub fn changes(&self) -> impl Iterator<Item = &StateChange> {
        let (calls, work): (&[ObservedCall], &[StateChange]) = match &self.finding {
            SubTaskResult::Calls { calls } => (calls, &[]),
            SubTaskResult::Agent { work, .. } => (&[], &work.changes),
            SubTaskResult::Skipped { .. } => (&[], &[]),
        };
        calls.iter().flat_map(|call| &call.result.changes).chain(work)
    }
}

/// A tool call of a plan with its complete result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedCall {
    /// The effect id of the call, which is its handle in prompts.
    pub effect: EffectId,
    /// The call.
    pub call: ToolCall,
    /// The result of the call.
    pub result: ToolResult,
}

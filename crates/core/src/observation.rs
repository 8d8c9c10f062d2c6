//! What reflection sees of the work: every end of a sub-task, with every tool call in it (PAOR-6).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::agent_report::{AgentFailure, AgentWork, AnswerOrFailure};
use crate::id::{AgentId, EffectId, SubTaskId};
use crate::message::ToolCall;
use crate::time::Millis;
use crate::tool::{StateChange, ToolResult};

/// How a sub-task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Which one.
    pub subtask: SubTaskId,
    /// Its title in the plan.
    pub title: String,
    /// From its start to its end; zero where it never started.
    pub duration: Millis,
    /// What came of it.
    pub finding: SubTaskResult,
}

/// What came of a sub-task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SubTaskResult {
    /// A sequence of tool calls: each that ran, in order. Only the last can have failed.
    Calls {
        /// The calls and their results.
        calls: Vec<ObservedCall>,
    },
    /// A sub-agent's end.
    Agent {
        /// Which agent.
        agent: AgentId,
        /// Its name.
        name: String,
        /// What it found, or why it ended.
        #[serde(with = "AnswerOrFailure")]
        result: Result<String, AgentFailure>,
        /// What it did on the way.
        work: AgentWork,
    },
    /// Never started, as something it depends on did not succeed (PAOR-4) or the user's guidance changed the plan (PAOR-8).
    Skipped {
        /// The sub-task that failed; none where it was for the user's guidance.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        because: Option<SubTaskId>,
    },
}

/// How a sub-task ended, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationStatus {
    /// What depends on it may run.
    Succeeded,
    /// It ran and did not succeed.
    Failed,
    /// It never started.
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
    /// How it ended, in a word.
    pub fn status(&self) -> ObservationStatus {
        match (&self.finding, self.succeeded()) {
            (SubTaskResult::Skipped { .. }, _) => ObservationStatus::Skipped,
            (SubTaskResult::Calls { .. } | SubTaskResult::Agent { .. }, true) => ObservationStatus::Succeeded,
            (SubTaskResult::Calls { .. } | SubTaskResult::Agent { .. }, false) => ObservationStatus::Failed,
        }
    }

    /// Whether what depends on it may run.
    pub fn succeeded(&self) -> bool {
        match &self.finding {
            SubTaskResult::Calls { calls } => calls.iter().all(|call| call.result.succeeded()),
            SubTaskResult::Agent { result, .. } => result.is_ok(),
            SubTaskResult::Skipped { .. } => false,
        }
    }

    /// What it changed, in order.
    pub fn changes(&self) -> impl Iterator<Item = &StateChange> {
        let (calls, work): (&[ObservedCall], &[StateChange]) = match &self.finding {
            SubTaskResult::Calls { calls } => (calls, &[]),
            SubTaskResult::Agent { work, .. } => (&[], &work.changes),
            SubTaskResult::Skipped { .. } => (&[], &[]),
        };
        calls.iter().flat_map(|call| &call.result.changes).chain(work)
    }
}

/// A tool call of the run's own with its whole result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedCall {
    /// The handle under which the journal has it.
    pub effect: EffectId,
    /// What was called.
    pub call: ToolCall,
    /// What came of it.
    pub result: ToolResult,
}

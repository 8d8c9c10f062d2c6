//! What reflection sees of the work: every end of a sub-task, with every tool call in it (PAOR-6).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{AgentFailure, AnswerOrFailure};
use crate::call::ToolCall;
use crate::id::{AgentId, EffectId, SubTaskId};
use crate::message::Usage;
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

/// An agent's work without its transcript, which stays in the journal under its id (PAOR-5).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentWork {
    /// Its tool calls, refused ones included, shortened to what reflection needs; after them those of the agents that it delegated to.
    pub calls: Vec<CallSummary>,
    /// What they changed.
    pub changes: Vec<StateChange>,
    /// What it used.
    pub usage: Usage,
    /// What its model had said beside its calls, shortened; empty for an agent that ended with an answer (LOOP-2).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub findings_so_far: String,
}

/// A tool call of an agent, in short; also one that was refused and did not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSummary {
    /// The handle to read the whole result; `None` if the call did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectId>,
    /// The tool's name.
    pub tool: String,
    /// The parameters, or `null` where they were long.
    pub parameters: Value,
    /// Whether it succeeded.
    pub success: bool,
    /// How long it took.
    pub duration: Millis,
    /// The error of a failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The agent that it started; none for any call but a delegation (PAOR-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
}

//! Types for the lines of prompt sections. Prompts are rendered from these types, and the rule-based offline model parses them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{AgentId, SubTaskId};
use crate::observation::ObservationStatus;

/// The result of a sub-task, as an entry of [`OBSERVATIONS`](crate::tags::OBSERVATIONS) or [`FINDINGS`](crate::tags::FINDINGS). Long strings
/// are shortened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservationLine {
    /// The sub-task's id in the plan.
    pub subtask: SubTaskId,
    /// The sub-task's title in the plan.
    pub title: String,
    /// The status with which the sub-task ended.
    pub status: ObservationStatus,
    /// True if the plan says that the sub-task may fail, so that even its failure is a valid result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fail: bool,
    /// The reason why the sub-task never started; `None` if it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The name of the sub-agent that did the work; `None` for a sequence of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The sub-agent's answer; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<String>,
    /// The lead's answer to the user; `None` if the lead gave none, and for sub-agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The reason why the sub-agent ended without an answer; `None` if it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Text that the sub-agent wrote before it ended without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings_so_far: Option<String>,
    /// The calls in order; `None` if the sub-task never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<CallLine>>,
    /// The changes that the sub-agent made, one text per change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<String>>,
}

/// A tool call in an [`ObservationLine`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallLine {
    /// The tool's name.
    pub tool: String,
    /// The parameters, or their shortened text.
    #[serde(default)]
    pub parameters: Value,
    /// The result ([`ToolResult::for_model`](crate::tool::ToolResult::for_model)) or its shortened text; `None` for a sub-agent's call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// True if a sub-agent's call succeeded; `None` for a call of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// The error of a sub-agent's failed call; `None` for any other call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The shortened output of an agent's call, for a reflector; `None` for any other call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The agent that a `delegate` call started, whose calls follow with handles that begin with its id; `None` for any other call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The handle for reading the complete result; `None` if the call did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

impl CallLine {
    pub(super) fn new(tool: &str, handle: Option<String>) -> Self {
        CallLine {
            tool: tool.to_owned(),
            parameters: Value::Null,
            result: None,
            success: None,
            error: None,
            output: None,
            agent: None,
            handle,
        }
    }
}

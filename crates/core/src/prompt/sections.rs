//! The lines of a request's sections as types: written here, and read by a model that works by rules.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::SubTaskId;
use crate::observation::ObservationStatus;
use crate::time::Millis;

/// How a sub-task ended, in a line of [`OBSERVATIONS`](crate::tags::OBSERVATIONS) or [`FINDINGS`](crate::tags::FINDINGS). Long strings are
/// shortened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservationLine {
    /// The sub-task's id in the plan.
    pub subtask: SubTaskId,
    /// The sub-task's title in the plan.
    pub title: String,
    /// How the sub-task ended.
    pub status: ObservationStatus,
    /// Why the sub-task never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The time from start to end; `None` if the sub-task never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<Millis>,
    /// The name of the sub-agent that did the work; `None` for a sequence of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The sub-agent's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<String>,
    /// Why the sub-agent ended without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the sub-agent wrote before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings_so_far: Option<String>,
    /// The calls in order; `None` if the sub-task never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<CallLine>>,
    /// What the sub-agent changed, one text for each change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<String>>,
}

/// A tool call in an [`ObservationLine`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallLine {
    /// The tool's name.
    pub tool: String,
    /// The parameters, or a shortened text of them.
    #[serde(default)]
    pub parameters: Value,
    /// The result ([`ToolResult::for_model`](crate::tool::ToolResult::for_model)) or a shortened text of it; `None` for a sub-agent's call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Whether a sub-agent's call succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// The error of a sub-agent's failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The call's running time; `None` for a sub-agent's call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<Millis>,
    /// The handle by which the whole result can be read; `None` if the call did not run.
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
            duration_ms: None,
            handle,
        }
    }
}

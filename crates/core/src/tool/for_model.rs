//! The result of a tool in the form in which models read it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ToolOutcome, ToolResult};

/// A tool's result as JSON for models: `{"success": true, "output": …, "changes": ["edited src/a.rs"]}` or
/// `{"success": false, "code": "not_found", "error": "…", "output": …, "changes": […]}`. Absent parts are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelToolResult {
    /// True if the call succeeded.
    pub success: bool,
    /// The [code](super::code) of the failure, which does not depend on the text of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The error message of a failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The output. A failed call may have output as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The changes that the call made, one text per change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

impl ToolResult {
    /// Returns the result as models read it: a [`ModelToolResult`] as JSON.
    pub fn for_model(&self) -> Value {
        let (code, error, output) = match &self.outcome {
            ToolOutcome::Success { output } => (None, None, Some(output.clone())),
            ToolOutcome::Failure { code, error, output } => (
                (!code.is_empty()).then(|| code.to_string()),
                Some(error.clone()),
                (!output.is_null()).then(|| output.clone()),
            ),
        };
        json!(ModelToolResult {
            success: self.succeeded(),
            code,
            error,
            output,
            changes: self.changes.iter().map(ToString::to_string).collect(),
        })
    }
}

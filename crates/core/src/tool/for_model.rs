//! A tool's result in the form that models read.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ToolOutcome, ToolResult};

/// A tool's result as JSON for models: `{"success": true, "output": …, "changes": ["edited src/a.rs"]}` or
/// `{"success": false, "code": "not_found", "error": "…", "output": …, "changes": […]}`. Absent parts are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelToolResult {
    /// Whether the call did what it was asked to.
    pub success: bool,
    /// The failure's [code](super::code), the same whatever the error's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The output; a failed call may have one, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What the call changed, one text for each change.
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

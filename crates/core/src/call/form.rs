//! The forms in which models call tools (CALL-4).

use serde::{Deserialize, Serialize};

/// The form in which a model calls tools. Configured per model: the prompt teaches the form, and the parser reads it. If the configuration
/// does not set the form, a short request to the model decides between [`CallForm::Auto`] and [`CallForm::AutoNative`] before the run
/// starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallForm {
    /// A JSON object in the text: `{"tool", "parameters", "terminate"}` (CALL-1). Native calls are accepted, too.
    #[default]
    Json,
    /// Like [`CallForm::Json`], with a JSON Schema of replies that the server enforces if it can.
    JsonSchema,
    /// Native calls: the provider delivers them separately from the text (CALL-2), which contains no calls.
    Native,
    /// A JSON object in the text: `{"tool_call": {"name", "arguments"}}` (CALL-3).
    ToolCall,
    /// Any form. The prompt teaches [`CallForm::Json`], and the parser accepts every form.
    Auto,
    /// Any form. The tools are offered as in [`CallForm::Native`], and the parser accepts every form.
    AutoNative,
}

impl CallForm {
    /// Returns true if the tools are offered natively (CALL-2), not described in the prompt.
    pub fn is_native(self) -> bool {
        match self {
            CallForm::Native | CallForm::AutoNative => true,
            CallForm::Json | CallForm::JsonSchema | CallForm::ToolCall | CallForm::Auto => false,
        }
    }
}

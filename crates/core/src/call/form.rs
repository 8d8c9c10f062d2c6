//! The forms in which a model can call a tool (CALL-4).

use serde::{Deserialize, Serialize};

/// How a model calls tools. Chosen for each model: its prompt teaches the form, and the parser understands
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallForm {
    /// A JSON object in the text: `{"tool", "parameters", "terminate"}` (CALL-1). Calls that the provider
    /// delivers apart from the text are understood as well.
    #[default]
    Json,
    /// As [`CallForm::Json`], with the server asked to hold the model to it by a JSON Schema, where it can.
    JsonSchema,
    /// The provider's own calls, apart from the text (CALL-2). The text is text.
    Native,
    /// A JSON object in the text with the field `tool_call`: `{"tool_call": {"name", "arguments"}}` (CALL-3).
    ToolCall,
    /// Whatever comes: the prompt teaches [`CallForm::Json`], and every form is understood.
    Auto,
}

//! The forms in which a model can call a tool (CALL-4).

use serde::{Deserialize, Serialize};

/// How a model calls tools. Chosen for each model: its prompt teaches the form, and the parser understands
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallForm {
    /// A JSON object in the text: `{"tool", "parameters", "terminate"}` (CALL-1). Calls that the provider
    /// delivers apart from the text are understood as well. What journals from before there was a choice
    /// mean.
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

impl CallForm {
    /// Whether a reply without a call is text even where it can't be an answer: where it ends inside its
    /// thinking, or in order to call a tool. So it was before there was a choice, and journals from then mean
    /// [`CallForm::Json`].
    pub(super) fn takes_any_text(self) -> bool {
        match self {
            CallForm::Json => true,
            CallForm::JsonSchema | CallForm::Native | CallForm::ToolCall | CallForm::Auto => false,
        }
    }
}

//! The forms in which a model can call a tool (CALL-4).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tool::ToolSpec;

/// How a model calls tools. Chosen for each model: its prompt teaches the form, and the parser understands it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallForm {
    /// A JSON object in the text: `{"tool", "parameters", "terminate"}` (CALL-1). Calls that the provider delivers apart from
    /// the text are understood as well. What journals from before there was a choice mean.
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

/// The JSON Schema to which a server is asked to hold a model's replies ([`CallForm::JsonSchema`]): a call of one of those tools, or
/// `{"answer": string}` where text is allowed.
pub fn reply_schema(tools: &[ToolSpec], text_allowed: bool) -> Value {
    let calls = tools.iter().map(|tool| {
        json!({
            "type": "object",
            "properties": {"tool": {"const": tool.name}, "parameters": tool.parameters, "terminate": {"type": "boolean"}},
            "required": ["tool", "parameters", "terminate"],
            "additionalProperties": false
        })
    });
    let answer = json!({
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
        "additionalProperties": false
    });
    json!({"anyOf": calls.chain(text_allowed.then_some(answer)).collect::<Vec<_>>()})
}

//! Recognises the bare parameters of a terminating tool in a reply, without the call around them (CALL-5).

use serde_json::{Map, Value};

use crate::tool::ToolSpec;

/// The name of the lead's terminating tool.
pub const SUBMIT_PLAN: &str = "submit_plan";

/// The name of the reflector's terminating tool.
pub const SUBMIT_REFLECTION: &str = "submit_reflection";

/// An agent's terminating tool and the fields of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Submission {
    pub(super) tool: String,
    fields: Vec<String>,
    required: Vec<String>,
}

impl Submission {
    /// Finds the terminating tool among an agent's tools.
    pub(super) fn among(tools: &[ToolSpec]) -> Option<Submission> {
        let tool = tools
            .iter()
            .find(|tool| [SUBMIT_PLAN, SUBMIT_REFLECTION].contains(&tool.name.as_str()))?;
        let fields = tool.parameters.get("properties").and_then(Value::as_object);
        let required = tool.parameters.get("required").and_then(Value::as_array);
        Some(Submission {
            tool: tool.name.clone(),
            fields: fields
                .into_iter()
                .flatten()
                .map(|(field, _)| field.clone())
                .collect(),
            required: required
                .into_iter()
                .flatten()
                .filter_map(|field| Some(field.as_str()?.to_owned()))
                .collect(),
        })
    }

    /// Returns true if the object has all required fields of the tool's parameters and no unknown field.
    pub(super) fn fits(&self, object: &Map<String, Value>) -> bool {
        !self.required.is_empty()
            && self.required.iter().all(|field| object.contains_key(field))
            && object.keys().all(|field| self.fields.contains(field))
    }
}

//! The parameters of an agent's submitting tool, where they stand without the call around them (CALL-5).

use serde_json::{Map, Value};

use crate::tool::ToolSpec;

/// The name of the planner's terminating tool.
pub const SUBMIT_PLAN: &str = "submit_plan";

/// The name of the reflector's terminating tool.
pub const SUBMIT_REFLECTION: &str = "submit_reflection";

/// The tool by which an agent submits its answer, and the fields of that tool's parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Submission {
    pub(super) tool: String,
    fields: Vec<String>,
    required: Vec<String>,
}

impl Submission {
    /// The submitting tool among an agent's tools.
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

    /// Whether an object has the fields of the tool's parameters: all that are required, and no others than it knows.
    pub(super) fn fits(&self, object: &Map<String, Value>) -> bool {
        !self.required.is_empty()
            && self.required.iter().all(|field| object.contains_key(field))
            && object.keys().all(|field| self.fields.contains(field))
    }
}

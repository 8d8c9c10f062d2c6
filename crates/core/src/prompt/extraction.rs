//! The request to find the values of a workflow's parameters in a sentence (FLOW-2). It is made before the run starts, and is no agent's.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::render;
use super::system::form_name;
use crate::call::CallForm;
use crate::text::one_line;
use crate::tool::{Access, Repeat, ToolCategory, ToolSpec};

/// The tool that gives the parameters of a workflow their values.
pub const SET_PARAMETERS: &str = "set_parameters";

/// A parameter of a workflow, as a line of [`PARAMETERS`](crate::tags::PARAMETERS).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterLine {
    /// The parameter's name.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// Whether the workflow needs a value.
    pub required: bool,
    /// The values of a choice; empty for any other type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The value if the user gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// A regular expression that the whole value must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The description for the user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// The type of a workflow's parameter. JSON: its name in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterType {
    /// Any text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A path inside the workspace.
    Path,
    /// One of the parameter's choices.
    Choice,
}

/// A sentence in which the values of a workflow's parameters are to be found.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ExtractionRequest<'a> {
    /// The workflow's name.
    pub workflow: &'a str,
    /// The workflow's description.
    pub description: &'a str,
    /// The parameters, in the order of positional arguments.
    pub parameters: &'a [ParameterLine],
    /// The user's words.
    pub words: &'a str,
    /// Why the model's last reply could not be used; `None` for the first request.
    pub problem: Option<&'a str>,
}

/// Renders the system prompt of the request.
pub fn extraction_prompt(calls: CallForm) -> String {
    let tool = json!({
        "name": SET_PARAMETERS,
        "description": DESCRIPTION,
        "example": example(),
        "terminates": true,
    });
    render(
        "extract_parameters",
        json!({"form": form_name(calls), "tool": tool}),
    )
}

/// Renders the user message of the request, with the parameters and the user's words as data.
pub fn extraction_request(request: &ExtractionRequest<'_>) -> String {
    let description = one_line(request.description);
    render(
        "extract_parameters_request",
        json!({
            "workflow": request.workflow,
            "description": description,
            "parameters": request.parameters,
            "words": request.words,
            "problem": request.problem,
            "tool": SET_PARAMETERS,
        }),
    )
}

const DESCRIPTION: &str = "Gives the workflow's parameters their values: one field for each parameter in PARAMETERS whose value the words contain.";

fn example() -> Value {
    json!({"file": "src/parse.rs", "depth": 2})
}

/// Returns the tool [`SET_PARAMETERS`] for a workflow. Its schema requires nothing and lists no choices as the only ones: a missing value is
/// asked for, and a wrong one is reported to the user, who wrote it.
pub fn extraction_tool(parameters: &[ParameterLine]) -> ToolSpec {
    let properties: Map<String, Value> = parameters
        .iter()
        .map(|parameter| (parameter.name.clone(), schema(parameter)))
        .collect();
    ToolSpec {
        category: ToolCategory::Ending,
        changes_where: None,
        read_only: None,
        name: SET_PARAMETERS.to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "additionalProperties": false}),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    }
}

fn schema(parameter: &ParameterLine) -> Value {
    let kind = match parameter.kind {
        ParameterType::String | ParameterType::Path | ParameterType::Choice => "string",
        ParameterType::Integer => "integer",
        ParameterType::Number => "number",
        ParameterType::Boolean => "boolean",
    };
    json!({"type": kind, "description": parameter.description})
}

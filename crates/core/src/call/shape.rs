//! The shapes of calls by form: which keys indicate a call, and how its fields are read.

use serde_json::{Map, Value};

use super::candidate::{Announced, CallCandidate};
use super::form::CallForm;
use super::json::{read_arguments, read_json};
use super::json_scanner::{JsonEnd, ScannedJson};
use super::keys::CallKeys;
use super::malformed::MalformedReply;
use crate::message::ToolCall;
use crate::name::json_type;

/// Returns true if the keys of the object, or of an array's first item, indicate a call. An object with only a `name` may still turn out
/// not to be a call.
pub(super) fn is_meant(form: CallForm, scanned: &ScannedJson<'_>, is_array: bool) -> bool {
    let keys = scanned.keys;
    let arguments = CallKeys::PARAMETERS | CallKeys::ARGUMENTS;
    // An array of objects with only a `tool` is a list of tools, not of calls.
    let is_tool = keys.has(CallKeys::TOOL)
        && !(is_array && scanned.end == JsonEnd::Closed && !keys.has_any(arguments | CallKeys::TERMINATE));
    match form {
        CallForm::Json | CallForm::JsonSchema => is_tool || keys.lack_tool(),
        CallForm::ToolCall => keys.has(CallKeys::TOOL_CALL),
        CallForm::Native => false,
        CallForm::Auto | CallForm::AutoNative => {
            let by_name = keys.has_any(arguments)
                && !keys.has(CallKeys::FOREIGN)
                && (keys.has(CallKeys::NAME) != keys.has(CallKeys::FUNCTION));
            let by_function =
                keys.has(CallKeys::FUNCTION) && !keys.has_any(arguments | CallKeys::NAME | CallKeys::FOREIGN);
            is_tool
                || keys.lack_tool()
                || keys.has_any(CallKeys::TOOL_CALL | CallKeys::TOOL_CALLS | CallKeys::FUNCTION_CALL)
                || keys.has(CallKeys::TOOL_NAME) && keys.has_any(arguments)
                || by_name
                || by_function
        }
    }
}

/// Reads the calls of a candidate in order; empty if the candidate turns out not to be a call.
pub(super) fn read_calls(
    candidate: &CallCandidate<'_>,
    form: CallForm,
) -> Result<Vec<ToolCall>, MalformedReply> {
    let form = if candidate.is_own { form } else { CallForm::Auto };
    let value = read_json(candidate).map_err(|problem| MalformedReply::InvalidJson { problem })?;
    let calls = match (value, candidate.announced) {
        (arguments @ Value::Object(_), Announced::Named(tool)) => vec![ToolCall {
            id: String::new(),
            tool: tool.to_owned(),
            parameters: arguments,
            terminate: false,
        }],
        (Value::Object(object), announced) => object_calls(object, form, announced)?,
        (Value::Array(items), announced) => listed_calls(items, form, announced)?,
        (other, _) => {
            return Err(MalformedReply::InvalidJson {
                problem: format!("it is {}", json_type(&other)),
            });
        }
    };
    only_last_terminates(&calls)?;
    Ok(calls)
}

/// Checks that no call but the last one terminates.
pub(super) fn only_last_terminates(calls: &[ToolCall]) -> Result<(), MalformedReply> {
    let earlier = calls.len().saturating_sub(1);
    if calls.iter().take(earlier).any(|call| call.terminate) {
        return Err(wrong(
            "only the last of several calls may have `\"terminate\": true`",
        ));
    }
    Ok(())
}

fn wrong(problem: impl Into<String>) -> MalformedReply {
    MalformedReply::WrongFields {
        problems: vec![problem.into()],
    }
}

/// Reads a list of calls. Empty if the first item is not a call.
fn listed_calls(
    items: Vec<Value>,
    form: CallForm,
    announced: Announced<'_>,
) -> Result<Vec<ToolCall>, MalformedReply> {
    let mut calls = Vec::new();
    for (number, item) in (1..).zip(items) {
        let read = match item {
            Value::Object(object) => object_calls(object, form, announced),
            other => Err(wrong(format!("it is {}", json_type(&other)))),
        };
        match read {
            Ok(read) if read.is_empty() && number == 1 => return Ok(Vec::new()),
            Ok(read) if read.is_empty() => {
                return Err(wrong(format!("item {number} of the list is not a call")));
            }
            Ok(read) => calls.extend(read),
            Err(error) => {
                let problem = error.problem();
                return Err(wrong(format!("item {number} of the list: {problem}")));
            }
        }
    }
    Ok(calls)
}

fn object_calls(
    object: Map<String, Value>,
    form: CallForm,
    announced: Announced<'_>,
) -> Result<Vec<ToolCall>, MalformedReply> {
    let is_tool = matches!(object.get("tool"), Some(Value::String(_)));
    match form {
        CallForm::Json | CallForm::JsonSchema => {
            json_call(object, Terminate::Required).map(|call| vec![call])
        }
        CallForm::ToolCall => tool_call(object).map(|call| vec![call]),
        CallForm::Native => Ok(Vec::new()),
        CallForm::Auto | CallForm::AutoNative if is_tool => {
            json_call(object, Terminate::Optional).map(|call| vec![call])
        }
        CallForm::Auto | CallForm::AutoNative
            if matches!(object.get("tool_call"), Some(Value::Object(_) | Value::String(_))) =>
        {
            tool_call(object).map(|call| vec![call])
        }
        CallForm::Auto | CallForm::AutoNative => call_by_another_name(object, announced),
    }
}

/// Reads the calls of an object in the shapes that providers and frameworks use.
fn call_by_another_name(
    mut object: Map<String, Value>,
    announced: Announced<'_>,
) -> Result<Vec<ToolCall>, MalformedReply> {
    if let Some(Value::Array(items)) = object.get_mut("tool_calls") {
        return listed_calls(std::mem::take(items), CallForm::Auto, Announced::Tagged);
    }
    for key in ["function_call", "functionCall"] {
        if let Some(Value::Object(inner)) = object.get_mut(key) {
            let inner = std::mem::take(inner);
            return call_by_name(inner).map(|call| vec![call]);
        }
    }
    let lacks_tool = object.contains_key("parameters")
        && object.contains_key("terminate")
        && !["name", "function", "tool_name"]
            .iter()
            .any(|key| object.contains_key(*key));
    if lacks_tool && announced == Announced::Bare {
        return json_call(object, Terminate::Optional).map(|call| vec![call]);
    }
    let is_announced =
        announced != Announced::Bare || matches!(object.get("tool_name"), Some(Value::String(_)));
    if is_announced || is_call_by_name(&object) {
        return call_by_name(object).map(|call| vec![call]);
    }
    Ok(Vec::new())
}

#[derive(Clone, Copy)]
enum Terminate {
    Required,
    Optional,
}

/// Reads `{"tool", "parameters", "terminate"}` (CALL-1).
fn json_call(object: Map<String, Value>, terminate: Terminate) -> Result<ToolCall, MalformedReply> {
    let mut fields = Fields::new(object, "");
    let tool = fields.string("tool");
    let parameters = fields.object("parameters");
    let terminate = fields.terminate(terminate);
    fields.call(tool, parameters, terminate)
}

/// Reads `{"tool_call": {"name", "arguments"}}` (CALL-3).
fn tool_call(object: Map<String, Value>) -> Result<ToolCall, MalformedReply> {
    let mut outer = Fields::new(object, "");
    let inner = match outer.object("tool_call") {
        Some(Value::Object(inner)) => inner,
        Some(_) | None => return outer.call(None, None, None),
    };
    let mut fields = Fields::new(inner, "tool_call.");
    let tool = fields.string("name");
    let arguments = fields.object_or_its_text("arguments");
    fields.call(tool, arguments, Some(false))
}

/// Reads `name` and `arguments`, directly or within `function`.
fn call_by_name(object: Map<String, Value>) -> Result<ToolCall, MalformedReply> {
    let mut outer = Fields::new(object, "");
    let terminate = outer.terminate(Terminate::Optional);
    let (inner, within) = match outer.object.get_mut("function") {
        Some(Value::Object(inner)) => (std::mem::take(inner), "function."),
        Some(_) | None => (std::mem::take(&mut outer.object), ""),
    };
    let mut fields = Fields {
        problems: outer.problems,
        ..Fields::new(inner, within)
    };
    let present = |keys: &[&'static str], fields: &Fields| {
        keys.iter().copied().find(|key| fields.object.contains_key(*key))
    };
    let name = present(&["name", "tool_name", "function"], &fields).unwrap_or("name");
    let tool = fields.string(name);
    let key = present(&["arguments", "parameters", "args", "input"], &fields).unwrap_or("arguments");
    let arguments = fields.object_or_its_text(key);
    fields.call(tool, arguments, terminate)
}

/// Returns true if an object without call markup is a call: it has a name and arguments, and no other keys. A name alone is too common.
fn is_call_by_name(object: &Map<String, Value>) -> bool {
    let is_function = match object.get("type") {
        None => true,
        Some(of) => matches!(of.as_str(), Some("function" | "function_call" | "tool_call")),
    };
    let (inner, name) = match object.get("function") {
        Some(Value::Object(inner)) => (inner, "name"),
        Some(Value::String(_)) => (object, "function"),
        Some(_) => return false,
        None => (object, "name"),
    };
    let known = [name, "arguments", "parameters", "id", "type", "terminate"];
    let has_name = matches!(inner.get(name), Some(Value::String(_)));
    let has_arguments = match (inner.get("arguments"), inner.get("parameters")) {
        (Some(arguments), None) => is_object_or_its_text(arguments),
        // A tool's definition has a JSON Schema as `parameters`.
        (None, Some(parameters)) => is_object_or_its_text(parameters) && !is_schema(parameters),
        (Some(_), Some(_)) | (None, None) => false,
    };
    is_function && has_name && has_arguments && inner.keys().all(|key| known.contains(&key.as_str()))
}

fn is_object_or_its_text(value: &Value) -> bool {
    value.is_object() || value.as_str().is_some_and(is_object_text)
}

fn is_object_text(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

fn is_schema(parameters: &Value) -> bool {
    parameters.get("type").is_some_and(|it| it == "object")
        && parameters.get("properties").is_some_and(Value::is_object)
}

/// Reads the fields of an object and collects problems.
struct Fields {
    object: Map<String, Value>,
    within: &'static str,
    problems: Vec<String>,
}

impl Fields {
    fn new(object: Map<String, Value>, within: &'static str) -> Self {
        Fields {
            object,
            within,
            problems: Vec::new(),
        }
    }

    fn string(&mut self, field: &str) -> Option<String> {
        match self.object.swap_remove(field) {
            Some(Value::String(text)) => Some(text),
            other => self.wrong(field, "a string", other.as_ref()),
        }
    }

    fn object(&mut self, field: &str) -> Option<Value> {
        match self.object.swap_remove(field) {
            Some(object @ Value::Object(_)) => Some(object),
            other => self.wrong(field, "an object", other.as_ref()),
        }
    }

    /// Reads an object, or a string that contains one, as in provider APIs.
    fn object_or_its_text(&mut self, field: &str) -> Option<Value> {
        match self.object.get(field) {
            Some(Value::String(text)) if is_object_text(text) => match read_arguments(text) {
                Ok(object) => Some(object),
                Err(problem) => {
                    let within = self.within;
                    self.problems.push(format!(
                        "`{within}{field}` is a string without a JSON object: {problem}"
                    ));
                    None
                }
            },
            Some(_) | None => self.object(field),
        }
    }

    fn terminate(&mut self, terminate: Terminate) -> Option<bool> {
        match (self.object.swap_remove("terminate"), terminate) {
            (Some(Value::Bool(terminate)), _) => Some(terminate),
            (None, Terminate::Optional) => Some(false),
            (other, _) => self.wrong("terminate", "true or false, without quotes", other.as_ref()),
        }
    }

    fn wrong<T>(&mut self, field: &str, wanted: &str, value: Option<&Value>) -> Option<T> {
        let within = self.within;
        self.problems.push(match value {
            None => format!("`{within}{field}` is missing: it must be {wanted}"),
            Some(value) => format!("`{within}{field}` must be {wanted}, but is {}", json_type(value)),
        });
        None
    }

    /// Returns the call if all parts are present, otherwise the problems.
    fn call(
        self,
        tool: Option<String>,
        parameters: Option<Value>,
        terminate: Option<bool>,
    ) -> Result<ToolCall, MalformedReply> {
        match (tool, parameters, terminate) {
            (Some(tool), Some(parameters), Some(terminate)) => Ok(ToolCall {
                id: String::new(),
                tool,
                parameters,
                terminate,
            }),
            (_, _, _) => Err(MalformedReply::WrongFields {
                problems: self.problems,
            }),
        }
    }
}

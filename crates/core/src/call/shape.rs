//! What an object must look like to be a call, form by form: the keys that show that it is meant as one, and how its fields are read.

use serde_json::{Map, Value};

use super::ToolCall;
use super::extract::Malformed;
use super::form::CallForm;
use super::json::{read_arguments, read_json};
use super::name::kind;
use super::scan::Found;

/// What shows that an object is meant as a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// Its keys.
    ByKeys,
    /// The tag `<tool_call>` before it.
    ByTag,
}

/// Which keys an object has, of those that tell the forms apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    tool: bool,
    tool_call: bool,
    function: bool,
    name: bool,
    arguments: bool,
    /// A key that no call by name has.
    foreign: bool,
}

impl Keys {
    pub(super) fn add(&mut self, key: &str) {
        match key {
            "tool" => self.tool = true,
            "tool_call" => self.tool_call = true,
            "function" => self.function = true,
            "name" => self.name = true,
            "arguments" | "parameters" => self.arguments = true,
            "id" | "type" | "terminate" => {}
            _ => self.foreign = true,
        }
    }
}

/// Whether an object with those keys is meant as a call. One that is meant by its `name` alone may still turn out to be none.
pub(super) fn is_meant(form: CallForm, keys: Keys, announced: Announced) -> bool {
    match form {
        CallForm::Json | CallForm::JsonSchema => keys.tool,
        CallForm::ToolCall => keys.tool_call,
        CallForm::Native => false,
        CallForm::Auto => {
            let by_name = match (keys.function, keys.name, keys.arguments) {
                (true, false, false) | (false, true, true) => !keys.foreign,
                (true, ..) | (false, ..) => false,
            };
            keys.tool || keys.tool_call || by_name || announced == Announced::ByTag
        }
    }
}

/// The call that an object is; none where it was not meant as one after all.
pub(super) fn read_call(found: &Found<'_>, form: CallForm) -> Result<Option<ToolCall>, Malformed> {
    let object = match read_json(found) {
        Ok(Value::Object(object)) => object,
        Ok(other) => {
            return Err(Malformed::InvalidJson {
                problem: format!("it is {}", kind(&other)),
            });
        }
        Err(problem) => return Err(Malformed::InvalidJson { problem }),
    };
    match form {
        CallForm::Json | CallForm::JsonSchema => json_call(object, Terminate::Required).map(Some),
        CallForm::ToolCall => tool_call(object).map(Some),
        CallForm::Native => Ok(None),
        CallForm::Auto if object.contains_key("tool") => json_call(object, Terminate::Optional).map(Some),
        CallForm::Auto if object.contains_key("tool_call") => tool_call(object).map(Some),
        CallForm::Auto => match found.announced {
            Announced::ByTag => call_by_name(object).map(Some),
            Announced::ByKeys if is_call_by_name(&object) => call_by_name(object).map(Some),
            Announced::ByKeys => Ok(None),
        },
    }
}

#[derive(Clone, Copy)]
enum Terminate {
    Required,
    Optional,
}

/// CALL-1.
fn json_call(object: Map<String, Value>, terminate: Terminate) -> Result<ToolCall, Malformed> {
    let mut fields = Fields::of(object, "");
    let tool = fields.string("tool");
    let parameters = fields.object("parameters");
    let terminate = fields.terminate(terminate);
    fields.call(tool, parameters, terminate)
}

/// CALL-3.
fn tool_call(object: Map<String, Value>) -> Result<ToolCall, Malformed> {
    let mut outer = Fields::of(object, "");
    let inner = match outer.object("tool_call") {
        Some(Value::Object(inner)) => inner,
        Some(_) | None => return outer.call(None, None, None),
    };
    let mut fields = Fields::of(inner, "tool_call.");
    let tool = fields.string("name");
    let arguments = fields.object_or_its_text("arguments");
    fields.call(tool, arguments, Some(false))
}

/// `name` and `arguments`, in `function` or without it.
fn call_by_name(object: Map<String, Value>) -> Result<ToolCall, Malformed> {
    let mut outer = Fields::of(object, "");
    let terminate = outer.terminate(Terminate::Optional);
    let (inner, within) = match outer.object.swap_remove("function") {
        Some(Value::Object(inner)) => (inner, "function."),
        Some(_) | None => (std::mem::take(&mut outer.object), ""),
    };
    let mut fields = Fields {
        problems: outer.problems,
        ..Fields::of(inner, within)
    };
    let tool = fields.string("name");
    let key = if fields.object.contains_key("parameters") && !fields.object.contains_key("arguments") {
        "parameters"
    } else {
        "arguments"
    };
    let arguments = fields.object_or_its_text(key);
    fields.call(tool, arguments, terminate)
}

/// Whether an object that nothing else announces is a call: it has a name and arguments, and nothing in it says that it is something
/// else. Many objects have a name.
fn is_call_by_name(object: &Map<String, Value>) -> bool {
    let is_function = match object.get("type") {
        None => true,
        Some(of) => matches!(of.as_str(), Some("function" | "function_call" | "tool_call")),
    };
    let inner = match object.get("function") {
        Some(Value::Object(inner)) => inner,
        Some(_) => return false,
        None => object,
    };
    let known = ["name", "arguments", "parameters", "id", "type", "terminate"];
    let has_name = matches!(inner.get("name"), Some(Value::String(_)));
    let has_arguments = match (inner.get("arguments"), inner.get("parameters")) {
        (Some(arguments), None) => is_object_or_its_text(arguments),
        // The description of a tool has its schema there.
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

/// An object's fields, and what is wrong with those that were asked for.
struct Fields {
    object: Map<String, Value>,
    within: &'static str,
    problems: Vec<String>,
}

impl Fields {
    fn of(object: Map<String, Value>, within: &'static str) -> Self {
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

    /// An object, or a string that holds one, as in the calls of providers.
    fn object_or_its_text(&mut self, field: &str) -> Option<Value> {
        match self.object.get(field) {
            Some(Value::String(text)) if is_object_text(text) => match read_arguments(text) {
                Ok(object) => Some(object),
                Err(problem) => {
                    let within = self.within;
                    self.problems.push(format!(
                        "`{within}{field}` is a string that holds no object: {problem}"
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
            Some(value) => format!("`{within}{field}` must be {wanted}, and is {}", kind(value)),
        });
        None
    }

    /// The call, if all of its parts are there.
    fn call(
        self,
        tool: Option<String>,
        parameters: Option<Value>,
        terminate: Option<bool>,
    ) -> Result<ToolCall, Malformed> {
        match (tool, parameters, terminate) {
            (Some(tool), Some(parameters), Some(terminate)) => Ok(ToolCall {
                id: String::new(),
                tool,
                parameters,
                terminate,
            }),
            (_, _, _) => Err(Malformed::WrongFields {
                problems: self.problems,
            }),
        }
    }
}

//! The request of an OpenAI client in a form that can be translated. What has no translation is refused with the field's name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{CompletionError, CompletionRequest};

/// A client's request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientRequest {
    pub(crate) messages: Vec<ClientMessage>,
    pub(crate) tools: Vec<ClientTool>,
    pub(crate) max_output_tokens: Option<u64>,
    /// Required format of the reply's text; `None` for any text.
    pub(crate) schema: Option<ReplySchema>,
    pub(crate) sampling: Sampling,
}

/// How the reply is generated.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sampling {
    pub(crate) tool_choice: ToolChoice,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) stop: Vec<String>,
    pub(crate) reasoning_effort: Option<String>,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientMessage {
    pub(crate) role: Role,
    pub(crate) text: String,
    /// Calls of an assistant's message.
    pub(crate) calls: Vec<ClientCall>,
}

/// Role of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `system` and `developer`.
    System,
    User,
    Assistant,
    /// The result of a call.
    Tool {
        call_id: String,
        /// The tool's name.
        name: String,
    },
}

/// A call in an assistant's message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

/// A tool that the client offers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientTool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Value,
}

/// Which tools the model may or must call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
    Tool(String),
}

/// A JSON Schema for the reply's text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplySchema {
    pub(crate) name: String,
    pub(crate) schema: Value,
}

/// Fields without an effect on the reply, which are left out of a translation.
const WITHOUT_EFFECT: [&str; 12] = [
    "metadata",
    "model",
    "parallel_tool_calls",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "user",
];

/// Returns the error for a field that the model's API does not have.
pub(crate) fn unsupported(field: &str) -> CompletionError {
    let message =
        format!("`{field}` has no counterpart in the API of this model: leave it out, or ask another model");
    CompletionError {
        param: Some(field.to_owned()),
        code: Some("unsupported_parameter".to_owned()),
        ..CompletionError::invalid(None, message)
    }
}

/// Returns the error for a field with an invalid value.
fn invalid(field: &str, problem: &str) -> CompletionError {
    CompletionError {
        param: Some(field.to_owned()),
        ..CompletionError::invalid(None, format!("`{field}` is invalid: {problem}"))
    }
}

impl ClientRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// A field that has no translation, or an invalid value: status 400.
    pub(crate) fn read(request: &CompletionRequest) -> Result<Self, CompletionError> {
        let mut read = ClientRequest {
            max_output_tokens: request.max_output_tokens(),
            ..ClientRequest::default()
        };
        if let Some(prompt) = request.added_prompt() {
            read.messages.push(ClientMessage {
                role: Role::System,
                text: prompt.to_owned(),
                calls: Vec::new(),
            });
        }
        for (name, value) in request.to_value()? {
            if !value.is_null() {
                read.field(&name, value)?;
            }
        }
        name_tools(&mut read.messages);
        Ok(read)
    }

    fn field(&mut self, name: &str, value: Value) -> Result<(), CompletionError> {
        match name {
            "messages" => {
                let messages = value.as_array().into_iter().flatten().enumerate();
                for (index, message) in messages {
                    self.messages.push(read_message(index, message)?);
                }
            }
            "tools" => self.tools = read_tools(&value)?,
            "tool_choice" => self.sampling.tool_choice = read_tool_choice(&value)?,
            "temperature" => self.sampling.temperature = Some(number(name, &value)?),
            "top_p" => self.sampling.top_p = Some(number(name, &value)?),
            "stop" => self.sampling.stop = read_stop(&value)?,
            "response_format" => self.schema = read_format(&value)?,
            "reasoning_effort" => self.sampling.reasoning_effort = value.as_str().map(str::to_owned),
            // Read when the request was parsed.
            "max_tokens" | "max_completion_tokens" => {}
            "n" if value == 1 => {}
            "modalities" if value == serde_json::json!(["text"]) => {}
            "frequency_penalty" | "presence_penalty" if value.as_f64() == Some(0.0) => {}
            "logprobs" if value == false => {}
            "logit_bias" if value.as_object().is_some_and(Map::is_empty) => {}
            _ if WITHOUT_EFFECT.contains(&name) => {}
            _ => return Err(unsupported(name)),
        }
        Ok(())
    }
}

fn number(name: &str, value: &Value) -> Result<f64, CompletionError> {
    value.as_f64().ok_or_else(|| invalid(name, "it is not a number"))
}

fn read_message(index: usize, message: &Value) -> Result<ClientMessage, CompletionError> {
    let place = |field: &str| format!("messages[{index}].{field}");
    let role = match (
        message["role"].as_str().unwrap_or_default(),
        message["tool_call_id"].as_str(),
    ) {
        ("system" | "developer", _) => Role::System,
        ("user", _) => Role::User,
        ("assistant", _) => Role::Assistant,
        ("tool", Some(id)) => Role::Tool {
            call_id: id.to_owned(),
            name: String::new(),
        },
        ("tool", None) => return Err(invalid(&place("tool_call_id"), "it is missing")),
        _ => return Err(unsupported(&place("role"))),
    };
    let text = match &message["content"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| read_part(part, &place("content")));
            texts.collect::<Result<Vec<_>, _>>()?.join("\n")
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(invalid(
                &place("content"),
                "it is neither a string nor a list of parts",
            ));
        }
    };
    let calls = message["tool_calls"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let calls = calls.iter().map(|call| read_call(call, &place("tool_calls")));
    Ok(ClientMessage {
        role,
        text,
        calls: calls.collect::<Result<_, _>>()?,
    })
}

/// Reads a part that is text.
fn read_part<'a>(part: &'a Value, place: &str) -> Result<&'a str, CompletionError> {
    let kind = part["type"].as_str().unwrap_or_default();
    match (kind, part["text"].as_str(), part["refusal"].as_str()) {
        ("text", Some(text), _) | ("refusal", _, Some(text)) => Ok(text),
        ("text" | "refusal" | "", ..) => Err(invalid(place, "a part has no text")),
        _ => Err(unsupported(&format!("{place} of type {kind}"))),
    }
}

fn read_call(call: &Value, place: &str) -> Result<ClientCall, CompletionError> {
    let function = &call["function"];
    let (Some(id), Some(name)) = (call["id"].as_str(), function["name"].as_str()) else {
        return Err(invalid(place, "a call has no id or names no function"));
    };
    let arguments = function["arguments"].as_str().unwrap_or_default();
    let arguments = match arguments.trim() {
        "" => Value::Object(Map::new()),
        text => serde_json::from_str(text).map_err(|error| {
            invalid(
                place,
                &format!("the arguments of `{name}` are not valid JSON: {error}"),
            )
        })?,
    };
    Ok(ClientCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
    })
}

fn read_tools(tools: &Value) -> Result<Vec<ClientTool>, CompletionError> {
    let tools = tools
        .as_array()
        .ok_or_else(|| invalid("tools", "it is not a list"))?;
    let read = |tool: &Value| {
        if tool["type"] != "function" {
            return Err(unsupported(&format!(
                "tools of type {}",
                tool["type"].as_str().unwrap_or("unknown")
            )));
        }
        let function = &tool["function"];
        let name = function["name"].as_str();
        Ok(ClientTool {
            name: name
                .ok_or_else(|| invalid("tools", "a function has no name"))?
                .to_owned(),
            description: function["description"].as_str().unwrap_or_default().to_owned(),
            parameters: match &function["parameters"] {
                Value::Null => serde_json::json!({"type": "object", "properties": {}}),
                parameters => parameters.clone(),
            },
        })
    };
    tools.iter().map(read).collect()
}

fn read_tool_choice(choice: &Value) -> Result<ToolChoice, CompletionError> {
    match (choice.as_str(), choice["function"]["name"].as_str()) {
        (Some("auto"), _) => Ok(ToolChoice::Auto),
        (Some("none"), _) => Ok(ToolChoice::None),
        (Some("required"), _) => Ok(ToolChoice::Required),
        (None, Some(name)) => Ok(ToolChoice::Tool(name.to_owned())),
        _ => Err(unsupported("tool_choice")),
    }
}

fn read_stop(stop: &Value) -> Result<Vec<String>, CompletionError> {
    match stop {
        Value::String(one) => Ok(vec![one.clone()]),
        Value::Array(all) => {
            let texts = all.iter().map(|text| text.as_str().map(str::to_owned));
            texts
                .collect::<Option<_>>()
                .ok_or_else(|| invalid("stop", "it is not a list of strings"))
        }
        _ => Err(invalid("stop", "it is neither a string nor a list of strings")),
    }
}

fn read_format(format: &Value) -> Result<Option<ReplySchema>, CompletionError> {
    match format["type"].as_str() {
        Some("text") => Ok(None),
        Some("json_schema") => Ok(Some(ReplySchema {
            name: format["json_schema"]["name"]
                .as_str()
                .unwrap_or("reply")
                .to_owned(),
            schema: format["json_schema"]["schema"].clone(),
        })),
        _ => Err(unsupported("response_format")),
    }
}

/// Adds the names of the tools to their results, which have only the calls' ids.
fn name_tools(messages: &mut [ClientMessage]) {
    let mut names = BTreeMap::<String, String>::new();
    for message in messages {
        for call in &message.calls {
            names.insert(call.id.clone(), call.name.clone());
        }
        if let Role::Tool { call_id, name } = &mut message.role {
            name.clone_from(names.get(call_id).unwrap_or(call_id));
        }
    }
}

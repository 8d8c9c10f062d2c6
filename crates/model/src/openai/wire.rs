//! A request as it goes over the wire, serialized straight from the conversation that it borrows.
//!
//! How a conversation looks to the server depends on how calls are made ([`CallForm`]):
//!
//! | message | native calls | calls in the text |
//! | --- | --- | --- |
//! | system | `system` | `system` |
//! | user | `user` | `user` |
//! | assistant | `assistant` with `tool_calls` | `assistant` with its text as it was said |
//! | a call's result | `tool` with the call's id | `user`: `Result of NAME:`, then the result's JSON in the next line |
//!
//! With calls in the text, user messages in a row become one, with an empty line between: the chat templates of many open models
//! refuse a conversation whose roles don't alternate.

use std::fmt;

use dirigent_core::call::ToolCall;
use dirigent_core::message::Message;
use dirigent_core::tool::ToolSpec;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::CallForm;

/// What an assistant message says that has neither text nor calls, as some servers refuse an empty one. It is what is left of a
/// reply whose calls could not be read.
const SAID_NOTHING: &str = "(no text)";

/// The body of a request.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Conversation<'a>,
    #[serde(skip_serializing_if = "Offered::is_empty")]
    pub(super) tools: Offered<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<Format<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(flatten)]
    pub(super) extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

/// The text's form, as `json_schema`.
pub(super) struct Format<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Value,
}

impl Serialize for Format<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct JsonSchema<'a> {
            name: &'a str,
            schema: &'a Value,
        }
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", "json_schema")?;
        let schema = JsonSchema {
            name: self.name,
            schema: self.schema,
        };
        map.serialize_entry("json_schema", &schema)?;
        map.end()
    }
}

/// The tools offered natively.
pub(super) struct Offered<'a>(pub(super) &'a [ToolSpec]);

impl Offered<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Offered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tool<'a> {
            r#type: &'a str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: &'a Value,
        }
        serializer.collect_seq(self.0.iter().map(|tool| Tool {
            r#type: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.parameters,
            },
        }))
    }
}

/// A conversation, with its calls in that form.
pub(super) struct Conversation<'a> {
    pub(super) messages: &'a [Message],
    pub(super) form: CallForm,
}

impl Serialize for Conversation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        match self.form {
            CallForm::Native => {
                for message in self.messages {
                    list.serialize_element(&Native(message))?;
                }
            }
            CallForm::Text => {
                let both_users = |a: &Message, b: &Message| is_user(a) && is_user(b);
                for group in self.messages.chunk_by(both_users) {
                    list.serialize_element(&InText(group))?;
                }
            }
        }
        list.end()
    }
}

/// Whether a message is the user's where calls are made in the text.
fn is_user(message: &Message) -> bool {
    match message {
        Message::User { .. } | Message::Tool { .. } => true,
        Message::System { .. } | Message::Assistant { .. } => false,
    }
}

/// A message of a conversation with native calls.
struct Native<'a>(&'a Message);

impl Serialize for Native<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.0 {
            Message::System { content } => said(&mut map, "system", content)?,
            Message::User { content } => said(&mut map, "user", content)?,
            Message::Assistant { content, calls } if calls.is_empty() => {
                said(&mut map, "assistant", or_nothing(content))?;
            }
            Message::Assistant { content, calls } => {
                map.serialize_entry("role", "assistant")?;
                let content = Some(content).filter(|content| !content.is_empty());
                map.serialize_entry("content", &content)?;
                map.serialize_entry("tool_calls", &Calls(calls))?;
            }
            Message::Tool {
                call_id,
                name: _,
                content,
            } => {
                said(&mut map, "tool", content)?;
                map.serialize_entry("tool_call_id", call_id)?;
            }
        }
        map.end()
    }
}

fn said<M: SerializeMap>(map: &mut M, role: &str, content: &str) -> Result<(), M::Error> {
    map.serialize_entry("role", role)?;
    map.serialize_entry("content", content)
}

fn or_nothing(content: &str) -> &str {
    if content.is_empty() { SAID_NOTHING } else { content }
}

/// The calls of an assistant message.
struct Calls<'a>(&'a [ToolCall]);

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Call<'a> {
            id: &'a str,
            r#type: &'a str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: Written<&'a Value>,
        }
        serializer.collect_seq(self.0.iter().map(|call| Call {
            id: &call.id,
            r#type: "function",
            function: Function {
                name: &call.tool,
                arguments: Written(&call.parameters),
            },
        }))
    }
}

/// A string on the wire that is never held as one here.
struct Written<T>(T);

impl<T: fmt::Display> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A message of a conversation with its calls in the text: one, or several of the user's in a row.
struct InText<'a>(&'a [Message]);

impl Serialize for InText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        match self.0 {
            [Message::System { content }] => said(&mut map, "system", content)?,
            [Message::Assistant { content, calls: _ }] => said(&mut map, "assistant", or_nothing(content))?,
            users => {
                map.serialize_entry("role", "user")?;
                map.serialize_entry("content", &Written(Users(users)))?;
            }
        }
        map.end()
    }
}

/// Messages of the user's as one text.
struct Users<'a>(&'a [Message]);

impl fmt::Display for Users<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, message) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n\n")?;
            }
            match message {
                Message::Tool { name, content, .. } => write!(f, "Result of {name}:\n{content}")?,
                Message::System { content }
                | Message::User { content }
                | Message::Assistant { content, .. } => f.write_str(content)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    fn conversation() -> Vec<Message> {
        let call = |id: &str, parameters| ToolCall {
            id: id.to_owned(),
            tool: "look".to_owned(),
            parameters,
            terminate: false,
        };
        let result = |id: &str| Message::Tool {
            call_id: id.to_owned(),
            name: "look".to_owned(),
            content: r#"{"success":true,"output":1}"#.to_owned(),
        };
        vec![
            Message::System {
                content: "Be brief.".to_owned(),
            },
            Message::User {
                content: "Look at \"a\".".to_owned(),
            },
            Message::Assistant {
                content: String::new(),
                calls: vec![call("1", json!({"path": "a\n"})), call("2", json!({}))],
            },
            result("1"),
            result("2"),
            Message::User {
                content: "Hurry.".to_owned(),
            },
            Message::Assistant {
                content: "Done.".to_owned(),
                calls: Vec::new(),
            },
            Message::Assistant {
                content: String::new(),
                calls: Vec::new(),
            },
        ]
    }

    fn written(form: CallForm) -> Value {
        let messages = conversation();
        let conversation = Conversation {
            messages: &messages,
            form,
        };
        serde_json::to_value(&conversation).unwrap()
    }

    #[test]
    fn call_2_native_calls_and_results_keep_their_ids() {
        assert_eq!(
            written(CallForm::Native),
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look at \"a\"."},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{\"path\":\"a\\n\"}"}},
                    {"id": "2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                ]},
                {"role": "tool", "content": "{\"success\":true,\"output\":1}", "tool_call_id": "1"},
                {"role": "tool", "content": "{\"success\":true,\"output\":1}", "tool_call_id": "2"},
                {"role": "user", "content": "Hurry."},
                {"role": "assistant", "content": "Done."},
                {"role": "assistant", "content": "(no text)"},
            ])
        );
    }

    #[test]
    fn call_4_calls_in_the_text_stay_text_and_roles_alternate() {
        let results = "Result of look:\n{\"success\":true,\"output\":1}\n\n\
                       Result of look:\n{\"success\":true,\"output\":1}\n\nHurry.";
        assert_eq!(
            written(CallForm::Text),
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look at \"a\"."},
                {"role": "assistant", "content": "(no text)"},
                {"role": "user", "content": results},
                {"role": "assistant", "content": "Done."},
                {"role": "assistant", "content": "(no text)"},
            ])
        );
    }
}

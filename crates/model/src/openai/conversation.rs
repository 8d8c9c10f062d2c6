//! The conversation in a request, serialized from borrowed messages.
//!
//! The form of calls decides the role and the content of each message ([`Layout`]):
//!
//! | message | native (CALL-2) | CALL-1, and `auto` | CALL-3 |
//! | --- | --- | --- | --- |
//! | system | `system` | `system` | `system` |
//! | user | `user` | `user` | `user` |
//! | assistant | `assistant` with `tool_calls` | `assistant` with its text | `assistant` with its text |
//! | a call's result | `tool` with the call's id | `user`: `Result of NAME:`, then the result's JSON on the next line | `tool` with the tool's name |
//!
//! In the text forms, an assistant's text is sent unchanged. A call that is missing from the text, because it was made natively, is
//! appended in this conversation's text form.
//!
//! Consecutive user messages are joined with an empty line between: the chat templates of many open models refuse a conversation
//! whose roles don't alternate.

use std::borrow::Cow;
use std::fmt;

use dirigent_core::call::CallForm;
use dirigent_core::message::{Message, ToolCall, names_call};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::message_text::{EMPTY_MESSAGE, ToolResultText};
use crate::names;

/// How calls and their results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Calls and results in separate fields of the messages.
    Native,
    /// Calls in the text; results as user messages.
    Text(TextCallForm),
    /// Calls in the text as in CALL-3; results as messages of the role `tool`, without an id.
    ToolRole,
}

/// Form of a call in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextCallForm {
    /// As JSON objects `{"tool", "parameters", "terminate"}` (CALL-1).
    Json,
    /// As JSON objects with the field `tool_call` (CALL-3).
    ToolCall,
}

/// Whether a server accepts messages of the role `tool` without a call id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolRoleSupport {
    /// Assumed until the server refuses such a message.
    Supported,
    Unsupported,
}

impl Layout {
    /// Returns the layout for a form of calls.
    pub(super) fn new(calls: CallForm, tool_role: ToolRoleSupport) -> Layout {
        match (calls, tool_role) {
            (CallForm::Native | CallForm::AutoNative, _) => Layout::Native,
            (CallForm::Json | CallForm::JsonSchema | CallForm::Auto, _) => Layout::Text(TextCallForm::Json),
            (CallForm::ToolCall, ToolRoleSupport::Supported) => Layout::ToolRole,
            (CallForm::ToolCall, ToolRoleSupport::Unsupported) => Layout::Text(TextCallForm::ToolCall),
        }
    }
}

/// A conversation in a layout.
pub(super) struct Conversation<'a> {
    pub(super) messages: &'a [Message],
    pub(super) layout: Layout,
}

impl Serialize for Conversation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let layout = self.layout;
        let joined = |a: &Message, b: &Message| is_user_text(a, layout) && is_user_text(b, layout);
        for messages in self.messages.chunk_by(joined) {
            list.serialize_element(&WireMessage { messages, layout })?;
        }
        list.end()
    }
}

/// Returns true if the message is written as user text, which may be joined with its neighbors.
fn is_user_text(message: &Message, layout: Layout) -> bool {
    match (message, layout) {
        (_, Layout::Native) => false,
        (Message::User { .. }, Layout::Text(_) | Layout::ToolRole) => true,
        (Message::Tool { .. }, Layout::Text(_)) => true,
        (Message::Tool { .. }, Layout::ToolRole) => false,
        (Message::System { .. } | Message::Assistant { .. }, _) => false,
    }
}

/// A message in a request: one message, or several joined user messages.
struct WireMessage<'a> {
    messages: &'a [Message],
    layout: Layout,
}

impl Serialize for WireMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match (self.messages, self.layout) {
            ([Message::System { content }], _) => serialize_message(&mut map, "system", content)?,
            ([Message::Assistant { content, calls }], Layout::Native) if !calls.is_empty() => {
                map.serialize_entry("role", "assistant")?;
                let content = Some(content).filter(|content| !content.is_empty());
                map.serialize_entry("content", &content)?;
                map.serialize_entry("tool_calls", &NativeCalls(calls))?;
            }
            ([Message::Assistant { content, calls }], layout) => {
                let form = match layout {
                    Layout::Native | Layout::Text(TextCallForm::Json) => TextCallForm::Json,
                    Layout::Text(TextCallForm::ToolCall) | Layout::ToolRole => TextCallForm::ToolCall,
                };
                serialize_message(
                    &mut map,
                    "assistant",
                    &DisplayString(AssistantText { content, calls, form }),
                )?;
            }
            ([Message::Tool { call_id, content, .. }], Layout::Native) => {
                serialize_message(&mut map, "tool", content)?;
                map.serialize_entry("tool_call_id", call_id)?;
            }
            ([Message::Tool { name, content, .. }], Layout::ToolRole) => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("name", name)?;
                map.serialize_entry("content", content)?;
            }
            (users, _) => serialize_message(&mut map, "user", &DisplayString(UserText(users)))?,
        }
        map.end()
    }
}

fn serialize_message<M: SerializeMap>(
    map: &mut M,
    role: &str,
    content: &(impl Serialize + ?Sized),
) -> Result<(), M::Error> {
    map.serialize_entry("role", role)?;
    map.serialize_entry("content", content)
}

/// The `tool_calls` of an assistant message.
struct NativeCalls<'a>(&'a [ToolCall]);

impl Serialize for NativeCalls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Call<'a> {
            id: &'a str,
            r#type: &'a str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: Cow<'a, str>,
            arguments: DisplayString<&'a Value>,
        }
        serializer.collect_seq(self.0.iter().map(|call| Call {
            id: &call.id,
            r#type: "function",
            function: Function {
                name: names::wire_name(&call.tool),
                arguments: DisplayString(&call.parameters),
            },
        }))
    }
}

/// A value that is serialized as the string of its `Display` format.
struct DisplayString<T>(T);

impl<T: fmt::Display> Serialize for DisplayString<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// An assistant message's text with its calls.
struct AssistantText<'a> {
    content: &'a str,
    calls: &'a [ToolCall],
    form: TextCallForm,
}

impl fmt::Display for AssistantText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing_calls = self.calls.iter().filter(|call| !names_call(self.content, call));
        let calls: Vec<String> = missing_calls
            .map(|call| match self.form {
                TextCallForm::Json => format!(
                    r#"{{"tool":{},"parameters":{},"terminate":{}}}"#,
                    Value::from(call.tool.as_str()),
                    call.parameters,
                    call.terminate
                ),
                TextCallForm::ToolCall => format!(
                    r#"{{"tool_call":{{"name":{},"arguments":{}}}}}"#,
                    Value::from(call.tool.as_str()),
                    call.parameters
                ),
            })
            .collect();
        // Written as the prompt requests: one object, or an array of several objects.
        let calls = match calls.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            several => Some(format!("[{}]", several.join(","))),
        };
        let content = Some(self.content.to_owned()).filter(|content| !content.trim().is_empty());
        let parts: Vec<String> = content.into_iter().chain(calls).collect();
        if parts.is_empty() {
            return f.write_str(EMPTY_MESSAGE);
        }
        f.write_str(&parts.join("\n"))
    }
}

/// The joined text of user messages.
struct UserText<'a>(&'a [Message]);

impl fmt::Display for UserText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, message) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n\n")?;
            }
            match message {
                Message::Tool { name, content, .. } => ToolResultText {
                    tool: name,
                    result: content,
                }
                .fmt(f)?,
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

    fn call(id: &str, tool: &str, parameters: Value) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            tool: tool.to_owned(),
            parameters,
            terminate: false,
        }
    }

    fn user(content: &str) -> Message {
        Message::User {
            content: content.to_owned(),
        }
    }

    fn assistant(content: &str, calls: Vec<ToolCall>) -> Message {
        Message::Assistant {
            content: content.to_owned(),
            calls,
        }
    }

    fn result(id: &str) -> Message {
        Message::Tool {
            call_id: id.to_owned(),
            name: "look".to_owned(),
            content: r#"{"success":true,"output":1}"#.to_owned(),
        }
    }

    /// A conversation whose calls were made natively.
    fn conversation() -> Vec<Message> {
        vec![
            Message::System {
                content: "Be brief.".to_owned(),
            },
            user("Look at \"a\"."),
            assistant(
                "",
                vec![
                    call("1", "look", json!({"path": "a\n"})),
                    call("2", "fs.look", json!({})),
                ],
            ),
            result("1"),
            result("2"),
            user("Hurry."),
            user("Please."),
            assistant("Done.", Vec::new()),
            assistant("", Vec::new()),
        ]
    }

    fn written(messages: &[Message], calls: CallForm, tool_role: ToolRoleSupport) -> Value {
        let layout = Layout::new(calls, tool_role);
        serde_json::to_value(Conversation { messages, layout }).unwrap()
    }

    #[test]
    fn call_2_native_calls_and_results_keep_their_ids() {
        assert_eq!(
            written(&conversation(), CallForm::Native, ToolRoleSupport::Supported),
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look at \"a\"."},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{\"path\":\"a\\n\"}"}},
                    {"id": "2", "type": "function", "function": {"name": "fs_look_462fa4d3", "arguments": "{}"}},
                ]},
                {"role": "tool", "content": "{\"success\":true,\"output\":1}", "tool_call_id": "1"},
                {"role": "tool", "content": "{\"success\":true,\"output\":1}", "tool_call_id": "2"},
                {"role": "user", "content": "Hurry."},
                {"role": "user", "content": "Please."},
                {"role": "assistant", "content": "Done."},
                {"role": "assistant", "content": "(no text)"},
            ])
        );
    }

    #[test]
    fn call_4_calls_that_are_not_in_the_text_are_appended_and_roles_alternate() {
        let calls = "[{\"tool\":\"look\",\"parameters\":{\"path\":\"a\\n\"},\"terminate\":false},\
                     {\"tool\":\"fs.look\",\"parameters\":{},\"terminate\":false}]";
        let results = "Result of look:\n{\"success\":true,\"output\":1}\n\n\
                       Result of look:\n{\"success\":true,\"output\":1}\n\nHurry.\n\nPlease.";
        for form in [CallForm::Json, CallForm::JsonSchema, CallForm::Auto] {
            assert_eq!(
                written(&conversation(), form, ToolRoleSupport::Supported),
                json!([
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Look at \"a\"."},
                    {"role": "assistant", "content": calls},
                    {"role": "user", "content": results},
                    {"role": "assistant", "content": "Done."},
                    {"role": "assistant", "content": "(no text)"},
                ])
            );
        }
    }

    #[test]
    fn call_3_results_are_messages_of_the_tool_with_its_name() {
        let calls = "[{\"tool_call\":{\"name\":\"look\",\"arguments\":{\"path\":\"a\\n\"}}},\
                     {\"tool_call\":{\"name\":\"fs.look\",\"arguments\":{}}}]";
        assert_eq!(
            written(&conversation(), CallForm::ToolCall, ToolRoleSupport::Supported),
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look at \"a\"."},
                {"role": "assistant", "content": calls},
                {"role": "tool", "name": "look", "content": "{\"success\":true,\"output\":1}"},
                {"role": "tool", "name": "look", "content": "{\"success\":true,\"output\":1}"},
                {"role": "user", "content": "Hurry.\n\nPlease."},
                {"role": "assistant", "content": "Done."},
                {"role": "assistant", "content": "(no text)"},
            ])
        );
        let refused = written(&conversation(), CallForm::ToolCall, ToolRoleSupport::Unsupported);
        assert_eq!(refused[2]["content"], calls);
        assert_eq!(refused[3]["role"], "user");
        assert_eq!(refused[4]["role"], "assistant");
    }

    #[test]
    fn call_4_a_text_that_contains_its_call_is_sent_unchanged() {
        let said = "I look.\n```json\n{\"tool\": \"look\", \"parameters\": {}, \"terminate\": false}\n```";
        let calls = vec![call("1", "look", json!({}))];
        for form in [CallForm::Json, CallForm::ToolCall, CallForm::Auto] {
            let conversation = [user("Go."), assistant(said, calls.clone()), result("1")];
            assert_eq!(
                written(&conversation, form, ToolRoleSupport::Supported)[1]["content"],
                said
            );
            let beside = [user("Go."), assistant("I look.", calls.clone()), result("1")];
            let beside = written(&beside, form, ToolRoleSupport::Supported);
            let text = beside[1]["content"].as_str().unwrap();
            assert!(text.starts_with("I look.\n{\"tool"), "{text}");
        }
    }
}

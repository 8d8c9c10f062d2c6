//! Validation of a chat request, as strict as the strictest real servers.
//!
//! Each request is checked by itself, and every violation is reported, not only the first. Native calls are matched with
//! their results here, by id; calls in the text in [`text_calls`].

use std::collections::HashSet;

use serde_json::Value;

use crate::message::is_system;
use crate::text_calls;
use crate::violation::Violation;

/// Returns all violations of a request.
pub(crate) fn check(number: usize, content_type: Option<&str>, body: &Value) -> Vec<Violation> {
    let mut check = RequestChecker {
        number,
        violations: Vec::new(),
        ids: HashSet::new(),
        pending: Vec::new(),
    };
    let media = content_type
        .and_then(|kind| kind.split(';').next())
        .unwrap_or_default();
    if media != "application/json" {
        check.report(
            "",
            format!("the content type is `{media}`, not `application/json`"),
        );
    }
    if body.is_object() {
        check.body(body);
    } else {
        check.report("", "the body is not a JSON object");
    }
    check.violations
}

struct RequestChecker {
    number: usize,
    violations: Vec<Violation>,
    /// Ids of all calls so far.
    ids: HashSet<String>,
    /// Ids of the latest assistant message's calls without a result yet.
    pending: Vec<String>,
}

impl RequestChecker {
    fn report(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.violations.push(Violation {
            request: self.number,
            path: path.into(),
            reason: reason.into(),
        });
    }

    fn body(&mut self, body: &Value) {
        if body["model"].as_str().is_none_or(str::is_empty) {
            self.report("model", "`model` must be a name");
        }
        self.options(body);
        self.tools(body);
        match body["messages"].as_array() {
            Some(messages) if !messages.is_empty() => {
                self.messages(messages);
                if !messages.iter().any(is_native) {
                    self.violations
                        .extend(text_calls::check(self.number, messages, &body["tools"]));
                }
            }
            Some(_) | None => {
                self.report("messages", "`messages` must be a non-empty list");
            }
        }
    }

    fn options(&mut self, body: &Value) {
        if !matches!(body["stream"], Value::Null | Value::Bool(_)) {
            self.report("stream", "`stream` must be a boolean");
        }
        let options = &body["stream_options"];
        if !options.is_null() && body["stream"] != true {
            let reason = "`stream_options` is only allowed if `stream` is true";
            self.report("stream_options", reason);
        } else if !matches!(options, Value::Null | Value::Object(_)) {
            self.report("stream_options", "`stream_options` must be an object");
        }
        if !body["tool_choice"].is_null() && body["tools"].is_null() {
            let reason = "`tool_choice` is only allowed with `tools`";
            self.report("tool_choice", reason);
        }
    }

    fn tools(&mut self, body: &Value) {
        let tools = match &body["tools"] {
            Value::Null => return,
            Value::Array(tools) if !tools.is_empty() => tools,
            _ => {
                return self.report("tools", "`tools` must be a non-empty list");
            }
        };
        let mut names = HashSet::new();
        for (index, tool) in tools.iter().enumerate() {
            let path = format!("tools[{index}]");
            if tool["type"] != "function" {
                self.report(format!("{path}.type"), "`type` must be `function`");
            }
            let function = &tool["function"];
            self.name(&format!("{path}.function.name"), &function["name"]);
            if !matches!(function["parameters"], Value::Null | Value::Object(_)) {
                let reason = "`parameters` must be a JSON Schema object";
                self.report(format!("{path}.function.parameters"), reason);
            }
            if let Some(name) = function["name"].as_str()
                && !names.insert(name)
            {
                let reason = format!("there are two tools named `{name}`");
                self.report(format!("{path}.function.name"), reason);
            }
        }
    }

    /// Checks a tool's name: 1 to 64 letters, digits, `_` and `-`.
    fn name(&mut self, path: &str, name: &Value) {
        let fits = |name: &str| {
            (1..=64).contains(&name.len())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        };
        if !name.as_str().is_some_and(fits) {
            let reason = format!("{name} is not a valid tool name: use 1 to 64 letters, digits, `_` and `-`");
            self.report(path, reason);
        }
    }

    fn messages(&mut self, messages: &[Value]) {
        let native = messages.iter().any(is_native);
        let head = messages.iter().take_while(|message| is_system(message)).count();
        for (index, message) in messages.iter().enumerate() {
            let path = format!("messages[{index}]");
            if message["role"] != "tool" {
                self.no_call_pending(&path);
            }
            match message["role"].as_str() {
                Some("system" | "developer") => {
                    if index >= head {
                        let reason = "system messages must come first";
                        self.report(format!("{path}.role"), reason);
                    }
                    self.content(&path, message);
                }
                Some("user") => self.content(&path, message),
                Some("assistant") => self.assistant(&path, message),
                Some("tool") if native => self.result(&path, message),
                Some("tool") => self.content(&path, message),
                Some(_) | None => {
                    let reason = format!("{} is not a role", message["role"]);
                    self.report(format!("{path}.role"), reason);
                }
            }
        }
        self.no_call_pending("messages");
    }

    fn no_call_pending(&mut self, path: &str) {
        for id in std::mem::take(&mut self.pending) {
            self.report(path, format!("the tool call `{id}` has no result"));
        }
    }

    fn content(&mut self, path: &str, message: &Value) {
        let path = format!("{path}.content");
        match &message["content"] {
            Value::String(_) => {}
            Value::Array(parts) if !parts.is_empty() => {
                for (index, part) in parts.iter().enumerate() {
                    if !part["type"].is_string() || (part["type"] == "text" && !part["text"].is_string()) {
                        let reason = "a part of the content needs `type`, and `text` if it is text";
                        self.report(format!("{path}[{index}]"), reason);
                    }
                }
            }
            _ => {
                let reason = "`content` must be a string or a non-empty list of parts";
                self.report(path, reason);
            }
        }
    }

    fn assistant(&mut self, path: &str, message: &Value) {
        let calls = match &message["tool_calls"] {
            Value::Null => return self.content(path, message),
            Value::Array(calls) if !calls.is_empty() => calls,
            _ => {
                let reason = "`tool_calls` must be a non-empty list";
                return self.report(format!("{path}.tool_calls"), reason);
            }
        };
        if !message["content"].is_null() {
            self.content(path, message);
        }
        for (index, call) in calls.iter().enumerate() {
            self.call(&format!("{path}.tool_calls[{index}]"), call);
        }
    }

    fn call(&mut self, path: &str, call: &Value) {
        if call["type"] != "function" {
            self.report(format!("{path}.type"), "`type` must be `function`");
        }
        self.name(&format!("{path}.function.name"), &call["function"]["name"]);
        if !call["function"]["arguments"].is_string() {
            let reason = "`arguments` must be a string";
            self.report(format!("{path}.function.arguments"), reason);
        }
        match call["id"].as_str() {
            Some(id) if !id.is_empty() => {
                if !self.ids.insert(id.to_owned()) {
                    let reason = format!("there are two tool calls with the id `{id}`");
                    self.report(format!("{path}.id"), reason);
                }
                self.pending.push(id.to_owned());
            }
            Some(_) | None => {
                self.report(format!("{path}.id"), "a tool call needs an id");
            }
        }
    }

    fn result(&mut self, path: &str, message: &Value) {
        self.content(path, message);
        let path = format!("{path}.tool_call_id");
        let Some(id) = message["tool_call_id"].as_str() else {
            return self.report(path, "a result needs `tool_call_id`");
        };
        if let Some(answered) = self.pending.iter().position(|pending| pending == id) {
            self.pending.remove(answered);
        } else if self.ids.contains(id) {
            let reason = format!(
                "the call `{id}` already has a result, or is not part of the preceding assistant message"
            );
            self.report(path, reason);
        } else {
            let reason = format!("no preceding assistant message has a call `{id}`");
            self.report(path, reason);
        }
    }
}

/// Returns true if a message has native calls or is the result of one.
fn is_native(message: &Value) -> bool {
    !message["tool_calls"].is_null() || !message["tool_call_id"].is_null()
}

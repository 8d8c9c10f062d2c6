//! What a chat request must be, as strictly as the strictest of real servers.
//!
//! Looks at one request alone; finds every violation, not only the first. Calls apart from the text are matched with their results
//! here, by their ids; those in the text in `text_calls`.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use crate::request::is_system;
use crate::text_calls;

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The request's number.
    pub request: usize,
    /// Where, as `messages[3].tool_call_id`; empty for the request as a whole.
    pub path: String,
    /// Which rule it breaks.
    pub kind: ViolationKind,
    /// What is wrong, in words.
    pub reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.request)?;
        if !self.path.is_empty() {
            write!(f, ", {}", self.path)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Which rule a request breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// `Content-Type` is not `application/json`.
    ContentType,
    /// The body is not a JSON object.
    NotJson,
    /// A field is missing or of the wrong type.
    Field,
    /// A role is unknown or a message stands where it must not.
    Order,
    /// A message's content is of a type that its role does not have.
    Content,
    /// A tool call has no result.
    OrphanCall,
    /// A result has no tool call before it.
    OrphanResult,
    /// A call's id, a result or a tool's name comes twice.
    Duplicate,
    /// The script has no turn for it.
    Unscripted,
}

/// Everything that is wrong with a request.
pub(crate) fn check(number: usize, content_type: Option<&str>, body: Option<&Value>) -> Vec<Violation> {
    let mut check = RequestChecker {
        number,
        violations: Vec::new(),
        ids: HashSet::new(),
        pending: Vec::new(),
    };
    let media = content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if !media.eq_ignore_ascii_case("application/json") {
        check.report(
            "",
            ViolationKind::ContentType,
            format!("the content type is `{media}`, not `application/json`"),
        );
    }
    match body {
        Some(body @ Value::Object(_)) => check.body(body),
        Some(_) => check.report(
            "",
            ViolationKind::NotJson,
            "the body is JSON, but not an object".to_owned(),
        ),
        None => check.report(
            "",
            ViolationKind::NotJson,
            "the body is not valid JSON".to_owned(),
        ),
    }
    check.violations
}

struct RequestChecker {
    number: usize,
    violations: Vec<Violation>,
    /// Ids of all calls so far.
    ids: HashSet<String>,
    /// Calls of the last assistant message that have no result yet.
    pending: Vec<String>,
}

impl RequestChecker {
    fn report(&mut self, place: impl Into<String>, kind: ViolationKind, reason: String) {
        self.violations.push(Violation {
            request: self.number,
            path: place.into(),
            kind,
            reason,
        });
    }

    fn body(&mut self, body: &Value) {
        if body["model"].as_str().is_none_or(str::is_empty) {
            self.report(
                "model",
                ViolationKind::Field,
                "the model must be a name".to_owned(),
            );
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
                self.report(
                    "messages",
                    ViolationKind::Field,
                    "there must be a list of messages".to_owned(),
                );
            }
        }
    }

    fn options(&mut self, body: &Value) {
        if !matches!(body["stream"], Value::Null | Value::Bool(_)) {
            self.report(
                "stream",
                ViolationKind::Field,
                "`stream` must be a boolean".to_owned(),
            );
        }
        let options = &body["stream_options"];
        if !options.is_null() && body["stream"] != true {
            let reason = "`stream_options` is only allowed where `stream` is true".to_owned();
            self.report("stream_options", ViolationKind::Field, reason);
        } else if !matches!(options, Value::Null | Value::Object(_)) {
            self.report(
                "stream_options",
                ViolationKind::Field,
                "`stream_options` must be an object".to_owned(),
            );
        }
        if !body["tool_choice"].is_null() && body["tools"].is_null() {
            let reason = "`tool_choice` is only allowed where there are tools".to_owned();
            self.report("tool_choice", ViolationKind::Field, reason);
        }
    }

    fn tools(&mut self, body: &Value) {
        let tools = match &body["tools"] {
            Value::Null => return,
            Value::Array(tools) if !tools.is_empty() => tools,
            _ => {
                return self.report(
                    "tools",
                    ViolationKind::Field,
                    "tools must be a list and not empty".to_owned(),
                );
            }
        };
        let mut names = HashSet::new();
        for (index, tool) in tools.iter().enumerate() {
            let place = format!("tools[{index}]");
            if tool["type"] != "function" {
                self.report(
                    format!("{place}.type"),
                    ViolationKind::Field,
                    "the type must be `function`".to_owned(),
                );
            }
            let function = &tool["function"];
            self.name(&format!("{place}.function.name"), &function["name"]);
            if !matches!(function["parameters"], Value::Null | Value::Object(_)) {
                let reason = "parameters must be a JSON schema, an object".to_owned();
                self.report(
                    format!("{place}.function.parameters"),
                    ViolationKind::Field,
                    reason,
                );
            }
            if let Some(name) = function["name"].as_str()
                && !names.insert(name)
            {
                let reason = format!("there are two tools named `{name}`");
                self.report(format!("{place}.function.name"), ViolationKind::Duplicate, reason);
            }
        }
    }

    /// A tool's name: up to 64 letters, digits, `_` and `-`.
    fn name(&mut self, place: &str, name: &Value) {
        let fits = |name: &str| {
            (1..=64).contains(&name.len())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        };
        if !name.as_str().is_some_and(fits) {
            let reason = format!("{name} is not a tool's name: up to 64 letters, digits, `_` and `-`");
            self.report(place, ViolationKind::Field, reason);
        }
    }

    fn messages(&mut self, messages: &[Value]) {
        let native = messages.iter().any(is_native);
        let head = messages.iter().take_while(|message| is_system(message)).count();
        for (index, message) in messages.iter().enumerate() {
            let place = format!("messages[{index}]");
            if message["role"] != "tool" {
                self.no_call_pending(&place);
            }
            match message["role"].as_str() {
                Some("system" | "developer") => {
                    if index >= head {
                        let reason = "system messages come first".to_owned();
                        self.report(format!("{place}.role"), ViolationKind::Order, reason);
                    }
                    self.content(&place, message);
                }
                Some("user") => self.content(&place, message),
                Some("assistant") => self.assistant(&place, message),
                Some("tool") if native => self.result(&place, message),
                Some("tool") => self.content(&place, message),
                Some(_) | None => {
                    let reason = format!("{} is not a role", message["role"]);
                    self.report(format!("{place}.role"), ViolationKind::Order, reason);
                }
            }
        }
        self.no_call_pending("messages");
    }

    fn no_call_pending(&mut self, place: &str) {
        for id in std::mem::take(&mut self.pending) {
            self.report(
                place,
                ViolationKind::OrphanCall,
                format!("the tool call `{id}` has no result"),
            );
        }
    }

    fn content(&mut self, place: &str, message: &Value) {
        let place = format!("{place}.content");
        match &message["content"] {
            Value::String(_) => {}
            Value::Array(parts) if !parts.is_empty() => {
                for (index, part) in parts.iter().enumerate() {
                    if !part["type"].is_string() || (part["type"] == "text" && !part["text"].is_string()) {
                        let reason = "a part of the content needs its type and text".to_owned();
                        self.report(format!("{place}[{index}]"), ViolationKind::Content, reason);
                    }
                }
            }
            _ => {
                let reason = "content must be a text or a list of parts".to_owned();
                self.report(place, ViolationKind::Content, reason);
            }
        }
    }

    fn assistant(&mut self, place: &str, message: &Value) {
        let calls = match &message["tool_calls"] {
            Value::Null => return self.content(place, message),
            Value::Array(calls) if !calls.is_empty() => calls,
            _ => {
                let reason = "tool calls must be a list and not empty".to_owned();
                return self.report(format!("{place}.tool_calls"), ViolationKind::Field, reason);
            }
        };
        if !message["content"].is_null() {
            self.content(place, message);
        }
        for (index, call) in calls.iter().enumerate() {
            self.call(&format!("{place}.tool_calls[{index}]"), call);
        }
    }

    fn call(&mut self, place: &str, call: &Value) {
        if call["type"] != "function" {
            self.report(
                format!("{place}.type"),
                ViolationKind::Field,
                "the type must be `function`".to_owned(),
            );
        }
        self.name(&format!("{place}.function.name"), &call["function"]["name"]);
        if !call["function"]["arguments"].is_string() {
            let reason = "arguments must be a string".to_owned();
            self.report(
                format!("{place}.function.arguments"),
                ViolationKind::Field,
                reason,
            );
        }
        match call["id"].as_str() {
            Some(id) if !id.is_empty() => {
                if !self.ids.insert(id.to_owned()) {
                    let reason = format!("there are two tool calls with the id `{id}`");
                    self.report(format!("{place}.id"), ViolationKind::Duplicate, reason);
                }
                self.pending.push(id.to_owned());
            }
            Some(_) | None => {
                self.report(
                    format!("{place}.id"),
                    ViolationKind::Field,
                    "a tool call needs an id".to_owned(),
                );
            }
        }
    }

    fn result(&mut self, place: &str, message: &Value) {
        self.content(place, message);
        let place = format!("{place}.tool_call_id");
        let Some(id) = message["tool_call_id"].as_str() else {
            return self.report(
                place,
                ViolationKind::OrphanResult,
                "a result needs its call's id".to_owned(),
            );
        };
        if let Some(answered) = self.pending.iter().position(|pending| pending == id) {
            self.pending.remove(answered);
        } else if self.ids.contains(id) {
            let reason = format!("the call `{id}` has its result already, or is not of the message before");
            self.report(place, ViolationKind::Duplicate, reason);
        } else {
            let reason = format!("no assistant message before it has a call `{id}`");
            self.report(place, ViolationKind::OrphanResult, reason);
        }
    }
}

/// Whether a message makes calls apart from its text, or brings the result of one.
fn is_native(message: &Value) -> bool {
    !message["tool_calls"].is_null() || !message["tool_call_id"].is_null()
}

//! Validation of conversations with calls in the model's text (CALL-1, CALL-3). Only the tool's name links a result to its call: in a
//! message of the role `tool`, or in a user message in Dirigent's form.
//!
//! The check is lenient, as clients may understand more calls than this module parses: a result counts as matched if the text merely
//! names its tool, and a reply none of whose calls has a result was not executed.

use serde_json::{Deserializer, Value};

use crate::message::text_of;
use crate::violation::Violation;

/// Returns all violations of the order of roles (unless tools are offered) and of calls in the text and their results.
pub(crate) fn check(request: usize, messages: &[Value], tools: &Value) -> Vec<Violation> {
    let mut check = TextChecker {
        request,
        violations: Vec::new(),
        text_calls: None,
    };
    if tools.is_null() {
        check.alternation(messages);
    }
    for (index, message) in messages.iter().enumerate() {
        let path = format!("messages[{index}]");
        match message["role"].as_str() {
            Some("assistant") => {
                check.report_unanswered(&path);
                check.text_calls = Some(TextCalls::parse(&text_of(message)));
            }
            Some("tool") => check.result(&path, &message["name"]),
            Some("user") => {
                // Before the first assistant message, results are part of a task.
                if check.text_calls.is_some() {
                    for tool in results_in(&text_of(message)) {
                        check.match_result(format!("{path}.content"), tool);
                    }
                }
                check.report_unanswered(&path);
            }
            Some(_) | None => {}
        }
    }
    check.report_unanswered("messages");
    check.violations
}

struct TextChecker {
    request: usize,
    violations: Vec<Violation>,
    /// Calls of the latest assistant message, while their results may follow.
    text_calls: Option<TextCalls>,
}

impl TextChecker {
    fn report(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.violations.push(Violation {
            request: self.request,
            path: path.into(),
            reason: reason.into(),
        });
    }

    /// Checks that roles alternate: the chat templates of many open models refuse two user or two assistant messages in a row.
    fn alternation(&mut self, messages: &[Value]) {
        let mut before = "";
        for (index, message) in messages.iter().enumerate() {
            let role = message["role"].as_str().unwrap_or_default();
            let reason = match (before, role) {
                ("", "assistant") => "the conversation must begin with a user message".to_owned(),
                ("user", "user") | ("assistant", "assistant") => {
                    format!("`{role}` follows `{before}`, but roles must alternate if calls are in the text")
                }
                _ => String::new(),
            };
            if !reason.is_empty() {
                self.report(format!("messages[{index}].role"), reason);
            }
            if matches!(role, "user" | "assistant" | "tool") {
                before = role;
            }
        }
    }

    fn result(&mut self, path: &str, tool: &Value) {
        match tool.as_str() {
            Some(tool) if !tool.is_empty() => self.match_result(format!("{path}.name"), tool),
            Some(_) | None => {
                let reason = "a result needs `tool_call_id` or `name`";
                self.report(format!("{path}.tool_call_id"), reason);
            }
        }
    }

    fn match_result(&mut self, path: String, tool: &str) {
        match self
            .text_calls
            .as_mut()
            .map(|text_calls| text_calls.record_result(tool))
        {
            Some(Ok(())) => {}
            None | Some(Err(Unmatched::NoCall)) => {
                let reason = format!("the preceding assistant message does not call `{tool}`");
                self.report(path, reason);
            }
            Some(Err(Unmatched::Duplicate)) => {
                let reason = format!("every call of `{tool}` already has a result");
                self.report(path, reason);
            }
        }
    }

    /// Ends the results of an assistant message, and reports its calls that have no result.
    fn report_unanswered(&mut self, path: &str) {
        for tool in self
            .text_calls
            .take()
            .map(TextCalls::unanswered)
            .into_iter()
            .flatten()
        {
            let reason =
                format!("the call of `{tool}` has no result, although another call of the message has one");
            self.report(path, reason);
        }
    }
}

/// The calls in an assistant message's text, and their results so far.
#[derive(Debug)]
struct TextCalls {
    text: String,
    /// For each parsed call, its tool and whether it has a result.
    calls: Vec<(String, bool)>,
    /// The names of the tools that have had results so far.
    results: Vec<String>,
}

/// Why a result matches no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unmatched {
    /// The text does not call its tool.
    NoCall,
    /// Every call of the tool already has a result.
    Duplicate,
}

impl TextCalls {
    /// Parses the calls in the text.
    fn parse(text: &str) -> Self {
        Self {
            calls: objects(text)
                .iter()
                .flat_map(called_tools)
                .map(|tool| (tool, false))
                .collect(),
            text: text.to_owned(),
            results: Vec::new(),
        }
    }

    /// Records a result of this tool.
    fn record_result(&mut self, tool: &str) -> Result<(), Unmatched> {
        let earlier = self.results.iter().filter(|result| *result == tool).count();
        self.results.push(tool.to_owned());
        let open = self.calls.iter_mut().find(|(name, done)| name == tool && !done);
        if let Some((_, done)) = open {
            *done = true;
            return Ok(());
        }
        match self.text.matches(tool).count() {
            0 => Err(Unmatched::NoCall),
            named if named <= earlier => Err(Unmatched::Duplicate),
            // The name occurs in a parsed call, so there is no unparsed call of the tool.
            _ if self.calls.iter().any(|(name, _)| name == tool) => Err(Unmatched::Duplicate),
            _ => Ok(()),
        }
    }

    /// Returns the tools of calls without a result, if another call has one. A reply that was not executed has no results at all.
    fn unanswered(self) -> impl Iterator<Item = String> {
        let executed = !self.results.is_empty();
        let open = self.calls.into_iter().filter(move |(_, done)| executed && !done);
        open.map(|(tool, _)| tool)
    }
}

/// Returns the tools of the results in a user message, in Dirigent's form: paragraphs of `Result of TOOL:` and the result's JSON.
fn results_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n").filter_map(|paragraph| {
        let (tool, _) = paragraph.strip_prefix("Result of ")?.split_once(":\n")?;
        Some(tool).filter(|tool| !tool.contains(char::is_whitespace))
    })
}

/// Returns the outermost JSON objects in the text, in order.
fn objects(text: &str) -> Vec<Value> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find('{') {
        rest = &rest[start..];
        let mut values = Deserializer::from_str(rest).into_iter::<Value>();
        let object = values.next().and_then(Result::ok);
        let end = values.byte_offset();
        match object {
            Some(object) => {
                found.push(object);
                rest = &rest[end..];
            }
            None => rest = &rest[1..],
        }
    }
    found
}

/// Returns the tools that an object calls: `{"tool": …}`, `{"tool_call": {"name": …}}`, or `{"name": …, "arguments": …}`.
fn called_tools(object: &Value) -> Vec<String> {
    let names = match (&object["tool"], &object["tool_call"], &object["arguments"]) {
        (Value::String(tool), _, _) => vec![tool.as_str()],
        (_, Value::Array(calls), _) => calls.iter().filter_map(|call| call["name"].as_str()).collect(),
        (_, Value::Object(call), _) => call.get("name").and_then(Value::as_str).into_iter().collect(),
        (_, _, Value::Object(_)) => object["name"].as_str().into_iter().collect(),
        _ => Vec::new(),
    };
    names.into_iter().map(str::to_owned).collect()
}

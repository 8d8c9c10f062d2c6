//! Conversations whose calls stand in the model's text (CALL-1, CALL-3): which result belongs to which call is said by the tool's
//! name alone, in a message of the role `tool` with that name, or in a user's message as Dirigent writes it.
//!
//! What is in a text is read with as little judgement as possible: a call that no JSON parser can read counts as made if its tool
//! is named, as clients may understand more than this does. A call without any result is one that was not acted on.

use serde_json::{Deserializer, Value};

use crate::check::{Violation, ViolationKind};
use crate::request::text_of;

/// What is wrong with the roles, and with calls in the text and their results. Where tools are on offer, roles need not alternate.
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
        let place = format!("messages[{index}]");
        match message["role"].as_str() {
            Some("assistant") => {
                check.report_unanswered(&place);
                check.text_calls = Some(TextCalls::parse(&text_of(message)));
            }
            Some("tool") => check.result(&place, &message["name"]),
            Some("user") => {
                // What a user says of results at first is a task.
                if check.text_calls.is_some() {
                    for tool in results_in(&text_of(message)) {
                        check.match_result(format!("{place}.content"), tool);
                    }
                }
                check.report_unanswered(&place);
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
    /// The calls of the assistant message whose results may come now.
    text_calls: Option<TextCalls>,
}

impl TextChecker {
    fn report(&mut self, place: impl Into<String>, kind: ViolationKind, reason: String) {
        self.violations.push(Violation {
            request: self.request,
            path: place.into(),
            kind,
            reason,
        });
    }

    /// The chat templates of many open models refuse a conversation in which a user or the model speaks twice in a row.
    fn alternation(&mut self, messages: &[Value]) {
        let mut before = "";
        for (index, message) in messages.iter().enumerate() {
            let role = message["role"].as_str().unwrap_or_default();
            let reason = match (before, role) {
                ("", "assistant") => "the first to speak is the user".to_owned(),
                ("user", "user") | ("assistant", "assistant") => {
                    format!("`{role}` follows `{before}`, but roles alternate where calls are in the text")
                }
                _ => String::new(),
            };
            if !reason.is_empty() {
                self.report(format!("messages[{index}].role"), ViolationKind::Order, reason);
            }
            if matches!(role, "user" | "assistant" | "tool") {
                before = role;
            }
        }
    }

    fn result(&mut self, place: &str, tool: &Value) {
        match tool.as_str() {
            Some(tool) if !tool.is_empty() => self.match_result(format!("{place}.name"), tool),
            Some(_) | None => {
                let reason = "a result needs its call's id or its tool's name".to_owned();
                self.report(
                    format!("{place}.tool_call_id"),
                    ViolationKind::OrphanResult,
                    reason,
                );
            }
        }
    }

    fn match_result(&mut self, place: String, tool: &str) {
        match self
            .text_calls
            .as_mut()
            .map(|text_calls| text_calls.record_result(tool))
        {
            Some(Ok(())) => {}
            None | Some(Err(Unmatched::NoCall)) => {
                let reason = format!("the assistant message before it does not call `{tool}`");
                self.report(place, ViolationKind::OrphanResult, reason);
            }
            Some(Err(Unmatched::Duplicate)) => {
                let reason = format!("every call of `{tool}` has its result already");
                self.report(place, ViolationKind::Duplicate, reason);
            }
        }
    }

    /// Ends the time in which results may come.
    fn report_unanswered(&mut self, place: &str) {
        for tool in self
            .text_calls
            .take()
            .map(TextCalls::unanswered)
            .into_iter()
            .flatten()
        {
            let reason = format!("the call of `{tool}` has no result, though one beside it has");
            self.report(place, ViolationKind::OrphanCall, reason);
        }
    }
}

/// The calls in the text of an assistant message, and which of them have results.
#[derive(Debug)]
struct TextCalls {
    text: String,
    /// The tools of the calls that are plain to see, each with whether its result has come.
    calls: Vec<(String, bool)>,
    /// The tools of all results so far.
    results: Vec<String>,
}

/// What is wrong with a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unmatched {
    /// Nothing in the text calls its tool.
    NoCall,
    /// Every call of its tool has its result.
    Duplicate,
}

impl TextCalls {
    /// The calls in a text.
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

    /// Takes the result of a call of that tool.
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
            // As it is named in a call that was read, there is no further one.
            _ if self.calls.iter().any(|(name, _)| name == tool) => Err(Unmatched::Duplicate),
            _ => Ok(()),
        }
    }

    /// The tools of the calls without a result, where others have theirs: a reply that was not acted on has none at all.
    fn unanswered(self) -> impl Iterator<Item = String> {
        let begun = !self.results.is_empty();
        let open = self.calls.into_iter().filter(move |(_, done)| begun && !done);
        open.map(|(tool, _)| tool)
    }
}

/// The tools whose results a user's message brings, as Dirigent writes them: paragraphs of `Result of TOOL:` and the result's JSON.
fn results_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n").filter_map(|paragraph| {
        let (tool, _) = paragraph.strip_prefix("Result of ")?.split_once(":\n")?;
        Some(tool).filter(|tool| !tool.contains(char::is_whitespace))
    })
}

/// The outermost JSON objects of a text, in order.
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

/// The tools that an object calls: `{"tool": …}`, `{"tool_call": {"name": …}}`, or `{"name": …, "arguments": …}`.
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

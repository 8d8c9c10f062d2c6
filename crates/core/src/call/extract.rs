//! What a reply says: text, or calls. The text form of a call is CALL-1's; what an object must look like to be one is known
//! here alone, so that further forms are added here: a mark in [`is_mark`] and a reading in [`read_call`].

use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ToolCall;
use super::name::{kind, listed, quoted};
use super::scan::{End, Found, read_object, scan};
use crate::message::{FinishReason, MalformedCall, ModelReply};

/// How deep the JSON of a call may be nested.
const MAX_DEPTH: usize = 64;

/// More different calls in one reply are not counted: one is too many already, and comparing them takes time.
const MAX_DIFFERENT: usize = 32;

/// What a model said.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// No call: its text, without the thinking before it and without white space around it.
    Text(String),
    /// At least one call, in the order in which they are to run.
    Calls(Vec<ToolCall>),
}

/// Why a reply cannot be acted on. The message goes back to the model: what is wrong, and the form that is wanted (LOOP-3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Malformed {
    /// The reply ended before the model had finished it (CALL-7).
    #[error("{}", match finish {
        FinishReason::Length => "your reply was cut off at the token limit, so nothing in it was carried out. Say it again, shorter",
        FinishReason::Interrupted => "your reply broke off before its end, so nothing in it was carried out. Say it again",
        FinishReason::Stop | FinishReason::ToolCalls => "your reply was incomplete, so nothing in it was carried out. Say it again",
    })]
    CutShort {
        /// How it ended.
        finish: FinishReason,
    },
    /// An object that was meant as a call, and is not JSON.
    #[error("your tool call is not valid JSON: {problem}")]
    InvalidJson {
        /// What is wrong with it.
        problem: String,
    },
    /// A call whose fields are missing or of the wrong type (CALL-1).
    #[error("your tool call is incomplete: {}", problems.join("; "))]
    WrongFields {
        /// What is wrong, field by field.
        problems: Vec<String>,
    },
    /// Calls that the provider delivered apart from the text, and whose name or arguments can't be read (CALL-2).
    #[error(
        "{} No call in your reply was carried out: make them again, each with a JSON object as its arguments",
        unreadable(calls)
    )]
    UnreadableCalls {
        /// Those calls, as they came.
        calls: Vec<MalformedCall>,
    },
    /// Different calls where the form allows one (CALL-5).
    #[error("your reply has {} different tool calls (of {}), and none was carried out: make one call, wait for its result, then make the next", tools.len(), listed(tools.iter().map(String::as_str)))]
    Ambiguous {
        /// The tool of each of the different calls, in order; at most 32.
        tools: Vec<String>,
    },
}

fn unreadable(calls: &[MalformedCall]) -> String {
    let said = calls.iter().map(|call| {
        let MalformedCall {
            name,
            arguments,
            problem,
        } = call;
        format!(
            "your call of {} can't be read: {problem}. Its arguments were {}.",
            quoted(name),
            head(arguments)
        )
    });
    said.collect::<Vec<_>>().join(" ")
}

/// What a reply says. Calls that the provider delivered as such count alone (CALL-2), and one among them that can't be read makes
/// the whole reply malformed; otherwise the text is searched for a call in the JSON form (CALL-1, CALL-5):
///
/// - An object with the key `tool` at its top level is meant as a call; inside another object or an array it is text, and so is
///   one inside thinking.
/// - `tool`, `parameters` and `terminate` are required and type-checked; other fields are ignored.
/// - The same call several times counts once; different ones are [`Malformed::Ambiguous`].
/// - Malformed, not text, is an object meant as a call that is not JSON or never closed, gives a key twice (at any depth), is nested
///   deeper than 64, or holds a number that cannot be held as it is written (an integer beyond 64 bits, `1e999`) or a lone surrogate.
/// - The form as it is shown to models, with its placeholder for the tool's name, is no call (CALL-7).
/// - A byte order mark or NUL is prose outside an object and breaks one that it stands in; `\u0000` in a string is a character.
///
/// A reply that was cut short is never acted on, whatever it holds (CALL-7).
pub fn parse(reply: &ModelReply) -> Result<Said, Malformed> {
    match reply.finish {
        FinishReason::Length | FinishReason::Interrupted => Err(Malformed::CutShort { finish: reply.finish }),
        FinishReason::Stop | FinishReason::ToolCalls if !reply.malformed_calls.is_empty() => {
            Err(Malformed::UnreadableCalls {
                calls: reply.malformed_calls.clone(),
            })
        }
        FinishReason::Stop | FinishReason::ToolCalls if reply.calls.is_empty() => in_text(&reply.content),
        FinishReason::Stop | FinishReason::ToolCalls => Ok(Said::Calls(reply.calls.clone())),
    }
}

/// As [`parse`], for a reply to a conversation with these prompts: what it repeats of them is no call (CALL-7). Repeated is a line with a
/// call and other text in it (`Example: …`) that stands in a prompt as well; the call alone, which a prompt may well ask for, is meant.
pub fn parse_after(reply: &ModelReply, prompts: &[&str]) -> Result<Said, Malformed> {
    let is_echo = |line: &str| {
        let line = line.trim();
        line.contains("\"tool\"")
            && !line.starts_with('{')
            && prompts
                .iter()
                .any(|prompt| prompt.lines().any(|other| other.trim() == line))
    };
    if !reply.calls.is_empty() || !reply.content.lines().any(is_echo) {
        return parse(reply);
    }
    let own: Vec<&str> = reply.content.lines().filter(|line| !is_echo(line)).collect();
    let own = ModelReply {
        content: own.join("\n"),
        ..reply.clone()
    };
    match parse(&own)? {
        Said::Calls(calls) => Ok(Said::Calls(calls)),
        // An answer may quote the prompt.
        Said::Text(_) => Ok(Said::Text(scan(&reply.content, &is_mark).answer.to_owned())),
    }
}

/// What stands for a tool's name where the form of a call is shown to models.
const PLACEHOLDERS: [&str; 2] = ["name of the tool", "the tool's name"];

/// The arguments of a call that a provider delivered apart from the text: an object, and the empty one where there is no text. It
/// is held to the same JSON as a call in the text ([`parse`]), and nothing is mended. The error is for the model.
pub fn read_arguments(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    if !text.starts_with('{') {
        return Err(match serde_json::from_str::<Value>(text) {
            Ok(other) => format!("its arguments must be an object, and are {}", kind(&other)),
            Err(_) => "its arguments are not a JSON object".to_owned(),
        });
    }
    let found = read_object(text);
    let arguments =
        read_json(&found).map_err(|problem| format!("its arguments are not valid JSON: {problem}"))?;
    match &text[found.text.len()..] {
        "" => Ok(arguments),
        rest => Err(format!("something follows its arguments: {}", head(rest))),
    }
}

fn in_text(content: &str) -> Result<Said, Malformed> {
    let scan = scan(content, &is_mark);
    let mut calls: Vec<ToolCall> = Vec::new();
    for found in &scan.marked {
        let call = read_call(found)?;
        // CALL-7: the form repeated, not used.
        if PLACEHOLDERS.contains(&call.tool.as_str()) {
            continue;
        }
        if calls.len() < MAX_DIFFERENT && !calls.contains(&call) {
            calls.push(call);
        }
    }
    match calls.len() {
        0 => Ok(Said::Text(scan.answer.to_owned())),
        1 => Ok(Said::Calls(calls)),
        _ => Err(Malformed::Ambiguous {
            tools: calls.into_iter().map(|call| call.tool).collect(),
        }),
    }
}

/// Whether a key at the top level of an object shows that it is meant as a call.
fn is_mark(key: &str) -> bool {
    key == "tool"
}

fn read_call(found: &Found<'_>) -> Result<ToolCall, Malformed> {
    match read_json(found) {
        Ok(Value::Object(object)) => call_of_fields(object),
        Ok(other) => Err(Malformed::InvalidJson {
            problem: format!("it is {}", kind(&other)),
        }),
        Err(problem) => Err(Malformed::InvalidJson { problem }),
    }
}

/// What an object's text stands for, or what is wrong with it.
fn read_json(found: &Found<'_>) -> Result<Value, String> {
    let invalid = |problem: String| Err(problem);
    match found.end {
        End::Closed => {}
        End::Broken(rest) => {
            return invalid(format!(
                "it goes wrong after {}, at {}",
                tail(found.text),
                head(rest)
            ));
        }
        End::ControlCharacter => {
            return invalid(format!(
                "a string has a line break or another control character in it, after {}: write `\\n` for a line break",
                tail(found.text)
            ));
        }
        End::Unfinished => {
            return invalid("it is not closed: a quote, bracket or brace is missing at its end".to_owned());
        }
    }
    if found.depth > MAX_DEPTH {
        return invalid(format!("it is nested deeper than {MAX_DEPTH} levels"));
    }
    if let Some(number) = found.huge_integer {
        return invalid(format!(
            "the number {} is too long to be held exactly: write it as a string",
            quoted(number)
        ));
    }
    match serde_json::from_str(found.text) {
        Ok(Strict(value)) => Ok(value),
        Err(error) => invalid(error.to_string()),
    }
}

fn call_of_fields(mut object: Map<String, Value>) -> Result<ToolCall, Malformed> {
    let mut problems = Vec::new();
    let mut wrong = |field: &str, wanted: &str, value: Option<Value>| {
        problems.push(match value {
            None => format!("`{field}` is missing: it must be {wanted}"),
            Some(value) => format!("`{field}` must be {wanted}, and is {}", kind(&value)),
        });
    };
    let tool = match object.swap_remove("tool") {
        Some(Value::String(tool)) => Some(tool),
        other => {
            wrong("tool", "a string", other);
            None
        }
    };
    let parameters = match object.swap_remove("parameters") {
        Some(parameters @ Value::Object(_)) => Some(parameters),
        other => {
            wrong("parameters", "an object", other);
            None
        }
    };
    let terminate = match object.swap_remove("terminate") {
        Some(Value::Bool(terminate)) => Some(terminate),
        other => {
            wrong("terminate", "true or false, without quotes", other);
            None
        }
    };
    match (tool, parameters, terminate) {
        (Some(tool), Some(parameters), Some(terminate)) => Ok(ToolCall {
            id: String::new(),
            tool,
            parameters,
            terminate,
        }),
        _ => Err(Malformed::WrongFields { problems }),
    }
}

const EXCERPT: usize = 30;

fn tail(text: &str) -> String {
    let start = text
        .char_indices()
        .rev()
        .nth(EXCERPT - 1)
        .map_or(0, |(place, _)| place);
    quoted(&text[start..])
}

fn head(text: &str) -> String {
    quoted(&text.chars().take(EXCERPT).collect::<String>())
}

/// JSON in which no object has a key twice: readers differ on which of the two counts.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "the key {} is given twice",
                    quoted(&key)
                )));
            }
            let Strict(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

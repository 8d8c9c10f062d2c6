//! What a reply says: text, or calls. Where JSON stands in it is for [`super::scan`] to find, which of it is
//! only repeated for [`super::echo`], and which of it is a call for [`super::shape`] to say, form by form;
//! here it is told what becomes of the whole.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ToolCall;
use super::echo::drop_echoes;
use super::form::CallForm;
use super::json::{head, read_json};
use super::name::{listed, quoted};
use super::reader::{Dialect, read};
use super::scan::{Found, scan};
use super::shape::read_call;
use crate::message::{FinishReason, MalformedCall, ModelReply};

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

/// Why a reply cannot be acted on. The message goes back to the model: what is wrong, and the form that is
/// wanted (LOOP-3).
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
    /// Nothing was said but thinking, and that did not end: what the model would have answered is not known
    /// (CALL-7).
    #[error("your reply ended inside its thinking: say the answer")]
    OnlyThinking,
    /// The reply ended in order to call a tool, and has no call (CALL-2).
    #[error("you announced a tool call and made none")]
    NoCall,
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
    /// Calls that the provider delivered apart from the text, and whose name or arguments can't be read
    /// (CALL-2).
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

/// What a reply says, where the model calls tools in that form (CALL-4). A reply that was cut short is never
/// acted on, whatever it holds (CALL-7). Calls that the provider delivered as such count alone (CALL-2), and
/// one among them that can't be read makes the whole reply malformed; they run in the order given (LOOP-1).
/// Otherwise the text is searched for one call (CALL-5), whatever surrounds it: prose, code fences, thinking
/// before it.
///
/// What is meant as a call:
///
/// - [`CallForm::Json`]: an object with the key `tool`, `{"tool": string, "parameters": object, "terminate":
///   boolean}`, all three required (CALL-1).
/// - [`CallForm::JsonSchema`]: the same. And a reply that is `{"answer": string}` and nothing else is that
///   text, as a server that holds a model to a schema can't let it say any other way that it has finished.
/// - [`CallForm::Native`]: nothing; text is text, whatever JSON it holds.
/// - [`CallForm::ToolCall`]: an object with the key `tool_call`, `{"tool_call": {"name": string, "arguments":
///   object}}` (CALL-3). It never terminates.
/// - [`CallForm::Auto`]: the objects of `Json` and `ToolCall`; an object after a `<tool_call>`; an object
///   with `name` and either `arguments` or `parameters`, alone or as the value of `function`, and beside them
///   at most `id`, `type` and `terminate`.
///
/// In every form:
///
/// - Keys count at the top level of an object alone: inside another object or an array they are text, and so
///   is all inside thinking. Fields that the form does not know are ignored, except as said of `Auto`.
/// - The same call several times counts once; different ones are [`Malformed::Ambiguous`].
/// - The form as it is shown to models, with a placeholder for the tool's name, is no call (CALL-7).
/// - `arguments`, but not CALL-1's `parameters`, may be a string that holds the object.
///
/// In every form but `Json`, where old journals have it as text:
///
/// - A reply that has nothing but thinking which is not closed is [`Malformed::OnlyThinking`].
/// - One that ends with [`FinishReason::ToolCalls`] and has no call is [`Malformed::NoCall`].
///
/// In `Auto`:
///
/// - `terminate` may be left out, and is false then.
/// - What small models write instead of JSON is mended where it can mean one thing only: strings in single
///   quotes, `True`, `False`, `None`, a comma before a closing bracket or brace, a line break or tab in a
///   string. Nothing else is, and nothing that is not closed.
/// - An object that has the marks of several forms is read by the first of `tool`, `tool_call`, `function`,
///   `name`; the others are fields like any other.
/// - An object with a name is text where something says that it is no call: another key, a `type` other than
///   `function`, `function_call` or `tool_call`, arguments that are no object, or a JSON Schema as its
///   `parameters` (the description of a tool). After a `<tool_call>` it is a call all the same, and malformed
///   where a field is wrong.
///
/// What is odd in an object that is meant as a call has one answer, the same in every form; outside such an
/// object it is prose:
///
/// | in the object | answer |
/// | --- | --- |
/// | it is not JSON, or never closed | malformed (mended first in `Auto`, as said) |
/// | a key given twice, at any depth | malformed |
/// | nested deeper than 64 levels | malformed |
/// | an integer beyond 64 bits, `1e999` | malformed: it could not be held as it is written |
/// | a lone surrogate (`\ud800`) | malformed |
/// | NUL or another control character | malformed everywhere; escaped (`\u0000`) it is a character |
/// | a byte order mark | malformed outside a string; in one it is a character |
pub fn parse(reply: &ModelReply, form: CallForm) -> Result<Said, Malformed> {
    parse_after(reply, form, &[])
}

/// As [`parse`], for a reply to a conversation with these prompts: what it repeats of them is no call
/// (CALL-7). Repeated is an object in a line that has other text as well (`Example: …`) and stands in a
/// prompt too; an object alone on its line, which a prompt may well ask for, is meant, and so is one on
/// several lines.
pub fn parse_after(reply: &ModelReply, form: CallForm, prompts: &[&str]) -> Result<Said, Malformed> {
    match reply.finish {
        FinishReason::Length | FinishReason::Interrupted => Err(Malformed::CutShort { finish: reply.finish }),
        FinishReason::Stop | FinishReason::ToolCalls if !reply.malformed_calls.is_empty() => {
            Err(Malformed::UnreadableCalls {
                calls: reply.malformed_calls.clone(),
            })
        }
        FinishReason::Stop | FinishReason::ToolCalls if !reply.calls.is_empty() => {
            Ok(Said::Calls(reply.calls.clone()))
        }
        FinishReason::Stop => in_text(&reply.content, form, prompts),
        FinishReason::ToolCalls => match in_text(&reply.content, form, prompts)? {
            Said::Text(_) if !form.takes_any_text() => Err(Malformed::NoCall),
            said => Ok(said),
        },
    }
}

/// What stands for a tool's name where the form of a call is shown to models.
const PLACEHOLDERS: [&str; 2] = ["name of the tool", "the tool's name"];

fn in_text(content: &str, form: CallForm, prompts: &[&str]) -> Result<Said, Malformed> {
    let mut scan = scan(content, form);
    if scan.only_thinking && !form.takes_any_text() {
        return Err(Malformed::OnlyThinking);
    }
    drop_echoes(&mut scan.meant, content, prompts);
    let mut calls: Vec<ToolCall> = Vec::new();
    for found in &scan.meant {
        let Some(call) = read_call(found, form)? else {
            continue;
        };
        // CALL-7: the form repeated, not used.
        if PLACEHOLDERS.contains(&call.tool.as_str()) {
            continue;
        }
        if calls.len() < MAX_DIFFERENT && !calls.contains(&call) {
            calls.push(call);
        }
    }
    match calls.len() {
        0 => Ok(Said::Text(text_of(scan.answer, form))),
        1 => Ok(Said::Calls(calls)),
        _ => Err(Malformed::Ambiguous {
            tools: calls.into_iter().map(|call| call.tool).collect(),
        }),
    }
}

/// What a reply without a call says.
fn text_of(answer: &str, form: CallForm) -> String {
    let wrapped = match form {
        CallForm::JsonSchema => wrapped_answer(answer),
        CallForm::Json | CallForm::Native | CallForm::ToolCall | CallForm::Auto => None,
    };
    wrapped.unwrap_or_else(|| answer.to_owned())
}

/// The text in `{"answer": text}`, where that is all there is.
fn wrapped_answer(answer: &str) -> Option<String> {
    if !answer.starts_with('{') {
        return None;
    }
    let candidate = read(answer, 0, Dialect::Strict);
    if candidate.stop != answer.len() {
        return None;
    }
    match read_json(&Found::new(answer, 0, &candidate)) {
        Ok(Value::Object(mut object)) if object.len() == 1 => match object.swap_remove("answer") {
            Some(Value::String(text)) => Some(text),
            Some(_) | None => None,
        },
        Ok(_) | Err(_) => None,
    }
}

//! Recognises text that is clearly meant as a call but cannot be parsed (LOOP-3): calls with typographic quotes, without a brace or with a
//! missing beginning, and a tool's name with arguments in another notation.
//!
//! A reply that consists of such a call is not a final answer. Prose about calls is text, and so are code and JSON of other kinds.
//! Therefore each rule requires that the text ends with what looks like a call, and that it names one of the agent's tools or uses keys
//! that occur in calls only.

use serde_json::Value;

use super::json_scanner::{Dialect, JsonEnd, scan_json};
use crate::loop_tools::GIVE_UP;

/// Keys that occur in calls only.
const KEYS: [&str; 6] = [
    "tool",
    "tool_call",
    "tool_calls",
    "tool_name",
    "function_call",
    "parameters",
];
/// Quotation marks, including typographic ones.
const QUOTES: [char; 13] = ['"', '\'', '`', '“', '”', '„', '‟', '‘', '’', '«', '»', '＂', '＇'];

/// The first key of text that looks like a call, and the text after the key.
struct Beginning<'t> {
    /// The value of the first key, up to the first character that cannot occur in a tool's name.
    value: &'t str,
    /// Whether the key or value has typographic quotes, or the separator is not `:`.
    is_odd: bool,
    after: &'t str,
}

/// Reads the first key and its value, if the key is one of [`KEYS`].
fn beginning(text: &str) -> Option<Beginning<'_>> {
    let (text, mut is_odd) = without_quote(text.trim_start());
    let length = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (key, after) = text.split_at(length);
    if !KEYS.contains(&key) {
        return None;
    }
    let (after, odd) = without_quote(after);
    is_odd |= odd;
    let after = after.trim_start();
    let (colon, after) = match after.chars().next()? {
        ':' => (':', &after[1..]),
        '：' => ('：', &after['：'.len_utf8()..]),
        '=' => ('=', &after[1..]),
        _ => return None,
    };
    is_odd |= colon != ':';
    let (after, odd) = without_quote(after.trim_start());
    is_odd |= odd;
    let length = after.find(|c: char| !is_tool_character(c)).unwrap_or(after.len());
    let (value, after) = after.split_at(length);
    Some(Beginning { value, is_odd, after })
}

/// Skips a quotation mark. Returns the rest, and whether the mark is not ASCII.
fn without_quote(text: &str) -> (&str, bool) {
    match text.chars().next() {
        Some(quote) if QUOTES.contains(&quote) => (&text[quote.len_utf8()..], !quote.is_ascii()),
        Some(_) | None => (text, false),
    }
}

fn is_tool_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Returns true if the text begins with a brace and a key that occurs in calls only.
pub(super) fn begins_call(text: &str) -> bool {
    text.strip_prefix('{').and_then(beginning).is_some()
}

/// Returns true if the text, which begins with a brace, is clearly meant as a call. `is_whole` is true if no words precede the text.
pub(super) fn is_call(text: &str, is_whole: bool, offered: &[&str]) -> bool {
    let Some(beginning) = text.strip_prefix('{').and_then(beginning) else {
        return false;
    };
    let is_evident = is_whole || beginning.is_odd || offered.contains(&beginning.value);
    // The reply begins with a call in JSON and is garbled afterwards.
    let begins_as_json = is_whole && text[1..].trim_start().starts_with('"');
    begins_as_json || is_evident && ends_reply(text)
}

/// Returns true if text that begins like a call also ends like a call, or was truncated.
pub(super) fn ends_reply(text: &str) -> bool {
    ends_call(text) || !text.contains('}')
}

/// Returns true if the text ends like a call.
fn ends_call(text: &str) -> bool {
    let end = text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '`' | ';' | ','));
    end.ends_with(['}', ']', ')'])
}

/// Returns true if the whole answer is a tool's name with arguments, in any notation.
pub(super) fn names_tool(answer: &str, offered: &[&str]) -> bool {
    let answer = without_fence(answer);
    is_object_of_tool(answer, offered)
        || is_applied(answer, offered)
        || answer
            .strip_prefix('[')
            .and_then(|list| list.strip_suffix(']'))
            .is_some_and(|list| is_applied(list.trim(), offered))
        || is_action(answer, offered)
}

/// Returns true for a JSON object like `{"action": "search", "input": {…}}` or `{"search": {…}}`, and for a list that begins with one.
fn is_object_of_tool(answer: &str, offered: &[&str]) -> bool {
    if !answer.starts_with(['{', '[']) {
        return false;
    }
    let first = match serde_json::from_str(answer) {
        Ok(Value::Array(items)) => items.into_iter().next(),
        Ok(value) => Some(value),
        Err(_) => None,
    };
    let Some(Value::Object(object)) = first else {
        return false;
    };
    // A final answer may itself be JSON with the key `give_up`. Only an object with a `reason` is meant as a call.
    let may_be_meant =
        |name: &str| name != GIVE_UP || object.values().any(|value| value.get("reason").is_some());
    let is_tool = |name: &str| {
        let name = name.strip_prefix("functions.").unwrap_or(name);
        offered.contains(&name) && may_be_meant(name)
    };
    let has_object = object.values().any(Value::is_object);
    let names = object.values().any(|value| value.as_str().is_some_and(is_tool));
    let holds = object.len() == 1 && object.keys().any(|key| is_tool(key));
    has_object && (names || holds)
}

/// Returns true for `search({"pattern": "x"})`, `search {"pattern": "x"}` and `search(pattern="x")`.
fn is_applied(answer: &str, offered: &[&str]) -> bool {
    let length = answer.find(|c| !is_tool_character(c)).unwrap_or(answer.len());
    let (name, rest) = answer.split_at(length);
    let name = name.strip_prefix("functions.").unwrap_or(name);
    let rest = rest.trim_start().trim_start_matches(':').trim_start();
    let rest = without_fence(rest);
    offered.contains(&name)
        && (rest.starts_with('(') && rest.ends_with(')')
            || rest.starts_with('{') && rest.ends_with('}') && !rest.contains("}\n\n"))
}

/// Returns true for `Action: search` followed by `Action Input:`, as in ReAct prompts.
fn is_action(answer: &str, offered: &[&str]) -> bool {
    let mut lines = answer.lines().rev().map(str::trim);
    let action = lines.find_map(|line| line.strip_prefix("Action:"));
    action.is_some_and(|tool| offered.contains(&tool.trim().trim_matches('`')))
        && answer.contains("\nAction Input:")
}

/// Returns true if the whole answer is a truncated call, or a call without its first brace.
pub(super) fn is_piece_of_call(answer: &str, offered: &[&str]) -> bool {
    let answer = without_fence(answer);
    if answer.starts_with(['"', '“', '”']) || answer.starts_with(|c: char| c.is_ascii_lowercase()) {
        // A call without its first brace.
        return beginning(answer).is_some_and(|it| {
            let has_arguments = ["parameters", "arguments", "terminate"]
                .iter()
                .any(|key| it.after.contains(key));
            (answer.starts_with(['"', '“', '”']) || offered.contains(&it.value)) && has_arguments
        });
    }
    let Some(inner) = answer.strip_prefix('{').or_else(|| {
        let list = answer.strip_prefix('[')?.trim_start();
        list.strip_prefix('{')
    }) else {
        return false;
    };
    let candidate = scan_json(answer, 0, Dialect::Strict);
    match candidate.end {
        JsonEnd::Unfinished => {
            let key = inner.trim_start().trim_start_matches('"');
            let is_in_first_key = !inner.contains(':')
                && KEYS
                    .iter()
                    .any(|known| known.starts_with(key.trim_end_matches('"')));
            is_in_first_key || candidate.keys.are_all_of_call()
        }
        // A call without the tool's name.
        JsonEnd::Closed => {
            candidate.end_offset == answer.len() && candidate.keys.are_all_of_call() && holds_object(answer)
        }
        JsonEnd::Invalid(_) | JsonEnd::ControlCharacter => false,
    }
}

fn holds_object(answer: &str) -> bool {
    match serde_json::from_str(answer) {
        Ok(Value::Object(object)) => !object.contains_key("name") && object.values().any(Value::is_object),
        Ok(_) | Err(_) => false,
    }
}

/// Returns true if the answer ends with a `tool_code` block, in which Gemma models write calls.
pub(super) fn is_tool_code(answer: &str) -> bool {
    let opening = answer
        .match_indices("```tool_code")
        .last()
        .map(|(position, _)| position);
    opening.is_some_and(|position| {
        let rest = answer[position + 3..].trim_end();
        let begins_line = answer[..position].is_empty() || answer[..position].ends_with('\n');
        begins_line && rest.strip_suffix("```").unwrap_or(rest).find("```").is_none()
    })
}

/// Removes a code fence around the whole text, which may be unclosed.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```") else {
        return text.trim_matches('`').trim();
    };
    let inner = inner.trim_start_matches('`');
    let length = inner
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(inner.len());
    inner[length..].trim_end_matches('`').trim()
}

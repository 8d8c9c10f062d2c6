//! The calls that occur in a model's context (CALL-7).
//!
//! A model may quote a file, a result or its prompt without meaning to make the calls in the quotation. Therefore each text is searched
//! when it is added to a conversation, and a digest of each call in the text is stored. The digest covers tool and parameters,
//! independently of form, key order, white space, escapes and number format. Strings are searched at each level of escapes, and the strings
//! of a list are also searched as the lines of one text.
//!
//! The search takes linear time. If the context cannot be searched within this bound, every call counts as quoted and must be the whole reply.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use serde_json::{Map, Number, Value};

use super::candidate::CallCandidate;
use super::json::{read_arguments, read_json};
use super::json_scanner::{Dialect, JsonEnd, scan_json};
use super::markup::{self, Purpose, Tag};
use super::submission::Submission;
use crate::message::ToolCall;
use crate::tool::ToolSpec;

/// Maximum number of passes over one text, in total for all levels of escapes and all attempts.
const MAX_PASSES: usize = 64;
/// Maximum number of stored digests.
const MAX_CALLS: usize = 1 << 16;

/// The calls that occur in a model's context.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextCalls {
    digests: BTreeSet<u64>,
    submission: Option<Submission>,
    /// Set if the context contains a closing tag of thinking text.
    thinking_end: bool,
    /// True if some part of the context could not be searched completely.
    incomplete: bool,
}

impl ContextCalls {
    /// Creates an empty set for an agent with these tools.
    pub fn new(tools: &[ToolSpec]) -> ContextCalls {
        ContextCalls {
            submission: Submission::among(tools),
            ..ContextCalls::default()
        }
    }

    /// Adds the calls in this text of the context.
    pub fn add(&mut self, text: &str) {
        let mut scan_budget = text.len().saturating_mul(MAX_PASSES);
        self.search(text, &mut scan_budget);
        self.incomplete |= scan_budget == 0 && !text.is_empty();
    }

    /// Returns true if the call occurs in the context.
    pub fn contains(&self, call: &ToolCall) -> bool {
        self.incomplete || self.digests.contains(&digest(&call.tool, &call.parameters))
    }

    /// Returns true if the context contains a closing tag of thinking text, which a reply may quote.
    pub(super) fn has_thinking_end(&self) -> bool {
        self.incomplete || self.thinking_end
    }

    /// Searches text, then recursively the rest with one level of escapes removed, until the scan budget is used up.
    fn search(&mut self, text: &str, scan_budget: &mut usize) {
        let rest = self.search_plain(text, scan_budget);
        let lines = without_line_prefixes(&rest);
        if let Cow::Owned(lines) = &lines {
            self.search_plain(lines, scan_budget);
        }
        let decoded = match without_entities(&lines) {
            Cow::Owned(decoded) => Cow::Owned(decoded),
            Cow::Borrowed(lines) => unescaped(lines),
        };
        match decoded {
            Cow::Owned(decoded) if *scan_budget > 0 => self.search(&decoded, scan_budget),
            Cow::Owned(_) | Cow::Borrowed(_) => {}
        }
    }

    /// Searches text without unescaping it. Returns the text without the searched JSON.
    fn search_plain(&mut self, text: &str, scan_budget: &mut usize) -> String {
        *scan_budget = scan_budget.saturating_sub(text.len());
        let mut searched: Vec<Range<usize>> = Vec::new();
        let mut position = 0;
        while let Some(offset) = text[position..].find(['{', '<', '[', '◁']) {
            position += offset;
            if !text[position..].starts_with('{') {
                self.thinking_end |=
                    Tag::at(text, position).is_some_and(|tag| tag.purpose() == Purpose::ThinkingEnd);
                if let Some(announced) = markup::announced(text, position)
                    && let Some(tool) = announced.tool
                    && let Some(object) = object_at(text, announced.json, scan_budget)
                {
                    self.insert(tool, &Value::Object(object));
                }
                position += text[position..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            let strict = scan_json(text, position, Dialect::Strict);
            let repaired =
                (strict.end != JsonEnd::Closed).then(|| scan_json(text, position, Dialect::Lenient));
            let read_bytes = repaired
                .as_ref()
                .map_or(0, |repaired| repaired.end_offset - position)
                + strict.end_offset
                - position;
            *scan_budget = scan_budget.saturating_sub(read_bytes);
            let best = repaired
                .as_ref()
                .filter(|repaired| repaired.end == JsonEnd::Closed)
                .unwrap_or(&strict);
            let next = position + 1;
            if best.end == JsonEnd::Closed {
                match read_json(&CallCandidate::new(text, position, best)) {
                    Ok(value) => {
                        self.walk(&value, scan_budget);
                        if is_plain(&text[position..best.end_offset], strict.end) {
                            searched.push(position..best.end_offset);
                        }
                        position = best.end_offset;
                        continue;
                    }
                    // The outer object is invalid, but inner objects may be valid.
                    Err(_) => position = next,
                }
            } else {
                let closed = repaired.as_ref().map_or(&strict.closed, |repaired| {
                    if repaired.closed.len() > strict.closed.len() {
                        &repaired.closed
                    } else {
                        &strict.closed
                    }
                });
                for range in closed {
                    if let Some(object) = object_at(&text[..range.end], range.start, scan_budget) {
                        self.walk(&Value::Object(object), scan_budget);
                    }
                }
                position = strict.hidden.unwrap_or(strict.end_offset).max(next);
            }
            if *scan_budget == 0 {
                return String::new();
            }
        }
        without(text, searched)
    }

    fn walk(&mut self, value: &Value, scan_budget: &mut usize) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.search_string(text, scan_budget),
            Value::Array(items) => {
                items.iter().for_each(|item| self.walk(item, scan_budget));
                self.search_lines(items, scan_budget);
            }
            Value::Object(object) => {
                self.insert_calls(object);
                for (key, value) in object {
                    self.search_string(key, scan_budget);
                    self.walk(value, scan_budget);
                }
            }
        }
    }

    /// Searches the strings of a list as the lines of one text, because search results list a file line by line. Joins the strings in the
    /// list and, for each key, the strings under this key in the list's objects.
    fn search_lines(&mut self, items: &[Value], scan_budget: &mut usize) {
        let mut columns: BTreeMap<&str, (usize, String)> = BTreeMap::new();
        let mut add = |key, line: &str| {
            let (lines, column) = columns.entry(key).or_default();
            *lines += 1;
            column.push_str(line);
            column.push('\n');
        };
        for item in items {
            match item {
                Value::String(line) => add("", line),
                Value::Object(object) => {
                    for (key, value) in object {
                        if let Value::String(line) = value {
                            add(key, line);
                        }
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
            }
        }
        for (lines, column) in columns.into_values() {
            if lines > 1 {
                self.search_string(&column, scan_budget);
            }
        }
    }

    fn search_string(&mut self, text: &str, scan_budget: &mut usize) {
        if *scan_budget > 0 && text.contains(['{', '\\', '&', '<', '[', '◁']) {
            self.search(text, scan_budget);
        }
    }

    /// Inserts all calls that the object can represent, in any form.
    fn insert_calls(&mut self, object: &Map<String, Value>) {
        const NAMES: [&str; 5] = ["tool", "name", "tool_name", "function", "action"];
        const ARGUMENTS: [&str; 6] = [
            "parameters",
            "arguments",
            "args",
            "input",
            "tool_input",
            "action_input",
        ];
        for name in NAMES {
            let Some(Value::String(tool)) = object.get(name) else {
                continue;
            };
            for arguments in ARGUMENTS {
                match object.get(arguments) {
                    Some(arguments @ Value::Object(_)) => self.insert(tool, arguments),
                    Some(Value::String(text)) => {
                        if let Ok(arguments) = read_arguments(text) {
                            self.insert(tool, &arguments);
                        }
                    }
                    Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {}
                }
            }
        }
        let submitted = self
            .submission
            .as_ref()
            .filter(|submission| submission.fits(object));
        if let Some(tool) = submitted.map(|submission| submission.tool.clone()) {
            self.insert(&tool, &Value::Object(object.clone()));
        }
    }

    fn insert(&mut self, tool: &str, arguments: &Value) {
        self.digests.insert(digest(tool, arguments));
        self.incomplete |= self.digests.len() > MAX_CALLS;
    }
}

/// Returns true if the object cannot be escaped JSON from inside a string, such as `{\"a\": 1}`. Also returns false in uncertain cases: for
/// an object without keys, or whose first quote is not a plain `"`.
fn is_plain(object: &str, strict: JsonEnd<'_>) -> bool {
    strict == JsonEnd::Closed && object[1..].trim_start().starts_with('"')
}

/// Reads the object at `position`, and subtracts the bytes read from the scan budget.
fn object_at(text: &str, position: usize, scan_budget: &mut usize) -> Option<Map<String, Value>> {
    if !text[position..].starts_with('{') {
        return None;
    }
    for dialect in [Dialect::Strict, Dialect::Lenient] {
        let candidate = scan_json(text, position, dialect);
        *scan_budget = scan_budget.saturating_sub(candidate.end_offset - position);
        if candidate.end == JsonEnd::Closed {
            return match read_json(&CallCandidate::new(text, position, &candidate)) {
                Ok(Value::Object(object)) => Some(object),
                Ok(_) | Err(_) => None,
            };
        }
    }
    None
}

/// Replaces each range by a line break.
fn without(text: &str, mut ranges: Vec<Range<usize>>) -> String {
    ranges.sort_by_key(|range| range.start);
    let mut remaining = String::with_capacity(text.len());
    let mut done = 0;
    for range in ranges {
        if range.start >= done {
            remaining.push_str(&text[done..range.start]);
            remaining.push('\n');
        }
        done = done.max(range.end);
    }
    remaining.push_str(&text[done..]);
    remaining
}

/// Removes one level of escapes, as for a string literal in source code.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut is_changed = false;
    let mut rest = text;
    while let Some(position) = rest.find('\\') {
        plain.push_str(&rest[..position]);
        let after = &rest[position + 1..];
        let (character, length) = match after.chars().next() {
            Some(c @ ('"' | '\'' | '\\' | '/' | '`')) => (Some(c), 1),
            Some('n' | 'r') => (Some('\n'), 1),
            Some('t' | 'b' | 'f') => (Some(' '), 1),
            Some('u') => (
                unicode(after),
                if unicode(after).is_some_and(|c| c.len_utf16() == 2) {
                    11
                } else {
                    5
                },
            ),
            Some(_) | None => (None, 0),
        };
        match character {
            Some(c) => {
                plain.push(c);
                is_changed = true;
                rest = &after[length..];
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    if is_changed {
        Cow::Owned(plain)
    } else {
        Cow::Borrowed(text)
    }
}

/// Decodes `uXXXX`, or a surrogate pair of such escapes.
fn unicode(text: &str) -> Option<char> {
    let unit = |at: usize| u16::from_str_radix(text.get(at..at + 4)?, 16).ok();
    let first = unit(1)?;
    let second = text.get(5..7).filter(|next| *next == "\\u").and_then(|_| unit(7));
    char::decode_utf16([first].into_iter().chain(second)).next()?.ok()
}

/// Decodes the HTML entities that occur in escaped JSON.
fn without_entities(text: &str) -> Cow<'_, str> {
    let quotes = ["&quot;", "&#34;", "&#x22;"];
    if !quotes.iter().any(|quote| text.contains(quote)) {
        return Cow::Borrowed(text);
    }
    let mut plain = text.to_owned();
    for quote in quotes {
        plain = plain.replace(quote, "\"");
    }
    let others = [("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    for (entity, character) in others {
        plain = plain.replace(entity, character);
    }
    Cow::Owned(plain)
}

/// Removes the prefixes that diffs, quotations, comments and line numbers put before each line.
fn without_line_prefixes(text: &str) -> Cow<'_, str> {
    let is_prefixed = |line: &str| without_prefix(line).len() != line.trim_start().len();
    if !text.contains('{') || !text.contains('\n') || !text.lines().any(is_prefixed) {
        return Cow::Borrowed(text);
    }
    let plain: Vec<&str> = text.lines().map(without_prefix).collect();
    Cow::Owned(plain.join("\n"))
}

/// Removes a line number and prefix marks from a line. No line of JSON begins with such a prefix.
fn without_prefix(line: &str) -> &str {
    let line = line.trim_start();
    let unnumbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let marked = unnumbered
        .strip_prefix(['\t', '-'])
        .or_else(|| unnumbered.trim_start().strip_prefix([':', '|', '│', '→']));
    let line = match marked {
        Some(rest) if unnumbered.len() < line.len() => rest.trim_start(),
        Some(_) | None => line,
    };
    let unmarked = line.trim_start_matches(['+', '>', '|', '│', '#', '/', '*', '!', ';', '%']);
    match unmarked.strip_prefix('-') {
        Some(rest) if !rest.starts_with(|c: char| c.is_ascii_digit()) => rest.trim_start(),
        Some(_) | None => unmarked.trim_start(),
    }
}

/// Computes the digest of a call, for use within one process.
fn digest(tool: &str, arguments: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    tool.hash(&mut hasher);
    hash_value(arguments, &mut hasher);
    hasher.finish()
}

/// Hashes a JSON value independently of its formatting.
fn hash_value(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(flag) => (1_u8, flag).hash(hasher),
        Value::Number(number) => hash_number(number, hasher),
        Value::String(text) => (3_u8, text).hash(hasher),
        Value::Array(items) => {
            (4_u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash_value(item, hasher));
        }
        Value::Object(object) => {
            (5_u8, object.len()).hash(hasher);
            let mut fields: Vec<_> = object.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            for (key, value) in fields {
                key.hash(hasher);
                hash_value(value, hasher);
            }
        }
    }
}

/// Hashes `1`, `1.0` and `1e0` as the same number.
fn hash_number(number: &Number, hasher: &mut impl Hasher) {
    /// Above this value, not every integer can be represented exactly as a float.
    const EXACT: f64 = 1e15;
    let integer = number
        .as_i64()
        .map(i128::from)
        .or(number.as_u64().map(i128::from));
    let float = number.as_f64().unwrap_or_default();
    match integer {
        Some(integer) if float.abs() > EXACT => (6_u8, integer).hash(hasher),
        None if float.abs() > EXACT && float.abs() < 1e38 => (6_u8, float as i128).hash(hasher),
        Some(_) | None => (2_u8, (float + 0.0).to_bits()).hash(hasher),
    }
}

//! The form of an observation in a prompt: its JSON on one line, and below it the texts of several lines, which JSON would only escape.
//!
//! ```text
//! {"subtask":"check","status":"failed","calls":[{"tool":"execute_command","success":false,"handle":"a2.6"}]}
//! a2.6 output:
//! | running 2 tests
//! | test result: FAILED
//! findings:
//! | One test fails.
//! ```
//!
//! A text is named by its fields, after the handle of its call if it belongs to one. Every line of it begins with `| `, so that no text can
//! pass for another observation.

use serde_json::{Map, Value};

use crate::tags::unescape_tags;

const CALLS: &str = "calls";
const HANDLE: &str = "handle";

/// Formats an observation for a prompt. [`parse_observations`] reads it back.
pub(super) fn observation_text(mut observation: Value) -> String {
    let mut texts = Vec::new();
    if let Value::Object(fields) = &mut observation {
        for call in fields
            .get_mut(CALLS)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let handle = call.get(HANDLE).and_then(Value::as_str).map(str::to_owned);
            if let (Some(handle), Value::Object(fields)) = (handle, call) {
                take_texts(fields, &format!("{handle} "), &mut texts);
            }
        }
        take_texts(fields, "", &mut texts);
    }
    let mut formatted = observation.to_string();
    for (name, text) in texts {
        formatted.push_str(&format!("\n{name}:"));
        for line in text.split('\n') {
            formatted.push_str("\n| ");
            formatted.push_str(line);
        }
    }
    formatted
}

/// Removes the texts of several lines, and adds them with their names.
fn take_texts(fields: &mut Map<String, Value>, prefix: &str, texts: &mut Vec<(String, String)>) {
    fields.retain(|key, value| match value {
        Value::String(text) if text.contains('\n') && is_name(key) => {
            texts.push((format!("{prefix}{key}"), std::mem::take(text)));
            false
        }
        Value::Object(inner) if is_name(key) => {
            take_texts(inner, &format!("{prefix}{key}."), texts);
            true
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => true,
    });
}

fn is_name(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// Returns the observations in a prompt's section as JSON, with their texts put back. Skips lines that belong to no observation.
pub fn parse_observations(section: &str) -> Vec<Value> {
    let mut observations: Vec<Value> = Vec::new();
    let mut lines = section.split('\n').peekable();
    while let Some(line) = lines.next() {
        if let Ok(observation) = serde_json::from_str(line) {
            observations.push(observation);
        } else if let (Some(name), Some(observation)) = (line.strip_suffix(':'), observations.last_mut()) {
            let mut text = Vec::new();
            while let Some(line) = lines.peek().and_then(|line| line.strip_prefix('|')) {
                text.push(line.strip_prefix(' ').unwrap_or(line));
                lines.next();
            }
            put_text(observation, name, unescape_tags(&text.join("\n")).into_owned());
        }
    }
    observations
}

/// Puts a text back into the field that its name stands for.
fn put_text(observation: &mut Value, name: &str, text: String) {
    let (mut fields, names) = match name.split_once(' ') {
        Some((handle, names)) => {
            let mut calls = observation
                .get_mut(CALLS)
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten();
            (calls.find(|call| call[HANDLE] == handle), names)
        }
        None => (Some(observation), name),
    };
    let mut names = names.split('.').peekable();
    while let (Some(Value::Object(inner)), Some(name)) = (fields.take(), names.next()) {
        match names.peek() {
            Some(_) => fields = inner.get_mut(name),
            None => {
                inner.insert(name.to_owned(), Value::String(text));
                return;
            }
        }
    }
}

//! The form of plans and observations in a prompt: JSON with each sub-task and each call on a line of its own. The texts of several lines in
//! an observation, which JSON would only escape, follow below it.
//!
//! ```text
//! {"subtask":"check","status":"failed","calls":[
//! {"tool":"execute_command","success":false,"handle":"a2.6"}
//! ]}
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

const SUBTASKS: &str = "subtasks";
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
    let mut formatted = json_lines(&observation);
    for (name, text) in texts {
        formatted.push_str(&format!("\n{name}:"));
        for line in text.strip_suffix('\n').unwrap_or(&text).split('\n') {
            formatted.push_str("\n| ");
            formatted.push_str(line);
        }
    }
    formatted
}

/// Formats a plan, a sub-task or an observation as JSON with each sub-task and each call on a line of its own.
pub(super) fn json_lines(value: &Value) -> String {
    let Value::Object(fields) = value else {
        return value.to_string();
    };
    let fields = fields.iter().map(|(key, value)| {
        let value = match (key.as_str(), value) {
            (SUBTASKS, Value::Array(subtasks)) => list(subtasks.iter().map(json_lines)),
            (CALLS, Value::Array(calls)) => list(calls.iter().map(Value::to_string)),
            (_, value) => value.to_string(),
        };
        format!("{}:{value}", Value::from(key.as_str()))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn list(elements: impl Iterator<Item = String>) -> String {
    match elements.collect::<Vec<_>>().join(",\n") {
        elements if elements.is_empty() => "[]".to_owned(),
        elements => format!("[\n{elements}\n]"),
    }
}

/// Removes the texts of several lines, and adds them with their names.
fn take_texts(fields: &mut Map<String, Value>, prefix: &str, texts: &mut Vec<(String, String)>) {
    fields.retain(|key, value| match value {
        Value::String(text) if has_several_lines(text) && is_name(key) => {
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

/// A line break at the end begins no further line.
fn has_several_lines(text: &str) -> bool {
    text.strip_suffix('\n').unwrap_or(text).contains('\n')
}

fn is_name(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// Returns the observations in a prompt's section as JSON, with their texts put back, which lack the line break at their end. Skips lines that
/// belong to no observation.
pub fn parse_observations(section: &str) -> Vec<Value> {
    let mut observations: Vec<Value> = Vec::new();
    let mut rest = section;
    while !rest.is_empty() {
        if let Some((observation, length)) = leading_object(rest) {
            observations.push(observation);
            rest = &rest[length..];
        }
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = after;
        if let (Some(name), Some(observation)) = (line.strip_suffix(':'), observations.last_mut()) {
            let mut text = Vec::new();
            while let Some(line) = rest.strip_prefix('|') {
                let (line, after) = line.split_once('\n').unwrap_or((line, ""));
                text.push(line.strip_prefix(' ').unwrap_or(line));
                rest = after;
            }
            put_text(observation, name, unescape_tags(&text.join("\n")).into_owned());
        }
    }
    observations
}

/// Parses the JSON object with which the text begins; returns it with its length in bytes.
fn leading_object(text: &str) -> Option<(Value, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = text.starts_with('{').then(|| values.next())??.ok()?;
    Some((value, values.byte_offset()))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paor_6_each_call_and_each_line_of_a_text_has_a_line_of_its_own() {
        let observation = json!({
            "subtask": "check",
            "findings": "One fails.\n\nThe other passes.\n",
            "calls": [
                {"tool": "execute_command", "output": "ok\n", "handle": "a2.5"},
                {"tool": "execute_command", "output": "1\n2\n", "handle": "a2.6"},
            ],
        });
        let text = observation_text(observation.clone());
        let expected = [
            r#"{"subtask":"check","calls":["#,
            r#"{"tool":"execute_command","output":"ok\n","handle":"a2.5"},"#,
            r#"{"tool":"execute_command","handle":"a2.6"}"#,
            "]}",
            "a2.6 output:",
            "| 1",
            "| 2",
            "findings:",
            "| One fails.",
            "| ",
            "| The other passes.",
        ];
        assert_eq!(text, expected.join("\n"));

        let mut parsed = observation;
        parsed["findings"] = json!("One fails.\n\nThe other passes.");
        parsed["calls"][1]["output"] = json!("1\n2");
        assert_eq!(
            parse_observations(&format!("{text}\n{text}")),
            [parsed.clone(), parsed]
        );
    }
}

//! Presents a tool's result as text that can be read line by line.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The number of characters above which a single-line string is shown as a separate text.
const LONG: usize = 400;
/// The maximum size of [`Readable::rest`] in characters of JSON. If the values are larger, they are appended to the texts instead.
const MAX_REST: usize = 1_000;

/// A complete result as text. Its long strings have real line breaks instead of JSON escapes.
#[derive(Debug, PartialEq)]
pub(super) struct Readable {
    /// The concatenated texts of the result: the output if it is a string, else all strings in the output and the result that are long or have
    /// several lines. A result without texts has one line for each value: `output.exit_code: 0`.
    pub(super) text: String,
    /// The name of each text, such as `output.stdout`, and its first line, from 1. Empty if the result has no texts.
    pub(super) texts: Vec<(String, usize)>,
    /// The result's other values. Empty if there are none, or if they are large and were appended to `text`.
    pub(super) rest: Map<String, Value>,
}

impl Readable {
    pub(super) fn from_result(result: &Value) -> Self {
        let Value::Object(fields) = result else {
            return Readable::listed("result", result);
        };
        let mut rest = fields.clone();
        let mut texts = take_texts(&mut rest);
        if texts.is_empty() {
            return Readable::listed("", result);
        }
        let mut readable = Readable {
            text: String::new(),
            texts: Vec::new(),
            rest: Map::new(),
        };
        let mut line = 1;
        for (name, text) in texts.drain(..) {
            readable.texts.push((name, line));
            readable.text.push_str(&text);
            if !text.ends_with('\n') {
                readable.text.push('\n');
            }
            line += text.lines().count();
        }
        let rest = Value::Object(rest);
        if rest.to_string().chars().count() > MAX_REST {
            write(&mut readable.text, "", &rest);
        } else if let Value::Object(rest) = rest {
            readable.rest = rest;
        }
        readable
    }

    /// Lists each value on a line, after its name. Strings of several lines follow on the lines below their
    /// name.
    fn listed(name: &str, value: &Value) -> Self {
        let mut text = String::new();
        write(&mut text, name, value);
        Readable {
            text,
            texts: Vec::new(),
            rest: Map::new(),
        }
    }
}

/// Removes the texts from a result and returns them with their names. The texts of the output come first.
fn take_texts(result: &mut Map<String, Value>) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    match result.get_mut("output") {
        Some(Value::String(_)) => {
            if let Some(Value::String(text)) = result.shift_remove("output") {
                texts.push(("output".to_owned(), text));
            }
        }
        Some(Value::Object(output)) => {
            take_long(output, "output.", &mut texts);
            if output.is_empty() {
                result.shift_remove("output");
            }
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {}
    }
    take_long(result, "", &mut texts);
    texts
}

fn take_long(fields: &mut Map<String, Value>, prefix: &str, texts: &mut Vec<(String, String)>) {
    fields.retain(|name, value| match value {
        Value::String(text) if text.contains('\n') || text.chars().count() > LONG => {
            texts.push((format!("{prefix}{name}"), std::mem::take(text)));
            false
        }
        Value::String(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_) => true,
    });
}

fn write(text: &mut String, name: &str, value: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (field, value) in fields {
                let name = if name.is_empty() {
                    field.clone()
                } else {
                    format!("{name}.{field}")
                };
                write(text, &name, value);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                let name = format!("{name}[{index}]");
                if has_multiline_text(item) {
                    write(text, &name, item);
                } else {
                    line(text, &name, item);
                }
            }
        }
        Value::String(lines) if lines.contains('\n') => {
            let _ = write!(text, "{name}:\n{lines}");
            if !lines.ends_with('\n') {
                text.push('\n');
            }
        }
        Value::String(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_) => line(text, name, value),
    }
}

fn line(text: &mut String, name: &str, value: &Value) {
    let _ = match value {
        Value::String(one) => writeln!(text, "{name}: {one}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            writeln!(text, "{name}: {value}")
        }
    };
}

/// Returns true if the value contains a string of several lines.
fn has_multiline_text(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\n'),
        Value::Array(items) => items.iter().any(has_multiline_text),
        Value::Object(fields) => fields.values().any(has_multiline_text),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(result: &Value, text: &str, texts: &[(&str, usize)], rest: Value) {
        let texts = texts.iter().map(|(name, line)| ((*name).to_owned(), *line));
        let expected = Readable {
            text: text.to_owned(),
            texts: texts.collect(),
            rest: rest.as_object().cloned().unwrap_or_default(),
        };
        assert_eq!(Readable::from_result(result), expected);
    }

    #[test]
    fn paor_6_a_text_in_the_output_is_shown_as_lines() {
        check(
            &json!({"success": true, "output": {"exit_code": 0, "stdout": "a \"b\"\nc\n", "stderr": ""}}),
            "a \"b\"\nc\n",
            &[("output.stdout", 1)],
            json!({"success": true, "output": {"exit_code": 0, "stderr": ""}}),
        );
        check(
            &json!({"success": true, "output": "only this"}),
            "only this\n",
            &[("output", 1)],
            json!({"success": true}),
        );
    }

    #[test]
    fn paor_6_several_texts_of_a_result_are_joined_output_first() {
        check(
            &json!({"success": false, "error": "it failed:\nsee below", "output": {"stdout": "a\nb", "stderr": "c\nd\n"}}),
            "a\nb\nc\nd\nit failed:\nsee below\n",
            &[("output.stdout", 1), ("output.stderr", 3), ("error", 5)],
            json!({"success": false}),
        );
    }

    #[test]
    fn paor_6_a_result_without_a_text_has_a_line_for_each_value() {
        check(
            &json!({"success": true, "output": {"total": 2, "matches": [{"line": 1}, {"text": "x\ny"}], "none": []}}),
            "success: true\noutput.total: 2\noutput.matches[0]: {\"line\":1}\noutput.matches[1].text:\nx\ny\noutput.none: []\n",
            &[],
            Value::Null,
        );
    }

    #[test]
    fn paor_6_long_values_that_are_not_text_are_appended_to_the_text() {
        let numbers: Vec<u32> = (0..600).collect();
        let readable =
            Readable::from_result(&json!({"success": true, "output": {"body": "a\nb", "numbers": numbers}}));
        assert!(
            readable
                .text
                .starts_with("a\nb\nsuccess: true\noutput.numbers[0]: 0\n"),
            "{}",
            readable.text
        );
        assert_eq!(readable.rest, Map::new());
    }
}

//! A tool's result as text that can be read by lines.

use std::fmt::Write as _;

use serde_json::Value;

/// Each value on a line of its own after its name, and text of several lines below it. Nothing is left out, and nothing is escaped that
/// JSON would escape.
pub(super) fn of(result: &Value) -> String {
    let mut text = String::new();
    match result {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, field)| write(&mut text, name, field)),
        other => write(&mut text, "result", other),
    }
    text
}

fn write(text: &mut String, name: &str, value: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (field, value) in fields {
                write(text, &format!("{name}.{field}"), value);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                match item {
                    Value::String(_) => write(text, &format!("{name}[{index}]"), item),
                    item => line(text, &format!("{name}[{index}]"), item),
                }
            }
        }
        Value::String(lines) if lines.contains('\n') => {
            let _ = write!(text, "{name}:\n{lines}");
            if !lines.ends_with('\n') {
                text.push('\n');
            }
        }
        Value::String(one) => {
            let _ = writeln!(text, "{name}: {one}");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            line(text, name, value);
        }
    }
}

fn line(text: &mut String, name: &str, value: &Value) {
    let _ = writeln!(text, "{name}: {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_result_reads_line_by_line() {
        let result = json!({"success": true, "output": {"exit_code": 0, "stdout": "a \"b\"\nc", "matches": [{"line": 1}, "x\ny"], "none": []}});
        assert_eq!(
            of(&result),
            "success: true\noutput.exit_code: 0\noutput.stdout:\na \"b\"\nc\noutput.matches[0]: {\"line\":1}\noutput.matches[1]:\nx\ny\n\
             output.none: []\n"
        );
    }
}

//! Cleans untrusted text from services, before models and people read it: removes control characters, and limits the length.

use dirigent_core::text::{is_invisible, visible_line};
use serde_json::Value;

/// Removes control characters except line breaks and tabs, and characters that are invisible or change the direction of text, because
/// they can hide instructions.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c)))
        .collect()
}

/// Returns the cleaned text on one line, cut after `max_chars` characters.
pub(crate) fn clean_line(text: &str, max_chars: usize) -> String {
    cut(visible_line(text), max_chars)
}

/// Returns the first `max_chars` characters, with a visible mark if there are more.
pub(crate) fn cut(mut text: String, max_chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(max_chars) {
        text.truncate(end);
        text.push_str("… [cut]");
    }
    text
}

/// Cleans the descriptions and titles in a JSON Schema.
pub(crate) fn clean_schema(schema: &mut Value, max_chars: usize) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match (key.as_str(), value) {
                    ("description" | "title" | "$comment", Value::String(text)) => {
                        *text = cut(clean(text), max_chars);
                    }
                    ("default" | "const" | "enum" | "examples", _) => {}
                    (_, value) => clean_schema(value, max_chars),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean_schema(item, max_chars)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mcp_2_hidden_characters_are_removed() {
        let hidden = "a\u{1b}[31mred\u{200b}\u{202e}\u{e0041}\r\nnext\tline\0";
        assert_eq!(clean(hidden), "a[31mred\nnext\tline");
        assert_eq!(clean_line(hidden, 100), "a[31mred next line");
        assert_eq!(clean_line("abcdef", 3), "abc… [cut]");
    }

    #[test]
    fn mcp_2_descriptions_in_schemas_are_cleaned_and_values_kept() {
        let mut schema = json!({
            "description": "x\u{7}y",
            "properties": {"description": {"type": "string", "description": "long text", "default": "a\u{7}"}},
        });
        clean_schema(&mut schema, 4);
        assert_eq!(
            schema,
            json!({
                "description": "xy",
                "properties": {"description": {"type": "string", "description": "long… [cut]", "default": "a\u{7}"}},
            })
        );
    }
}

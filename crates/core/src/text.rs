//! Text for people and models, kept to a line or to a length.

use std::borrow::Cow;

use serde_json::Value;

/// At most about `max` characters: the beginning and the end, and between them how many were left out.
pub fn shorten<'a>(text: &'a str, max: usize, handle: Option<&str>) -> Cow<'a, str> {
    // A byte is at most one character, so that most texts need no counting.
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let count = text.chars().count();
    if count <= max {
        return Cow::Borrowed(text);
    }
    let (head, tail) = (max * 2 / 3, max / 3);
    let at = |character: usize| {
        text.char_indices()
            .nth(character)
            .map_or(text.len(), |(byte, _)| byte)
    };
    let note = match handle {
        Some(handle) => format!("read them with read_output, handle {handle}"),
        None => "not shown".to_owned(),
    };
    let left_out = count - head - tail;
    Cow::Owned(format!(
        "{}… [{left_out} characters left out: {note}] …{}",
        &text[..at(head)],
        &text[at(count - tail)..]
    ))
}

/// The same for every string in a JSON value.
pub fn shorten_value(value: &Value, max: usize, handle: Option<&str>) -> Value {
    match value {
        Value::String(text) => Value::String(shorten(text, max, handle).into_owned()),
        Value::Array(items) => items
            .iter()
            .map(|item| shorten_value(item, max, handle))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), shorten_value(field, max, handle)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The text on one line, for lists with one entry a line.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Whether a character reorders or hides text without being seen itself.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

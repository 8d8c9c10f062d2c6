//! Long text made short, visibly, with the handle under which the rest can be read (PAOR-6).

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

//! Reading messages of a request's body. Missing fields read as empty.

use serde_json::Value;

/// Returns the messages of a body.
pub(crate) fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns true for messages of the roles `system` and `developer`.
pub(crate) fn is_system(message: &Value) -> bool {
    message["role"] == "system" || message["role"] == "developer"
}

/// Returns the text of a message, its parts joined.
pub(crate) fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

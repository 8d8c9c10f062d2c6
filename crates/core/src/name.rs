//! Names in messages to models: safe quoting, and suggestions of similar existing names.

use serde_json::Value;

/// Maximum length of a name in messages, in characters. A longer name is truncated and gets no suggestion.
const MAX_NAME_CHARS: usize = 64;
/// Maximum number of names in a list.
const MAX_LISTED: usize = 20;
/// Minimum similarity for a suggestion, from 0 (nothing in common) to 1 (equal).
const MIN_SIMILARITY: f64 = 0.7;

/// Formats the name in backticks, on one line and truncated.
pub(crate) fn quoted(name: &str) -> String {
    let mut text = String::from("`");
    for (position, c) in name.chars().enumerate() {
        if position == MAX_NAME_CHARS {
            text.push('…');
            break;
        }
        text.push(if c.is_control() { ' ' } else { c });
    }
    text.push('`');
    text
}

/// Formats names as `a`, `b` and `c`, and replaces the end of a long list with the number of omitted names.
pub(crate) fn quoted_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut shown: Vec<String> = names.by_ref().take(MAX_LISTED).map(quoted).collect();
    match names.count() {
        0 => {}
        more => shown.push(format!("{more} more")),
    }
    match shown.pop() {
        None => "none".to_owned(),
        Some(only) if shown.is_empty() => only,
        Some(last) => format!("{} and {last}", shown.join(", ")),
    }
}

/// Returns the name that is most similar to `wanted`. If several names are equally similar, returns the first. `None` if no name is similar
/// enough.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['-', ' '], "_");
    if wanted.len() > MAX_NAME_CHARS {
        return None;
    }
    let wanted = plain(wanted);
    let mut best = None;
    let mut best_score = MIN_SIMILARITY;
    for name in names.into_iter().filter(|name| name.len() <= MAX_NAME_CHARS) {
        let name_plain = plain(name);
        let score = strsim::jaro_winkler(&wanted, &name_plain)
            .max(strsim::normalized_damerau_levenshtein(&wanted, &name_plain));
        if score > best_score || best.is_none() && score == best_score {
            best = Some(name);
            best_score = score;
        }
    }
    best
}

/// Returns the JSON type of a value, with an article: `a string`.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

pub(crate) fn did_you_mean(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!(" (did you mean {}?)", quoted(name)))
        .unwrap_or_default()
}

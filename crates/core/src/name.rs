//! Names that a model wrote, and messages about them: quoting one safely, finding the one that was meant.

use serde_json::Value;

/// Longer names are shown shortened, and never similar to another.
const MAX_NAME_CHARS: usize = 64;
/// How many names a message lists.
const MAX_LISTED: usize = 20;
/// From 0 (nothing in common) to 1 (the same): below it a suggestion would mislead.
const MIN_SIMILARITY: f64 = 0.7;

/// The name in backticks, on one line.
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

/// `a`, `b` and `c`; a long list is cut.
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

/// The name most like the wanted one, the first of several; `None` where none is similar.
pub(crate) fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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

/// The JSON type of a value, with its article.
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

//! Text patterns with the wildcard `*`, as used in rules.

/// Returns true if the pattern matches the whole text. `*` matches any text. Takes linear time.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(inner) = text.strip_prefix(first).and_then(|text| text.strip_suffix(last)) else {
        return false;
    };
    let mut remaining = inner;
    middle.split('*').all(|piece| match remaining.split_once(piece) {
        Some((_, after)) => {
            remaining = after;
            true
        }
        None => false,
    })
}

/// Counts the `..` components of paths in the text, including percent-encoded ones as in URLs (`..%2f`).
pub(super) fn parent_components(text: &str) -> usize {
    let text = text
        .to_ascii_lowercase()
        .replace("%2e", ".")
        .replace("%2f", "/")
        .replace("%5c", "/");
    let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '\\' | '\'' | '"' | '=' | ':');
    text.split(ends).filter(|component| *component == "..").count()
}

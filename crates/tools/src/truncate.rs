//! Shortening text for models and people.

/// Number of characters that [`truncate_around`] shows before `column`.
const CHARS_BEFORE: usize = 80;

/// Returns the first `max_chars` characters, with `…` if there are more.
pub(crate) fn truncate_chars(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns a line. If it is longer than `max_chars` characters, returns only `max_chars` characters around
/// the index `column`, with `…` for omitted text.
pub(crate) fn truncate_around(line: &str, column: usize, max_chars: usize) -> String {
    if line.chars().count() <= max_chars {
        return line.to_owned();
    }
    let start = column.saturating_sub(CHARS_BEFORE);
    let mut rest = line.chars().skip(start);
    let mut window: String = rest.by_ref().take(max_chars).collect();
    if start > 0 {
        window.insert(0, '…');
    }
    if rest.next().is_some() {
        window.push('…');
    }
    window
}

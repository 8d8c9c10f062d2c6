//! Text helpers: lists and numbers in summaries, and exact edits of a file's text.

use super::location::SourceLocation;

/// Maximum number of locations that a summary lists.
pub(crate) const MAX_LISTED: usize = 20;

/// Lists locations as `- src/a.rs:3: text`: the first [`MAX_LISTED`] of `total`, then `- and N more` for the others.
pub(crate) fn listing<'a>(
    places: impl Iterator<Item = (SourceLocation, &'a str)>,
    total: impl TryInto<usize>,
) -> String {
    let lines = places.map(|(location, text)| format!("{location}: {}", shortened(text.trim(), 120)));
    bullets(lines, MAX_LISTED, total)
}

/// Lists the first `max` of `total` items, one per line, then `- and N more` for the others.
pub(crate) fn bullets(items: impl Iterator<Item = String>, max: usize, total: impl TryInto<usize>) -> String {
    let mut lines: Vec<String> = items.take(max).map(|item| format!("- {item}")).collect();
    let more = total.try_into().unwrap_or(usize::MAX).saturating_sub(lines.len());
    if more > 0 {
        lines.push(format!("- and {more} more"));
    }
    lines.join("\n")
}

/// Returns the first `max` characters, followed by `…` if the text is longer.
pub(crate) fn shortened(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Returns `a, b and c`; if there are more than `max` items, the first `max` and `and N more`.
pub(crate) fn enumerated(items: &[String], max: usize) -> String {
    let more = items.len().saturating_sub(max);
    match items {
        [] => String::new(),
        [only] => only.clone(),
        _ if more > 0 => format!("{} and {more} more", items[..max].join(", ")),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// Returns `1 file` or `3 files`. `plural` is a plural that ends in "s", such as `files`.
pub(crate) fn counted(number: u64, plural: &str) -> String {
    match number {
        1 => format!("1 {}", plural.trim_end_matches('s')),
        number => format!("{number} {plural}"),
    }
}

/// Returns the text with its first letter in uppercase.
pub(crate) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

/// Replaces `old` with `new`, but not within occurrences of `new`, so that repeating the replacement changes nothing.
pub(crate) fn replace_outside(text: &str, old: &str, new: &str) -> String {
    if new.is_empty() || !new.contains(old) {
        return text.replace(old, new);
    }
    text.split(new)
        .map(|piece| piece.replace(old, new))
        .collect::<Vec<_>>()
        .join(new)
}

/// Returns the lines `first` to `last` (from 1), with the fewest surrounding lines that make the block unique in the text; `None` if there
/// is no such block.
pub(crate) fn unique_block(text: &str, first: u64, last: u64) -> Option<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let first = usize::try_from(first).ok()?.checked_sub(1)?;
    let last = usize::try_from(last).ok()?.checked_sub(1)?;
    if first > last || last >= lines.len() {
        return None;
    }
    (0..=lines.len()).find_map(|around| {
        let start = first.saturating_sub(around);
        let end = (last + around).min(lines.len() - 1);
        let block = lines[start..=end].join("\n");
        occurs_once(text, &block).then_some(block)
    })
}

/// Returns true if the block occurs exactly once. Overlapping occurrences count separately.
fn occurs_once(text: &str, block: &str) -> bool {
    let Some(at) = text.find(block).filter(|_| !block.is_empty()) else {
        return false;
    };
    let next = at + block.chars().next().map_or(1, char::len_utf8);
    text.get(next..).is_some_and(|rest| !rest.contains(block))
}

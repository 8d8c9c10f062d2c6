//! The changed lines of a file with their numbers, so that a model sees the effect of an edit.

use std::ops::{Range, RangeInclusive};

use crate::truncate::truncate_chars;

/// Maximum number of lines in a snippet. The middle of a longer change is left out.
const MAX_LINES: usize = 16;

/// Maximum length of a line in a snippet, in characters.
const MAX_LINE_CHARS: usize = 200;

/// Formats the lines at the changed ranges of the text, with `context` lines before and after each. Each line begins with its number and a
/// tab. A line `…` stands for lines between the changes, and for the middle of a long change.
pub(super) fn snippet(text: &str, changed: &[Range<usize>], context: usize) -> String {
    let starts: Vec<usize> = std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .filter(|start| *start < text.len())
        .collect();
    let line_at = |at: usize| starts.partition_point(|start| *start <= at).max(1);
    let mut groups: Vec<RangeInclusive<usize>> = Vec::new();
    for range in changed {
        let last_changed = range.end.saturating_sub(1).max(range.start);
        let first = line_at(range.start).saturating_sub(context).max(1);
        let last = (line_at(last_changed) + context).min(starts.len());
        match groups.last_mut() {
            Some(group) if first <= group.end() + 1 => *group = *group.start()..=last.max(*group.end()),
            Some(_) | None => groups.push(first..=last),
        }
    }
    let lines = || groups.iter().cloned().flatten();
    let total = lines().count();
    let numbers: Vec<usize> = if total <= MAX_LINES {
        lines().collect()
    } else {
        let end = lines().skip(total - MAX_LINES / 2);
        lines().take(MAX_LINES / 2).chain(end).collect()
    };
    let mut shown: Vec<String> = Vec::new();
    let mut previous = None;
    for number in numbers {
        if previous.is_some_and(|previous| previous + 1 < number) {
            shown.push("…".to_owned());
        }
        previous = Some(number);
        let start = starts.get(number - 1).copied().unwrap_or(text.len());
        let line = text[start..].lines().next().unwrap_or_default();
        let cut = truncate_chars(line, MAX_LINE_CHARS);
        shown.push(format!("{number}\t{cut}"));
    }
    shown.join("\n")
}

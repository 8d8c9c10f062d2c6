//! Where an offset is in a text, for people.

/// The longest part of a line that is shown, in characters, and how many of them stand before the name.
const MAX_SHOWN_CHARS: usize = 200;
const CHARS_BEFORE: usize = 80;

/// A text by lines.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

/// A place in a text.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct SourceLocation {
    /// From 1.
    pub(super) line: usize,
    /// In characters, from 1.
    pub(super) column: usize,
    /// The line without the space around it; of a long one what is near the place, with `…` for the rest.
    pub(super) text: String,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines {
            text,
            starts: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    /// The place of an offset, which is where a character begins.
    pub(super) fn location(&self, offset: usize) -> SourceLocation {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = line
            .checked_sub(1)
            .and_then(|index| self.starts.get(index))
            .copied();
        let start = start.unwrap_or_default();
        let end = self.starts.get(line).copied().unwrap_or(self.text.len());
        let column = self
            .text
            .get(start..offset)
            .map_or(0, |before| before.chars().count());
        SourceLocation {
            line,
            column: column + 1,
            text: shown(self.text.get(start..end).unwrap_or_default(), column),
        }
    }
}

fn shown(line: &str, column: usize) -> String {
    let trimmed = line.trim();
    if trimmed.chars().count() <= MAX_SHOWN_CHARS {
        return trimmed.to_owned();
    }
    let first = column.saturating_sub(CHARS_BEFORE);
    let mut rest = line.trim_end().chars().skip(first);
    let window: String = rest.by_ref().take(MAX_SHOWN_CHARS).collect();
    let before = if first > 0 { "…" } else { "" };
    let after = if rest.next().is_some() { "…" } else { "" };
    format!("{before}{}{after}", window.trim())
}

//! Converting byte offsets to lines and columns, for people.

use crate::truncate::truncate_around;

/// Maximum length of a shown line, in characters.
const MAX_LINE_CHARS: usize = 200;

/// Source text, indexed by lines.
pub(super) struct Lines<'a> {
    text: &'a str,
    /// The byte offset of each line.
    starts: Vec<usize>,
}

/// A location in source text.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct SourceLocation {
    /// Counted from 1.
    pub(super) line: usize,
    /// The column in characters, counted from 1.
    pub(super) column: usize,
    /// The line without leading and trailing whitespace; if it is long, the part around the location, with `…` for omitted text.
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

    /// Converts a byte offset, which must be a character boundary.
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
        let whole = self.text.get(start..end).unwrap_or_default();
        let trimmed = whole.trim();
        let indent = whole
            .chars()
            .take_while(|character| character.is_whitespace())
            .count();
        SourceLocation {
            line,
            column: column + 1,
            text: truncate_around(trimmed, column.saturating_sub(indent), MAX_LINE_CHARS),
        }
    }
}

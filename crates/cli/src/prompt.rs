//! The line in which the user is typing.

use crate::output::sanitize;

/// A line that is being typed, as the screen draws it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// The purpose of the line, such as `your answer: `.
    pub(crate) label: String,
    /// An explanation of the possible input; shown while `text` is empty.
    pub(crate) hint: String,
    /// The text typed so far.
    pub(crate) text: String,
    /// The number of characters of `text` before the cursor.
    pub(crate) cursor: usize,
}

impl Prompt {
    /// Fits the line into `columns`, with `▏` at the cursor. If the text is too long, only the part around the cursor is shown.
    pub(crate) fn line(&self, columns: usize) -> String {
        let room = columns.saturating_sub(console::measure_text_width(&self.label) + 2);
        if self.text.is_empty() {
            let hint = console::truncate_str(&self.hint, room, "…");
            return format!("{}▏{}", self.label, console::style(hint).dim());
        }
        // `sanitize` replaces each character by exactly one, so the cursor's index stays valid.
        let shown: Vec<char> = sanitize(&self.text).chars().collect();
        let (before, after) = shown.split_at(self.cursor.min(shown.len()));
        let mut remaining = room;
        let mut fits = |c: &&char| {
            let width = console::measure_text_width(c.encode_utf8(&mut [0; 4]));
            remaining = remaining.saturating_sub(width);
            remaining > 0
        };
        let start = before.len() - before.iter().rev().take_while(&mut fits).count();
        let end = after.iter().take_while(&mut fits).count();
        let cut = if start > 0 { "…" } else { "" };
        let before: String = before[start..].iter().collect();
        let after: String = after[..end].iter().collect();
        format!("{}{cut}{before}▏{after}", self.label)
    }
}

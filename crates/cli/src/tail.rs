//! The end of a streamed text, as one line for a terminal.

use std::collections::VecDeque;

use crate::output::sanitize;

/// The maximum number of characters stored: more than fit into a line of a terminal.
const MAX_CHARS: usize = 1_024;

/// The last [`MAX_CHARS`] characters of text that arrives in pieces, split at any point.
#[derive(Default)]
pub(crate) struct Tail {
    chars: VecDeque<char>,
}

impl Tail {
    /// Appends a piece, sanitized and with each sequence of whitespace as a single space.
    pub(crate) fn push(&mut self, piece: &str) {
        let last = piece.char_indices().rev().nth(MAX_CHARS - 1);
        let end = &piece[last.map_or(0, |(at, _)| at)..];
        for c in sanitize(end).chars() {
            let c = if c.is_whitespace() { ' ' } else { c };
            if c == ' ' && self.chars.back().is_none_or(|last| *last == ' ') {
                continue;
            }
            if self.chars.len() == MAX_CHARS {
                self.chars.pop_front();
            }
            self.chars.push_back(c);
        }
    }

    /// The end of the text in at most `columns`, with `…` in front if the beginning is cut.
    pub(crate) fn line(&self, columns: usize) -> String {
        let whole: String = self.chars.iter().collect();
        if self.chars.len() < MAX_CHARS && console::measure_text_width(&whole) <= columns {
            return whole;
        }
        // Measures whole suffixes, because adjacent characters can combine to a different width.
        let mut start = whole.len();
        for (at, c) in whole.char_indices().rev() {
            if console::measure_text_width(&whole[at..]) + 1 > columns {
                break;
            }
            // A zero-width character belongs to the character before it.
            if console::measure_text_width(c.encode_utf8(&mut [0; 4])) > 0 {
                start = at;
            }
        }
        if columns == 0 {
            return String::new();
        }
        format!("…{}", &whole[start..])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], columns: usize, line: &str) {
        let mut tail = Tail::default();
        for piece in pieces {
            tail.push(piece);
        }
        assert_eq!(tail.line(columns), line);
        assert!(console::measure_text_width(line) <= columns);
    }

    #[test]
    fn a_short_text_is_shown_whole_and_a_long_one_by_its_end() {
        check(&[], 10, "");
        check(&["I will ", "look"], 11, "I will look");
        check(&["I will ", "look"], 10, "…will look");
        check(&["I will ", "look"], 1, "…");
        check(&["I will ", "look"], 0, "");
    }

    #[test]
    fn whitespace_is_collapsed_across_pieces() {
        check(
            &["\n\n  {\n", "\n  \"tool\":\t", " \u{2028}", "\r\n1"],
            20,
            "{ \"tool\": \u{fffd} 1",
        );
    }

    #[test]
    fn host_3_no_escape_sequence_reaches_the_terminal_however_it_is_split() {
        check(&["\u{1b}", "[3", "1mred"], 20, "\u{fffd}[31mred");
        check(
            &["a\u{1b}]0;own", "ed\u{7}b\u{9b}2J"],
            20,
            "a\u{fffd}]0;owned\u{fffd}b\u{fffd}2J",
        );
        check(
            &["a\u{202e}", "b\u{2066}c\u{8}\u{8}"],
            20,
            "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}",
        );
    }

    #[test]
    fn wide_characters_are_never_split() {
        check(&["日本語", "のテキスト"], 16, "日本語のテキスト");
        check(&["日本語", "のテキスト"], 7, "…キスト");
        check(&["日本語", "のテキスト"], 6, "…スト");
        check(&["e\u{301}e\u{301}e\u{301}"], 2, "…e\u{301}");
        check(&["ok 👍🏽👍🏽"], 4, "…👍🏽");
    }

    #[test]
    fn only_the_end_of_a_megabyte_of_text_is_stored() {
        let mut text = "word ".repeat(200_000);
        text.push_str("the end");
        check(&[&text], 12, "…ord the end");
        let mut tail = Tail::default();
        for _ in 0..1_000 {
            tail.push(&text[..1_000]);
        }
        tail.push("\u{301}".repeat(1_000_000).as_str());
        assert_eq!(tail.chars.len(), MAX_CHARS);
        assert_eq!(console::measure_text_width(&tail.line(80)), 1);
    }
}

//! A single-line text editor.

use super::keys::Key;
use crate::prompt::Prompt;

/// The text and the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Editor {
    text: Vec<char>,
    /// The number of characters before the cursor.
    cursor: usize,
}

/// The result of a key press.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EditResult {
    /// The line is still being edited.
    Editing,
    /// Enter: the finished line. The editor is empty again.
    Line(String),
    /// Ctrl-D on an empty line.
    Eof,
}

impl Editor {
    pub(crate) fn from_text(text: &str) -> Self {
        let text: Vec<char> = text.chars().collect();
        Editor {
            cursor: text.len(),
            text,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn press(&mut self, key: Key) -> EditResult {
        match key {
            Key::Char(c) => {
                self.text.insert(self.cursor, c);
                self.cursor += 1;
            }
            Key::Enter => {
                let line = std::mem::take(self);
                return EditResult::Line(line.text.into_iter().collect());
            }
            Key::Eof if self.is_empty() => return EditResult::Eof,
            Key::Eof | Key::Delete => {
                if self.cursor < self.text.len() {
                    self.text.remove(self.cursor);
                }
            }
            Key::Backspace => {
                if self.cursor > 0 {
                    self.cursor -= 1;
                    self.text.remove(self.cursor);
                }
            }
            Key::Escape => {}
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.text.len()),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.text.len(),
            Key::Clear => *self = Editor::default(),
            Key::DeleteWord => {
                let before = &self.text[..self.cursor];
                let word = before.iter().rposition(|c| !c.is_whitespace());
                let start = word.and_then(|end| before[..end].iter().rposition(|c| c.is_whitespace()));
                let start = start.map_or(0, |blank| blank + 1);
                self.text.drain(start..self.cursor);
                self.cursor = start;
            }
        }
        EditResult::Editing
    }

    pub(crate) fn prompt(&self, label: impl Into<String>, hint: impl Into<String>) -> Prompt {
        Prompt {
            label: label.into(),
            hint: hint.into(),
            text: self.text.iter().collect(),
            cursor: self.cursor,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn typed(keys: &[Key]) -> Editor {
        let mut editor = Editor::default();
        for key in keys {
            assert_eq!(editor.press(*key), EditResult::Editing);
        }
        editor
    }

    fn of(text: &str) -> Vec<Key> {
        text.chars().map(Key::Char).collect()
    }

    #[test]
    fn a_line_is_edited_in_place() {
        let keys = [of("one three"), vec![Key::Home, Key::Delete], of("O")].concat();
        assert_eq!(typed(&keys).prompt("", "").line(40), "O▏ne three");
        let keys = [of("one two  "), vec![Key::DeleteWord]].concat();
        assert_eq!(typed(&keys).prompt("", "").line(40), "one ▏");
        let keys = [of("ab"), vec![Key::Left, Key::Backspace, Key::Backspace]].concat();
        assert_eq!(typed(&keys).prompt("", "").line(40), "▏b");
        assert!(typed(&[of("ab"), vec![Key::Clear]].concat()).is_empty());
    }

    #[test]
    fn enter_gives_the_line_and_ctrl_d_leaves_only_an_empty_one() {
        let mut editor = typed(&of("go"));
        assert_eq!(editor.press(Key::Eof), EditResult::Editing);
        assert_eq!(editor.press(Key::Enter), EditResult::Line("go".to_owned()));
        assert_eq!(editor.press(Key::Eof), EditResult::Eof);
    }

    #[test]
    fn a_long_line_is_shown_around_the_cursor_without_control_characters() {
        let prompt = Editor::from_text("日本語のテキスト and \u{202e}more").prompt("> ", "");
        assert_eq!(prompt.line(16), "> … and \u{fffd}more▏");
        assert!(console::measure_text_width(&prompt.line(16)) <= 16);
        let mut editor = Editor::from_text("0123456789");
        editor.press(Key::Home);
        assert_eq!(editor.prompt("> ", "").line(10), "> ▏01234");
        // The hint is dimmed if the tests run in a terminal with colours.
        let hint = Editor::default().prompt("> ", "type here").line(9);
        assert_eq!(console::strip_ansi_codes(&hint), "> ▏type…");
    }
}

//! Decodes the bytes that a terminal sends into keys.
//!
//! `crossterm` is not used, because its decoder is private, and its reader breaks the guarantees of [`super::keyboard`]: it loops forever
//! on a terminal that is closed or returns no bytes, and it reads while the process is in the background.

/// A key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A printable character, never a control character.
    Char(char),
    Enter,
    Backspace,
    Delete,
    Left,
    Right,
    Home,
    End,
    /// Ctrl-W: deletes the word before the cursor.
    DeleteWord,
    /// Ctrl-U: deletes the whole line.
    Clear,
    /// Ctrl-D: end of input.
    Eof,
    /// The Escape key alone.
    Escape,
}

/// An incremental decoder: its input may be split at any byte.
#[derive(Default)]
pub(crate) struct Decoder {
    /// An incomplete character or escape sequence.
    buffer: Vec<u8>,
    /// Set between the start and end marks of a bracketed paste. A pasted line break does not count as Enter: only a typed Enter sends the
    /// line.
    pasting: bool,
}

/// The first key or escape sequence of a byte string, with its length in bytes.
enum Parsed {
    /// A complete character or escape sequence. The key is `None` if the editor does not use it.
    Whole(usize, Option<Key>),
    PasteBegins(usize),
    PasteEnds(usize),
    /// The bytes end within a character or escape sequence.
    Incomplete,
}

impl Decoder {
    pub(crate) fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.buffer.extend_from_slice(bytes);
        let (mut keys, mut at) = (Vec::new(), 0);
        while let Some(rest) = self.buffer.get(at..).filter(|rest| !rest.is_empty()) {
            match first(rest) {
                Parsed::Whole(length, key) => {
                    at += length;
                    keys.extend(key.map(|key| self.in_paste(key)));
                }
                Parsed::PasteBegins(length) => {
                    at += length;
                    self.pasting = true;
                }
                Parsed::PasteEnds(length) => {
                    at += length;
                    self.pasting = false;
                }
                Parsed::Incomplete => break,
            }
        }
        self.buffer.drain(..at);
        keys
    }

    /// Returns true if the input so far ends with the byte of the Escape key, which also begins the sequences of other keys.
    pub(crate) fn may_be_escape(&self) -> bool {
        self.buffer == [0x1b] && !self.pasting
    }

    /// Interprets the pending escape byte as the Escape key, because nothing followed it.
    pub(crate) fn take_escape(&mut self) -> Option<Key> {
        self.may_be_escape().then(|| {
            self.buffer.clear();
            Key::Escape
        })
    }

    fn in_paste(&self, key: Key) -> Key {
        match key {
            _ if !self.pasting => key,
            Key::Char(_) => key,
            Key::Enter
            | Key::Backspace
            | Key::Delete
            | Key::Left
            | Key::Right
            | Key::Home
            | Key::End
            | Key::DeleteWord
            | Key::Clear
            | Key::Eof
            | Key::Escape => Key::Char(' '),
        }
    }
}

fn first(bytes: &[u8]) -> Parsed {
    match bytes[0] {
        0x1b => sequence(bytes),
        byte @ (0..0x20 | 0x7f) => Parsed::Whole(1, control(byte)),
        _ => character(bytes),
    }
}

fn control(byte: u8) -> Option<Key> {
    Some(match byte {
        b'\r' | b'\n' => Key::Enter,
        0x08 | 0x7f => Key::Backspace,
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x04 => Key::Eof,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x15 => Key::Clear,
        0x17 => Key::DeleteWord,
        b'\t' => Key::Char(' '),
        _ => return None,
    })
}

/// Parses an escape sequence of the form `ESC [ parameters final` or `ESC O final`.
fn sequence(bytes: &[u8]) -> Parsed {
    match bytes.get(1) {
        None => Parsed::Incomplete,
        Some(b'[') => {
            let Some(length) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                // No keyboard sends a longer sequence.
                return if bytes.len() > 32 {
                    Parsed::Whole(1, None)
                } else {
                    Parsed::Incomplete
                };
            };
            let end = length + 3;
            match &bytes[2..end] {
                b"200~" => Parsed::PasteBegins(end),
                b"201~" => Parsed::PasteEnds(end),
                b"D" => Parsed::Whole(end, Some(Key::Left)),
                b"C" => Parsed::Whole(end, Some(Key::Right)),
                b"H" | b"1~" | b"7~" => Parsed::Whole(end, Some(Key::Home)),
                b"F" | b"4~" | b"8~" => Parsed::Whole(end, Some(Key::End)),
                b"3~" => Parsed::Whole(end, Some(Key::Delete)),
                _ => Parsed::Whole(end, None),
            }
        }
        Some(b'O') => match bytes.get(2) {
            None => Parsed::Incomplete,
            Some(b'D') => Parsed::Whole(3, Some(Key::Left)),
            Some(b'C') => Parsed::Whole(3, Some(Key::Right)),
            Some(b'H') => Parsed::Whole(3, Some(Key::Home)),
            Some(b'F') => Parsed::Whole(3, Some(Key::End)),
            Some(_) => Parsed::Whole(3, None),
        },
        // The Escape key, followed by another key.
        Some(_) => Parsed::Whole(1, None),
    }
}

fn character(bytes: &[u8]) -> Parsed {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let Some(encoded) = bytes.get(..length) else {
        return Parsed::Incomplete;
    };
    match std::str::from_utf8(encoded) {
        Ok(text) => {
            let key = text.chars().next().filter(|c| !c.is_control()).map(Key::Char);
            Parsed::Whole(length, key)
        }
        Err(_) => Parsed::Whole(1, None),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&[u8]], keys: &[Key]) {
        let mut decoder = Decoder::default();
        let decoded: Vec<Key> = pieces.iter().flat_map(|piece| decoder.keys(piece)).collect();
        assert_eq!(decoded, keys);
    }

    #[test]
    fn characters_and_escape_sequences_may_be_split_anywhere() {
        check(
            &[b"a\xc3", b"\xa4\x1b", b"[", b"D\x1b[3~\r"],
            &[Key::Char('a'), Key::Char('ä'), Key::Left, Key::Delete, Key::Enter],
        );
    }

    #[test]
    fn unknown_sequences_and_bytes_are_ignored() {
        check(&[b"\x1b[1;5A\x1bOP\x00\xff\xc2\x9b!"], &[Key::Char('!')]);
    }

    #[test]
    fn approve_3_a_pasted_line_break_does_not_count_as_enter() {
        check(
            &[b"\x1b[200~a\r\n\x04\x1b[201~\r"],
            &[
                Key::Char('a'),
                Key::Char(' '),
                Key::Char(' '),
                Key::Char(' '),
                Key::Enter,
            ],
        );
    }
}

//! From the bytes that a terminal sends to keys.

/// What was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A character, never a control character.
    Char(char),
    Enter,
    Backspace,
    Delete,
    Left,
    Right,
    Home,
    End,
    /// Ctrl-W: the word before the cursor.
    DeleteWord,
    /// Ctrl-U: the whole line.
    Clear,
    /// Ctrl-D: no more input.
    Leave,
}

/// Keys from bytes, however these are cut.
#[derive(Default)]
pub(crate) struct Decoder {
    /// The beginning of a character or of a sequence.
    begun: Vec<u8>,
    /// Whether what comes is pasted. A pasted line break sends nothing: only a person's Enter does.
    pasting: bool,
}

/// What the beginning of some bytes is.
enum First {
    /// So many bytes that mean something, or nothing to us.
    Whole(usize, Option<Key>),
    PasteBegins(usize),
    PasteEnds(usize),
    /// More bytes are needed.
    Cut,
}

impl Decoder {
    pub(crate) fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.begun.extend_from_slice(bytes);
        let (mut keys, mut at) = (Vec::new(), 0);
        while let Some(rest) = self.begun.get(at..).filter(|rest| !rest.is_empty()) {
            match first(rest) {
                First::Whole(length, key) => {
                    at += length;
                    keys.extend(key.map(|key| self.as_pasted(key)));
                }
                First::PasteBegins(length) => {
                    at += length;
                    self.pasting = true;
                }
                First::PasteEnds(length) => {
                    at += length;
                    self.pasting = false;
                }
                First::Cut => break,
            }
        }
        self.begun.drain(..at);
        keys
    }

    fn as_pasted(&self, key: Key) -> Key {
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
            | Key::Leave => Key::Char(' '),
        }
    }
}

fn first(bytes: &[u8]) -> First {
    match bytes[0] {
        0x1b => sequence(bytes),
        byte @ (0..0x20 | 0x7f) => First::Whole(1, control(byte)),
        _ => character(bytes),
    }
}

fn control(byte: u8) -> Option<Key> {
    Some(match byte {
        b'\r' | b'\n' => Key::Enter,
        0x08 | 0x7f => Key::Backspace,
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x04 => Key::Leave,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x15 => Key::Clear,
        0x17 => Key::DeleteWord,
        b'\t' => Key::Char(' '),
        _ => return None,
    })
}

/// `ESC [ parameters final` and `ESC O final`.
fn sequence(bytes: &[u8]) -> First {
    match bytes.get(1) {
        None => First::Cut,
        Some(b'[') => {
            let Some(length) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                // Nothing that a keyboard sends is longer.
                return if bytes.len() > 32 {
                    First::Whole(1, None)
                } else {
                    First::Cut
                };
            };
            let end = length + 3;
            match &bytes[2..end] {
                b"200~" => First::PasteBegins(end),
                b"201~" => First::PasteEnds(end),
                b"D" => First::Whole(end, Some(Key::Left)),
                b"C" => First::Whole(end, Some(Key::Right)),
                b"H" | b"1~" | b"7~" => First::Whole(end, Some(Key::Home)),
                b"F" | b"4~" | b"8~" => First::Whole(end, Some(Key::End)),
                b"3~" => First::Whole(end, Some(Key::Delete)),
                _ => First::Whole(end, None),
            }
        }
        Some(b'O') => match bytes.get(2) {
            None => First::Cut,
            Some(b'D') => First::Whole(3, Some(Key::Left)),
            Some(b'C') => First::Whole(3, Some(Key::Right)),
            Some(b'H') => First::Whole(3, Some(Key::Home)),
            Some(b'F') => First::Whole(3, Some(Key::End)),
            Some(_) => First::Whole(3, None),
        },
        // Escape, and then something else.
        Some(_) => First::Whole(1, None),
    }
}

fn character(bytes: &[u8]) -> First {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let Some(encoded) = bytes.get(..length) else {
        return First::Cut;
    };
    match std::str::from_utf8(encoded) {
        Ok(text) => {
            let key = text.chars().next().filter(|c| !c.is_control()).map(Key::Char);
            First::Whole(length, key)
        }
        Err(_) => First::Whole(1, None),
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
    fn characters_and_sequences_may_be_cut_anywhere() {
        check(
            &[b"a\xc3", b"\xa4\x1b", b"[", b"D\x1b[3~\r"],
            &[Key::Char('a'), Key::Char('ä'), Key::Left, Key::Delete, Key::Enter],
        );
    }

    #[test]
    fn what_is_no_key_of_ours_is_nothing() {
        check(&[b"\x1b[1;5A\x1bOP\x00\xff\xc2\x9b!"], &[Key::Char('!')]);
    }

    #[test]
    fn approve_3_a_pasted_line_break_is_no_enter() {
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

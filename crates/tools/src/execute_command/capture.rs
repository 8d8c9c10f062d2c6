//! Stores the beginning and the end of a program's output in bounded memory, and marks the gap in between.
//!
//! All output is read, even the part that is not stored, because a program blocks if nobody reads its output.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum number of bytes stored from the beginning of the output, and again from its end. A model receives
/// only a small part of them, and can read the rest with `read_output`.
const MAX_HALF_BYTES: usize = 128 * 1024;
const CHUNK: usize = 16 * 1024;

/// The stored beginning and end of a stream.
#[derive(Default)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Number of bytes discarded between `head` and `tail`.
    left_out: usize,
}

impl Capture {
    /// Reads until the stream ends. If the future is dropped earlier, the bytes read so far stay available.
    pub(super) async fn read_to_end(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; CHUNK];
        // A read error counts as the end of the stream.
        while let Ok(length @ 1..) = stream.read(&mut chunk).await {
            self.push(chunk.get(..length).unwrap_or_default());
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let free = MAX_HALF_BYTES - self.head.len();
        let (head, tail) = bytes.split_at(free.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let excess = self.tail.len().saturating_sub(MAX_HALF_BYTES);
        self.tail.drain(..excess);
        self.left_out += excess;
    }

    /// Returns the output as text: invalid UTF-8 becomes `�`, and a note replaces the discarded bytes and states their number.
    pub(super) fn into_text(self) -> String {
        let Capture {
            mut head,
            tail,
            mut left_out,
        } = self;
        let mut tail = Vec::from(tail);
        if left_out == 0 {
            head.append(&mut tail);
            return String::from_utf8_lossy(&head).into_owned();
        }
        let cut = incomplete_end(&head);
        head.truncate(head.len() - cut);
        let torn = tail
            .iter()
            .take(3)
            .take_while(|byte| is_continuation(**byte))
            .count();
        tail.drain(..torn);
        left_out += cut + torn;
        format!(
            "{}\n… [{left_out} bytes left out] …\n{}",
            String::from_utf8_lossy(&head),
            String::from_utf8_lossy(&tail)
        )
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Returns the length of the incomplete UTF-8 character at the end; 0 if there is none.
fn incomplete_end(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => 0,
        Err(_) => bytes
            .utf8_chunks()
            .last()
            .map(|chunk| chunk.invalid())
            .filter(|invalid| std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none()))
            .map_or(0, <[u8]>::len),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn text_of(chunks: &[&[u8]]) -> String {
        let mut capture = Capture::default();
        for chunk in chunks {
            capture.push(chunk);
        }
        capture.into_text()
    }

    #[test]
    fn output_that_fits_into_both_halves_is_stored_whole() {
        let line = "é".repeat(128 * 1024);
        assert_eq!(text_of(&[line.as_bytes()]), line);
    }

    #[test]
    fn omitted_output_never_splits_a_character() {
        // The leading `x` shifts the text by one byte, so the stored halves end and begin inside a two-byte
        // character.
        let long = format!("x{}x", "é".repeat(150_000));
        let text = text_of(&[long.as_bytes()]);
        let (head, rest) = text.split_once('\n').unwrap();
        let (gap, tail) = rest.split_once('\n').unwrap();
        assert_eq!(head, format!("x{}", "é".repeat(65_535)));
        assert_eq!(tail, format!("{}x", "é".repeat(65_535)));
        assert_eq!(gap, "… [37860 bytes left out] …");
    }

    #[test]
    fn replaces_invalid_utf_8() {
        assert_eq!(text_of(&[b"a\xff", b"b"]), "a\u{fffd}b");
    }
}

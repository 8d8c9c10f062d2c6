//! JSON that is part of the journal entries of many runs: the setup of runs, and the history of a conversation. A journal stores it once.

use std::sync::Arc;

use crate::digest::sha256_hex;

/// A text that many journal entries contain. It consists of pieces: a text that extends another text has the pieces of
/// that text and one more, so that a journal stores only the last piece.
#[derive(Clone, Debug)]
pub struct SharedText {
    text: Arc<str>,
    pieces: Arc<[Piece]>,
}

#[derive(Debug)]
struct Piece {
    /// The end of the piece in the text, in bytes.
    end: usize,
    /// The digest of the text up to the end of the piece.
    digest: String,
}

/// A piece of a [`SharedText`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPiece<'a> {
    /// The digest of the text up to the end of this piece ([`piece_digest`]).
    pub digest: &'a str,
    /// The digest of the text before this piece; `None` for the first piece.
    pub before: Option<&'a str>,
    /// The piece itself.
    pub text: &'a str,
}

impl SharedText {
    /// Creates a text from its pieces, in order. Empty without pieces.
    pub fn from_pieces<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut text, mut pieces) = (String::new(), Vec::<Piece>::new());
        for part in parts {
            let before = pieces.last().map(|piece| piece.digest.as_str());
            let digest = piece_digest(before, part.as_bytes());
            text.push_str(part);
            let end = text.len();
            pieces.push(Piece { end, digest });
        }
        SharedText {
            text: text.into(),
            pieces: pieces.into(),
        }
    }

    /// The text, exactly as it occurs in the entries.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The digest of the whole text; empty if it has no pieces.
    pub fn digest(&self) -> &str {
        self.pieces.last().map_or("", |piece| &piece.digest)
    }

    /// The pieces, the last one first.
    pub fn pieces_from_last(&self) -> impl Iterator<Item = TextPiece<'_>> {
        (0..self.pieces.len()).rev().map(|index| {
            let piece = &self.pieces[index];
            let before = index.checked_sub(1).map(|before| &self.pieces[before]);
            TextPiece {
                digest: &piece.digest,
                before: before.map(|before| before.digest.as_str()),
                text: &self.text[before.map_or(0, |before| before.end)..piece.end],
            }
        })
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest()
    }
}

impl Eq for SharedText {}

/// Returns the digest of a text that ends with `piece`, as 64 lowercase hexadecimal digits: for the first piece, the SHA-256 of the piece;
/// for a later piece, the SHA-256 of the digest of the preceding text followed by the piece.
pub fn piece_digest(before: Option<&str>, piece: &[u8]) -> String {
    match before {
        None => sha256_hex(piece),
        Some(before) => sha256_hex(&[before.as_bytes(), piece].concat()),
    }
}

//! Decoding and encoding of text files: the only module that knows encodings and line endings.
//!
//! Decoding a file and encoding the unchanged text returns the same bytes. No byte is ever replaced by
//! `U+FFFD`, and unedited lines keep their line endings.

use crate::workspace::FileError;

/// The character encoding of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8 without a byte order mark.
    Utf8,
    /// UTF-8 with a byte order mark.
    Utf8WithBom,
    /// UTF-16, little-endian, with a byte order mark.
    Utf16Le,
    /// UTF-16, big-endian, with a byte order mark.
    Utf16Be,
    /// Latin-1 or any other encoding that is not UTF-8: each byte is read as the Latin-1 character with the
    /// same code.
    SingleByte,
}

impl Encoding {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF-8",
            Encoding::Utf8WithBom => "UTF-8 with byte order mark",
            Encoding::Utf16Le => "UTF-16LE",
            Encoding::Utf16Be => "UTF-16BE",
            Encoding::SingleByte => "Latin-1 or similar",
        }
    }
}

/// The line ending of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnding {
    /// `\n`.
    Lf,
    /// `\r\n`.
    CrLf,
}

impl LineEnding {
    /// Returns the ending of most lines; [`LineEnding::Lf`] if the text has no line break.
    pub fn detect(text: &str) -> Self {
        let all = text.matches('\n').count();
        let crlf = text.matches("\r\n").count();
        if crlf > all - crlf {
            LineEnding::CrLf
        } else {
            LineEnding::Lf
        }
    }

    /// Converts each `\n` to this ending. Text that contains `\r\n` is returned unchanged.
    pub fn apply(self, text: &str) -> String {
        match self {
            LineEnding::CrLf if !text.contains("\r\n") => text.replace('\n', "\r\n"),
            LineEnding::CrLf | LineEnding::Lf => text.to_owned(),
        }
    }
}

/// A text file decoded from its bytes, with the encoding that was detected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    path: String,
    encoding: Encoding,
    /// The content with its original line endings, without the byte order mark.
    pub text: String,
}

impl TextFile {
    /// Decodes the bytes of a file. `path` is for error messages only.
    ///
    /// # Errors
    /// [`FileError::Binary`] if the text contains a NUL.
    pub fn decode(path: &str, bytes: &[u8]) -> Result<Self, FileError> {
        let (encoding, text) = match bytes {
            [0xEF, 0xBB, 0xBF, rest @ ..] if str::from_utf8(rest).is_ok() => {
                (Encoding::Utf8WithBom, String::from_utf8_lossy(rest).into_owned())
            }
            [0xFF, 0xFE, rest @ ..] if let Some(text) = utf16(rest, u16::from_le_bytes) => {
                (Encoding::Utf16Le, text)
            }
            [0xFE, 0xFF, rest @ ..] if let Some(text) = utf16(rest, u16::from_be_bytes) => {
                (Encoding::Utf16Be, text)
            }
            _ => match str::from_utf8(bytes) {
                Ok(text) => (Encoding::Utf8, text.to_owned()),
                Err(_) => (
                    Encoding::SingleByte,
                    bytes.iter().copied().map(char::from).collect(),
                ),
            },
        };
        if text.contains('\0') {
            return Err(FileError::Binary {
                path: path.to_owned(),
            });
        }
        Ok(TextFile {
            path: path.to_owned(),
            encoding,
            text,
        })
    }

    /// Returns the file's encoding.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Encodes a new text in the file's encoding.
    ///
    /// # Errors
    /// [`FileError::NotEncodable`] if the encoding is [`Encoding::SingleByte`] and a character does not fit into one byte.
    pub fn encode(&self, text: &str) -> Result<Vec<u8>, FileError> {
        Ok(match self.encoding {
            Encoding::Utf8 => text.as_bytes().to_vec(),
            Encoding::Utf8WithBom => [&[0xEF, 0xBB, 0xBF], text.as_bytes()].concat(),
            Encoding::Utf16Le => with_bom(text).flat_map(u16::to_le_bytes).collect(),
            Encoding::Utf16Be => with_bom(text).flat_map(u16::to_be_bytes).collect(),
            Encoding::SingleByte => text
                .chars()
                .map(|character| {
                    u8::try_from(character).map_err(|_| FileError::NotEncodable {
                        path: self.path.clone(),
                        character,
                    })
                })
                .collect::<Result<_, _>>()?,
        })
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (units, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    char::decode_utf16(units.iter().copied().map(unit))
        .collect::<Result<_, _>>()
        .ok()
}

fn with_bom(text: &str) -> impl Iterator<Item = u16> {
    std::iter::once(0xFEFF).chain(text.encode_utf16())
}

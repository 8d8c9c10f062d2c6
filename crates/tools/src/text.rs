//! Text files as strings and back, and the diffs between them: the one place that knows encodings and line endings.
//!
//! Decoding and encoding again gives the same bytes, whatever they were; nothing is ever replaced by `U+FFFD`, and no
//! line ending changes that was not edited.

mod git;

use std::time::Duration;

use similar::TextDiff;

use crate::workspace::FileError;

pub use git::git_diff;

/// The longest diff that is kept, in bytes.
const MAX_DIFF_BYTES: usize = 64 * 1024;

/// More text than this, before and after together, is not compared.
const MAX_COMPARED_BYTES: usize = 4 * 1024 * 1024;

/// After this a diff is no longer the shortest one, but still a right one.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);

/// How the bytes of a file stand for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, the usual.
    Utf8,
    /// UTF-8 after a byte order mark.
    Utf8WithBom,
    /// UTF-16, little-endian, after a byte order mark.
    Utf16Le,
    /// UTF-16, big-endian, after a byte order mark.
    Utf16Be,
    /// One byte for each character: Latin-1, or anything else that is not UTF-8, whose bytes then show as the Latin-1
    /// characters of the same number.
    SingleByte,
}

impl Encoding {
    /// Its name for models and people.
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

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnding {
    /// `\n`.
    Lf,
    /// `\r\n`.
    CrLf,
}

impl LineEnding {
    /// How most lines of a text end; [`LineEnding::Lf`] where none does.
    pub fn detect(text: &str) -> Self {
        let all = text.matches('\n').count();
        let crlf = text.matches("\r\n").count();
        if crlf > all - crlf {
            LineEnding::CrLf
        } else {
            LineEnding::Lf
        }
    }

    /// A text whose lines end with `\n`, with this ending instead. A text that has `\r\n` of its own is left as it is.
    pub fn apply(self, text: &str) -> String {
        match self {
            LineEnding::CrLf if !text.contains("\r\n") => text.replace('\n', "\r\n"),
            LineEnding::CrLf | LineEnding::Lf => text.to_owned(),
        }
    }
}

/// A decoded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    path: String,
    encoding: Encoding,
    /// The content with its line endings as they are, without the byte order mark.
    pub text: String,
}

impl TextFile {
    /// The text in the bytes of a file; [`FileError::Binary`] where there is a NUL in it. `path` is for errors alone.
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

    /// How the file is encoded.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The bytes for a new text in the file's encoding. [`FileError::NotEncodable`] where a file of single bytes has no
    /// byte for a character.
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

/// The first so many characters of a text, with `…` where there are more.
pub(crate) fn truncate_chars(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
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

/// A unified diff as git writes it, for [`StateChange`](dirigent_core::tool::StateChange): `before` is none for a file
/// that is new, `after` for one that is gone. None where it would be longer than 64 KiB, where there are more than 4 MiB to compare, or where
/// nothing changed.
pub fn unified_diff(path: &str, before: Option<&str>, after: Option<&str>) -> Option<String> {
    if before == after {
        return None;
    }
    let name = |side: &str, text: Option<&str>| match text {
        Some(_) => format!("{side}/{}", one_line(path)),
        None => "/dev/null".to_owned(),
    };
    let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
    let most = match (before, after) {
        (Some(_), Some(_)) => MAX_COMPARED_BYTES,
        (None, _) | (_, None) => MAX_DIFF_BYTES,
    };
    if old.len() + new.len() > most {
        return None;
    }
    let diff = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(old, new)
        .unified_diff()
        .header(&name("a", before), &name("b", after))
        .to_string();
    (diff.len() <= MAX_DIFF_BYTES).then_some(diff)
}

/// A path with line breaks must not look like lines of the diff.
fn one_line(path: &str) -> String {
    if path.contains(char::is_control) {
        path.escape_debug().to_string()
    } else {
        path.to_owned()
    }
}

//! The lines of an exported run: a header, the entries, the recorded file contents, and a line with their counts.

use dirigent_core::digest::hex;
use dirigent_core::id::{RunId, Scope};
use dirigent_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// The name of the format, in the header.
pub(super) const FORMAT: &str = "dirigent-run";

/// The version of the format. Other versions are refused.
pub(super) const VERSION: u32 = 1;

/// The beginning of the header, which is the same in all versions.
#[derive(Deserialize)]
pub(super) struct FormatVersion {
    pub(super) format: String,
    pub(super) version: u32,
}

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) run: ExportedRecord,
}

/// The run's record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportedRecord {
    pub(super) id: RunId,
    pub(super) goal: String,
    pub(super) workspace: String,
    pub(super) created_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    /// The reason for the end, as JSON text.
    pub(super) status: Option<String>,
    pub(super) paused: bool,
    pub(super) forked_from: Option<ExportedForkPoint>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportedForkPoint {
    pub(super) run: RunId,
    pub(super) at: u64,
}

/// An entry, in the JSON form of [`dirigent_core::journal::Entry`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryLine<'a> {
    pub(super) run: RunId,
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) scope: Scope,
    /// The input, exactly as it is stored in the journal.
    #[serde(borrow)]
    pub(super) input: &'a RawValue,
}

/// A line after the entries.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Attachment {
    /// A file as it was before a call changed it.
    Original {
        effect: String,
        path: String,
        digest: String,
        mode: u32,
    },
    /// A recorded content: as `text` if it is UTF-8, otherwise in hexadecimal digits.
    Content {
        digest: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hex: Option<String>,
    },
    /// The last line. A file without this line is truncated.
    End(EndLine),
}

/// The counts of lines by kind, and the SHA-256 of all lines before the last, as hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndLine {
    pub(super) entries: u64,
    pub(super) originals: u64,
    pub(super) contents: u64,
    pub(super) sha256: String,
}

/// The SHA-256 of the lines so far, each with its line break.
#[derive(Clone, Default)]
pub(super) struct LinesDigest(Sha256);

impl LinesDigest {
    pub(super) fn add(&mut self, line: &[u8]) {
        self.0.update(line);
        self.0.update(b"\n");
    }

    pub(super) fn hex(&self) -> String {
        hex(&self.0.clone().finalize())
    }
}

impl Attachment {
    pub(super) fn content(digest: String, bytes: Vec<u8>) -> Self {
        let (text, hex) = match String::from_utf8(bytes) {
            Ok(text) => (Some(text), None),
            Err(binary) => (None, Some(hex(binary.as_bytes()))),
        };
        Attachment::Content { digest, text, hex }
    }
}

/// Parses hexadecimal digits; `None` if the text contains anything else.
pub(super) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        })
        .collect()
}

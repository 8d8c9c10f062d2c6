//! Recordings as JSON Lines: a format to read, to compare, and to store next to a project's tests.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{RecordedEntry, Recording, start_spec};
use crate::end_reason::EndReason;
use crate::time::Timestamp;

/// The format version that this module reads and writes.
const VERSION: u64 = 1;

/// The first line. Its goal is only for readers of the file; the spec in the first entry is authoritative.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    dirigent_recording: u64,
    goal: String,
    started_at: Timestamp,
}

/// The first line, in any format version.
#[derive(Deserialize)]
struct AnyHeader {
    dirigent_recording: u64,
}

/// The last line. A file without it is truncated.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    #[serde(deserialize_with = "Option::deserialize")]
    end: Option<EndReason>,
    entries: usize,
}

/// The reason why the text is not a valid recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The text is not a recording.
    #[error("it is not a recording: the first line does not begin with {{\"dirigent_recording\": …")]
    NotARecording,
    /// The recording has an unknown format version.
    #[error(
        "the recording has format version {version}, but this version of Dirigent supports only version {VERSION}: replay it with the \
         version that created it, or record the run again"
    )]
    Version {
        /// The format version of the recording.
        version: u64,
    },
    /// A line is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// The line number, counted from 1.
        line: usize,
        /// A description of the error.
        problem: String,
    },
    /// The recording is truncated: its last line is missing.
    #[error(
        "line {line}: the recording is truncated: its last line, which states how the run ended, is missing"
    )]
    Truncated {
        /// The number of the last line in the file, counted from 1.
        line: usize,
    },
}

impl Recording {
    /// Parses a recording. Does not check that the machines accept its entries; [`replay`](super::replay) does.
    ///
    /// # Errors
    /// [`FormatError`], with the line number where possible.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Recording, FormatError> {
        let lines: Vec<&[u8]> = text
            .as_ref()
            .trim_ascii_end()
            .split(|byte| *byte == b'\n')
            .collect();
        let header = header(lines.first().copied().unwrap_or_default())?;
        let (end, middle) = match &lines[1..] {
            [] => return Err(FormatError::Truncated { line: 1 }),
            [middle @ .., last] => (end(lines.len(), last)?, middle),
        };
        let mut entries = Vec::with_capacity(middle.len());
        for (line, bytes) in (2..).zip(middle) {
            let entry: RecordedEntry = read(line, bytes)?;
            let expected = entries.len() as u64 + 1;
            if entry.seq != expected {
                let problem = format!("expected entry {expected}, but found entry {}", entry.seq);
                return Err(FormatError::Line { line, problem });
            }
            entries.push(entry);
        }
        let problem = |line, problem: &str| FormatError::Line {
            line,
            problem: problem.to_owned(),
        };
        let spec = entries
            .first()
            .and_then(|line: &RecordedEntry| start_spec(line.scope, &line.input))
            .ok_or_else(|| problem(2, "the first entry is not the start of a run"))?
            .clone();
        if header.goal != spec.goal {
            return Err(problem(2, "the goal differs from the goal in line 1"));
        }
        if end.entries != entries.len() {
            let counted = format!(
                "expected {} entries before this line, but found {}",
                end.entries,
                entries.len()
            );
            return Err(problem(lines.len(), &counted));
        }
        Ok(Recording {
            spec,
            lines: entries,
            end: end.end,
        })
    }

    /// Returns true if the text begins like a recording, in any format version.
    pub fn is_recording(text: impl AsRef<[u8]>) -> bool {
        let first = text
            .as_ref()
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        serde_json::from_slice::<AnyHeader>(first).is_ok()
    }
}

fn header(line: &[u8]) -> Result<Header, FormatError> {
    let AnyHeader {
        dirigent_recording: version,
    } = serde_json::from_slice(line).map_err(|_| FormatError::NotARecording)?;
    if version != VERSION {
        return Err(FormatError::Version { version });
    }
    read(1, line)
}

fn end(line: usize, bytes: &[u8]) -> Result<End, FormatError> {
    read(line, bytes).map_err(|error| {
        let is_half = |error: serde_json::Error| error.is_eof();
        match serde_json::from_slice::<RecordedEntry>(bytes) {
            Ok(_) => FormatError::Truncated { line },
            Err(_) if serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_err_and(is_half) => {
                FormatError::Truncated { line }
            }
            Err(_) => error,
        }
    })
}

fn read<'a, T: Deserialize<'a>>(line: usize, bytes: &'a [u8]) -> Result<T, FormatError> {
    serde_json::from_slice(bytes).map_err(|error| {
        // serde_json receives only one line of the file, so its line number is meaningless, but its column is right.
        let text = error.to_string();
        let message = text
            .rsplit_once(" at line ")
            .map_or(text.as_str(), |(message, _)| message);
        let problem = format!("{message} (column {})", error.column());
        FormatError::Line { line, problem }
    })
}

/// Formats the recording as JSON Lines.
impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = Header {
            dirigent_recording: VERSION,
            goal: self.spec.goal.clone(),
            started_at: self.started_at(),
        };
        write_line(f, &header)?;
        self.lines.iter().try_for_each(|line| write_line(f, line))?;
        let end = End {
            end: self.end.clone(),
            entries: self.lines.len(),
        };
        write_line(f, &end)
    }
}

fn write_line(f: &mut fmt::Formatter<'_>, line: &impl Serialize) -> fmt::Result {
    let json = serde_json::to_string(line).map_err(|_| fmt::Error)?;
    writeln!(f, "{json}")
}

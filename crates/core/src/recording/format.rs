//! Recordings as JSON Lines, to read, to compare, and to keep beside a project's tests.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{RecordedEntry, Recording, start_spec};
use crate::end_reason::EndReason;
use crate::time::Timestamp;

/// The format version that is written and read.
const VERSION: u64 = 1;

/// The first line. The goal is only for readers; the first entry decides.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    dirigent_recording: u64,
    goal: String,
    started_at: Timestamp,
}

/// The first line, of any version.
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

/// Why a text is not a recording that can be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The text is something else.
    #[error("it is not a recording: its first line does not begin with {{\"dirigent_recording\": …")]
    NotARecording,
    /// Of a version that is not known here.
    #[error(
        "it is a recording of version {version}, and this version of Dirigent reads version {VERSION}; replay it with the \
         version that made it, or record the run anew"
    )]
    Version {
        /// The version of the recording.
        version: u64,
    },
    /// A line is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// What is wrong with the line.
        problem: String,
    },
    /// The end of the recording is missing.
    #[error(
        "line {line}: the recording was cut here: its last line, which says how the run ended, is missing"
    )]
    Truncated {
        /// The number of the last line, from 1.
        line: usize,
    },
}

impl Recording {
    /// Reads a recording. The content is not trusted: [`replay`](super::replay) finds what the machines would refuse.
    ///
    /// # Errors
    /// [`FormatError`], with the number of the line if there is one.
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
                let problem = format!("entry {expected} should stand here, and not entry {}", entry.seq);
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
            return Err(problem(2, "the goal is not that of the first line"));
        }
        if end.entries != entries.len() {
            let counted = format!(
                "{} entries should have come before it, and {} did",
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

    /// Returns true if a text begins like a recording of any version.
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
        // serde_json counts lines from the beginning of this line.
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

//! Excerpts of files for models: a range of lines, limited in bytes, with a note on how to read the rest.

use dirigent_core::tool::code;

use crate::text::{Encoding, TextFile};
use crate::workspace::FileError;

/// Maximum text that one call returns, in bytes. The limit is small because the text takes up the model's context.
pub(crate) const MAX_READ_BYTES: usize = 64 * 1024;

/// An inclusive range of lines, counted from 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineRange {
    first: usize,
    /// `None` for the last line of the file.
    last: Option<usize>,
}

/// Whether the lines of an excerpt have their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineNumbers {
    /// Each line begins with its number and a tab.
    Shown,
    /// The plain text.
    Hidden,
}

/// The part of a file that is shown to a model.
pub(crate) struct Excerpt {
    /// A heading such as `Lines 1-80 of 200`, followed by the lines. The heading also reports anything
    /// unusual about the file, and the line at which to continue.
    pub(crate) text: String,
    /// The first line of the excerpt.
    pub(crate) first: usize,
    /// The first line after the excerpt; `None` if the excerpt reaches the end of the file.
    pub(crate) next: Option<usize>,
}

/// Reason why a file has no excerpt for the requested lines.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExcerptError {
    #[error("`start_line` and `end_line` are counted from 1")]
    Zero,
    #[error("`end_line` ({last}) is before `start_line` ({first})")]
    Backwards { first: usize, last: usize },
    #[error("`{path}` has only {total} lines: there is no line {first}")]
    PastEnd {
        path: String,
        first: usize,
        total: usize,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

impl ExcerptError {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            ExcerptError::Zero | ExcerptError::Backwards { .. } | ExcerptError::PastEnd { .. } => {
                code::BAD_PARAMETERS
            }
            ExcerptError::File(error) => error.code(),
        }
    }
}

impl LineRange {
    pub(crate) fn starting_at(first: usize) -> Self {
        LineRange { first, last: None }
    }

    /// Creates the range from `first` to `last`. By default, it begins at the first line and ends at the last
    /// line of the file.
    pub(crate) fn new(first: Option<usize>, last: Option<usize>) -> Result<Self, ExcerptError> {
        match (first.unwrap_or(1), last) {
            (0, _) | (_, Some(0)) => Err(ExcerptError::Zero),
            (first, Some(last)) if last < first => Err(ExcerptError::Backwards { first, last }),
            (first, last) => Ok(LineRange { first, last }),
        }
    }
}

impl Excerpt {
    /// Creates an excerpt of at most `max_bytes` from the content of the file `name`.
    pub(crate) fn new(
        name: &str,
        bytes: &[u8],
        range: LineRange,
        numbers: LineNumbers,
        max_bytes: usize,
    ) -> Result<Excerpt, ExcerptError> {
        let file = TextFile::decode(name, bytes)?;
        let text = file.text.replace("\r\n", "\n");
        let total = text.lines().count();
        if range.first > total.max(1) {
            return Err(ExcerptError::PastEnd {
                path: name.to_owned(),
                first: range.first,
                total,
            });
        }
        let last = range.last.unwrap_or(total).min(total);
        let lines = lines_within(&text, range.first, last, max_bytes);
        let mut notes = Vec::new();
        if file.encoding() != Encoding::Utf8 {
            notes.push(file.encoding().name().to_owned());
        }
        if let Some(endings) = unusual_line_endings(&file.text) {
            notes.push(format!("{endings} line endings"));
        }
        if lines.last == total && total > 0 && !text.ends_with('\n') {
            notes.push("no line break at the end".to_owned());
        }
        notes.extend(lines.note);
        let mut shown = match total {
            0 => "Empty file".to_owned(),
            _ => format!("Lines {}-{} of {total}", range.first, lines.last),
        };
        for note in notes {
            shown.push_str("; ");
            shown.push_str(&note);
        }
        shown.push('\n');
        match numbers {
            LineNumbers::Hidden => shown.push_str(lines.content),
            LineNumbers::Shown => {
                for (number, line) in (range.first..).zip(lines.content.split_inclusive('\n')) {
                    shown.push_str(&format!("{number}\t{line}"));
                }
            }
        }
        Ok(Excerpt {
            text: shown,
            first: range.first,
            next: (lines.next <= total).then_some(lines.next),
        })
    }
}

struct ExcerptLines<'a> {
    content: &'a str,
    last: usize,
    /// The line at which another call can continue reading.
    next: usize,
    note: Option<String>,
}

/// Returns the lines from `first` to `last` that fit into `max_bytes`.
fn lines_within(text: &str, first: usize, last: usize, max_bytes: usize) -> ExcerptLines<'_> {
    let lines = || text.split_inclusive('\n');
    let start: usize = lines().take(first - 1).map(str::len).sum();
    let mut end = start;
    for (number, line) in (first..=last).zip(lines().skip(first - 1)) {
        if end + line.len() - start > max_bytes {
            return cut(text, start..end, number, max_bytes);
        }
        end += line.len();
    }
    ExcerptLines {
        content: &text[start..end],
        last,
        next: last + 1,
        note: None,
    }
}

/// Ends the excerpt before line `number`, which exceeds the limit, or within this line if it is the excerpt's
/// first line.
fn cut(text: &str, fitting: std::ops::Range<usize>, number: usize, max_bytes: usize) -> ExcerptLines<'_> {
    if !fitting.is_empty() {
        return ExcerptLines {
            content: &text[fitting],
            last: number - 1,
            next: number,
            note: Some(format!(
                "cut after {} KiB, continue with start_line {number}",
                max_bytes / 1024
            )),
        };
    }
    ExcerptLines {
        content: &text[fitting.start..text.floor_char_boundary(fitting.start + max_bytes)],
        last: number,
        // The rest of a line longer than `MAX_READ_BYTES` cannot be read at all, so it does not count as unseen.
        next: if max_bytes < MAX_READ_BYTES {
            number
        } else {
            number + 1
        },
        note: Some(format!(
            "line {number} is cut after {max_bytes} bytes, and its rest cannot be read, continue with start_line {}",
            number + 1
        )),
    }
}

fn unusual_line_endings(text: &str) -> Option<&'static str> {
    let all = text.matches('\n').count();
    match text.matches("\r\n").count() {
        0 => None,
        crlf if crlf == all => Some("CRLF"),
        _ => Some("mixed"),
    }
}

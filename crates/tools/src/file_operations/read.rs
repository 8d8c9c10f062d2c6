//! Reading a file or some of its lines.

use dirigent_core::tool::ToolResult;
use serde_json::{Value, json};

use crate::ToolContext;
use crate::text::{Encoding, TextFile};
use crate::workspace::Workspace;

use super::{Failure, seen};

/// The most text that one call returns, in bytes: a model has to read it all.
const MAX_BYTES: usize = 64 * 1024;

/// Which lines to read, counted from 1, both included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    first: usize,
    last: Option<usize>,
}

/// What a caller is shown of a file.
pub(super) struct ShownLines {
    pub(super) output: Value,
    /// The first line.
    pub(super) first: usize,
    /// The first line after it that was not shown; none where the file ends before.
    pub(super) next: Option<usize>,
}

/// Why there are no such lines.
#[derive(Debug, thiserror::Error)]
pub(super) enum RangeError {
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
}

impl Range {
    pub(super) fn from(first: usize) -> Self {
        Range { first, last: None }
    }

    pub(super) fn new(first: Option<usize>, last: Option<usize>) -> Result<Self, RangeError> {
        match (first.unwrap_or(1), last) {
            (0, _) | (_, Some(0)) => Err(RangeError::Zero),
            (first, Some(last)) if last < first => Err(RangeError::Backwards { first, last }),
            (first, last) => Ok(Range { first, last }),
        }
    }
}

pub(super) fn read(
    context: &ToolContext,
    workspace: &Workspace,
    path: &str,
    range: Range,
) -> Result<ToolResult, Failure> {
    let bytes = workspace.read(path)?;
    let name = workspace.canonical(path)?;
    let shown = show(&name, &bytes, range, MAX_BYTES)?;
    let seen = vec![seen::shown(context, &name, &bytes, &shown)];
    Ok(ToolResult::success(shown.output).with_seen(seen))
}

/// The text of a file with these bytes, at most that many of them.
pub(super) fn show(name: &str, bytes: &[u8], range: Range, max_bytes: usize) -> Result<ShownLines, Failure> {
    let file = TextFile::decode(name, bytes)?;
    let text = file.text.replace("\r\n", "\n");
    let total = text.lines().count();
    if range.first > total.max(1) {
        return Err(RangeError::PastEnd {
            path: name.to_owned(),
            first: range.first,
            total,
        }
        .into());
    }
    let last = range.last.unwrap_or(total).min(total);
    let excerpt = excerpt(&text, range.first, last, max_bytes);
    let mut output = json!({
        "path": name,
        "content": excerpt.content,
        "start_line": range.first,
        "end_line": excerpt.last,
        "total_lines": total,
    });
    if let Some(note) = excerpt.note {
        output["note"] = Value::String(note);
    }
    if file.encoding() != Encoding::Utf8 {
        output["encoding"] = Value::from(file.encoding().name());
    }
    if let Some(endings) = unusual_line_endings(&file.text) {
        output["line_endings"] = Value::from(endings);
    }
    let (first, next) = (range.first, (excerpt.next <= total).then_some(excerpt.next));
    Ok(ShownLines { output, first, next })
}

struct Excerpt<'a> {
    content: &'a str,
    last: usize,
    /// The first line after it that may still be read.
    next: usize,
    note: Option<String>,
}

/// The lines from `first` to `last`, as many as may be returned.
fn excerpt(text: &str, first: usize, last: usize, max_bytes: usize) -> Excerpt<'_> {
    let lines = || text.split_inclusive('\n');
    let start: usize = lines().take(first - 1).map(str::len).sum();
    let mut end = start;
    for (number, line) in (first..=last).zip(lines().skip(first - 1)) {
        if end + line.len() - start > max_bytes {
            return cut(text, start..end, number, last, max_bytes);
        }
        end += line.len();
    }
    Excerpt {
        content: &text[start..end],
        last,
        next: last + 1,
        note: None,
    }
}

/// The text up to line `number`, which does not fit any more.
fn cut(
    text: &str,
    fits: std::ops::Range<usize>,
    number: usize,
    last: usize,
    max_bytes: usize,
) -> Excerpt<'_> {
    if !fits.is_empty() {
        return Excerpt {
            content: &text[fits],
            last: number - 1,
            next: number,
            note: Some(format!(
                "cut after line {} of the {last} asked for; read on with start_line {number}",
                number - 1
            )),
        };
    }
    Excerpt {
        content: &text[fits.start..text.floor_char_boundary(fits.start + max_bytes)],
        last: number,
        // What no call shows does not stand in the way of those who have seen the rest.
        next: if max_bytes < MAX_BYTES { number } else { number + 1 },
        note: Some(format!(
            "line {number} is cut after {max_bytes} bytes, its rest cannot be read; what follows can with start_line {}",
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

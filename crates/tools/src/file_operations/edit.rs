//! Replaces a string that occurs exactly once in a file, or all its occurrences.
//!
//! Models write `\n`; a file may have `\r\n`. The search ignores this difference, and the replacement gets the line ending of the lines
//! that it replaces.

use std::ops::Range;

use dirigent_core::tags::unescape_tags;
use dirigent_core::tool::code;

use super::snippet::snippet;
use crate::text::LineEnding;
use crate::workspace::MAX_FILE_BYTES;

/// Maximum number of occurrences that an error lists. The search stops after one more occurrence.
const MAX_OCCURRENCES: usize = 10;

/// Maximum number of lines that are compared with `old` if `old` is not in the file, to find similar lines for the error message.
const MAX_COMPARED_LINES: usize = 20_000;

/// Maximum length of a line that is compared and shown, in bytes.
const MAX_COMPARED_BYTES: usize = 300;

/// Maximum cost of each search for similar lines. Comparing two lines costs about the product of their lengths in bytes.
const MAX_COMPARED_PRODUCT: usize = 10_000_000;

/// Number of lines that a result shows before and after a single replacement.
const CONTEXT_LINES: usize = 2;

/// The occurrences that an edit replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurrences {
    /// The only occurrence. Several occurrences are an error.
    Only,
    /// All occurrences, except those that overlap an earlier one.
    All,
}

/// The hint for a file without similar text, if the agent has read the file.
const READ_AGAIN: &str = ": read the file again and copy the text exactly";
/// The same hint, if the agent has not read the file.
const READ_FIRST: &str = ", and you have not read this file: read it and copy the text exactly";

/// The text after an edit.
#[derive(Debug)]
pub(super) struct Edited {
    pub(super) text: String,
    /// The line where the first change begins, counted from 1.
    pub(super) line: usize,
    /// The number of replaced occurrences.
    pub(super) replaced: usize,
    /// The changed lines with their numbers, for the model.
    pub(super) snippet: String,
}

/// Reason why the text cannot be edited.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    #[error("`old` is empty: give the text to replace, or use `write` for the whole file")]
    Empty,
    #[error("`old` and `new` are the same: there is nothing to change")]
    Same,
    #[error("`old` is not in `{path}`{hint}")]
    NotFound { path: String, hint: String },
    #[error(
        "`old` is in `{path}` {count} times, at lines {lines}: include more surrounding lines so that it occurs once, or set \
         `replace_all`"
    )]
    Ambiguous {
        path: String,
        count: String,
        lines: String,
    },
    #[error("replacing {count} occurrences of `old` would make `{path}` larger than {MAX_FILE_BYTES} bytes")]
    TooBig { path: String, count: usize },
}

impl EditError {
    /// Returns the error for an agent that has not read the file.
    pub(super) fn for_unread_file(self) -> Self {
        match self {
            EditError::NotFound { path, hint } if hint == READ_AGAIN => EditError::NotFound {
                path,
                hint: READ_FIRST.to_owned(),
            },
            other => other,
        }
    }

    pub(super) fn code(&self) -> &'static str {
        match self {
            EditError::Empty | EditError::Same => code::BAD_PARAMETERS,
            EditError::NotFound { .. } => code::NO_MATCH,
            EditError::Ambiguous { .. } => code::AMBIGUOUS,
            EditError::TooBig { .. } => code::TOO_BIG,
        }
    }
}

/// Replaces `old` with `new`. Unless all occurrences are to be replaced, `old` must occur exactly once in the text.
pub(super) fn replace(
    path: &str,
    text: &str,
    old: &str,
    new: &str,
    occurrences: Occurrences,
) -> Result<Edited, EditError> {
    let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    if old.is_empty() {
        return Err(EditError::Empty);
    }
    if old == new {
        return Err(EditError::Same);
    }
    let normalized = NormalizedText::new(text);
    let found = match occurrences {
        Occurrences::Only => normalized.find(&old),
        Occurrences::All => normalized.find_all(&old),
    };
    match (found.as_slice(), occurrences) {
        ([], _) => Err(EditError::NotFound {
            path: path.to_owned(),
            hint: hint(&normalized.text, &old),
        }),
        (all, Occurrences::All) if (all.len() as u64).saturating_mul(new.len() as u64) > MAX_FILE_BYTES => {
            Err(EditError::TooBig {
                path: path.to_owned(),
                count: all.len(),
            })
        }
        ([_], _) | (_, Occurrences::All) => Ok(apply(text, &found, &new)),
        (several, Occurrences::Only) => {
            let named = several.get(..MAX_OCCURRENCES).unwrap_or(several);
            let mut lines: Vec<String> = named
                .iter()
                .map(|range| line_of(text, range.start).to_string())
                .collect();
            let mut count = named.len().to_string();
            if several.len() > MAX_OCCURRENCES {
                lines.push("…".to_owned());
                count.insert_str(0, "more than ");
            }
            Err(EditError::Ambiguous {
                path: path.to_owned(),
                count,
                lines: lines.join(", "),
            })
        }
    }
}

/// Replaces the text at these ranges, which are in order and do not overlap.
fn apply(text: &str, ranges: &[Range<usize>], new: &str) -> Edited {
    let usual = LineEnding::detect(text);
    let mut edited = String::with_capacity(text.len());
    let mut changed = Vec::with_capacity(ranges.len());
    let mut rest = 0;
    for range in ranges {
        let replaced = &text[range.clone()];
        let ending = if replaced.contains('\n') {
            LineEnding::detect(replaced)
        } else {
            usual
        };
        edited.push_str(&text[rest..range.start]);
        let start = edited.len();
        edited.push_str(&ending.apply(new));
        changed.push(start..edited.len());
        rest = range.end;
    }
    edited.push_str(&text[rest..]);
    let context = if ranges.len() == 1 { CONTEXT_LINES } else { 0 };
    Edited {
        line: ranges.first().map_or(1, |first| line_of(text, first.start)),
        replaced: ranges.len(),
        snippet: snippet(&edited, &changed, context),
        text: edited,
    }
}

/// Text in which each `\r\n` is replaced by `\n`, with a mapping from its offsets to the original's.
struct NormalizedText {
    text: String,
    /// The offsets in `text` of each `\n` that is `\r\n` in the original.
    shortened: Vec<usize>,
}

impl NormalizedText {
    fn new(text: &str) -> Self {
        let shortened = text
            .match_indices("\r\n")
            .enumerate()
            .map(|(before, (at, _))| at - before)
            .collect();
        NormalizedText {
            text: text.replace("\r\n", "\n"),
            shortened,
        }
    }

    /// Finds at most [`MAX_OCCURRENCES`] + 1 occurrences of `wanted`, which may overlap. Returns their ranges in the original text.
    fn find(&self, wanted: &str) -> Vec<Range<usize>> {
        let mut occurrences = Vec::new();
        let mut from = 0;
        while occurrences.len() <= MAX_OCCURRENCES
            && let Some(at) = self.text[from..].find(wanted).map(|at| from + at)
        {
            occurrences.push(self.original(at)..self.original(at + wanted.len()));
            from = self.text.ceil_char_boundary(at + 1);
        }
        occurrences
    }

    /// Finds all occurrences of `wanted` that do not overlap an earlier one. Returns their ranges in the original text.
    fn find_all(&self, wanted: &str) -> Vec<Range<usize>> {
        let found = self.text.match_indices(wanted);
        found
            .map(|(at, _)| self.original(at)..self.original(at + wanted.len()))
            .collect()
    }

    fn original(&self, at: usize) -> usize {
        at + self.shortened.partition_point(|newline| *newline < at)
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns a hint about the text that the model may have meant: the same lines with different whitespace, or
/// else a line similar to the first line of `old`.
fn hint(text: &str, old: &str) -> String {
    let unescaped = unescape_tags(old);
    if unescaped != old && text.contains(&*unescaped) {
        return r"; it is with `<` for `\u003c`, as results show a `<` before some names: write `<` in `old` and `new`".to_owned();
    }
    let wanted: Vec<&str> = old.trim().lines().map(str::trim).collect();
    let lines: Vec<&str> = text.lines().take(MAX_COMPARED_LINES).collect();
    let mut budget = MAX_COMPARED_PRODUCT;
    let hint = String::from(READ_AGAIN);
    let Some(first) = wanted.first() else {
        return hint;
    };
    if let Some(at) = lines.windows(wanted.len()).position(|window| {
        let mut both = window.iter().zip(&wanted);
        both.all(|(line, wanted)| {
            budget = budget.saturating_sub(line.len().min(wanted.len()) + 1);
            budget > 0 && line.trim() == *wanted
        })
    }) {
        let (first, last) = (at + 1, at + wanted.len());
        return format!("; lines {first} to {last} differ from `old` only in whitespace: copy them exactly");
    }
    if first.len() > MAX_COMPARED_BYTES {
        return hint;
    }
    let mut budget = MAX_COMPARED_PRODUCT;
    let nearest = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.len() <= MAX_COMPARED_BYTES)
        .map_while(|(index, line)| {
            budget = budget.checked_sub(line.len() * first.len())?;
            Some((strsim::normalized_levenshtein(line.trim(), first), index, line))
        })
        .filter(|(score, ..)| *score > 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)));
    match nearest {
        Some((_, index, line)) => format!(
            "; the most similar line is line {}: `{}`. If you mean it, copy it exactly",
            index + 1,
            line.trim()
        ),
        None => hint,
    }
}

//! Replacing a text that is in a file exactly once.
//!
//! Models write `\n`; a file may have `\r\n`. Lines are compared without that difference, and what is put in gets the
//! ending of the lines it replaces.

use std::fmt::Write as _;
use std::ops::Range;

use dirigent_core::tool::code;

use crate::text::LineEnding;

/// How many of several places are named; nobody looks for more.
const MAX_PLACES: usize = 10;

/// Up to how many lines are searched for one like the text that was not found.
const MAX_COMPARED_LINES: usize = 20_000;

/// Longer lines are not shown and not compared.
const MAX_COMPARED_BYTES: usize = 300;

/// How much is compared with the text that was not found: the sum of the products of the lengths.
const MAX_COMPARED_PRODUCT: usize = 10_000_000;

/// A text after its edit.
#[derive(Debug)]
pub(super) struct Edited {
    pub(super) text: String,
    /// Where the change begins, counted from 1.
    pub(super) line: usize,
}

/// Why a text was not edited.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    #[error("`old` is empty: give the text to replace, or use `write` for the whole file")]
    Empty,
    #[error("`old` and `new` are the same: there is nothing to change")]
    Same,
    #[error("`old` is not in `{path}`{hint}")]
    NotFound { path: String, hint: String },
    #[error(
        "`old` is in `{path}` {count} times, at lines {lines}: take in more of the lines around the one you mean"
    )]
    Ambiguous {
        path: String,
        count: String,
        lines: String,
    },
}

impl EditError {
    pub(super) fn code(&self) -> &'static str {
        match self {
            EditError::Empty | EditError::Same => code::BAD_PARAMETERS,
            EditError::NotFound { .. } => code::NO_MATCH,
            EditError::Ambiguous { .. } => code::AMBIGUOUS,
        }
    }
}

/// Puts `new` in the place of `old`, which must be in the text once.
pub(super) fn replace_once(path: &str, text: &str, old: &str, new: &str) -> Result<Edited, EditError> {
    let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    if old.is_empty() {
        return Err(EditError::Empty);
    }
    if old == new {
        return Err(EditError::Same);
    }
    let view = NormalizedText::new(text);
    let places = view.find(&old);
    match places.as_slice() {
        [place] => Ok(replace(text, place.clone(), &new)),
        [] => Err(EditError::NotFound {
            path: path.to_owned(),
            hint: hint(&view.text, &old),
        }),
        [..] => {
            let named = places.get(..MAX_PLACES).unwrap_or(&places);
            let mut lines: Vec<String> = named
                .iter()
                .map(|place| line_of(text, place.start).to_string())
                .collect();
            let mut count = named.len().to_string();
            if places.len() > MAX_PLACES {
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

fn replace(text: &str, place: Range<usize>, new: &str) -> Edited {
    let replaced = &text[place.clone()];
    let ending = LineEnding::detect(if replaced.contains('\n') { replaced } else { text });
    Edited {
        line: line_of(text, place.start),
        text: [&text[..place.start], &ending.apply(new), &text[place.end..]].concat(),
    }
}

/// A text with `\n` for `\r\n`, and the way back.
struct NormalizedText {
    text: String,
    /// Where in the view each `\n` stands that was `\r\n`.
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

    /// The places of `wanted`, overlapping ones too, as ranges of the original text: one more than are named at most.
    fn find(&self, wanted: &str) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        let mut from = 0;
        while places.len() <= MAX_PLACES
            && let Some(at) = self.text[from..].find(wanted).map(|at| from + at)
        {
            places.push(self.original(at)..self.original(at + wanted.len()));
            from = self.text.ceil_char_boundary(at + 1);
        }
        places
    }

    fn original(&self, at: usize) -> usize {
        at + self.shortened.partition_point(|newline| *newline < at)
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// What the model may have meant: the same lines with other spaces, or else a line like the first one.
fn hint(text: &str, old: &str) -> String {
    let wanted: Vec<&str> = old.trim().lines().map(str::trim).collect();
    let lines: Vec<&str> = text.lines().take(MAX_COMPARED_LINES).collect();
    let mut budget = MAX_COMPARED_PRODUCT;
    let mut hint = String::from(": read the file again and copy the text exactly");
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
        return format!("; lines {first} to {last} differ from it only in spaces: copy them exactly");
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
    if let Some((_, index, line)) = nearest {
        let _ = write!(hint, "; the nearest is line {}: `{}`", index + 1, line.trim());
    }
    hint
}

//! Errors of `apply_patch`, with messages that a model can act on.

use dirigent_core::tool::code;
use serde_json::Value;

use super::locate::{HunkNotFound, Nearest};
use crate::diff::PatchError;
use crate::seen::Stale;
use crate::workspace::FileError;

/// Maximum size of a patch, in bytes.
pub(super) const MAX_PATCH_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of files in one patch.
pub(super) const MAX_FILES: usize = 500;

/// Reason why a patch was not applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplyError {
    #[error(transparent)]
    Patch(#[from] PatchError),
    #[error("the patch has {0} bytes, more than {MAX_PATCH_BYTES}: split it into smaller patches")]
    TooLong(usize),
    #[error("the patch changes {0} files, more than {MAX_FILES}: split it into smaller patches")]
    TooMany(usize),
    #[error("the hunks for `{path}` take too long to locate: split the patch into smaller patches")]
    SearchBudgetExhausted { path: String },
    #[error("`{path}` appears more than once in the patch: put all changes to a file in one section")]
    Duplicate { path: String },
    #[error("the patch changes nothing in `{path}`: it adds the same lines that it removes")]
    NoChange { path: String },
    #[error("the patch would change `{path}`, which is not among `paths`")]
    OutsidePaths { path: String },
    #[error(
        "the patch deletes `{path}`, but does not remove all of its lines: prefix each with `-`, or delete the file with file_operations"
    )]
    LinesRemain { path: String },
    #[error("{}", describe(path, not_found))]
    HunkNotFound {
        path: String,
        not_found: Box<HunkNotFound>,
    },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("cancelled")]
    Cancelled,
}

impl ApplyError {
    pub(super) fn code(&self) -> &'static str {
        match self {
            ApplyError::Patch(_) | ApplyError::Duplicate { .. } | ApplyError::NoChange { .. } => "bad_patch",
            ApplyError::TooLong(_) | ApplyError::TooMany(_) | ApplyError::SearchBudgetExhausted { .. } => {
                code::TOO_BIG
            }
            ApplyError::OutsidePaths { .. } => "outside_paths",
            ApplyError::LinesRemain { .. } => code::NO_MATCH,
            ApplyError::HunkNotFound { not_found, .. } => match **not_found {
                HunkNotFound::NoMatch { .. } | HunkNotFound::Overlaps { .. } => code::NO_MATCH,
                HunkNotFound::Ambiguous { .. } => code::AMBIGUOUS,
                HunkNotFound::NoContext { .. } => "bad_patch",
            },
            ApplyError::File(error) => error.code(),
            ApplyError::Stale(_) => code::STALE,
            ApplyError::Cancelled => code::CANCELLED,
        }
    }

    /// Returns the output of the failed call: for a hunk that matches nowhere, the numbered lines of the most
    /// similar location; otherwise null.
    pub(super) fn output(&self) -> Value {
        let ApplyError::HunkNotFound { not_found, .. } = self else {
            return Value::Null;
        };
        match &**not_found {
            HunkNotFound::NoMatch {
                nearest: Some(Nearest { start, shown, .. }),
                ..
            } => {
                let lines = (*start..).zip(shown.split_inclusive('\n'));
                lines
                    .map(|(number, line)| format!("{number}\t{line}"))
                    .collect::<String>()
                    .into()
            }
            HunkNotFound::NoMatch { nearest: None, .. }
            | HunkNotFound::Ambiguous { .. }
            | HunkNotFound::NoContext { .. }
            | HunkNotFound::Overlaps { .. } => Value::Null,
        }
    }
}

fn describe(path: &str, not_found: &HunkNotFound) -> String {
    match not_found {
        HunkNotFound::NoMatch {
            hunk,
            nearest,
            applied,
        } => {
            let mut text = format!("hunk {hunk} for `{path}` does not match");
            match nearest {
                Some(Nearest {
                    line,
                    actual: Some(actual),
                    expected,
                    ..
                }) => text.push_str(&format!(
                    ": in the most similar place, line {line} is `{actual}` where the patch has `{expected}`"
                )),
                Some(Nearest { line, expected, .. }) => text.push_str(&format!(
                    ": in the most similar place, the file ends before line {line}, where the patch has `{expected}`"
                )),
                None => text.push_str(": read the file, and copy its lines exactly"),
            }
            if let Some(line) = applied {
                text.push_str(&format!(
                    "; its new lines are already in the file, at line {line}"
                ));
            }
            text
        }
        HunkNotFound::Ambiguous { hunk, lines } => {
            let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
            format!(
                "hunk {hunk} for `{path}` matches at lines {}: correct its line number, or add context lines",
                lines.join(", ")
            )
        }
        HunkNotFound::NoContext { hunk } => {
            format!(
                "hunk {hunk} for `{path}` only adds lines, so its place is unknown: include the lines before and after it as context"
            )
        }
        HunkNotFound::Overlaps { hunk, line } => format!(
            "hunk {hunk} for `{path}` matches only at line {line}, which another hunk changes: merge the two hunks"
        ),
    }
}

//! The `apply_patch` tool: a unified diff of one or several files, all of it or nothing.
//!
//! Everything is worked out in memory before anything is written. No hunk is put where its context does not stand word for word.

mod locate;
mod parse;
mod plan;

use dirigent_core::tool::{ToolResult, code};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::locate::{HunkNotFound, Nearest};
use self::parse::{PatchError, parse};
use self::plan::PlannedFile;
use crate::blocking::{blocking, cancelled};
use crate::file_operations::seen::Stale;
use crate::transaction::{self, AbortReason, Aborted};
use crate::workspace::{FileError, Workspace};
use crate::{ToolContext, TypedTool, typed};

/// The longest patch, in bytes.
const MAX_PATCH_BYTES: usize = 4 * 1024 * 1024;
/// The most files that one patch changes.
const MAX_FILES: usize = 500;

const DESCRIPTION: &str = "Applies a unified diff to files of the workspace, all of it or nothing. It takes what `git diff` and `diff -u` \
    write: `--- a/FILE`, `+++ b/FILE` (`/dev/null` on one side for a file that is created or deleted; `rename from` and `rename to` after \
    `diff --git` for one that is renamed), then hunks that begin with `@@ -LINE,COUNT +LINE,COUNT @@`, for as many files as are to change \
    together. Line numbers and counts may be wrong, but every context and removed line must be there word for word: take in about three \
    lines around each change.";

/// The parameters of `apply_patch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// The unified diff.
    patch: String,
    /// Files or folders that it may change; a patch that would change others is refused. All of the workspace by default.
    #[serde(default)]
    paths: Vec<String>,
}

/// The tool `apply_patch`: changes several files by one unified diff.
///
/// Its output has each file in the order of the patch; `lines` are those at which the hunks begin in the old file:
///
/// ```json
/// {"files": [{"path": "src/b.rs", "change": "moved", "from": "src/a.rs", "lines": [12], "added": 3, "removed": 1}]}
/// ```
///
/// `change` is `edited`, `created`, `deleted` or `moved`. Nothing is changed where it fails. The codes of its failures, besides those of
/// files (`not_found`, `outside_workspace`, `protected`, `binary`, `changed`, …):
///
/// | code | meaning |
/// | --- | --- |
/// | `bad_patch` | it is no unified diff, or one that says two things |
/// | `no_match` | a hunk's lines are not in the file; the output has the place it fits best, `{"path", "hunk", "start_line", "content"}` |
/// | `ambiguous` | a hunk's lines are in the file several times, and its line number is that of none; `{"path", "hunk", "lines"}` |
/// | `exists` | a file to be created is there |
/// | `stale` | the file has changed since the agent last saw it; the output has its present content |
/// | `outside_paths` | the patch would change a file that `paths` does not name |
/// | `too_big` | more than 4 MiB or 500 files, or too many long hunks for long files |
/// | `cancelled` | nobody waits for it any more |
///
/// Line endings and the encoding of a file are kept. Its mode is, too: the modes in a patch are not applied. A hunk names what it
/// replaces, so that a file may be patched that the agent has not read, but not one that has changed since it did (PAOR-5).
pub fn apply_patch() -> TypedTool {
    typed("apply_patch", DESCRIPTION, move |context, parameters: Parameters| {
        blocking(context, move |context| run(context, &parameters))
    })
    .example(json!({
        "patch": "--- a/src/port.rs\n+++ b/src/port.rs\n@@ -3,2 +3,2 @@\n /// Where the server listens.\n-pub const PORT: u16 = 8080;\n+pub const PORT: u16 = 9090;\n"
    }))
}

/// Why a patch was not applied.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Patch(#[from] PatchError),
    #[error("the patch has {0} bytes, more than {MAX_PATCH_BYTES}: apply it in parts")]
    TooLong(usize),
    #[error("the patch changes {0} files, more than {MAX_FILES}: apply it in parts")]
    TooMany(usize),
    #[error("it takes too long to find where the hunks for `{path}` belong: apply the patch in parts")]
    SearchBudgetExhausted { path: String },
    #[error("`{path}` is in the patch twice: say all that becomes of a file in one part")]
    Twice { path: String },
    #[error("the patch changes nothing in `{path}`: the lines it removes are those it adds")]
    Same { path: String },
    #[error("the patch would change `{path}`, which is not among `paths`")]
    OutsidePaths { path: String },
    #[error(
        "`{path}` has more in it than the patch deletes: give all of its lines with `-`, or delete it with file_operations"
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

impl Failure {
    fn code(&self) -> &'static str {
        match self {
            Failure::Patch(_) | Failure::Twice { .. } | Failure::Same { .. } => "bad_patch",
            Failure::TooLong(_) | Failure::TooMany(_) | Failure::SearchBudgetExhausted { .. } => {
                code::TOO_BIG
            }
            Failure::OutsidePaths { .. } => "outside_paths",
            Failure::LinesRemain { .. } => code::NO_MATCH,
            Failure::HunkNotFound { not_found, .. } => match **not_found {
                HunkNotFound::NoMatch { .. } | HunkNotFound::Overlaps { .. } => code::NO_MATCH,
                HunkNotFound::Ambiguous { .. } => code::AMBIGUOUS,
                HunkNotFound::NoContext { .. } => "bad_patch",
            },
            Failure::File(fault) => fault.code(),
            Failure::Stale(_) => code::STALE,
            Failure::Cancelled => code::CANCELLED,
        }
    }

    /// What there is to read besides.
    fn output(&self) -> Value {
        let Failure::HunkNotFound { path, not_found } = self else {
            return Value::Null;
        };
        match &**not_found {
            HunkNotFound::NoMatch {
                hunk,
                nearest: Some(Nearest { start, shown, .. }),
                ..
            } => json!({"path": path, "hunk": hunk, "start_line": start, "content": shown}),
            HunkNotFound::Ambiguous { hunk, lines } => json!({"path": path, "hunk": hunk, "lines": lines}),
            HunkNotFound::NoMatch { nearest: None, .. }
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
            let mut text = format!("hunk {hunk} for `{path}` does not fit");
            match nearest {
                Some(Nearest {
                    line,
                    actual: Some(actual),
                    expected,
                    ..
                }) => text.push_str(&format!(
                    ": nearest, line {line} is `{actual}` where the patch has `{expected}`"
                )),
                Some(Nearest { line, expected, .. }) => text.push_str(&format!(
                    ": nearest, the file ends before line {line}, where the patch has `{expected}`"
                )),
                None => text.push_str(": read the file, and copy its lines exactly"),
            }
            if let Some(line) = applied {
                text.push_str(&format!(
                    "; what it would make of it stands at line {line} already"
                ));
            }
            text
        }
        HunkNotFound::Ambiguous { hunk, lines } => {
            let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
            format!(
                "hunk {hunk} for `{path}` fits at lines {}: give the right line number, or more context",
                lines.join(", ")
            )
        }
        HunkNotFound::NoContext { hunk } => {
            format!("hunk {hunk} for `{path}` only adds lines: give the lines before and after as context")
        }
        HunkNotFound::Overlaps { hunk, line } => format!(
            "hunk {hunk} for `{path}` fits only at line {line}, which another hunk changes: make one hunk of both"
        ),
    }
}

fn run(context: &ToolContext, parameters: &Parameters) -> ToolResult {
    let workspace = match Workspace::from_context(context) {
        Ok(workspace) => workspace,
        Err(fault) => return fault.failure(),
    };
    match apply(context, &workspace, parameters) {
        Ok(result) => result,
        Err(Failure::Cancelled) => cancelled(),
        Err(Failure::Stale(stale)) => stale.refusal(context, &workspace),
        Err(failure) => ToolResult::failure(format!("{failure}; nothing was changed"))
            .with_code(failure.code())
            .with_output(failure.output()),
    }
}

fn apply(
    context: &ToolContext,
    workspace: &Workspace,
    parameters: &Parameters,
) -> Result<ToolResult, Failure> {
    if parameters.patch.len() > MAX_PATCH_BYTES {
        return Err(Failure::TooLong(parameters.patch.len()));
    }
    let files = parse(&parameters.patch)?;
    if files.len() > MAX_FILES {
        return Err(Failure::TooMany(files.len()));
    }
    let planned = plan::plan(context, workspace, files, &parameters.paths)?;
    let mut rows = Vec::with_capacity(planned.len());
    let (mut changes, mut seen) = (Vec::new(), Vec::new());
    for PlannedFile {
        row,
        changes: more,
        seen: known,
    } in planned
    {
        rows.push(row);
        changes.extend(more);
        seen.extend(known);
    }
    match transaction::apply_all(workspace, &mut changes, &context.cancel) {
        Ok(changes) => Ok(ToolResult::success(json!({"files": rows}))
            .with_seen(seen)
            .with_changes(changes)),
        Err(Aborted { reason, not_reverted }) if not_reverted.is_empty() => Err(match reason {
            AbortReason::Cancelled => Failure::Cancelled,
            AbortReason::File(FileError::Changed { path }) => Stale::changed_meanwhile(path).into(),
            AbortReason::File(fault) => fault.into(),
        }),
        // The disk let neither all be done nor all be put back.
        Err(aborted) => Ok(aborted.failure()),
    }
}

//! The `apply_patch` tool: applies a unified diff to one or several files, either completely or not at all.
//!
//! The new content of every file is computed in memory before anything is written. A hunk is applied only where the file contains its
//! context lines and removed lines exactly.

mod error;
mod locate;
mod plan;

use dirigent_core::tool::{ToolCategory, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::error::{ApplyError, MAX_FILES, MAX_PATCH_BYTES};
use self::plan::PlannedFile;
use crate::blocking::{blocking, cancelled};
use crate::diff;
use crate::seen::Stale;
use crate::tool::ToolContext;
use crate::transaction::{self, AbortReason, Aborted};
use crate::typed::{TypedTool, typed};
use crate::workspace::{FileError, Workspace};

const DESCRIPTION: &str = "Applies a unified diff to files of the workspace, all of it or nothing. It can also create, delete and \
    rename files. Line numbers may be wrong; context and removed lines must match word for word.";

/// The parameters of `apply_patch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    patch: String,
    /// Refuse a patch that changes anything else.
    #[serde(default)]
    paths: Vec<String>,
}

/// Creates the tool `apply_patch`, which changes one or several files with one unified diff.
///
/// The output has a line for each file in the order of the patch, with the line numbers in the old file at
/// which the hunks begin, and the counts of added and removed lines:
/// `edited src/b.rs at lines 12, 40 (+3 -1)`, `created …`, `deleted …` or `moved src/a.rs to src/b.rs …`. A
/// failed call reverts its changes; its result reports each change that could not be reverted. Besides the
/// codes of [`FileError::code`](crate::workspace::FileError::code), failures have these codes:
///
/// | code | meaning |
/// | --- | --- |
/// | `bad_patch` | the patch is not a valid unified diff |
/// | `no_match` | a hunk's lines are not in the file; the output shows the numbered lines of the most similar location |
/// | `ambiguous` | a hunk matches at several locations, and its line number selects none of them |
/// | `exists` | a file to create exists already |
/// | `stale` | the file has changed since the agent last saw it; the output has its current content |
/// | `outside_paths` | the patch would change a file that is not in `paths` |
/// | `too_big` | more than 4 MiB or 500 files, or too many long hunks for long files |
/// | `cancelled` | the call was cancelled |
///
/// A file keeps its line endings, encoding and mode. Modes in a patch are not applied. A hunk quotes the
/// lines it replaces, so an agent may patch a file that it has not read, but not a file that has changed
/// since the agent read it (PAOR-5).
pub fn apply_patch() -> TypedTool {
    typed("apply_patch", DESCRIPTION, move |context, parameters: Parameters| {
        blocking(context, move |context| run(context, &parameters))
    })
    .category(ToolCategory::Files)
    .example(json!({
        "patch": "--- a/src/port.rs\n+++ b/src/port.rs\n@@ -3,2 +3,2 @@\n /// Where the server listens.\n-pub const PORT: u16 = 8080;\n+pub const PORT: u16 = 9090;\n"
    }))
}

fn run(context: &ToolContext, parameters: &Parameters) -> ToolResult {
    let workspace = match Workspace::from_context(context) {
        Ok(workspace) => workspace,
        Err(error) => return error.failure(),
    };
    match apply(context, &workspace, parameters) {
        Ok(result) => result,
        Err(ApplyError::Cancelled) => cancelled(),
        Err(ApplyError::Stale(stale)) => stale.refusal(context, &workspace),
        Err(error) => ToolResult::failure(format!("{error}; nothing was changed"))
            .with_code(error.code())
            .with_output(error.output()),
    }
}

fn apply(
    context: &ToolContext,
    workspace: &Workspace,
    parameters: &Parameters,
) -> Result<ToolResult, ApplyError> {
    if parameters.patch.len() > MAX_PATCH_BYTES {
        return Err(ApplyError::TooLong(parameters.patch.len()));
    }
    let files = diff::parse(&parameters.patch)?;
    if files.len() > MAX_FILES {
        return Err(ApplyError::TooMany(files.len()));
    }
    let planned = plan::plan(context, workspace, files, &parameters.paths)?;
    let mut rows: Vec<String> = Vec::with_capacity(planned.len());
    let (mut changes, mut seen) = (Vec::new(), Vec::new());
    for PlannedFile {
        row,
        changes: file_changes,
        seen: seen_files,
    } in planned
    {
        rows.push(row.to_string());
        changes.extend(file_changes);
        seen.extend(seen_files);
    }
    match transaction::apply_all(workspace, &mut changes, &context.cancel) {
        Ok(changes) => Ok(ToolResult::success(rows.join("\n").into())
            .with_seen(seen)
            .with_changes(changes)),
        Err(Aborted { reason, not_reverted }) if not_reverted.is_empty() => Err(match reason {
            AbortReason::Cancelled => ApplyError::Cancelled,
            AbortReason::File(FileError::Changed { path }) => Stale::changed_meanwhile(path).into(),
            AbortReason::File(error) => error.into(),
        }),
        // Some changes were made and could not be reverted.
        Err(aborted) => Ok(aborted.failure()),
    }
}

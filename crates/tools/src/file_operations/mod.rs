//! The `file_operations` tool: reads, writes, edits, lists, moves and deletes files of the workspace, and undoes the run's changes.
//!
//! A move never overwrites a file, an edit only replaces text that occurs exactly once, and each change to a file is atomic. An agent
//! cannot overwrite content that it has not seen: see [`seen`].

mod edit;
mod error;
mod list;
mod read;
mod undo;

use dirigent_core::tool::{Access, Repeat, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::error::FileOperationError;
use crate::blocking::{blocking, cancelled};
use crate::diff::unified_diff;
use crate::excerpt::LineRange;
use crate::seen::{self, Extent, Stale};
use crate::text::{LineEnding, TextFile};
use crate::tool::{Tool, ToolContext};
use crate::typed::typed;
use crate::workspace::{EntryKind, FileError, Workspace};

/// The parameters of all operations in one flat object, because small models fill in a flat object more reliably than a choice of several
/// objects. Each operation checks that its required parameters are set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// The operation.
    operation: Operation,
    /// The file or folder, relative to the workspace, such as `src/main.rs`. Required by read, write, edit and delete. For list, the
    /// folder; default: the whole workspace. For undo, the file or folder; default: all changes of this run.
    path: Option<String>,
    /// read: the first line to read, counted from 1; default 1.
    #[schemars(range(min = 1))]
    start_line: Option<usize>,
    /// read: the last line to read, included; default: the last line of the file.
    #[schemars(range(min = 1))]
    end_line: Option<usize>,
    /// write: the whole new content.
    content: Option<String>,
    /// edit: the text to replace, copied exactly from the file. It must occur once, so include enough lines.
    old: Option<String>,
    /// edit: the replacement; empty to delete the text.
    new: Option<String>,
    /// list: the number of folder levels to show; default 2.
    #[schemars(range(min = 1))]
    depth: Option<usize>,
    /// move: the current path.
    from: Option<String>,
    /// move: the new path.
    to: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Operation {
    Read,
    Write,
    Edit,
    List,
    Move,
    Delete,
    Undo,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Edit => "edit",
            Operation::List => "list",
            Operation::Move => "move",
            Operation::Delete => "delete",
            Operation::Undo => "undo",
        }
    }

    fn required_access(self) -> Access {
        match self {
            Operation::Read | Operation::List => Access::ReadOnly,
            Operation::Write | Operation::Edit | Operation::Move | Operation::Delete | Operation::Undo => {
                Access::ReadWrite
            }
        }
    }
}

const DESCRIPTION: &str = "Reads, writes, edits, lists, moves and deletes files of the workspace, and undoes this run's changes to them. \
`read` returns a file's text, or the lines from `start_line` to `end_line`; `write` creates a file or replaces its \
whole content; `edit` replaces the only occurrence of `old` by `new`; `list` shows files and folders (folders \
end with `/`; ignored files are left out); `move` renames and never overwrites; `delete` removes a file or an empty \
folder; `undo` restores files to their content before this run changed them. Read a file before you change it: a file that \
others have changed since you read it is left as it is, and its new content is shown to you.";

/// Creates the tool `file_operations`. The output of a call is:
///
/// | operation | output |
/// | --- | --- |
/// | `read` | `{"path", "content", "start_line", "end_line", "total_lines"}`. Lines always end with `\n`; `line_endings` is set if the file has other line endings, `encoding` if it is not UTF-8, and `note` if the lines exceed 64 KiB |
/// | `write` | `{"path", "lines"}`; `"unchanged": true` if the file already had this content |
/// | `edit` | `{"path", "line"}`, the line where the change begins |
/// | `list` | `{"path", "entries": ["src/", "src/main.rs"]}`; `note` if there are more than 1000 |
/// | `move` | `{"from", "to"}` |
/// | `delete` | `{"path"}` |
/// | `undo` | `{"undone": ["src/main.rs"], "not_restored": [{"path", "reason"}], "by_commands": ["Cargo.lock"]}`; a failure if any file could not be restored. Files that only commands changed are listed in `by_commands` and left unchanged |
///
/// Besides the codes of [`FileError::code`], failures have these codes:
///
/// | code | meaning |
/// | --- | --- |
/// | `bad_parameters` | a parameter is missing or invalid: lines beyond the file, an `old` that is empty or equal to `new` |
/// | `access_denied` | the agent may not change files |
/// | `stale` | the file has changed since the agent last saw it; see below |
/// | `no_match` | `old` is not in the file |
/// | `ambiguous` | `old` occurs more than once |
/// | `not_found` | for `undo` also: this run has not changed the file |
/// | `not_kept` | for `undo`: the run's changes are unknown |
/// | `changed` | for `undo`: a file has changed since the run's last change to it, or could not be restored for another reason |
/// | `cancelled` | the call was cancelled; nothing was changed, except what `undo` reports |
///
/// An existing file keeps its encoding and line endings. Changes are reported with diffs (LOOP-8). An agent without
/// [`Access::ReadWrite`] can only read and list.
///
/// Several agents may work in one workspace (PAOR-5). If a file has changed since the calling agent last saw it, changing, deleting or
/// moving it fails. The output of the failed call is the same as for a `read` of the current content (at most 16 KiB), which then counts as
/// seen. `write` also fails if the agent has not seen the whole existing file; `delete` and `move` fail if it has seen only a part. A file
/// counts as seen completely once its lines have been read in order from the first to the last. `edit` quotes the text it replaces, so the
/// agent need not have seen the rest. Calls that a plan makes directly, without an agent ([`ToolContext::seen`] is `None`), may change
/// every file, but never overwrite content that was written while they ran.
///
/// On a case-insensitive disk, `A.rs` and `a.rs` are one file, but seen separately: an agent that has read one name has not seen the other.
pub fn file_operations() -> impl Tool {
    typed(
        "file_operations",
        DESCRIPTION,
        move |context, parameters: Parameters| blocking(context, move |context| run(context, &parameters)),
    )
    .access(Access::ReadOnly)
    .repeat(Repeat::SafeWhere {
        parameter: "operation".to_owned(),
        values: vec!["read".to_owned(), "list".to_owned()],
    })
    .example(json!({"operation": "read", "path": "src/main.rs", "start_line": 1, "end_line": 80}))
}

fn run(context: &ToolContext, parameters: &Parameters) -> ToolResult {
    let workspace = match Workspace::from_context(context) {
        Ok(workspace) => workspace,
        Err(error) => return error.failure(),
    };
    match execute(context, &workspace, parameters) {
        Ok(result) => result,
        Err(FileOperationError::Stale(stale)) => stale.refusal(context, &workspace),
        Err(FileOperationError::File(FileError::Changed { path })) => {
            Stale::changed_meanwhile(path).refusal(context, &workspace)
        }
        Err(FileOperationError::File(FileError::NotFound { path, nearest })) => {
            let absent = workspace.canonical(&path).ok();
            let seen = absent.and_then(|name| seen::absence(context, &name));
            let error = FileError::NotFound { path, nearest };
            error.failure().with_seen(seen.into_iter().collect())
        }
        Err(error) => ToolResult::failure(error.to_string()).with_code(error.code()),
    }
}

fn execute(
    context: &ToolContext,
    workspace: &Workspace,
    parameters: &Parameters,
) -> Result<ToolResult, FileOperationError> {
    let operation = parameters.operation;
    if context.access < operation.required_access() {
        return Err(FileOperationError::ReadOnly(operation.name()));
    }
    let required = |value: &'_ Option<String>, parameter, description| {
        value.clone().ok_or(FileOperationError::Missing {
            operation: operation.name(),
            parameter,
            description,
        })
    };
    let path = || required(&parameters.path, "path", "the file, relative to the workspace");
    match operation {
        Operation::Read => {
            let lines = LineRange::new(parameters.start_line, parameters.end_line)?;
            read::read(context, workspace, &path()?, lines)
        }
        Operation::List => {
            let folder = parameters.path.as_deref().unwrap_or(".");
            Ok(ToolResult::success(list::list(
                workspace,
                folder,
                parameters.depth,
            )?))
        }
        Operation::Write => {
            let content = required(
                &parameters.content,
                "content",
                "the whole new content of the file",
            )?;
            write(context, workspace, &path()?, &content)
        }
        Operation::Edit => {
            let old = required(
                &parameters.old,
                "old",
                "the text to replace, copied from the file",
            )?;
            let new = required(
                &parameters.new,
                "new",
                "the replacement, empty to delete the text",
            )?;
            edit(context, workspace, &path()?, &old, &new)
        }
        Operation::Move => {
            let from = parameters.from.clone().or_else(|| parameters.path.clone());
            let from = required(&from, "from", "the current path")?;
            let to = required(&parameters.to, "to", "the new path")?;
            rename(context, workspace, &from, &to)
        }
        Operation::Delete => delete(context, workspace, &path()?),
        Operation::Undo => Ok(undo::undo(context, workspace, parameters.path.as_deref())?),
    }
}

fn write(
    context: &ToolContext,
    workspace: &Workspace,
    path: &str,
    content: &str,
) -> Result<ToolResult, FileOperationError> {
    let existing = match workspace.read(path) {
        Ok(bytes) => Some(bytes),
        Err(FileError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let name = workspace.canonical(path)?;
    let Some(before) = existing else {
        return create(context, workspace, path, content);
    };
    // If the existing file is binary, the text replaces it without a diff.
    let decoded = TextFile::decode(path, &before).ok();
    let (after, diff) = match &decoded {
        Some(file) => {
            let text = LineEnding::detect(&file.text).apply(content);
            (
                file.encode(&text)?,
                unified_diff(&name, Some(&file.text), Some(&text)),
            )
        }
        None => (content.as_bytes().to_vec(), None),
    };
    let mut output = json!({"path": name, "lines": content.lines().count()});
    let seen = vec![seen::content(&name, &after)];
    if after == before {
        output["unchanged"] = Value::Bool(true);
        return Ok(ToolResult::success(output).with_seen(seen));
    }
    workspace.check_changeable(path)?;
    seen::check(context, &name, Some(&before), Extent::Whole)?;
    if context.cancel.is_cancelled() {
        return Ok(cancelled());
    }
    let change = workspace.replace(path, &before, &after)?.with_diff(diff);
    Ok(ToolResult::success(output)
        .with_seen(seen)
        .with_changes(vec![change]))
}

fn create(
    context: &ToolContext,
    workspace: &Workspace,
    path: &str,
    content: &str,
) -> Result<ToolResult, FileOperationError> {
    let name = workspace.canonical(path)?;
    workspace.check_changeable(path)?;
    seen::check(context, &name, None, Extent::Whole)?;
    if context.cancel.is_cancelled() {
        return Ok(cancelled());
    }
    let change = match workspace.create(path, content.as_bytes()) {
        Err(FileError::Exists { path }) => return Err(Stale::created_meanwhile(path).into()),
        created => created?.with_diff(unified_diff(&name, None, Some(content))),
    };
    let output = json!({"path": name, "lines": content.lines().count()});
    let seen = vec![seen::content(&name, content.as_bytes())];
    Ok(ToolResult::success(output)
        .with_seen(seen)
        .with_changes(vec![change]))
}

fn edit(
    context: &ToolContext,
    workspace: &Workspace,
    path: &str,
    old: &str,
    new: &str,
) -> Result<ToolResult, FileOperationError> {
    let before = workspace.read(path)?;
    let name = workspace.canonical(path)?;
    workspace.check_changeable(path)?;
    seen::check(context, &name, Some(&before), Extent::Part)?;
    let file = TextFile::decode(path, &before)?;
    let edited = edit::replace_once(&name, &file.text, old, new)?;
    let after = file.encode(&edited.text)?;
    if context.cancel.is_cancelled() {
        return Ok(cancelled());
    }
    let change = workspace.replace(path, &before, &after)?;
    let output = json!({"path": name, "line": edited.line});
    let seen = vec![seen::edited(context, &name, &before, &after, edited.line)];
    let diff = unified_diff(&name, Some(&file.text), Some(&edited.text));
    Ok(ToolResult::success(output)
        .with_seen(seen)
        .with_changes(vec![change.with_diff(diff)]))
}

fn rename(
    context: &ToolContext,
    workspace: &Workspace,
    from: &str,
    to: &str,
) -> Result<ToolResult, FileOperationError> {
    let before = content_before_removal(context, workspace, from)?;
    if context.cancel.is_cancelled() {
        return Ok(cancelled());
    }
    let (plain_from, plain_to) = (
        workspace.canonical_nofollow(from)?,
        workspace.canonical_nofollow(to)?,
    );
    let change = workspace.rename(from, to, before.as_deref())?;
    let (from, to) = (plain_from, plain_to);
    let output = json!({"from": from, "to": to});
    Ok(ToolResult::success(output)
        .with_seen(seen::moved(context, &from, &to))
        .with_changes(vec![change]))
}

fn delete(
    context: &ToolContext,
    workspace: &Workspace,
    path: &str,
) -> Result<ToolResult, FileOperationError> {
    let before = content_before_removal(context, workspace, path)?;
    if context.cancel.is_cancelled() {
        return Ok(cancelled());
    }
    let name = workspace.canonical_nofollow(path)?;
    let change = workspace.remove(path, before.as_deref())?;
    let text = before.and_then(|bytes| TextFile::decode(&name, &bytes).ok());
    let diff = text.and_then(|file| unified_diff(&name, Some(&file.text), None));
    let seen = seen::absence(context, &name).into_iter().collect();
    Ok(ToolResult::success(json!({"path": name}))
        .with_seen(seen)
        .with_changes(vec![change.with_diff(diff)]))
}

/// Returns the content of a file that is about to be deleted or moved. Fails if the agent has not seen enough of the file. `None` if the
/// path is not a regular file, or if the file is unreadable and the agent never saw it.
fn content_before_removal(
    context: &ToolContext,
    workspace: &Workspace,
    path: &str,
) -> Result<Option<Vec<u8>>, FileOperationError> {
    match workspace.kind_nofollow(path)? {
        EntryKind::File => {}
        EntryKind::Folder | EntryKind::Other => return Ok(None),
    }
    workspace.check_changeable_nofollow(path)?;
    let name = workspace.canonical(path)?;
    match workspace.read(path) {
        Ok(bytes) => {
            seen::check(context, &name, Some(&bytes), Extent::Name)?;
            Ok(Some(bytes))
        }
        Err(error) if context.seen.as_ref().is_some_and(|seen| seen.contains_key(&name)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

//! The `file_operations` tool: reads, writes, edits, lists, moves and deletes files of the workspace, and undoes the run's changes.
//!
//! A move never overwrites a file. Unless an edit replaces every occurrence, the text that it replaces must
//! occur exactly once. Each change to a file is atomic. An agent cannot overwrite content that it has not
//! seen: see [`seen`].

mod edit;
mod error;
mod list;
mod read;
mod snippet;
mod undo;

use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolResult, display_path};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::edit::Occurrences;
use self::error::FileOperationError;
use crate::blocking::{blocking, cancelled};
use crate::diff::unified_diff;
use crate::excerpt::{LineNumbers, LineRange};
use crate::seen::{self, Extent, Stale};
use crate::text::{LineEnding, TextFile};
use crate::tool::{Tool, ToolContext};
use crate::typed::{TypedTool, typed};
use crate::workspace::{EntryKind, FileError, Workspace};

/// The parameters of all operations in one flat object, because small models fill in a flat object more reliably than a choice of several
/// objects. Each operation checks that its required parameters are set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    operation: Operation,
    path: Option<String>,
    #[schemars(range(min = 1))]
    start_line: Option<usize>,
    #[schemars(range(min = 1))]
    end_line: Option<usize>,
    /// Default true.
    numbered: Option<bool>,
    content: Option<String>,
    /// Copied exactly; must occur only once.
    old: Option<String>,
    new: Option<String>,
    #[serde(default)]
    replace_all: bool,
    /// At any depth: `*.rs`, `src/**/*.ts`.
    glob: Option<String>,
    /// Default 2, or all with `glob`.
    #[schemars(range(min = 1))]
    depth: Option<usize>,
    from: Option<String>,
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

const DESCRIPTION: &str = "Works on files of the workspace. `read` returns a file's lines, up to 64 KiB, each after its number and a \
    tab, which are not part of the file. `write` creates a file, or replaces one that you have read to its end. `edit` replaces \
    `old` by `new`. `list` returns a folder's files and folders (with `/` at the end), or the files that match `glob`, without \
    ignored ones. `move` never overwrites. `delete` removes a file or an empty folder. `undo` restores what this run's \
    file tools changed, never what commands changed, in `path` or everywhere. A change fails, and shows the new content, if the file has changed since you saw it.";

const READ_ONLY_DESCRIPTION: &str = "Reads files of the workspace. `read` returns a file's lines, up to 64 KiB, each after its number \
    and a tab, which are not part of the file. `list` returns a folder's files and folders (with `/` at the end), or the files that \
    match `glob`, without ignored ones.";

/// Creates the tool `file_operations`. The output of a call is:
///
/// | operation | output |
/// | --- | --- |
/// | `read` | `Lines 1-80 of 200`, then the lines. The first line also says if the encoding is not UTF-8, if the line endings are unusual, if the last line has no line break, and where to continue if the lines exceed 64 KiB. Each line begins with its number and a tab, unless `numbered` is false, and ends with `\n` |
/// | `write` | the number of lines written; that nothing changed if the file already had this content |
/// | `edit` | the line where the change begins, with `replace_all` the number of replacements, and the changed lines with their numbers |
/// | `list` | the number of entries, then one path per line; a folder's path ends with `/`. The first line says if there are more than 1000. With `glob`, only the files whose path below the folder or in the workspace matches |
/// | `move`, `delete` | what was done |
/// | `undo` | `{"restored": ["src/main.rs"], "not_restored": [{"path", "reason"}]}`; a failure if any file could not be restored, or nothing was. Files that changed only while commands were running are left unchanged: `not_restored` lists them, but they are no failure |
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
/// | `not_found` | for `undo` also: this run has not changed the file, or everything is already restored |
/// | `not_kept` | for `undo`: the run's changes are unknown, or only commands changed files |
/// | `changed` | for `undo`: a file has changed since the run's last change to it, or could not be restored for another reason |
/// | `cancelled` | the call was cancelled; nothing was changed, except what `undo` reports |
///
/// An existing file keeps its encoding and line endings. Changes are reported with diffs (LOOP-8). An agent without
/// [`Access::ReadWrite`] can only read and list.
///
/// Several agents may work in one workspace (PAOR-5). If a file has changed since the calling agent last saw
/// it, changing, deleting or moving it fails. The output of the failed call is the same as for a `read` of
/// the current content (at most 16 KiB), which then counts as seen. `write` also fails if the agent has not
/// seen the whole existing file; `delete` and `move` fail if it has seen only a part. A file counts as seen
/// completely once its lines have been read in order from the first to the last. An `edit` quotes the text
/// that it replaces, so the agent need not have seen the rest. Calls that a plan makes directly, without an
/// agent ([`ToolContext::seen`] is `None`), may change every file, but never overwrite content that was
/// written while they ran.
///
/// On a case-insensitive disk, `A.rs` and `a.rs` are one file, but count as seen separately: an agent that
/// has read one name has not seen the other.
pub fn file_operations() -> impl Tool {
    let example = json!({"operation": "read", "path": "src/main.rs", "start_line": 1, "end_line": 80});
    let tool = typed(
        "file_operations",
        DESCRIPTION,
        move |context, parameters: Parameters| blocking(context, move |context| run(context, &parameters)),
    );
    let required = |tool: TypedTool, it: &Required| {
        tool.requires_either_where(("operation", it.operations), it.parameter, it.or, it.purpose)
    };
    REQUIRED
        .iter()
        .fold(tool, required)
        .category(ToolCategory::Files)
        .access(Access::ReadOnly)
        .changes_where("operation", &["write", "edit", "move", "delete", "undo"])
        .repeat(Repeat::SafeWhere {
            parameter: "operation".to_owned(),
            values: vec!["read".to_owned(), "list".to_owned()],
            or_absent: false,
        })
        .example(example.clone())
        .read_only(
            READ_ONLY_DESCRIPTION,
            &[
                "operation",
                "path",
                "start_line",
                "end_line",
                "numbered",
                "glob",
                "depth",
            ],
            &["read", "list"],
            example,
        )
}

/// A parameter that some operations need.
struct Required {
    operations: &'static [&'static str],
    parameter: &'static str,
    /// Another parameter that may be given instead.
    or: Option<&'static str>,
    purpose: &'static str,
}

const REQUIRED: [Required; 6] = [
    Required {
        operations: &["read", "write", "edit", "delete"],
        parameter: "path",
        or: None,
        purpose: "the file, relative to the workspace",
    },
    Required {
        operations: &["write"],
        parameter: "content",
        or: None,
        purpose: "the whole new content of the file",
    },
    Required {
        operations: &["edit"],
        parameter: "old",
        or: None,
        purpose: "the text to replace, copied from the file",
    },
    Required {
        operations: &["edit"],
        parameter: "new",
        or: None,
        purpose: "the replacement, empty to delete the text",
    },
    Required {
        operations: &["move"],
        parameter: "from",
        or: Some("path"),
        purpose: "the current path",
    },
    Required {
        operations: &["move"],
        parameter: "to",
        or: None,
        purpose: "the new path",
    },
];

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
    let required = |value: &'_ Option<String>, parameter| {
        value.clone().ok_or_else(|| FileOperationError::Missing {
            operation: operation.name(),
            parameter,
            purpose: REQUIRED
                .iter()
                .find(|it| it.parameter == parameter)
                .map_or("", |it| it.purpose),
        })
    };
    let path = || required(&parameters.path, "path");
    match operation {
        Operation::Read => {
            let lines = LineRange::new(parameters.start_line, parameters.end_line)?;
            let numbers = match parameters.numbered.unwrap_or(true) {
                true => LineNumbers::Shown,
                false => LineNumbers::Hidden,
            };
            read::read(context, workspace, &path()?, lines, numbers)
        }
        Operation::List => {
            let folder = parameters.path.as_deref().unwrap_or(".");
            let glob = parameters.glob.as_deref();
            let listed = list::list(context, workspace, folder, parameters.depth, glob)?;
            if context.cancel.is_cancelled() {
                return Ok(cancelled());
            }
            Ok(ToolResult::success(listed.into()).as_list())
        }
        Operation::Write => {
            let content = required(&parameters.content, "content")?;
            write(context, workspace, &path()?, &content)
        }
        Operation::Edit => {
            let old = required(&parameters.old, "old")?;
            let new = required(&parameters.new, "new")?;
            let occurrences = if parameters.replace_all {
                Occurrences::All
            } else {
                Occurrences::Only
            };
            edit(context, workspace, &path()?, &old, &new, occurrences)
        }
        Operation::Move => {
            let from = parameters.from.clone().or_else(|| parameters.path.clone());
            let from = required(&from, "from")?;
            let to = required(&parameters.to, "to")?;
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
    let seen = vec![seen::content(&name, &after)];
    if after == before {
        let output = "Unchanged: the file has this content already";
        return Ok(ToolResult::success(output.into()).with_seen(seen));
    }
    workspace.check_changeable(path)?;
    seen::check(context, &name, Some(&before), Extent::Whole)?;
    if context.cancel.is_cancelled() {
        return Ok(cancelled());
    }
    let change = workspace.replace(path, &before, &after)?.with_diff(diff);
    Ok(ToolResult::success(lines_written(content))
        .with_seen(seen)
        .with_changes(vec![change]))
}

fn lines_written(content: &str) -> Value {
    match content.lines().count() {
        1 => "1 line written".into(),
        count => format!("{count} lines written").into(),
    }
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
    let seen = vec![seen::content(&name, content.as_bytes())];
    Ok(ToolResult::success(lines_written(content))
        .with_seen(seen)
        .with_changes(vec![change]))
}

fn edit(
    context: &ToolContext,
    workspace: &Workspace,
    path: &str,
    old: &str,
    new: &str,
    occurrences: Occurrences,
) -> Result<ToolResult, FileOperationError> {
    let before = workspace.read(path)?;
    let name = workspace.canonical(path)?;
    workspace.check_changeable(path)?;
    seen::check(context, &name, Some(&before), Extent::Part)?;
    let file = TextFile::decode(path, &before)?;
    let edited =
        edit::replace(&name, &file.text, old, new, occurrences).map_err(|error| {
            match seen::has_seen(context, &name) {
                true => error,
                false => error.for_unread_file(),
            }
        })?;
    let after = file.encode(&edited.text)?;
    if context.cancel.is_cancelled() {
        return Ok(cancelled());
    }
    let change = workspace.replace(path, &before, &after)?;
    let done = match (occurrences, edited.replaced) {
        (Occurrences::Only, _) => "Changed".to_owned(),
        (Occurrences::All, 1) => "Replaced 1 occurrence".to_owned(),
        (Occurrences::All, replaced) => format!("Replaced {replaced} occurrences"),
    };
    let output = format!("{done}, from line {}\n{}", edited.line, edited.snippet);
    let seen = vec![seen::edited(context, &name, &before, &after, edited.line)];
    let diff = unified_diff(&name, Some(&file.text), Some(&edited.text));
    Ok(ToolResult::success(output.into())
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
    let output = format!("Moved {} to {}", display_path(&from), display_path(&to));
    Ok(ToolResult::success(output.into())
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
    Ok(
        ToolResult::success(format!("Deleted {}", display_path(&name)).into())
            .with_seen(seen)
            .with_changes(vec![change.with_diff(diff)]),
    )
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

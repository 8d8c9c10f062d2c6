//! The `file_operations` tool: read, write, edit, list, move and delete files of the workspace, and undo what the run did to them.
//!
//! It never replaces a file that it was not told to, edits only what it finds exactly once, and changes a file in one
//! step or not at all. What an agent has not seen as it is now, it does not lose for others: see [`seen`].

mod edit;
mod list;
mod read;
pub(crate) mod seen;
mod undo;

use dirigent_core::tool::{Access, Repeat, ToolResult, code};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocking::{blocking, cancelled};
use crate::text::{LineEnding, TextFile, unified_diff};
use crate::workspace::{FileError, Kind, Workspace};
use crate::{Tool, ToolContext, typed};

use self::seen::{Extent, Stale};

/// The parameters of all operations in one flat object, as small models get that right more often than a choice of
/// objects; which are needed is checked by operation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// What to do.
    operation: Operation,
    /// The file or folder, relative to the workspace, such as `src/main.rs`. Needed by read, write, edit and delete;
    /// for list the folder, the whole workspace if left out; for undo the file or folder, all that this run has changed if left out.
    path: Option<String>,
    /// read: the first line wanted, counted from 1; default 1.
    #[schemars(range(min = 1))]
    start_line: Option<usize>,
    /// read: the last line wanted, included; default the last one.
    #[schemars(range(min = 1))]
    end_line: Option<usize>,
    /// write: the whole new content.
    content: Option<String>,
    /// edit: the text to replace, copied exactly from the file; it must be there once, so take in enough lines.
    old: Option<String>,
    /// edit: what to put in its place; empty to delete it.
    new: Option<String>,
    /// list: how many levels of folders to show; default 2.
    #[schemars(range(min = 1))]
    depth: Option<usize>,
    /// move: the path as it is.
    from: Option<String>,
    /// move: the path as it shall be.
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

const DESCRIPTION: &str = "Reads, writes, edits, lists, moves and deletes files of the workspace, and undoes what this run did to them. \
`read` returns a file's text, or the lines from `start_line` to `end_line`; `write` creates a file or replaces its \
whole content; `edit` replaces the one place where `old` is found by `new`; `list` shows files and folders (folders \
end with `/`; ignored files are left out); `move` renames and never overwrites; `delete` removes a file or an empty \
folder; `undo` puts back what was in files before this run changed them. Read a file before you change it: what was \
changed by others since is left as it is, and shown to you.";

/// The `file_operations` tool. What its calls return:
///
/// | operation | output |
/// | --- | --- |
/// | `read` | `{"path", "content", "start_line", "end_line", "total_lines"}`; lines end with `\n` whatever the file has, which `line_endings` names if it is not that, as `encoding` does if it is not UTF-8; `note` says how to read on where the 64 KiB of one call were too few |
/// | `write` | `{"path", "lines"}`; `"unchanged": true` if the content was there already |
/// | `edit` | `{"path", "line"}`, the line where the change begins |
/// | `list` | `{"path", "entries": ["src/", "src/main.rs"]}`; `note` where there are more than 1000 |
/// | `move` | `{"from", "to"}` |
/// | `delete` | `{"path"}` |
/// | `undo` | `{"undone": ["src/main.rs"], "not_restored": [{"path", "reason"}], "by_commands": ["Cargo.lock"]}`: a failure where something is left; what commands made or changed, and no file tool, stays |
///
/// What fails has a code: those of [`FileError::code`], and
///
/// | code | what |
/// | --- | --- |
/// | `bad_parameters` | a parameter is missing, or makes no sense: lines that are not there, an `old` that is empty or the same as `new` |
/// | `access_denied` | the agent may not change files |
/// | `stale` | the file is not as the agent last saw it, or was changed just now; see below |
/// | `no_match` | `old` is not in the file |
/// | `ambiguous` | `old` is in it more than once |
/// | `not_found` | for `undo` also: this run has not changed the file |
/// | `not_kept` | for `undo`: what the run has changed is not known |
/// | `changed` | for `undo`: a file is not as the run left it, or for another reason could not be put back |
/// | `cancelled` | nobody waits for the call any more; nothing was changed, but by `undo` what it tells |
///
/// Encoding and line endings of an existing file are kept. Changes are reported with diffs (LOOP-8). An agent without
/// [`Access::ReadWrite`] can only read and list.
///
/// Several agents may work in one workspace (PAOR-5). A file that has changed since the calling agent last saw it, by whomever, is
/// neither changed, deleted nor moved: the call fails, with what `read` returns of the present content as its output (16 KiB of it at
/// most), and the agent has seen that much of it then. `write` in the place of a file that the agent never saw, or saw a part of, fails
/// likewise, as do `delete` and `move` after a part: the whole is seen once it was read in order to its end. `edit` names what it
/// replaces, so it may do without. A call of a plan (no [`ToolContext::seen`]) may change everything, but it too never undoes what was
/// written while it ran.
///
/// On a disk where `A.rs` and `a.rs` are one file, each name is known for itself: who saw a file by one of them has not seen it by the
/// other, and is shown it first.
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

/// Why an operation was not carried out.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("`{operation}` needs `{parameter}`: {description}")]
    Missing {
        operation: &'static str,
        parameter: &'static str,
        description: &'static str,
    },
    #[error("`{0}` is refused, as this agent may not change files: report what should be changed instead")]
    ReadOnly(&'static str),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error(transparent)]
    Read(#[from] read::RangeError),
    #[error(transparent)]
    Edit(#[from] edit::EditError),
}

impl Failure {
    fn code(&self) -> &'static str {
        match self {
            Failure::Missing { .. } | Failure::Read(_) => code::BAD_PARAMETERS,
            Failure::ReadOnly(_) => code::ACCESS_DENIED,
            Failure::File(fault) => fault.code(),
            Failure::Stale(_) => code::STALE,
            Failure::Edit(bad) => bad.code(),
        }
    }
}

fn run(context: &ToolContext, parameters: &Parameters) -> ToolResult {
    let workspace = match Workspace::from_context(context) {
        Ok(workspace) => workspace,
        Err(fault) => return fault.failure(),
    };
    match execute(context, &workspace, parameters) {
        Ok(result) => result,
        Err(Failure::Stale(stale)) => stale.refusal(context, &workspace),
        Err(Failure::File(FileError::Changed { path })) => {
            Stale::changed_meanwhile(path).refusal(context, &workspace)
        }
        Err(Failure::File(FileError::NotFound { path, nearest })) => {
            let absent = workspace.canonical(&path).ok();
            let seen = absent.and_then(|name| seen::absence(context, &name));
            let fault = FileError::NotFound { path, nearest };
            fault.failure().with_seen(seen.into_iter().collect())
        }
        Err(failure) => ToolResult::failure(failure.to_string()).with_code(failure.code()),
    }
}

fn execute(
    context: &ToolContext,
    workspace: &Workspace,
    parameters: &Parameters,
) -> Result<ToolResult, Failure> {
    let operation = parameters.operation;
    if context.access < operation.required_access() {
        return Err(Failure::ReadOnly(operation.name()));
    }
    let need = |value: &'_ Option<String>, parameter, description| {
        value.clone().ok_or(Failure::Missing {
            operation: operation.name(),
            parameter,
            description,
        })
    };
    let path = || need(&parameters.path, "path", "the file, relative to the workspace");
    match operation {
        Operation::Read => {
            let lines = read::Range::new(parameters.start_line, parameters.end_line)?;
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
            let content = need(
                &parameters.content,
                "content",
                "the whole new content of the file",
            )?;
            write(context, workspace, &path()?, &content)
        }
        Operation::Edit => {
            let old = need(
                &parameters.old,
                "old",
                "the text to replace, copied from the file",
            )?;
            let new = need(
                &parameters.new,
                "new",
                "what to put in its place, empty to delete it",
            )?;
            edit(context, workspace, &path()?, &old, &new)
        }
        Operation::Move => {
            let from = parameters.from.clone().or_else(|| parameters.path.clone());
            let from = need(&from, "from", "the path as it is")?;
            let to = need(&parameters.to, "to", "the path as it shall be")?;
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
) -> Result<ToolResult, Failure> {
    let existing = match workspace.read(path) {
        Ok(bytes) => Some(bytes),
        Err(FileError::NotFound { .. }) => None,
        Err(fault) => return Err(fault.into()),
    };
    let name = workspace.canonical(path)?;
    let Some(before) = existing else {
        return create(context, workspace, path, content);
    };
    // A file that was binary becomes the text it was told to be.
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
) -> Result<ToolResult, Failure> {
    let name = workspace.canonical(path)?;
    workspace.check_changeable(path)?;
    seen::check(context, &name, None, Extent::Whole)?;
    if context.cancel.is_cancelled() {
        return Ok(cancelled());
    }
    let change = match workspace.create(path, content.as_bytes()) {
        Err(FileError::Exists { path }) => return Err(Stale::created_meanwhile(path).into()),
        done => done?.with_diff(unified_diff(&name, None, Some(content))),
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
) -> Result<ToolResult, Failure> {
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

fn rename(context: &ToolContext, workspace: &Workspace, from: &str, to: &str) -> Result<ToolResult, Failure> {
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

fn delete(context: &ToolContext, workspace: &Workspace, path: &str) -> Result<ToolResult, Failure> {
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

/// The content of a file that the caller may take from its place; none for what is no file, or cannot be read and was not seen.
fn content_before_removal(
    context: &ToolContext,
    workspace: &Workspace,
    path: &str,
) -> Result<Option<Vec<u8>>, Failure> {
    match workspace.kind_nofollow(path)? {
        Kind::File => {}
        Kind::Folder | Kind::Other => return Ok(None),
    }
    workspace.check_changeable_nofollow(path)?;
    let name = workspace.canonical(path)?;
    match workspace.read(path) {
        Ok(bytes) => {
            seen::check(context, &name, Some(&bytes), Extent::Name)?;
            Ok(Some(bytes))
        }
        Err(fault) if context.seen.as_ref().is_some_and(|seen| seen.contains_key(&name)) => Err(fault.into()),
        Err(_) => Ok(None),
    }
}

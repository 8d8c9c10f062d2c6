//! Reads a run's net changes to files, from its journal and its workspace. All functions block on disk IO.

use std::path::Path;

use dirigent_core::digest::sha256_hex;
use dirigent_core::id::EffectId;
use dirigent_core::journal::Entry;
use dirigent_core::run::{FileChangeKind, during_command_title};
use dirigent_core::tool::{FileVersion, StateChange, display_path};
use dirigent_core::undo::{
    CommandHistory, DuringCommand, MoveBack, PathChange, PathState, RestorePath, RestoreStep, UndoPlan,
    states,
};
use dirigent_tools::diff::git_diff;
use dirigent_tools::workspace::Workspace;

use crate::error::RuntimeError;
use crate::run_log::{Original, RunLog};

/// The note of a file that changed while a command ran, in place of its diff.
const NO_DIFF: &str = " (no diff: its content before or after the command is unknown)";

/// A run's change to one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// The changed path, relative to the workspace.
    pub path: String,
    /// The kind of the change; `None` for a moved folder, which has one entry for the whole folder.
    pub kind: Option<FileChangeKind>,
    /// A diff in git's format, as bytes because files need not be UTF-8. Lines that begin with `#` may precede it; they describe changes
    /// that a diff cannot show.
    pub diff: Vec<u8>,
    /// True if the file also changed while a command ran, or if others changed it between the run's changes. The diff omits these changes, so
    /// `git apply` may refuse it.
    pub also_changed: bool,
}

/// The files that changed while a command was running, whether the command or something else changed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandDiff {
    /// The effect id of the call that ran the command.
    pub call: EffectId,
    /// The command line.
    pub command: String,
    /// The other commands that ran in parallel, so that each of them may have made the changes.
    pub in_parallel: Vec<String>,
    /// The changed files, sorted by path.
    pub files: Vec<CommandFileDiff>,
}

/// The change to a file while a command was running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFileDiff {
    /// The changed path, relative to the workspace.
    pub path: String,
    /// How the file changed.
    pub kind: FileChangeKind,
    /// A diff in git's format, as bytes because files need not be UTF-8; `None` if the content before or after the command is unknown.
    pub diff: Option<Vec<u8>>,
}

/// A run's changes to files.
pub struct ChangeDiffs {
    /// The paths that file tools changed, ordered by path.
    pub files: Vec<FileDiff>,
    /// The files that changed while commands were running, whether the commands or something else changed
    /// them, in journal order (PAOR-10).
    pub commands: Vec<CommandDiff>,
}

/// Reads the net changes that an undo plan reverts. `unreported` contains the original versions of files that
/// calls without a reported result may have changed. Contents are read from the journal or, for files that
/// are still unchanged, from the workspace. The workspace may no longer exist.
///
/// # Errors
/// [`RuntimeError::Journal`].
pub fn change_diffs(
    journal: &dyn RunLog,
    workspace: &Path,
    plan: &UndoPlan,
    unreported: &[Original],
) -> Result<ChangeDiffs, RuntimeError> {
    let workspace = Workspace::open(workspace).ok();
    let reader = ContentReader { journal, workspace };
    let mut files = Vec::new();
    for step in &plan.steps {
        files.push(match step {
            RestoreStep::Restore(restoration) => reader.net_diff(restoration)?,
            RestoreStep::Move(MoveBack { from, to, .. }) => FileDiff {
                path: from.clone(),
                kind: None,
                diff: format!("# moved {} to {}\n", display_path(to), display_path(from)).into_bytes(),
                also_changed: false,
            },
        });
    }
    for original in unreported {
        if files.iter().any(|file: &FileDiff| file.path == original.path) {
            continue;
        }
        files.extend(
            reader
                .diff_since(original.path.as_str(), &original.version)?
                .map(|diff| {
                    let head = format!(
                        "# {} may have been changed by the interrupted call {}:\n",
                        display_path(&original.path),
                        original.effect
                    );
                    FileDiff {
                        path: original.path.clone(),
                        kind: Some(FileChangeKind::Edited),
                        diff: [head.into_bytes(), diff].concat(),
                        also_changed: false,
                    }
                }),
        );
    }
    // A diff does not show empty folders.
    files.retain(|file| !file.diff.is_empty());
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let commands = plan.during_commands.iter();
    let commands: Result<Vec<CommandDiff>, RuntimeError> =
        commands.map(|during| reader.command_diff(during)).collect();
    let commands = commands?;
    for file in &mut files {
        let mut during = commands.iter().flat_map(|command| &command.files);
        file.also_changed |= during.any(|changed| changed.path == file.path);
    }
    Ok(ChangeDiffs { files, commands })
}

/// Returns all diffs, in the format of `git apply`, which may refuse files that are [also changed](FileDiff::also_changed). Only the changes
/// of file tools can be applied. Changes that happened while commands were running follow in lines that begin with `#`.
pub fn diff_bytes(files: &[FileDiff], commands: &[CommandDiff]) -> Vec<u8> {
    let own = files.iter().flat_map(|file| file.diff.iter().copied());
    let mut bytes: Vec<u8> = own.collect();
    for command in commands {
        command.append_comments(&mut bytes);
    }
    bytes
}

impl CommandDiff {
    fn append_comments(&self, bytes: &mut Vec<u8>) {
        let title = during_command_title(&self.command, &self.in_parallel);
        bytes.extend_from_slice(format!("# {title}:\n").as_bytes());
        for CommandFileDiff { path, kind, diff } in &self.files {
            let note = match diff {
                Some(_) => "",
                None => NO_DIFF,
            };
            bytes.extend_from_slice(format!("# {kind} {}{note}\n", display_path(path)).as_bytes());
            for line in diff
                .iter()
                .flat_map(|diff| diff.split_inclusive(|byte| *byte == b'\n'))
            {
                bytes.extend_from_slice(b"# ");
                bytes.extend_from_slice(line);
                if !line.ends_with(b"\n") {
                    bytes.push(b'\n');
                }
            }
        }
    }
}

/// Reads the net change of each file, whoever changed it, for agents that judge the run.
pub(crate) fn net_diffs(
    journal: &dyn RunLog,
    workspace: &Path,
    entries: &[Entry],
    unreported: &[Original],
) -> Result<Vec<NetDiff>, RuntimeError> {
    let plan = UndoPlan::from_entries(entries, 0);
    let histories = CommandHistory::from_entries(entries);
    let has_history = |path: &str| histories.iter().any(|history| history.changes.path == path);
    let ChangeDiffs { files, .. } = change_diffs(journal, workspace, &plan, unreported)?;
    let (mut others, own): (Vec<FileDiff>, Vec<FileDiff>) =
        files.into_iter().partition(|file| has_history(&file.path));
    // What interrupted calls may have changed is no part of a history.
    let restored = |path: &str| {
        let mut steps = plan.steps.iter();
        steps.any(|step| matches!(step, RestoreStep::Restore(restoration) if restoration.path == path))
    };
    others.retain(|file| !restored(&file.path));
    let mut diffs: Vec<NetDiff> = own.into_iter().map(NetDiff::of_file_tools).collect();
    let workspace = Workspace::open(workspace).ok();
    let reader = ContentReader { journal, workspace };
    for history in histories {
        let mut net = reader.diff_of_history(history)?;
        let interrupted = others.iter().filter(|file| file.path == net.file.path);
        interrupted.for_each(|file| net.file.diff.extend_from_slice(&file.diff));
        diffs.push(net);
    }
    diffs.sort_by(|one, other| one.file.path.cmp(&other.file.path));
    Ok(diffs)
}

/// The net change of a file over all changes, those while commands ran included.
pub(crate) struct NetDiff {
    pub(crate) file: FileDiff,
    /// The commands that ran when the file changed.
    pub(crate) during: Vec<String>,
    pub(crate) by_file_tools: bool,
}

impl NetDiff {
    fn of_file_tools(file: FileDiff) -> Self {
        NetDiff {
            file,
            during: Vec::new(),
            by_file_tools: true,
        }
    }
}

/// Reads contents from the journal or the workspace.
struct ContentReader<'a> {
    journal: &'a dyn RunLog,
    workspace: Option<Workspace>,
}

impl ContentReader<'_> {
    /// Returns the diff from the content before the first change to the content after the last change. If something else changed the file
    /// in between, returns one diff for each uninterrupted group of the run's changes, so that changes by others are not shown (PAOR-10).
    fn net_diff(&self, restoration: &RestorePath) -> Result<FileDiff, RuntimeError> {
        let RestorePath {
            path,
            expected,
            original,
            changes,
            changed_by_others,
        } = restoration;
        let diff = if *changed_by_others {
            let mut diff = format!(
                "# {}: others changed the file between the following changes of the run:\n",
                display_path(path)
            )
            .into_bytes();
            for group in restoration.uninterrupted() {
                if let [first, .., last] | [first @ last] = group {
                    diff.extend(self.diff_between(path, &first.before, &last.after, group)?);
                }
            }
            diff
        } else {
            self.diff_between(path, original, expected, changes)?
        };
        Ok(FileDiff {
            path: path.clone(),
            kind: Some(change_kind(original, expected)),
            diff,
            also_changed: *changed_by_others,
        })
    }

    /// Returns the net diff of a file that changed while commands ran.
    fn diff_of_history(&self, history: CommandHistory) -> Result<NetDiff, RuntimeError> {
        let RestorePath {
            original, expected, ..
        } = &history.changes;
        let mut file = self.net_diff(&history.changes)?;
        if original == expected && *original != PathState::Unknown {
            file.kind = None;
            file.diff.clear();
        }
        Ok(NetDiff {
            file,
            during: history.commands,
            by_file_tools: history.by_file_tools,
        })
    }

    /// Returns the diff between two states of a path. If either content is unknown, returns the diffs that the tools reported for the
    /// individual changes.
    fn diff_between(
        &self,
        path: &str,
        before: &PathState,
        after: &PathState,
        changes: &[PathChange],
    ) -> Result<Vec<u8>, RuntimeError> {
        Ok(match (self.content(path, before)?, self.content(path, after)?) {
            (Content::Unknown, _) | (_, Content::Unknown) => reported_diffs(path, changes),
            (before, after) => git_diff(path, before.side(), after.side()),
        })
    }

    fn command_diff(&self, during: &DuringCommand) -> Result<CommandDiff, RuntimeError> {
        let mut files = Vec::new();
        for change in &during.changes {
            if let (Some(path), Some(kind)) = (change.path(), FileChangeKind::from_change(change)) {
                files.push(CommandFileDiff {
                    path: path.to_owned(),
                    kind,
                    diff: self.diff_during_command(path, change)?,
                });
            }
        }
        Ok(CommandDiff {
            call: during.call,
            command: during.command.clone(),
            in_parallel: during.in_parallel.clone(),
            files,
        })
    }

    fn diff_during_command(&self, path: &str, change: &StateChange) -> Result<Option<Vec<u8>>, RuntimeError> {
        let Some((before, after)) = states(change) else {
            return Ok(None);
        };
        Ok(
            match (self.content(path, &before)?, self.content(path, &after)?) {
                (Content::Unknown, _) | (_, Content::Unknown) => {
                    change.diff().map(|diff| diff.as_bytes().to_vec())
                }
                (before, after) => Some(git_diff(path, before.side(), after.side())),
            },
        )
    }

    /// Returns the diff from a version of a file to its content in the workspace; `None` if they are equal or unknown.
    fn diff_since(&self, path: &str, version: &FileVersion) -> Result<Option<Vec<u8>>, RuntimeError> {
        let Some(workspace) = &self.workspace else {
            return Ok(None);
        };
        let (Some(before), Ok(current)) =
            (self.journal.content(&version.digest)?, workspace.path_state(path))
        else {
            return Ok(None);
        };
        if current == PathState::File(version.clone()) {
            return Ok(None);
        }
        let before = Some((before.as_slice(), version.mode));
        let after = self.content(path, &current)?;
        Ok(Some(git_diff(path, before, after.side())))
    }

    fn content(&self, path: &str, state: &PathState) -> Result<Content, RuntimeError> {
        let version = match state {
            PathState::Nothing | PathState::Folder => return Ok(Content::Absent),
            PathState::Unknown => return Ok(Content::Unknown),
            PathState::File(version) => version,
        };
        if let Some(bytes) = self.journal.content(&version.digest)? {
            return Ok(Content::File(bytes, version.mode));
        }
        let bytes = self
            .workspace
            .as_ref()
            .and_then(|workspace| workspace.read(path).ok())
            .filter(|bytes| sha256_hex(bytes) == version.digest);
        Ok(bytes.map_or(Content::Unknown, |bytes| Content::File(bytes, version.mode)))
    }
}

/// The content of a path.
enum Content {
    /// A file whose content is neither in the journal nor in the workspace.
    Unknown,
    /// No file.
    Absent,
    /// The bytes and the mode of a file.
    File(Vec<u8>, u32),
}

impl Content {
    /// Returns the content and the mode as one side of a diff; `None` if there is no file.
    fn side(&self) -> Option<(&[u8], u32)> {
        match self {
            Content::Unknown | Content::Absent => None,
            Content::File(bytes, mode) => Some((bytes, *mode)),
        }
    }
}

fn change_kind(before: &PathState, after: &PathState) -> FileChangeKind {
    let is_file = |state: &PathState| match state {
        PathState::File(_) | PathState::Unknown => true,
        PathState::Nothing | PathState::Folder => false,
    };
    match (is_file(before), is_file(after)) {
        (false, _) => FileChangeKind::Created,
        (true, true) => FileChangeKind::Edited,
        (true, false) => FileChangeKind::Deleted,
    }
}

/// Formats the diffs that the tools reported.
fn reported_diffs(path: &str, changes: &[PathChange]) -> Vec<u8> {
    let mut text = format!(
        "# {}: its content before or after these changes is unknown, so each change is shown separately:\n",
        display_path(path)
    );
    for change in changes {
        match &change.diff {
            Some(diff) => text.push_str(diff),
            None => {
                let kind = change_kind(&change.before, &change.after);
                text.push_str(&format!(
                    "# {kind} (no diff: unknown content, no text, or too long)\n"
                ));
            }
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text.into_bytes()
}

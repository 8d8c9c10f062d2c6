//! `undo`: restores files to their content before the run changed them.
//!
//! The steps are computed from the run's journal ([`dirigent_core::undo`]), as they are when a whole run is
//! undone. A file that has changed since the run's last change to it is left unchanged.

use std::collections::BTreeSet;

use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{FileVersion, SeenFile, StateChange, ToolResult, code};
use dirigent_core::undo::{
    MoveBack, PathState, RestorePath, RestoreStep, UndoPlan, change_between, is_within,
};
use serde_json::{Value, json};

use crate::blocking::cancelled;
use crate::content_store::{ContentStore, RunChanges};
use crate::diff::unified_diff_of_bytes;
use crate::seen::{self, Extent};
use crate::tool::ToolContext;
use crate::workspace::{FileError, PreviousState, Workspace};

/// Why a file that changed only while commands were running is left unchanged.
const BY_COMMANDS: &str = "it changed while a command ran, and `undo` restores only what file tools changed";

/// A path that could not be restored.
struct NotRestored {
    path: String,
    reason: String,
}

impl NotRestored {
    fn new(path: &str, reason: impl Into<String>) -> Self {
        NotRestored {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    fn from_error(path: &str, error: &FileError) -> Self {
        match error {
            FileError::Changed { .. } => NotRestored::new(path, "it has changed since the run changed it"),
            error => NotRestored::new(path, error.to_string()),
        }
    }
}

#[derive(Default)]
struct UndoOutput {
    paths: Vec<String>,
    /// Files that changed only while commands were running. They are left unchanged, because something else
    /// may have changed them.
    by_commands: Vec<String>,
    not_restored: Vec<NotRestored>,
    changes: Vec<StateChange>,
    seen: Vec<SeenFile>,
}

/// Restores a file, or the files in a folder. If `path` is `None`, restores everything that the run changed.
pub(super) fn undo(
    context: &ToolContext,
    workspace: &Workspace,
    path: Option<&str>,
) -> Result<ToolResult, FileError> {
    let path = path.map(|path| workspace.canonical_nofollow(path)).transpose()?;
    let Some(content_store) = context.content_store.as_deref() else {
        return Ok(unknown("the previous content of files is not recorded here"));
    };
    let changes = match content_store.run_changes() {
        Ok(changes) => changes,
        Err(error) => return Ok(unknown(&error)),
    };
    let changes = within(changes, path.as_deref());
    let by_commands = changed_by_commands(&changes.undoing, path.as_deref());
    let is_unchanged = changes.undoing.is_empty() && changes.unreported.is_empty() && by_commands.is_empty();
    if is_unchanged {
        let subject = path.map_or_else(|| "a file".to_owned(), |path| format!("`{path}`"));
        let error = format!("this run has not changed {subject}, so there is nothing to undo");
        return Ok(ToolResult::failure(error).with_code(code::NOT_FOUND));
    }
    Ok(Undoer {
        context,
        workspace,
        content_store,
        files_after_run: files_after_run(&changes.undoing),
        done: UndoOutput {
            by_commands,
            ..UndoOutput::default()
        },
    }
    .undo(changes))
}

fn unknown(why: &str) -> ToolResult {
    let error = format!("the changes of this run are not known: {why}; nothing was undone");
    ToolResult::failure(error).with_code(code::NOT_KEPT)
}

/// Selects the changes at or below a path, except changes that cannot be undone without undoing other changes
/// elsewhere.
fn within(changes: RunChanges, path: Option<&str>) -> RunChanges {
    let Some(root) = path.filter(|path| *path != ".") else {
        return changes;
    };
    let RunChanges {
        undoing,
        mut unreported,
    } = changes;
    let others = undoing.steps.iter().flat_map(|step| match step {
        RestoreStep::Restore(RestorePath { path, .. }) => vec![path.clone()],
        RestoreStep::Move(MoveBack { from, to, .. }) => vec![from.clone(), to.clone()],
    });
    let others: BTreeSet<String> = others.filter(|path| !is_within(path, root)).collect();
    unreported.retain(|(path, _)| is_within(path, root));
    RunChanges {
        undoing: undoing.without(&others),
        unreported,
    }
}

/// Returns the paths at or below `path` that changed only while commands were running.
fn changed_by_commands(undoing: &UndoPlan, path: Option<&str>) -> Vec<String> {
    let root = path.filter(|path| *path != ".");
    let is_restored = |path: &str| undoing.steps.iter().any(|step| path_of(step) == path);
    let changes = undoing.during_commands.iter().flat_map(|during| &during.changes);
    let paths: BTreeSet<&str> = changes.filter_map(StateChange::path).collect();
    paths
        .into_iter()
        .filter(|path| root.is_none_or(|root| is_within(path, root)) && !is_restored(path))
        .map(str::to_owned)
        .collect()
}

struct Undoer<'a> {
    context: &'a ToolContext,
    workspace: &'a Workspace,
    content_store: &'a dyn ContentStore,
    /// The paths of the files as the run left them, each with the digest of the content.
    files_after_run: Vec<(String, String)>,
    done: UndoOutput,
}

impl Undoer<'_> {
    fn undo(mut self, changes: RunChanges) -> ToolResult {
        let RunChanges { undoing, unreported } = changes;
        let mut remaining: UndoPlan = undoing;
        while !remaining.steps.is_empty() {
            if self.context.cancel.is_cancelled() {
                return cancelled()
                    .with_changes(self.done.changes)
                    .with_seen(self.done.seen);
            }
            let step = remaining.steps.remove(0);
            let result = match &step {
                RestoreStep::Restore(restoration) => self.restore(restoration),
                RestoreStep::Move(back) => self.move_back(back),
            };
            if let Err(not_restored) = result {
                let paths = match step {
                    RestoreStep::Restore(RestorePath { path, .. }) => BTreeSet::from([path]),
                    RestoreStep::Move(MoveBack { from, to, .. }) => BTreeSet::from([from, to]),
                };
                let independent = remaining.clone().without(&paths);
                let reason = format!("it depends on `{}`", not_restored.path);
                let dependent = remaining
                    .steps
                    .iter()
                    .filter(|step| !independent.steps.contains(step));
                let dependent: Vec<NotRestored> = dependent
                    .map(|step| NotRestored::new(path_of(step), reason.clone()))
                    .collect();
                self.done.not_restored.push(not_restored);
                self.done.not_restored.extend(dependent);
                remaining = independent;
            }
        }
        for (path, version) in unreported {
            self.check_unreported(&path, version);
        }
        self.done.into_result()
    }

    fn restore(&mut self, restoration: &RestorePath) -> Result<(), NotRestored> {
        let RestorePath {
            path,
            expected,
            original,
            ..
        } = restoration;
        // Journals of earlier versions record a file that changed while a command was running as a change
        // without versions.
        if *original == PathState::Unknown
            || (original, expected) == (&PathState::Nothing, &PathState::Unknown)
        {
            self.done.by_commands.push(path.clone());
            return Ok(());
        }
        let current = self.path_state(path, expected)?;
        if current == *original {
            return Ok(());
        }
        if *expected == PathState::Unknown {
            return Err(NotRestored::new(
                path,
                "a later command changed it, or may have changed it",
            ));
        }
        if current != *expected {
            return Err(NotRestored::from_error(
                path,
                &FileError::Changed { path: path.clone() },
            ));
        }
        let content = match &current {
            PathState::File(_) => self.workspace.read(path).ok(),
            PathState::Nothing | PathState::Folder | PathState::Unknown => None,
        };
        seen::check(self.context, path, content.as_deref(), Extent::Whole)
            .map_err(|stale| NotRestored::new(path, stale.to_string()))?;
        let recorded = match original {
            PathState::File(version) => Some(self.recorded_content(path, version)?),
            PathState::Nothing | PathState::Folder | PathState::Unknown => None,
        };
        let previous = match (original, &recorded) {
            (PathState::Nothing, _) => PreviousState::Nothing,
            (PathState::Folder, _) => PreviousState::Folder,
            (PathState::File(version), Some(bytes)) => PreviousState::File(bytes, version.mode),
            (PathState::File(_) | PathState::Unknown, _) => {
                return Err(NotRestored::new(path, "its earlier state is not known"));
            }
        };
        self.workspace
            .restore(path, expected, previous)
            .map_err(|error| NotRestored::from_error(path, &error))?;
        self.done.paths.push(path.clone());
        let diff = unified_diff_of_bytes(path, content.as_deref(), recorded.as_deref());
        self.done
            .changes
            .extend(change_between(path, expected, original).map(|change| change.with_diff(diff)));
        self.done.seen.extend(match &recorded {
            Some(bytes) => self.has_seen(path).then(|| seen::content(path, bytes)),
            None => seen::absence(self.context, path),
        });
        Ok(())
    }

    fn has_seen(&self, path: &str) -> bool {
        let seen = self.context.seen.as_deref();
        seen.is_some_and(|seen| seen.contains_key(path))
    }

    /// Returns the current state of a path. If `expected` is [`PathState::Nothing`], a folder that contains
    /// only empty folders also counts as [`PathState::Nothing`].
    fn path_state(&self, path: &str, expected: &PathState) -> Result<PathState, NotRestored> {
        let not_restored = |error: FileError| NotRestored::from_error(path, &error);
        let current = self.workspace.path_state(path).map_err(not_restored)?;
        let is_empty_tree = current == PathState::Folder
            && *expected == PathState::Nothing
            && self.workspace.is_free(path).map_err(not_restored)?;
        Ok(if is_empty_tree {
            PathState::Nothing
        } else {
            current
        })
    }

    fn recorded_content(&self, path: &str, version: &FileVersion) -> Result<Vec<u8>, NotRestored> {
        let recorded = self.content_store.load(&version.digest);
        let recorded = recorded.map_err(|error| NotRestored::new(path, error))?;
        recorded
            .or_else(|| self.content_of_moved_file(&version.digest))
            .ok_or_else(|| NotRestored::new(path, "its previous content was not recorded"))
    }

    /// Finds the content with this digest in a file of the workspace. Needed for a file that the run moved, because a move records no
    /// content.
    fn content_of_moved_file(&self, digest: &str) -> Option<Vec<u8>> {
        let (path, _) = self.files_after_run.iter().find(|(_, other)| other == digest)?;
        let bytes = self.workspace.read(path).ok()?;
        (sha256_hex(&bytes) == digest).then_some(bytes)
    }

    fn move_back(&mut self, back: &MoveBack) -> Result<(), NotRestored> {
        let MoveBack { from, to, .. } = back;
        self.workspace
            .move_back(from, to)
            .map_err(|error| NotRestored::from_error(from, &error))?;
        self.done.paths.push(to.clone());
        self.done.seen.extend(seen::moved(self.context, from, to));
        self.done.changes.push(StateChange::FileMoved {
            from: from.clone(),
            to: to.clone(),
            version: None,
        });
        Ok(())
    }

    /// Reports a file that an interrupted call may have changed, unless it still has its earlier version.
    fn check_unreported(&mut self, path: &str, version: FileVersion) {
        let is_reported = self.done.not_restored.iter().any(|other| other.path == path);
        let is_unchanged = self
            .workspace
            .path_state(path)
            .is_ok_and(|current| current == PathState::File(version));
        if !is_unchanged && !is_reported {
            let reason = "an interrupted call may have changed it without reporting the change";
            self.done.not_restored.push(NotRestored::new(path, reason));
        }
    }
}

impl UndoOutput {
    /// Returns the failure of an `undo` that restored nothing, with the reason.
    fn nothing_undone(&self) -> ToolResult {
        let (reason, code) = match self.by_commands.as_slice() {
            [] => (
                "what this run changed is already as it was before; look at the files".to_owned(),
                code::NOT_FOUND,
            ),
            [path] => (
                format!(
                    "`{path}` changed while a command ran, and `undo` restores only what file tools changed: restore it yourself"
                ),
                code::NOT_KEPT,
            ),
            [path, others @ ..] => (
                format!(
                    "`{path}` and {} more changed while commands ran, and `undo` restores only what file tools changed: restore them yourself",
                    others.len()
                ),
                code::NOT_KEPT,
            ),
        };
        ToolResult::failure(format!("nothing was undone: {reason}")).with_code(code)
    }

    fn into_result(self) -> ToolResult {
        let by_commands = self.by_commands.iter();
        let by_commands = by_commands.map(|path| NotRestored::new(path, BY_COMMANDS));
        let by_commands: Vec<NotRestored> = by_commands.collect();
        let not_restored: Vec<Value> = self
            .not_restored
            .iter()
            .chain(&by_commands)
            .map(|NotRestored { path, reason }| json!({"path": path, "reason": reason}))
            .collect();
        let output = json!({"restored": self.paths, "not_restored": not_restored});
        let result = match self.not_restored.first() {
            None if self.paths.is_empty() => self.nothing_undone().with_output(output),
            None => ToolResult::success(output),
            Some(NotRestored { path, reason }) => {
                let others = match self.not_restored.len() {
                    1 => String::new(),
                    count => format!(" (and {} more)", count - 1),
                };
                let error = format!(
                    "`{path}` was not restored because {reason}{others}: see `not_restored` in the output"
                );
                ToolResult::failure(error)
                    .with_code(code::CHANGED)
                    .with_output(output)
            }
        };
        result.with_changes(self.changes).with_seen(self.seen)
    }
}

fn files_after_run(undoing: &UndoPlan) -> Vec<(String, String)> {
    let files = undoing.steps.iter().filter_map(|step| match step {
        RestoreStep::Restore(RestorePath {
            path,
            expected: PathState::File(version),
            ..
        }) => Some((path.clone(), version.digest.clone())),
        RestoreStep::Restore(_) | RestoreStep::Move(_) => None,
    });
    files.collect()
}

fn path_of(step: &RestoreStep) -> &str {
    match step {
        RestoreStep::Restore(restoration) => &restoration.path,
        RestoreStep::Move(back) => &back.from,
    }
}

//! Undoes a run: compares the file changes recorded in its journal with the workspace, and reverts them.
//!
//! [`dirigent_core::undo`] computes the plan; this module compares it with the workspace and executes it inside the workspace jail. All
//! paths are compared before the first change. If any path differs from its state after the run, nothing is changed, unless the caller
//! skips such paths.

mod commands;
mod diff;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::digest::sha256_hex;
use dirigent_core::id::{EffectId, RunId};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::{RunInput, during_command_title};
use dirigent_core::tool::{Access, FileVersion, StateChange};
use dirigent_core::undo::{MoveBack, PathState, RestorePath, RestoreStep, UndoPlan};
use dirigent_core::view::EventKind;
use dirigent_runtime::read_run;
use dirigent_store::{Journal, Original, StoreError};
use dirigent_tools::workspace::{FileError, PreviousState, Workspace};
use dirigent_tools::{ContentStore, RunChanges};
use serde::Serialize;
use serde_json::Value;

use crate::DirigentError;
use crate::blocking::blocking;

use commands::{command_files, refuse_mixed};

pub use commands::{CommandFile, CommandFiles};
pub use diff::RunDiff;

/// The plan for undoing a run, from [`crate::Dirigent::undo`].
#[derive(Clone, Debug)]
pub struct Undo {
    journal: Journal,
    run: RunId,
    after: u64,
    workspace: PathBuf,
    plan: UndoPlan,
    refused: Vec<RefusedPath>,
    unfinished: Vec<UnfinishedCall>,
    scope: UndoScope,
    commands: Vec<CommandFiles>,
}

/// The changes that an undo reverts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UndoScope {
    FileTools,
    FileToolsAndCommands,
}

/// A call that may have changed something without reporting it, because it was interrupted, crashed or abandoned. JSON: `{"call": "a1.3",
/// "tool": "execute_command"}`. Display format: `a1.3 (execute_command)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnfinishedCall {
    /// The effect id of the call.
    pub call: EffectId,
    /// The name of the tool.
    pub tool: String,
}

impl fmt::Display for UnfinishedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.call, self.tool)
    }
}

/// One step of an undo. JSON: `{"action": "restore", "path": "src/a.rs"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum UndoStep {
    /// Restores the content and the permissions of a file.
    Restore {
        /// The file's path, relative to the workspace.
        path: String,
        /// True if something else, such as a command of the run, changed the file between two of the run's changes. The undo also discards
        /// that change.
        changed_by_others: bool,
    },
    /// Recreates a deleted file or an empty folder.
    Recreate {
        /// The path of the file or folder, relative to the workspace.
        path: String,
    },
    /// Deletes a file that the run created.
    Delete {
        /// The file's path, relative to the workspace.
        path: String,
    },
    /// Moves a file or folder back.
    Move {
        /// The path of the file or folder when this step is executed.
        from: String,
        /// The path before the run moved the file or folder.
        to: String,
    },
}

/// A path that cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedPath {
    /// The path, relative to the workspace.
    pub path: String,
    /// Why the path cannot be undone.
    #[serde(flatten)]
    pub reason: RefusalReason,
}

/// Why a path cannot be undone. JSON: `{"reason": "changed"}`. The displayed text follows the path: `src/a.rs has been deleted since the run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalReason {
    /// The content differs from the content after the run.
    #[error("has changed since the run")]
    Changed,
    /// The permissions differ from the permissions after the run.
    #[error("has different permissions than after the run")]
    Mode,
    /// The file or folder no longer exists.
    #[error("has been deleted since the run")]
    Gone,
    /// The file also changed while a command was running, after or between the changes by file tools. [`Undo::include_commands`] also
    /// undoes these changes.
    #[error("also {}", during_command_title(command))]
    DuringCommand {
        /// The command line.
        command: String,
    },
    /// A file or folder now exists at a path where nothing existed after the run.
    #[error("has been created again since the run")]
    Exists,
    /// The journal has no digest of the file's content before or after the change.
    #[error(
        "was changed by a command, was too big, or was not a regular file: its content before the run is unknown"
    )]
    Unknown,
    /// The journal has the digest of the original content, but not the content.
    #[error("cannot be restored: its content before the run is not in this journal")]
    NoSnapshot,
    /// An interrupted or failed call may have changed the file without reporting it. The journal has the content from before the call.
    #[error(
        "may have been changed by the interrupted or failed call {call}, or by others since, so it was not restored: check its content"
    )]
    Interrupted {
        /// The effect id of the interrupted call.
        call: EffectId,
    },
    /// Undoing the path depends on another path that could not be undone: the other path of a moved file, or a parent folder.
    #[error("depends on {with}, which could not be undone")]
    DependsOn {
        /// The path that could not be undone.
        with: String,
    },
    /// The file system returned an error.
    #[error("cannot be accessed: {error}")]
    Failed {
        /// The file system's error message.
        error: String,
    },
}

/// The result of an undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undone {
    /// The steps that were executed.
    pub done: Vec<UndoStep>,
    /// The paths that could not be undone because they changed in the meantime or could not be written, and the paths that depend on them.
    pub failed: Vec<RefusedPath>,
}

/// The changes of a run, from its journal.
struct RecordedChanges {
    after: u64,
    workspace: PathBuf,
    /// The folder that the user named, if the run worked in a worktree of its repository.
    origin: Option<String>,
    /// The plan that undoes only the changes made by file tools.
    plan: UndoPlan,
    /// The plan that also undoes the changes made while commands were running.
    with_commands: UndoPlan,
    /// The original versions of files that may have been changed by calls whose results were never reported.
    interrupted: Vec<Original>,
    unfinished: Vec<UnfinishedCall>,
}

impl RecordedChanges {
    fn load(journal: &Journal, run: RunId, after: Option<u64>) -> Result<RecordedChanges, DirigentError> {
        let record = journal.run(run)?;
        let after = after
            .or(record.forked_from.map(|point| point.seq))
            .unwrap_or_default();
        if after > record.entries {
            let last = record.entries;
            return Err(StoreError::NoSuchEntry { run, at: after, last }.into());
        }
        let entries = journal.entries(run, 0, usize::MAX)?;
        let plan = UndoPlan::from_entries(&entries, after);
        let with_commands = UndoPlan::with_commands(&entries, after);
        let mut interrupted = journal.originals(run)?;
        interrupted.retain(|original| plan.is_unreported(original.effect, &original.path, &original.version));
        let unfinished = match plan.unfinished.is_empty() {
            true => Vec::new(),
            false => unfinished(journal, run, &plan.unfinished)?,
        };
        Ok(RecordedChanges {
            after,
            workspace: PathBuf::from(record.workspace),
            origin: entries.first().and_then(origin),
            plan,
            with_commands,
            interrupted,
            unfinished,
        })
    }
}

impl Undo {
    pub(crate) fn load(journal: &Journal, run: RunId, after: Option<u64>) -> Result<Undo, DirigentError> {
        Undo::load_scope(journal, run, after, UndoScope::FileTools)
    }

    fn load_scope(
        journal: &Journal,
        run: RunId,
        after: Option<u64>,
        scope: UndoScope,
    ) -> Result<Undo, DirigentError> {
        if let Some(pid) = journal.run(run)?.owner_pid {
            return Err(DirigentError::RunActive { run, pid });
        }
        let changes = RecordedChanges::load(journal, run, after)?;
        let workspace = open(&changes.workspace).map_err(|error| match &changes.origin {
            Some(origin) if !changes.workspace.exists() => removed_worktree(&changes.workspace, origin),
            Some(_) | None => error,
        })?;
        let mut undo = Undo {
            journal: journal.clone(),
            run,
            after: changes.after,
            workspace: changes.workspace,
            plan: match scope {
                UndoScope::FileTools => changes.plan,
                UndoScope::FileToolsAndCommands => changes.with_commands.clone(),
            },
            refused: Vec::new(),
            unfinished: changes.unfinished,
            scope,
            commands: command_files(&changes.with_commands, &workspace),
        };
        undo.compare(&workspace)?;
        match scope {
            UndoScope::FileTools => {
                refuse_mixed(&mut undo.refused, &undo.plan, &changes.with_commands, &workspace);
            }
            UndoScope::FileToolsAndCommands => {}
        }
        for original in changes.interrupted {
            undo.check_interrupted(&workspace, &original);
        }
        Ok(undo)
    }

    /// Returns a plan that also undoes the changes made while commands were running, whether by the commands or by something else, if the
    /// content before and after is known.
    ///
    /// # Errors
    /// As for [`crate::Dirigent::undo`].
    pub async fn include_commands(&self) -> Result<Undo, DirigentError> {
        let undo = self.clone();
        let scope = UndoScope::FileToolsAndCommands;
        blocking(move || Undo::load_scope(&undo.journal, undo.run, Some(undo.after), scope)).await
    }

    /// Returns true if the plan also undoes the changes made while commands were running.
    pub fn includes_commands(&self) -> bool {
        self.scope == UndoScope::FileToolsAndCommands
    }

    /// Returns the changes made while commands were running that are still in effect. Only a plan from [`Undo::include_commands`] undoes
    /// them.
    pub fn during_commands(&self) -> &[CommandFiles] {
        &self.commands
    }

    /// Returns the id of the run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Returns the last journal entry whose changes are kept; 0 if all changes are undone.
    pub fn after(&self) -> u64 {
        self.after
    }

    /// Returns the workspace of the run.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the steps in order. [`Undo::apply`] executes them only if [`Undo::refused`] is empty.
    pub fn steps(&self) -> Vec<UndoStep> {
        self.plan.steps.iter().map(UndoStep::from_step).collect()
    }

    /// Returns the paths that cannot be undone.
    pub fn refused(&self) -> &[RefusedPath] {
        &self.refused
    }

    /// Returns the changes that cannot be undone because they are not file changes: exited commands, database changes and sent requests.
    pub fn other_changes(&self) -> &[StateChange] {
        &self.plan.other_changes
    }

    /// Returns the calls that may have changed something without reporting it.
    pub fn unfinished(&self) -> &[UnfinishedCall] {
        &self.unfinished
    }

    /// Removes the steps of refused paths, and the steps that depend on them.
    #[must_use]
    pub fn skip_refused(mut self) -> Undo {
        let refused: BTreeSet<String> = self.refused.drain(..).map(|refused| refused.path).collect();
        self.plan = self.plan.without(&refused);
        self
    }

    /// Executes the steps. Content is recorded in the journal before it is replaced or deleted. A path that changed in the meantime or
    /// cannot be written is skipped, together with the steps that depend on it, and reported in [`Undone::failed`].
    ///
    /// # Errors
    /// [`DirigentError::UndoRefused`] if a path is refused, [`DirigentError::RunActive`] if a process owns the run. In both cases, nothing
    /// is changed.
    pub async fn apply(&self) -> Result<Undone, DirigentError> {
        let undo = self.clone();
        blocking(move || undo.apply_now()).await
    }

    fn apply_now(&self) -> Result<Undone, DirigentError> {
        if !self.refused.is_empty() {
            let refused = self.refused.len();
            return Err(DirigentError::UndoRefused { refused });
        }
        // The claim keeps other processes from resuming the run during the undo.
        let _claim = self.journal.claim(self.run).map_err(|error| match error {
            StoreError::AlreadyClaimed { run, pid } => DirigentError::RunActive { run, pid },
            error => error.into(),
        })?;
        let snapshots = Arc::new(UndoSnapshots(self.journal.clone()));
        let workspace = open(&self.workspace)?.with_content_store(snapshots);
        let mut undone = Undone {
            done: Vec::new(),
            failed: Vec::new(),
        };
        self.save_moved_contents(&workspace)?;
        let mut rest = self.plan.clone();
        rest.steps.reverse();
        while let Some(step) = rest.steps.pop() {
            let result = match &step {
                RestoreStep::Restore(restoration) => self.restore(&workspace, restoration),
                RestoreStep::Move(MoveBack { from, to, .. }) => {
                    workspace.move_back(from, to).map_err(Into::into)
                }
            };
            let Err(reason) = result else {
                undone.done.push(UndoStep::from_step(&step));
                continue;
            };
            let (path, touched) = match step {
                RestoreStep::Restore(RestorePath { path, .. }) => (path.clone(), BTreeSet::from([path])),
                RestoreStep::Move(MoveBack { from, to, .. }) => (from.clone(), BTreeSet::from([from, to])),
            };
            let left = rest.clone().without(&touched);
            let with = &path;
            let dependent = rest.steps.iter().rev().filter(|step| !left.steps.contains(step));
            let dependent: Vec<_> = dependent
                .map(|step| RefusedPath {
                    path: step_path(step).to_owned(),
                    reason: RefusalReason::DependsOn { with: with.clone() },
                })
                .collect();
            undone.failed.push(RefusedPath { path, reason });
            undone.failed.extend(dependent);
            rest = left;
        }
        Ok(undone)
    }

    /// Records contents that exist only in the workspace, and that a later step restores at another path.
    fn save_moved_contents(&self, workspace: &Workspace) -> Result<(), DirigentError> {
        let steps = &self.plan.steps;
        let needed: BTreeSet<&str> = steps
            .iter()
            .filter_map(|step| match step {
                RestoreStep::Restore(RestorePath {
                    original: PathState::File(version),
                    ..
                }) => Some(version.digest.as_str()),
                RestoreStep::Restore(_) | RestoreStep::Move(_) => None,
            })
            .collect();
        for (path, digest) in contents_before_moves(steps) {
            if !needed.contains(digest) || self.journal.has_content(digest)? {
                continue;
            }
            // The content of a symbolic link is its target. Content with another digest is not recorded.
            let bytes = match std::fs::read_link(self.workspace.join(path)) {
                Ok(target) => Some(target.into_os_string().into_encoded_bytes()),
                Err(_) => workspace.read(path).ok(),
            };
            if let Some(bytes) = bytes.filter(|bytes| sha256_hex(bytes) == digest) {
                self.journal.record_content(digest, &bytes)?;
            }
        }
        Ok(())
    }

    fn restore(&self, workspace: &Workspace, restoration: &RestorePath) -> Result<(), RefusalReason> {
        let RestorePath {
            path,
            expected,
            original,
            ..
        } = restoration;
        let content;
        let past = match original {
            PathState::Nothing => PreviousState::Nothing,
            PathState::Folder => PreviousState::Folder,
            PathState::Unknown => return Err(RefusalReason::Unknown),
            PathState::File(FileVersion { digest, mode }) => {
                content = self
                    .journal
                    .content(digest)
                    .map_err(|error| RefusalReason::Failed {
                        error: error.to_string(),
                    })?
                    .ok_or(RefusalReason::NoSnapshot)?;
                PreviousState::File(&content, *mode)
            }
        };
        Ok(workspace.restore(path, expected, past)?)
    }

    /// Removes the steps whose paths are already restored, and refuses paths that have changed since the run.
    fn compare(&mut self, workspace: &Workspace) -> Result<(), DirigentError> {
        let freed = self.restored_paths();
        let steps = std::mem::take(&mut self.plan.steps);
        let mut moved = false;
        let available: BTreeSet<String> = contents_before_moves(&steps)
            .map(|(_, digest)| digest.to_owned())
            .collect();
        for step in steps {
            let refused = match &step {
                // Until the preceding move runs, the file is not at this path, so it is compared only when it is restored.
                RestoreStep::Restore(restoration) if moved => {
                    self.content_refusal(restoration, &available)?
                }
                RestoreStep::Restore(restoration) => {
                    let actual = path_state(workspace, &restoration.path, &restoration.expected);
                    match actual {
                        Ok(actual) if actual == restoration.original && actual != PathState::Unknown => {
                            continue;
                        }
                        Ok(actual) => match state_mismatch(&actual, &restoration.expected) {
                            Some(reason) => Some(reason),
                            None => self.content_refusal(restoration, &available)?,
                        },
                        Err(error) => Some(error.into()),
                    }
                }
                RestoreStep::Move(back) => {
                    moved = true;
                    move_refusal(workspace, back, &freed)
                }
            };
            if let Some(reason) = refused {
                let path = step_path(&step).to_owned();
                self.refused.push(RefusedPath { path, reason });
            }
            self.plan.steps.push(step);
        }
        Ok(())
    }

    /// Returns a reason for refusal if the content to restore is not available. `available` contains the digests of contents that are in
    /// the workspace before the first move.
    fn content_refusal(
        &self,
        restoration: &RestorePath,
        available: &BTreeSet<String>,
    ) -> Result<Option<RefusalReason>, DirigentError> {
        Ok(match (&restoration.original, &restoration.expected) {
            (PathState::Unknown, _) | (_, PathState::Unknown) => Some(RefusalReason::Unknown),
            (PathState::File(FileVersion { digest, .. }), _)
                if !available.contains(digest) && !self.journal.has_content(digest)? =>
            {
                Some(RefusalReason::NoSnapshot)
            }
            (PathState::File(_) | PathState::Nothing | PathState::Folder, _) => None,
        })
    }

    fn restored_paths(&self) -> BTreeSet<String> {
        let steps = self.plan.steps.iter();
        steps
            .filter_map(|step| match step {
                RestoreStep::Restore(restoration) => Some(restoration.path.clone()),
                RestoreStep::Move(_) => None,
            })
            .collect()
    }

    /// Refuses a file that differs from its version before an interrupted call.
    fn check_interrupted(&mut self, workspace: &Workspace, original: &Original) {
        let actual = workspace.path_state(&original.path);
        let same = actual.is_ok_and(|actual| actual == PathState::File(original.version.clone()));
        let refused = RefusedPath {
            path: original.path.clone(),
            reason: RefusalReason::Interrupted {
                call: original.effect,
            },
        };
        if !same && !self.refused.iter().any(|other| other.path == refused.path) {
            self.refused.push(refused);
        }
    }
}

impl UndoStep {
    fn from_step(step: &RestoreStep) -> UndoStep {
        match step {
            RestoreStep::Restore(RestorePath {
                path,
                expected,
                original,
                changed_by_others,
                ..
            }) => match (expected, original) {
                (_, PathState::Nothing) => UndoStep::Delete { path: path.clone() },
                (PathState::Nothing, _) => UndoStep::Recreate { path: path.clone() },
                (PathState::File(_) | PathState::Folder | PathState::Unknown, _) => UndoStep::Restore {
                    path: path.clone(),
                    changed_by_others: *changed_by_others,
                },
            },
            RestoreStep::Move(MoveBack { from, to, .. }) => UndoStep::Move {
                from: from.clone(),
                to: to.clone(),
            },
        }
    }
}

impl From<FileError> for RefusalReason {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Changed { .. } => RefusalReason::Changed,
            FileError::NotFound { .. } => RefusalReason::Gone,
            FileError::Exists { .. } => RefusalReason::Exists,
            error => RefusalReason::Failed {
                error: error.to_string(),
            },
        }
    }
}

/// The content store of an undo, which records contents in the journal before they are replaced.
#[derive(Debug)]
struct UndoSnapshots(Journal);

impl ContentStore for UndoSnapshots {
    fn record(&self, _: &str, version: &FileVersion, bytes: &[u8]) -> Result<(), String> {
        let recorded = self.0.record_content(&version.digest, bytes);
        recorded.map_err(|error| error.to_string())
    }

    fn load(&self, digest: &str) -> Result<Option<Vec<u8>>, String> {
        self.0.content(digest).map_err(|error| error.to_string())
    }

    fn run_changes(&self) -> Result<RunChanges, String> {
        Err("the run is being undone".to_owned())
    }
}

fn open(path: &Path) -> Result<Workspace, DirigentError> {
    Workspace::open(path).map_err(|_| DirigentError::Workspace {
        path: path.to_owned(),
        reason: "it no longer exists or cannot be read: restore it at this path".to_owned(),
    })
}

/// Returns the folder that the user named for a run in a worktree, from the run's first entry.
fn origin(first: &Entry) -> Option<String> {
    match &first.input {
        Input::Run(RunInput::Started { spec }) => Some(spec.worktree.as_ref()?.origin.clone()),
        Input::Run(_) | Input::Agent(_) => None,
    }
}

fn removed_worktree(path: &Path, origin: &str) -> DirigentError {
    DirigentError::Workspace {
        path: path.to_owned(),
        reason: format!(
            "the worktree of the run was removed. If its changes were applied to {origin}, revert them there: give the diff of the run to \
             `git apply -R`"
        ),
    }
}

/// Returns the state of a path. An empty folder counts as [`PathState::Nothing`] if `expected` is [`PathState::Nothing`].
fn path_state(workspace: &Workspace, path: &str, expected: &PathState) -> Result<PathState, FileError> {
    let actual = workspace.path_state(path)?;
    if actual == PathState::Folder && *expected == PathState::Nothing && workspace.is_free(path)? {
        return Ok(PathState::Nothing);
    }
    Ok(actual)
}

fn state_mismatch(actual: &PathState, expected: &PathState) -> Option<RefusalReason> {
    match (expected, actual) {
        (expected, actual) if expected == actual => None,
        (PathState::Unknown, _) => Some(RefusalReason::Unknown),
        (PathState::Nothing, _) => Some(RefusalReason::Exists),
        (_, PathState::Nothing) => Some(RefusalReason::Gone),
        (PathState::File(expected), PathState::File(actual)) if expected.digest == actual.digest => {
            Some(RefusalReason::Mode)
        }
        (PathState::File(_) | PathState::Folder, _) => Some(RefusalReason::Changed),
    }
}

fn move_refusal(workspace: &Workspace, back: &MoveBack, freed: &BTreeSet<String>) -> Option<RefusalReason> {
    if let Some(source) = &back.source {
        match workspace.path_state(source) {
            Ok(PathState::Nothing) => return Some(RefusalReason::Gone),
            Ok(PathState::File(_) | PathState::Folder | PathState::Unknown) => {}
            Err(error) => return Some(error.into()),
        }
    }
    let target = back.target.as_ref()?;
    let below = format!("{target}/");
    if freed
        .iter()
        .any(|path| path == target || path.starts_with(&below))
    {
        // An earlier step may free the target, so the target is checked only when the move is executed.
        return None;
    }
    match workspace.is_free(target) {
        Ok(true) => None,
        Ok(false) => Some(RefusalReason::Exists),
        Err(error) => Some(error.into()),
    }
}

/// Returns the calls among `calls` that may have changed something.
fn unfinished(
    journal: &Journal,
    run: RunId,
    calls: &BTreeSet<EffectId>,
) -> Result<Vec<UnfinishedCall>, DirigentError> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let (view, events) = read_run(journal, run)?;
    let tools = view.run().spec().tool_set();
    let is_read_only = |tool: &str, parameters: &Value| {
        let tool = tools.get(tool);
        tool.is_some_and(|tool| tool.access == Access::ReadOnly && tool.repeat.is_safe(parameters))
    };
    let mut found = BTreeMap::new();
    for event in events {
        if let EventKind::ToolStarted {
            effect,
            tool,
            parameters,
        } = event.kind
            && calls.contains(&effect)
            && !is_read_only(&tool, &parameters)
        {
            found.insert(effect, tool);
        }
    }
    let found = found.into_iter();
    Ok(found.map(|(call, tool)| UnfinishedCall { call, tool }).collect())
}

/// Returns the path and the current content digest of each file that is restored before the first move. Later steps can restore these
/// contents at other paths.
fn contents_before_moves(steps: &[RestoreStep]) -> impl Iterator<Item = (&str, &str)> {
    steps
        .iter()
        .map_while(|step| match step {
            RestoreStep::Restore(restoration) => Some(restoration),
            RestoreStep::Move(_) => None,
        })
        .filter_map(|restoration| match &restoration.expected {
            PathState::File(version) => Some((restoration.path.as_str(), version.digest.as_str())),
            PathState::Nothing | PathState::Folder | PathState::Unknown => None,
        })
}

/// Returns the path under which a step is reported.
fn step_path(step: &RestoreStep) -> &str {
    match step {
        RestoreStep::Restore(restoration) => &restoration.path,
        RestoreStep::Move(back) => &back.from,
    }
}

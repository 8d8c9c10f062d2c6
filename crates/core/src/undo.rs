//! Computes how to undo a run: inverts the changes of all calls that finished after a certain journal entry.
//!
//! The computation is pure: it uses only journal entries. The caller compares the plan with the workspace and calls [`UndoPlan::without`]
//! to drop the steps for paths that are no longer in the state in which the run left them.
//!
//! A path that changed several times is restored once. Moved folders, and moved files of unknown content, are moved back together with
//! everything below them, the last move first. A moved file of known content becomes two steps: its old path is restored and its new path
//! is removed.

mod attribution;
pub(crate) mod calls;
mod history;
mod merge;
mod parallel;

use std::collections::BTreeSet;

use crate::file_changes::{CommandChanges, command_changes};
use crate::id::EffectId;
use crate::journal::Entry;
use crate::tool::{FileVersion, StateChange};

use calls::Calls;
use merge::{ChangeMerger, Source};

pub use crate::file_changes::DuringCommand;
pub use history::CommandHistory;

/// The state of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// Nothing exists at the path.
    Nothing,
    /// A file or a symbolic link.
    File(FileVersion),
    /// A folder.
    Folder,
    /// The state is unknown, because no version was journaled: the file was too large or not a regular file.
    Unknown,
}

impl PathState {
    /// Returns the state of a file with this version; [`PathState::Unknown`] if the version is `None`.
    pub fn from_version(version: Option<&FileVersion>) -> Self {
        version.cloned().map_or(PathState::Unknown, PathState::File)
    }
}

/// One change to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The state before the change.
    pub before: PathState,
    /// The state after the change.
    pub after: PathState,
    /// The reported diff; `None` if the tool reported none.
    pub diff: Option<String>,
}

/// A path to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePath {
    /// The path at the time when this step is executed, relative to the workspace, with `/` as separator.
    pub path: String,
    /// The state in which the run left the path. The step is valid only while the path is still in this state.
    pub expected: PathState,
    /// The state before the undone changes, which this step restores.
    pub original: PathState,
    /// True if something that is not undone (a command of the run, or the user) changed the path between two undone changes. Restoring the
    /// path overwrites that change as well.
    pub changed_by_others: bool,
    /// The undone changes, in journal order.
    pub changes: Vec<PathChange>,
}

impl RestorePath {
    /// Returns the undone changes in groups between which something else changed the path; one group if nothing else
    /// changed it.
    pub fn uninterrupted(&self) -> Vec<&[PathChange]> {
        match self.changed_by_others {
            true => self
                .changes
                .chunk_by(|one, next| one.after == next.before)
                .collect(),
            false => vec![&self.changes],
        }
    }
}

/// A file or folder to move back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveBack {
    /// The path of the file or folder when this step is executed.
    pub from: String,
    /// The path before the run moved the file or folder.
    pub to: String,
    /// The path of the file or folder when the undo begins; `None` if an earlier step puts it at `from`.
    pub source: Option<String>,
    /// The path that must be free when the undo begins; `None` if an earlier step frees it.
    pub target: Option<String>,
}

/// One step of an [`UndoPlan`]. Requires that all earlier steps have been executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreStep {
    /// Restores a path.
    Restore(RestorePath),
    /// Moves a file or folder back.
    Move(MoveBack),
}

/// The steps that undo a run, and the changes that cannot be undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoPlan {
    /// The steps, in execution order.
    pub steps: Vec<RestoreStep>,
    /// Changes that are not file changes, in journal order: exited commands, database changes and sent requests.
    pub other_changes: Vec<StateChange>,
    /// Changes that happened while commands were running, in journal order. The steps undo them only in a plan from
    /// [`UndoPlan::with_commands`].
    pub during_commands: Vec<DuringCommand>,
    /// Calls that may have made unreported changes: calls without a journaled end, and calls that panicked, were cancelled or timed out and
    /// reported no changes.
    pub unfinished: BTreeSet<EffectId>,
    /// All calls that started or ended in the undone part of the journal.
    calls: BTreeSet<EffectId>,
    /// The file versions that occur in the changes of `calls`, each with its path.
    reported: BTreeSet<(String, FileVersion)>,
    /// Old and new paths of moved files. Both paths of a pair are restored, or neither is.
    pairs: Vec<(String, String)>,
}

/// Which changes a plan undoes.
#[derive(Clone, Copy)]
enum Undone {
    FileTools,
    FileToolsAndCommands,
}

impl UndoPlan {
    /// Returns the net changes that happened while each command was running, over all executions of the command. Commands are in the order
    /// of their first executions.
    pub fn command_changes(&self) -> Vec<CommandChanges> {
        command_changes(&self.during_commands)
    }

    /// Computes how to undo the changes that file tools made in the entries after number `after`; 0 undoes the whole run. `entries` must
    /// contain all entries of the run.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>, after: u64) -> UndoPlan {
        UndoPlan::build(&Calls::from_entries(entries), after, Undone::FileTools)
    }

    /// Like [`UndoPlan::from_entries`], but also undoes changes that happened while commands were running, if the states before and after
    /// are known.
    pub fn with_commands<'a>(entries: impl IntoIterator<Item = &'a Entry>, after: u64) -> UndoPlan {
        UndoPlan::build(&Calls::from_entries(entries), after, Undone::FileToolsAndCommands)
    }

    /// Like [`UndoPlan::from_entries`] for a whole run, whose calls are known.
    pub(crate) fn from_calls(calls: &Calls) -> UndoPlan {
        UndoPlan::build(calls, 0, Undone::FileTools)
    }

    fn build(calls: &Calls, after: u64, undone: Undone) -> UndoPlan {
        let during_commands = calls.during_commands(after);
        let mut commands = during_commands.iter().rev().peekable();
        let mut merger = ChangeMerger::default();
        for (effect, change) in calls.changes(after).rev() {
            merger.add_inverse(change, Source::FileTool);
            while let Some(during) = commands.next_if(|during| during.call == effect && is_exit(change)) {
                match undone {
                    Undone::FileTools => {}
                    Undone::FileToolsAndCommands => during
                        .changes
                        .iter()
                        .rev()
                        .for_each(|change| merger.add_inverse(change, Source::Command)),
                }
            }
        }
        let (steps, pairs) = merger.into_steps();
        let changes = || calls.changes(after).map(|(_, change)| change);
        UndoPlan {
            steps,
            other_changes: changes().filter(|change| is_external(change)).cloned().collect(),
            during_commands,
            unfinished: calls.unfinished(after),
            calls: calls.after(after),
            reported: changes().flat_map(versions).collect(),
            pairs,
        }
    }

    /// Returns true if the call `effect` may have changed the file without reporting it: the plan undoes `effect`, which recorded `version` as
    /// the original content, but none of the calls that the plan undoes reported that version.
    pub fn is_unreported(&self, effect: EffectId, path: &str, version: &FileVersion) -> bool {
        self.calls.contains(&effect) && !self.reported.contains(&(path.to_owned(), version.clone()))
    }

    /// Returns true if the plan has no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the plan without the steps whose paths overlap a `refused` path. Also removes moves that overlap a removed path. If the step
    /// for one path of a moved file is removed, the step for its other path is removed as well.
    pub fn without(mut self, refused: &BTreeSet<String>) -> UndoPlan {
        let mut excluded = refused.clone();
        loop {
            let known = excluded.len();
            for step in &self.steps {
                match step {
                    RestoreStep::Restore(RestorePath { path, .. }) => {
                        if overlaps(&excluded, path) {
                            excluded.insert(path.clone());
                        }
                    }
                    RestoreStep::Move(back) => {
                        if overlaps(&excluded, &back.from) || overlaps(&excluded, &back.to) {
                            excluded.extend([back.from.clone(), back.to.clone()]);
                        }
                    }
                }
            }
            for (one, other) in &self.pairs {
                if excluded.contains(one) || excluded.contains(other) {
                    excluded.extend([one.clone(), other.clone()]);
                }
            }
            if excluded.len() == known {
                break;
            }
        }
        self.steps.retain(|step| match step {
            RestoreStep::Restore(restoration) => !excluded.contains(&restoration.path),
            RestoreStep::Move(back) => !excluded.contains(&back.from),
        });
        self
    }
}

/// Returns true if `path` equals `ancestor` or is below it.
pub fn is_within(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the change of a path between two states. `None` if the state after the change is a folder, because created folders are not
/// reported, or unknown.
pub fn change_between(path: &str, before: &PathState, after: &PathState) -> Option<StateChange> {
    let version = |state: &PathState| match state {
        PathState::File(version) => Some(version.clone()),
        PathState::Nothing | PathState::Folder | PathState::Unknown => None,
    };
    let path = path.to_owned();
    match (before, after) {
        (PathState::Nothing, PathState::File(_)) => Some(StateChange::FileCreated {
            path,
            diff: None,
            after: version(after),
        }),
        (PathState::Folder, PathState::Nothing) => Some(StateChange::FileDeleted {
            path: format!("{path}/"),
            diff: None,
            before: None,
        }),
        (_, PathState::Nothing) => Some(StateChange::FileDeleted {
            path,
            diff: None,
            before: version(before),
        }),
        (PathState::File(_) | PathState::Folder | PathState::Unknown, PathState::File(_)) => {
            Some(StateChange::FileEdited {
                path,
                diff: None,
                before: version(before),
                after: version(after),
            })
        }
        (_, PathState::Folder | PathState::Unknown) => None,
    }
}

fn is_exit(change: &StateChange) -> bool {
    matches!(change, StateChange::ProcessExited { .. })
}

/// Returns each file version that a change names, with its path.
fn versions(change: &StateChange) -> Vec<(String, FileVersion)> {
    let (path, versions) = match change {
        StateChange::FileCreated { path, after, .. } => (path, [after, &None]),
        StateChange::FileEdited {
            path, before, after, ..
        } => (path, [before, after]),
        StateChange::FileDeleted { path, before, .. } => (path, [before, &None]),
        StateChange::FileMoved { from, to, version } => {
            let both = version
                .iter()
                .flat_map(|version| [from, to].map(|path| (path.clone(), version.clone())));
            return both.collect();
        }
        StateChange::ProcessExited { files, .. } => return files.iter().flat_map(versions).collect(),
        StateChange::TableCreated { .. }
        | StateChange::TableDropped { .. }
        | StateChange::RowsChanged { .. }
        | StateChange::RequestSent { .. } => return Vec::new(),
    };
    let versions = versions.into_iter().flatten();
    versions.map(|version| (path.clone(), version.clone())).collect()
}

/// Returns the states of a file before and after its change; `None` if the change does not concern exactly one path.
pub fn states(change: &StateChange) -> Option<(PathState, PathState)> {
    let mut states = attribution::states(change).into_iter();
    match (states.next(), states.next()) {
        (Some((_, before, after)), None) => Some((before, after)),
        (Some(_) | None, _) => None,
    }
}

fn overlaps(paths: &BTreeSet<String>, path: &str) -> bool {
    paths
        .iter()
        .any(|other| is_within(path, other) || is_within(other, path))
}

fn is_external(change: &StateChange) -> bool {
    match change {
        StateChange::FileCreated { .. }
        | StateChange::FileEdited { .. }
        | StateChange::FileDeleted { .. }
        | StateChange::FileMoved { .. } => false,
        StateChange::ProcessExited { .. }
        | StateChange::TableCreated { .. }
        | StateChange::TableDropped { .. }
        | StateChange::RowsChanged { .. }
        | StateChange::RequestSent { .. } => true,
    }
}

//! Computes how to undo a run: inverts the changes of all calls that finished after a certain journal entry.
//!
//! The computation is pure: it uses only journal entries. The caller compares the plan with the workspace and calls [`UndoPlan::without`]
//! to drop the steps for paths that are no longer in the state in which the run left them.
//!
//! A path that changed several times is restored once. Moved folders, and moved files of unknown content, are moved back together with
//! everything below them, the last move first. A moved file of known content becomes two steps: its old path is restored and its new path
//! is removed.

mod merge;

use std::collections::BTreeSet;

use crate::agent::AgentInput;
use crate::id::EffectId;
use crate::journal::{Entry, Input};
use crate::run::RunInput;
use crate::tool::{FileVersion, StateChange, ToolOutcome, ToolResult, code};

use merge::ChangeMerger;

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

/// A path to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePath {
    /// The path at the time when this step is executed, relative to the workspace, with `/` as separator.
    pub path: String,
    /// The state in which the run left the path. The step is valid only while the path is still in this state.
    pub expected: PathState,
    /// The state before the undone changes, which this step restores.
    pub original: PathState,
    /// True if something other than the undone calls (a command of the run, or the user) changed the path between two undone changes.
    /// Undoing overwrites that change as well.
    pub changed_by_others: bool,
    /// The diff of each undone change, in journal order; `None` where the tool reported no diff.
    pub diffs: Vec<Option<String>>,
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
    /// Calls that may have made unreported changes: calls without a journaled end, and calls that panicked, were cancelled or timed out and
    /// reported no changes.
    pub unfinished: BTreeSet<EffectId>,
    /// All calls that started or ended in the undone part of the journal.
    calls: BTreeSet<EffectId>,
    /// The file versions that occur in the changes of these calls, each with its path.
    reported: BTreeSet<(String, FileVersion)>,
    /// Old and new paths of moved files. Both paths of a pair are restored, or neither is.
    pairs: Vec<(String, String)>,
}

impl UndoPlan {
    /// Computes how to undo all changes of the entries after number `after`; 0 undoes the whole run. `entries` must contain all entries of
    /// the run.
    ///
    /// Ignores results of calls that have no start entry. Delegations have no start entry, and their results repeat the changes of the
    /// agents that they started.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>, after: u64) -> UndoPlan {
        let mut started = BTreeSet::new();
        let mut unfinished = BTreeSet::new();
        let mut calls = BTreeSet::new();
        let mut changes: Vec<&StateChange> = Vec::new();
        for entry in entries {
            match &entry.input {
                Input::Run(RunInput::ToolStarted { effect })
                | Input::Agent(AgentInput::ToolStarted { effect }) => {
                    started.insert(*effect);
                    if entry.seq > after {
                        unfinished.insert(*effect);
                        calls.insert(*effect);
                    }
                }
                Input::Run(RunInput::ToolFinished { effect, result })
                | Input::Agent(AgentInput::ToolFinished { effect, result }) => {
                    if started.remove(effect) && entry.seq > after {
                        calls.insert(*effect);
                        changes.extend(&result.changes);
                        if was_cut_off(result) {
                            unfinished.insert(*effect);
                            continue;
                        }
                    }
                    unfinished.remove(effect);
                }
                Input::Run(_) | Input::Agent(_) => {}
            }
        }
        let reported = changes.iter().flat_map(|change| versions(change)).collect();
        let mut merger = ChangeMerger::default();
        for change in changes.iter().rev() {
            merger.add_inverse(change);
        }
        let (steps, pairs) = merger.into_steps();
        UndoPlan {
            steps,
            other_changes: changes
                .into_iter()
                .filter(|change| is_external(change))
                .cloned()
                .collect(),
            unfinished,
            calls,
            reported,
            pairs,
        }
    }

    /// Returns true if the recorded original of a file indicates an unreported change: this plan undoes the call that recorded it, but no
    /// undone call reported this version of the file.
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

/// Returns true if the call was stopped (it panicked, was cancelled or timed out) and reported no changes.
fn was_cut_off(result: &ToolResult) -> bool {
    let gave_up = |code: &str| [code::BROKE_DOWN, code::CANCELLED, code::TIMED_OUT].contains(&code);
    match &result.outcome {
        ToolOutcome::Success { .. } => false,
        ToolOutcome::Failure { code, .. } => result.changes.is_empty() && gave_up(code),
    }
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
        StateChange::ProcessExited { .. }
        | StateChange::TableCreated { .. }
        | StateChange::TableDropped { .. }
        | StateChange::RowsChanged { .. }
        | StateChange::RequestSent { .. } => return Vec::new(),
    };
    let versions = versions.into_iter().flatten();
    versions.map(|version| (path.clone(), version.clone())).collect()
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

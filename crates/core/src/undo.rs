//! Computes how to undo a run: the changes of its finished calls after some entry, inverted.
//!
//! Pure: computed from journal entries alone. The caller compares the plan with the workspace and removes what no longer matches with
//! [`UndoPlan::without`].
//!
//! A path that changed several times is restored once. A moved folder, and a moved file of unknown content, is moved back in order, with
//! everything below it. A moved file of known content becomes two steps: one path is restored and one is removed.

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
    /// No version was journaled: the file was too large or not a regular file.
    Unknown,
}

/// A path to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePath {
    /// The path when its step comes, relative to the workspace, with `/`.
    pub path: String,
    /// The state that the run left, which must still hold.
    pub expected: PathState,
    /// The state before the run, which is restored.
    pub original: PathState,
    /// True if somebody else (a command of the run, or a person) changed the path between two of the undone changes; that change is undone,
    /// too.
    pub changed_by_others: bool,
    /// The diff of each undone change as its tool reported it, in journal order.
    pub diffs: Vec<Option<String>>,
}

/// A file or folder to move back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveBack {
    /// The path when its step comes.
    pub from: String,
    /// The path before the run moved it.
    pub to: String,
    /// The path before any step is executed; `None` if an earlier step creates it.
    pub source: Option<String>,
    /// The path that must be free before any step is executed; `None` if an earlier step frees it.
    pub target: Option<String>,
}

/// One step of an [`UndoPlan`]; the steps before it must be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreStep {
    /// Restore a path.
    Restore(RestorePath),
    /// Move a file or folder back.
    Move(MoveBack),
}

/// How to undo a run, and what cannot be undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoPlan {
    /// The steps, in order.
    pub steps: Vec<RestoreStep>,
    /// Changes outside of files, in journal order: by commands, in databases, by requests.
    pub other_changes: Vec<StateChange>,
    /// Calls that may have changed something without reporting it: their end is not journaled, or they panicked, were cancelled or timed
    /// out without reporting a change.
    pub unfinished: BTreeSet<EffectId>,
    /// All calls that started or ended in the undone part.
    calls: BTreeSet<EffectId>,
    /// The file versions that these calls reported as found or left, by path.
    reported: BTreeSet<(String, FileVersion)>,
    /// Old and new names of moved files, which are restored together or not at all.
    pairs: Vec<(String, String)>,
}

impl UndoPlan {
    /// Computes how to undo all changes of entries after number `after`; 0 undoes the whole run. `entries` are all entries of the run.
    ///
    /// Only calls that started count: an agent returns the changes of the agents it delegated to a second time.
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

    /// Returns true if a snapshot of a file before a call hints at an unreported change: the call is undone, and no undone call reported
    /// this version of the file.
    pub fn is_unreported(&self, effect: EffectId, path: &str, version: &FileVersion) -> bool {
        self.calls.contains(&effect) && !self.reported.contains(&(path.to_owned(), version.clone()))
    }

    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The plan without the steps that overlap `refused` paths, and without the steps that then cannot be done: moves of folders around
    /// them, and the other names of moved files.
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

/// Returns true if the path is `ancestor` or below it.
pub fn is_within(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns true if a call ended without a chance to report its changes.
fn was_cut_off(result: &ToolResult) -> bool {
    let gave_up = |code: &str| [code::BROKE_DOWN, code::CANCELLED, code::TIMED_OUT].contains(&code);
    match &result.outcome {
        ToolOutcome::Success { .. } => false,
        ToolOutcome::Failure { code, .. } => result.changes.is_empty() && gave_up(code),
    }
}

/// The file versions that a change names, with their paths.
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

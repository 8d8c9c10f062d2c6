//! What undoing a run comes to: the changes of its finished calls from some entry on, turned round.
//!
//! Pure: computed from the journal's entries alone. Whether the workspace still is what the run left is for whoever carries it out to see,
//! with [`UndoPlan::without`] for what is not.
//!
//! A path that changed several times is put back once. A folder that was moved, and a file that was moved unread, is moved back in its
//! place between the others, as what is below it goes with it; a file that was moved and is known is one path that is put back and one that is removed.

mod merge;

use std::collections::BTreeSet;

use crate::agent::AgentInput;
use crate::id::EffectId;
use crate::journal::{Entry, Input};
use crate::run::RunInput;
use crate::tool::{FileVersion, StateChange, ToolOutcome, ToolResult, code};

use merge::ChangeMerger;

/// What there is at a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// Nothing.
    Nothing,
    /// A file or a link.
    File(FileVersion),
    /// A folder.
    Folder,
    /// Something of which no version was journaled: it was too big or no regular file, or the journal is older than versions.
    Unknown,
}

/// A path that is to be what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePath {
    /// Relative to the workspace, with `/`, when its turn comes.
    pub path: String,
    /// What the run left: what must be there.
    pub expected: PathState,
    /// What there was before: what is put back.
    pub original: PathState,
    /// Whether it was not only changed by what is undone: between two changes somebody else changed it, such as a command of the run or a
    /// person, and that goes, too.
    pub changed_by_others: bool,
    /// The diff of each change as its tool told it, in the journal's order.
    pub diffs: Vec<Option<String>>,
}

/// Something that is to be moved back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveBack {
    /// Where it is when its turn comes.
    pub from: String,
    /// Where it was.
    pub to: String,
    /// Where it is before anything is undone; none where a path that another step gives stands for it.
    pub source: Option<String>,
    /// What must be free before anything is undone, or be freed by an earlier step; none as above.
    pub target: Option<String>,
}

/// One thing to do, once those before it are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreStep {
    /// Put a path back.
    Restore(RestorePath),
    /// Move something back.
    Move(MoveBack),
}

/// What is to be done to undo a run, and what cannot be undone by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoPlan {
    /// In the order in which it is to be done.
    pub steps: Vec<RestoreStep>,
    /// What was changed elsewhere than in files, in the journal's order: by commands, in databases, by requests.
    pub other_changes: Vec<StateChange>,
    /// Calls that were begun since then and could not say what they changed: their end is not journaled, or they broke down or were given
    /// up, and told of no change.
    pub unfinished: BTreeSet<EffectId>,
    /// All calls that were begun or ended since then.
    calls: BTreeSet<EffectId>,
    /// What calls said that they found or left, by paths.
    reported: BTreeSet<(String, FileVersion)>,
    /// Paths that are put back together or not at all: a file's old name and its new one.
    pairs: Vec<(String, String)>,
}

impl UndoPlan {
    /// What undoes all that the run's entries after place `after` changed; 0 for all of the run. The entries are those of the whole run.
    ///
    /// Only calls count that were begun: what an agent returns to the one that called it tells the same changes again.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>, after: u64) -> UndoPlan {
        let mut begun = BTreeSet::new();
        let mut unfinished = BTreeSet::new();
        let mut calls = BTreeSet::new();
        let mut changes: Vec<&StateChange> = Vec::new();
        for entry in entries {
            match &entry.input {
                Input::Run(RunInput::ToolStarted { effect })
                | Input::Agent(AgentInput::ToolStarted { effect }) => {
                    begun.insert(*effect);
                    if entry.seq > after {
                        unfinished.insert(*effect);
                        calls.insert(*effect);
                    }
                }
                Input::Run(RunInput::ToolFinished { effect, result })
                | Input::Agent(AgentInput::ToolFinished { effect, result }) => {
                    if begun.remove(effect) && entry.seq > after {
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

    /// Whether what a call kept of a file says that the call may have changed it and did not report it: none of the calls that are undone found
    /// the file so, or left it so.
    pub fn is_unreported(&self, effect: EffectId, path: &str, version: &FileVersion) -> bool {
        self.calls.contains(&effect) && !self.reported.contains(&(path.to_owned(), version.clone()))
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The same without what overlaps these paths, and without what cannot be done then: a move of a folder around them, and the other name
    /// of a file that was moved.
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

/// Whether a path is at a place, or below it.
pub fn is_within(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a call ended without a chance to say what it changed.
fn was_cut_off(result: &ToolResult) -> bool {
    let gave_up = |code: &str| [code::BROKE_DOWN, code::CANCELLED, code::TIMED_OUT].contains(&code);
    match &result.outcome {
        ToolOutcome::Success { .. } => false,
        ToolOutcome::Failure { code, .. } => result.changes.is_empty() && gave_up(code),
    }
}

/// The versions of files that a change tells of.
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

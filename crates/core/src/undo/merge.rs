//! Merges the changes of a run into one net change per path. Changes are added from the last to the first.

use std::collections::{BTreeMap, BTreeSet};

use super::{MoveBack, PathChange, PathState, RestorePath, RestoreStep, is_within};
use crate::tool::StateChange;

/// The merged inverse of all changes added so far. Changes are added from the last to the first.
pub(super) struct ChangeMerger {
    /// The stages of the undo, in execution order. Every stage except the first begins with moving a file or folder back.
    stages: Vec<Stage>,
    pairs: Vec<(String, String)>,
}

#[derive(Default)]
struct Stage {
    /// The move at the beginning of the stage; `None` for the first stage.
    back: Option<MoveBack>,
    /// The changes of each path, newest first.
    paths: BTreeMap<String, Vec<Change>>,
}

/// The source of the information about a change: a tool's report or a command's snapshots.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A file tool reported its own change.
    FileTool,
    /// A file differed after a command.
    Command,
}

struct Change {
    path: PathChange,
    source: Source,
}

impl Default for ChangeMerger {
    fn default() -> Self {
        ChangeMerger {
            stages: vec![Stage::default()],
            pairs: Vec::new(),
        }
    }
}

impl ChangeMerger {
    /// Adds the inverse of a change that is older than all changes added so far.
    pub(super) fn add_inverse(&mut self, change: &StateChange, source: Source) {
        let file = PathState::from_version;
        match change {
            StateChange::FileCreated { path, diff, after } => {
                self.add(path, PathState::Nothing, file(after.as_ref()), diff, source);
            }
            StateChange::FileEdited {
                path,
                diff,
                before,
                after,
            } => {
                self.add(path, file(before.as_ref()), file(after.as_ref()), diff, source);
            }
            StateChange::FileDeleted { path, diff, before } => match path.strip_suffix('/') {
                Some(folder) => self.add(folder, PathState::Folder, PathState::Nothing, &None, source),
                None => self.add(path, file(before.as_ref()), PathState::Nothing, diff, source),
            },
            StateChange::FileMoved {
                from,
                to,
                version: Some(version),
            } => {
                let file = PathState::File(version.clone());
                let pair = (self.locate(from), self.locate(to));
                if let ((0, from), (0, to)) = pair {
                    self.pairs.push((from, to));
                }
                self.add(to, PathState::Nothing, file.clone(), &None, source);
                self.add(from, file, PathState::Nothing, &None, source);
            }
            StateChange::FileMoved {
                from,
                to,
                version: None,
            } => self.move_back(from, to),
            StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => {}
        }
    }

    pub(super) fn into_steps(self) -> (Vec<RestoreStep>, Vec<(String, String)>) {
        let mut steps = Vec::new();
        for stage in self.stages {
            steps.extend(stage.back.map(RestoreStep::Move));
            let restorations = stage.paths.into_iter().filter_map(net_restoration);
            let (removed, made): (Vec<RestorePath>, Vec<RestorePath>) =
                restorations.partition(|restoration| restoration.original == PathState::Nothing);
            // Restore the old path of a moved file before removing its new path. Exception: a path that blocks a restored path is removed
            // first, such as the content of a folder that is replaced by a file.
            let paths = made.iter().map(|restoration| restoration.path.clone()).collect();
            let (first, last): (Vec<_>, Vec<_>) = removed
                .into_iter()
                .rev()
                .partition(|restoration| is_in_the_way(&restoration.path, &paths));
            steps.extend(
                first
                    .into_iter()
                    .chain(made)
                    .chain(last)
                    .map(RestoreStep::Restore),
            );
        }
        (steps, self.pairs)
    }

    fn add(
        &mut self,
        path: &str,
        before: PathState,
        after: PathState,
        diff: &Option<String>,
        source: Source,
    ) {
        if source == Source::Command && after == PathState::Unknown {
            // Nothing can be restored, because it is unknown whether the file is still in the state in which the
            // command left it.
            return;
        }
        let (stage, path) = self.locate(path);
        let diff = diff.clone();
        let path_change = PathChange { before, after, diff };
        let change = Change {
            path: path_change,
            source,
        };
        self.stages[stage].paths.entry(path).or_default().push(change);
    }

    fn move_back(&mut self, from: &str, to: &str) {
        let present = |(stage, path): (usize, String)| (stage == 0).then_some(path);
        let back = MoveBack {
            from: to.to_owned(),
            to: from.to_owned(),
            source: present(self.locate(to)),
            target: present(self.locate(from)),
        };
        self.stages.push(Stage {
            back: Some(back),
            paths: BTreeMap::new(),
        });
    }

    /// Returns the stage in which to restore a path, and the name of the path in that stage. `path` is the name before all changes added so
    /// far. Chooses the earliest possible stage, so that changes before and after a move are merged.
    fn locate(&self, path: &str) -> (usize, String) {
        let mut path = path.to_owned();
        for (stage, Stage { back, .. }) in self.stages.iter().enumerate().rev() {
            let Some(MoveBack { from, to, .. }) = back else {
                return (stage, path);
            };
            if is_within(&path, to) {
                path = format!("{from}{}", &path[to.len()..]);
            } else if is_within(&path, from) || is_within(from, &path) || is_within(to, &path) {
                // The path is free, or its parent folder exists, only after this move.
                return (stage, path);
            }
        }
        (0, path)
    }
}

/// Returns true if `path` is an ancestor or a descendant of one of the `made` paths.
fn is_in_the_way(path: &str, made: &BTreeSet<String>) -> bool {
    let below = format!("{path}/");
    let next = made.range(below.clone()..).next();
    next.is_some_and(|made| made.starts_with(&below))
        || path.match_indices('/').any(|(at, _)| made.contains(&path[..at]))
}

/// Computes the net change of a path; `None` if its first and last states are equal, or if nothing can be restored.
fn net_restoration((path, mut changes): (String, Vec<Change>)) -> Option<RestorePath> {
    changes.reverse();
    // The content before the command is unknown, so the path can be restored only to its state after the command.
    let is_unknown =
        |change: &Change| change.source == Source::Command && change.path.before == PathState::Unknown;
    let known = changes.iter().position(|change| !is_unknown(change))?;
    changes.drain(..known);
    let (first, last) = (changes.first()?, changes.last()?);
    let (original, expected) = (first.path.before.clone(), last.path.after.clone());
    let follow_each_other = changes
        .array_windows()
        .all(|[one, next]| one.path.after == next.path.before || is_unknown(next));
    let changes: Vec<PathChange> = changes.into_iter().map(|change| change.path).collect();
    let (original, expected, changed_by_others) = match first_and_last(&changes) {
        _ if follow_each_other => (original, expected, false),
        // Concurrent calls may be journaled in a different order from the one in which they ran.
        Some((original, expected)) => (original.clone(), expected.clone(), false),
        None => (original, expected, true),
    };
    if original == expected && original != PathState::Unknown {
        return None;
    }
    Some(RestorePath {
        path,
        expected,
        original,
        changed_by_others,
        changes,
    })
}

/// Returns the first and the last state if the changes can be ordered into a chain in which each change begins with the state in which the
/// previous one ended; `None` otherwise. In a chain, every state except the first and the last begins as many changes as it ends.
pub(super) fn first_and_last(changes: &[PathChange]) -> Option<(&PathState, &PathState)> {
    let mut balance: BTreeMap<&PathState, i64> = BTreeMap::new();
    for change in changes {
        *balance.entry(&change.before).or_default() += 1;
        *balance.entry(&change.after).or_default() -= 1;
    }
    balance.retain(|_, count| *count != 0);
    match balance.into_iter().collect::<Vec<_>>().as_slice() {
        [(then, 1), (now, -1)] | [(now, -1), (then, 1)] => Some((then, now)),
        _ => None,
    }
}

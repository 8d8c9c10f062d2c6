//! Changes gathered by what they come to, the last one first.

use std::collections::{BTreeMap, BTreeSet};

use super::{MoveBack, Restoration, Step, There, is_within};
use crate::tool::{FileVersion, StateChange};

/// What is to be undone, as far as it is known: the changes since some moment.
pub(super) struct Fold {
    /// What is to be put back in turn; between two of them something is moved back.
    stages: Vec<Stage>,
    pairs: Vec<(String, String)>,
}

#[derive(Default)]
struct Stage {
    /// What is moved back before the paths are put back; none for the first stage.
    back: Option<MoveBack>,
    /// The changes of each path, the last one first.
    paths: BTreeMap<String, Vec<Change>>,
}

/// What a call did to a path.
struct Change {
    before: There,
    after: There,
    diff: Option<String>,
}

impl Default for Fold {
    fn default() -> Self {
        Fold {
            stages: vec![Stage::default()],
            pairs: Vec::new(),
        }
    }
}

impl Fold {
    /// Takes the change before those that it has.
    pub(super) fn turn_round(&mut self, change: &StateChange) {
        match change {
            StateChange::FileCreated { path, diff, after } => {
                let after = version(after.as_ref());
                self.add(path, There::Nothing, after, diff.clone());
            }
            StateChange::FileEdited {
                path,
                diff,
                before,
                after,
            } => {
                let (before, after) = (version(before.as_ref()), version(after.as_ref()));
                self.add(path, before, after, diff.clone());
            }
            StateChange::FileDeleted { path, diff, before } => match path.strip_suffix('/') {
                Some(folder) => self.add(folder, There::Folder, There::Nothing, None),
                None => self.add(path, version(before.as_ref()), There::Nothing, diff.clone()),
            },
            StateChange::FileMoved {
                from,
                to,
                version: Some(version),
            } => {
                let file = There::File(version.clone());
                let pair = (self.place(from), self.place(to));
                if let ((0, from), (0, to)) = pair {
                    self.pairs.push((from, to));
                }
                self.add(to, There::Nothing, file.clone(), None);
                self.add(from, file, There::Nothing, None);
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

    pub(super) fn into_steps(self) -> (Vec<Step>, Vec<(String, String)>) {
        let mut steps = Vec::new();
        for stage in self.stages {
            steps.extend(stage.back.map(Step::Move));
            let restorations = stage.paths.into_iter().filter_map(net);
            let (removed, made): (Vec<Restoration>, Vec<Restoration>) =
                restorations.partition(|restoration| restoration.then == There::Nothing);
            // A moved file is there again before its other name goes. Only what is in the way makes room first: of a folder what is in it,
            // before a file takes its name.
            let paths = made.iter().map(|restoration| restoration.path.clone()).collect();
            let (first, last): (Vec<_>, Vec<_>) = removed
                .into_iter()
                .rev()
                .partition(|restoration| is_in_the_way(&restoration.path, &paths));
            steps.extend(first.into_iter().chain(made).chain(last).map(Step::Restore));
        }
        (steps, self.pairs)
    }

    fn add(&mut self, path: &str, before: There, after: There, diff: Option<String>) {
        let (stage, path) = self.place(path);
        let change = Change { before, after, diff };
        self.stages[stage].paths.entry(path).or_default().push(change);
    }

    fn move_back(&mut self, from: &str, to: &str) {
        let present = |(stage, path): (usize, String)| (stage == 0).then_some(path);
        let back = MoveBack {
            from: to.to_owned(),
            to: from.to_owned(),
            source: present(self.place(to)),
            target: present(self.place(from)),
        };
        self.stages.push(Stage {
            back: Some(back),
            paths: BTreeMap::new(),
        });
    }

    /// At which stage a path of the moment before all these changes is put back, and how it is called then: as early as can be, so that its
    /// changes before and after a move are one.
    fn place(&self, path: &str) -> (usize, String) {
        let mut path = path.to_owned();
        for (stage, Stage { back, .. }) in self.stages.iter().enumerate().rev() {
            let Some(MoveBack { from, to, .. }) = back else {
                return (stage, path);
            };
            if is_within(&path, to) {
                path = format!("{from}{}", &path[to.len()..]);
            } else if is_within(&path, from) || is_within(from, &path) || is_within(to, &path) {
                // Only once it is moved back, that name is free, or its folder there.
                return (stage, path);
            }
        }
        (0, path)
    }
}

/// Whether a path is below one of those, or one of them is below it.
fn is_in_the_way(path: &str, made: &BTreeSet<String>) -> bool {
    let below = format!("{path}/");
    let next = made.range(below.clone()..).next();
    next.is_some_and(|made| made.starts_with(&below))
        || path.match_indices('/').any(|(at, _)| made.contains(&path[..at]))
}

fn version(version: Option<&FileVersion>) -> There {
    version.cloned().map_or(There::Unknown, There::File)
}

/// What a path's changes come to; none where it is what it was.
fn net((path, mut changes): (String, Vec<Change>)) -> Option<Restoration> {
    changes.reverse();
    let (then, now) = (&changes.first()?.before, &changes.last()?.after);
    let follow_each_other = changes
        .array_windows()
        .all(|[one, next]| one.after == next.before);
    let (then, now, others) = match ends(&changes) {
        _ if follow_each_other => (then, now, false),
        // Two that were under way at once can be journaled the other way round than they happened.
        Some((then, now)) => (then, now, false),
        None => (then, now, true),
    };
    if then == now && *then != There::Unknown {
        return None;
    }
    Some(Restoration {
        path,
        now: now.clone(),
        then: then.clone(),
        others,
        diffs: changes.iter().map(|change| change.diff.clone()).collect(),
    })
}

/// Where the changes begin and end if there is one order in which each follows another: the state that one more of them began with than left,
/// and the one that one more left.
fn ends(changes: &[Change]) -> Option<(&There, &There)> {
    let mut balance: BTreeMap<&There, i64> = BTreeMap::new();
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

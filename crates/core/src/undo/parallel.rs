//! Merges the changes that several commands saw because they ran in parallel (PAOR-10). Each command compares the workspace before and
//! after it, so a change that happened while two commands were running is in the results of both.

use std::collections::BTreeMap;

use super::calls::EndedCall;
use super::{DuringCommand, PathState, change_between, states};
use crate::id::EffectId;
use crate::tool::StateChange;

/// A change of a file that a command saw.
pub(super) struct SeenChange<'a> {
    effect: EffectId,
    first: u64,
    last: u64,
    command: &'a str,
    change: StateChange,
}

impl<'a> SeenChange<'a> {
    pub(super) fn new(call: &EndedCall, command: &'a str, change: StateChange) -> Self {
        SeenChange {
            effect: call.effect,
            first: call.first,
            last: call.last,
            command,
            change,
        }
    }

    fn ran_in_parallel_with(&self, other: &SeenChange<'_>) -> bool {
        self.first < other.last && other.first < self.last
    }

    fn states(&self) -> Option<(PathState, PathState)> {
        states(&self.change)
    }
}

/// Groups the changes by the commands that saw them. `seen` is in journal order. Commands that saw the same change of a file are one group,
/// which takes the place of the last of them.
pub(super) fn during_commands(seen: Vec<SeenChange<'_>>) -> Vec<DuringCommand> {
    let mut by_path: BTreeMap<String, Vec<SeenChange<'_>>> = BTreeMap::new();
    for change in seen {
        let path = change.change.path().unwrap_or_default().to_owned();
        by_path.entry(path).or_default().push(change);
    }
    let mut found: BTreeMap<(u64, Vec<EffectId>), DuringCommand> = BTreeMap::new();
    for group in by_path.into_values().flat_map(groups) {
        let (Some(last), Some(change)) = (group.last(), net_change(&group)) else {
            continue;
        };
        let calls = group.iter().map(|seen| seen.effect).collect();
        let during = found.entry((last.last, calls)).or_insert_with(|| {
            let mut commands: Vec<&str> = Vec::new();
            for seen in &group {
                if !commands.contains(&seen.command) {
                    commands.push(seen.command);
                }
            }
            let mut commands = commands.into_iter().map(str::to_owned);
            DuringCommand {
                call: last.effect,
                command: commands.next().unwrap_or_default(),
                in_parallel: commands.collect(),
                changes: Vec::new(),
            }
        });
        during.changes.push(change);
    }
    found.into_values().collect()
}

/// Splits the changes of a path into groups of commands that ran in parallel. Changes that follow each other are not the same change, so
/// each of them is a group of its own.
fn groups(seen: Vec<SeenChange<'_>>) -> Vec<Vec<SeenChange<'_>>> {
    let mut groups: Vec<Vec<SeenChange<'_>>> = Vec::new();
    for change in seen {
        let (parallel, others): (Vec<_>, Vec<_>) = groups
            .into_iter()
            .partition(|group| group.iter().any(|other| other.ran_in_parallel_with(&change)));
        let mut merged: Vec<SeenChange<'_>> = parallel.into_iter().flatten().collect();
        merged.push(change);
        merged.sort_by_key(|seen| seen.last);
        groups = others;
        groups.push(merged);
    }
    let split = groups.into_iter().flat_map(|group| match is_chain(&group) {
        true => group.into_iter().map(|change| vec![change]).collect(),
        false => vec![group],
    });
    split.collect()
}

/// Returns true if each change begins with the state in which the previous one ended.
fn is_chain(group: &[SeenChange<'_>]) -> bool {
    group.array_windows().all(|[one, next]| {
        let (Some((_, after)), Some((before, _))) = (one.states(), next.states()) else {
            return false;
        };
        after == before && after != PathState::Unknown
    })
}

/// Returns the change from the state that the first command saw at its start to the state that the last one saw at its end; `None` if these
/// are equal.
fn net_change(group: &[SeenChange<'_>]) -> Option<StateChange> {
    let (first, last) = (group.iter().min_by_key(|seen| seen.first)?, group.last()?);
    let ((before, _), (_, after)) = (first.states()?, last.states()?);
    let is_net = |seen: &&SeenChange<'_>| seen.states() == Some((before.clone(), after.clone()));
    if let Some(same) = group.iter().rev().find(is_net) {
        return Some(same.change.clone());
    }
    if before == after {
        return None;
    }
    let path = last.change.path()?;
    let unknown = || match before == PathState::Nothing {
        true => StateChange::FileCreated {
            path: path.to_owned(),
            diff: None,
            after: None,
        },
        false => StateChange::FileEdited {
            path: path.to_owned(),
            diff: None,
            before: match &before {
                PathState::File(version) => Some(version.clone()),
                PathState::Nothing | PathState::Folder | PathState::Unknown => None,
            },
            after: None,
        },
    };
    change_between(path, &before, &after).or_else(|| Some(unknown()))
}

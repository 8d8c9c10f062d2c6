//! The changes of files that changed while commands ran, together with those of file tools (PAOR-10).

use std::collections::BTreeMap;

use super::calls::Calls;
use super::merge::first_and_last;
use super::{DuringCommand, PathChange, PathState, RestorePath, attribution, is_exit};
use crate::journal::Entry;
use crate::tool::StateChange;

/// All changes of a file that changed while commands ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandHistory {
    /// The changes in journal order, with those of file tools, and the states before the first and after the last one.
    pub changes: RestorePath,
    /// The commands during which the file changed, in journal order, each once.
    pub commands: Vec<String>,
    /// True if file tools changed the file, too.
    pub by_file_tools: bool,
}

impl CommandHistory {
    /// Collects the files that changed while commands ran, ordered by path. `entries` must contain all entries of the run.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<CommandHistory> {
        let calls = Calls::from_entries(entries);
        let during_commands = calls.during_commands(0);
        let mut ended = during_commands.iter().peekable();
        let mut files: BTreeMap<&str, Changes> = BTreeMap::new();
        for (effect, change) in calls.changes(0) {
            for (path, change) in changes_of(change) {
                files.entry(path).or_default().add(change, None);
            }
            while let Some(during) = ended.next_if(|during| during.call == effect && is_exit(change)) {
                for (path, change) in during.changes.iter().flat_map(changes_of) {
                    files.entry(path).or_default().add(change, Some(during));
                }
            }
        }
        files
            .into_iter()
            .filter_map(|(path, changes)| changes.into_history(path))
            .collect()
    }
}

/// The changes of one path.
#[derive(Default)]
struct Changes<'a> {
    changes: Vec<PathChange>,
    commands: Vec<&'a str>,
    by_file_tools: bool,
}

impl<'a> Changes<'a> {
    /// Adds a change that was seen while commands ran; `during` is `None` for a change of a file tool.
    fn add(&mut self, change: PathChange, during: Option<&'a DuringCommand>) {
        self.changes.push(change);
        self.by_file_tools |= during.is_none();
        for command in during.into_iter().flat_map(DuringCommand::commands) {
            if !self.commands.contains(&command) {
                self.commands.push(command);
            }
        }
    }

    /// Returns `None` if the file never changed while a command ran.
    fn into_history(self, path: &str) -> Option<CommandHistory> {
        if self.commands.is_empty() {
            return None;
        }
        let mut changes = self.changes;
        // A state that no tool has recorded is the one that the next or the previous change has recorded.
        for at in 1..changes.len() {
            let (one, next) = (changes[at - 1].after.clone(), changes[at].before.clone());
            match (&one, &next) {
                (PathState::Unknown, _) => changes[at - 1].after = next,
                (_, PathState::Unknown) => changes[at].before = one,
                _ => {}
            }
        }
        let follow_each_other = |[one, next]: &[PathChange; 2]| one.after == next.before;
        let (original, expected) = (changes.first()?.before.clone(), changes.last()?.after.clone());
        let (original, expected, changed_by_others) = match first_and_last(&changes) {
            _ if changes.array_windows().all(follow_each_other) => (original, expected, false),
            // Concurrent calls may be journaled in a different order from the one in which they ran.
            Some((original, expected)) => (original.clone(), expected.clone(), false),
            None => (original, expected, true),
        };
        Some(CommandHistory {
            changes: RestorePath {
                path: path.to_owned(),
                expected,
                original,
                changed_by_others,
                changes,
            },
            commands: self.commands.into_iter().map(str::to_owned).collect(),
            by_file_tools: self.by_file_tools,
        })
    }
}

/// Returns the paths that a change concerns, each with its change.
fn changes_of(change: &StateChange) -> impl Iterator<Item = (&str, PathChange)> {
    let diff = change.diff().map(str::to_owned);
    attribution::states(change)
        .into_iter()
        .map(move |(path, before, after)| {
            let diff = diff.clone();
            (path, PathChange { before, after, diff })
        })
}

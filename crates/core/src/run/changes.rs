//! What a run changed: every change in order, and what they come to. Computed from observations and finished calls alone;
//! nothing here looks at the workspace.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::Round;
use crate::observation::{AgentWork, Observation};
use crate::tool::StateChange;

/// A file that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// Its path in the workspace.
    pub path: String,
    /// What became of it.
    pub fate: FileFate,
}

/// What became of a file over a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFate {
    /// It was not there.
    Created,
    /// It was there with other content.
    Edited,
    /// It is gone.
    Deleted,
}

/// Every change in the order in which the run learned of it: of what has ended, of the finished calls of what has not, and
/// of agents that have not reported.
pub(super) fn changes<'a>(
    rounds: &'a [Round],
    unreported: &'a [&AgentWork],
) -> impl Iterator<Item = &'a StateChange> {
    let observed = rounds
        .iter()
        .flat_map(|round| &round.observations)
        .flat_map(Observation::changes);
    let finished = rounds
        .iter()
        .flat_map(|round| round.active.values())
        .flat_map(|active| &active.calls)
        .flat_map(|call| &call.result.changes);
    observed
        .chain(finished)
        .chain(unreported.iter().flat_map(|work| &work.changes))
}

/// The changes as one text of unified diffs.
pub(super) fn diff<'a>(changes: impl Iterator<Item = &'a StateChange>) -> String {
    let mut text = String::new();
    for change in changes {
        match change {
            StateChange::FileCreated { path, diff, .. }
            | StateChange::FileEdited { path, diff, .. }
            | StateChange::FileDeleted { path, diff, .. } => match diff {
                Some(diff) => {
                    text.push_str(diff);
                    if !diff.ends_with('\n') {
                        text.push('\n');
                    }
                }
                None => {
                    let _ = writeln!(
                        text,
                        "# {change} (no diff: not text, or too long)\n# in {}",
                        crate::tool::shown_path(path)
                    );
                }
            },
            StateChange::FileMoved { .. } => {
                let _ = writeln!(text, "# {change}");
            }
            StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => {}
        }
    }
    text
}

/// The net of all changes, sorted by path.
pub(super) fn changed_files<'a>(changes: impl Iterator<Item = &'a StateChange>) -> Vec<ChangedFile> {
    let mut files: BTreeMap<&str, FileFate> = BTreeMap::new();
    for change in changes {
        match change {
            StateChange::FileCreated { path, .. } => create(&mut files, path),
            StateChange::FileEdited { path, .. } => {
                files.entry(path).or_insert(FileFate::Edited);
            }
            StateChange::FileDeleted { path, .. } => remove(&mut files, path),
            StateChange::FileMoved { from, to, .. } => {
                remove(&mut files, from);
                create(&mut files, to);
            }
            StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => {}
        }
    }
    files
        .into_iter()
        .map(|(path, fate)| ChangedFile {
            path: path.to_owned(),
            fate,
        })
        .collect()
}

fn create<'a>(files: &mut BTreeMap<&'a str, FileFate>, path: &'a str) {
    let fate = match files.get(path) {
        Some(FileFate::Deleted | FileFate::Edited) => FileFate::Edited,
        Some(FileFate::Created) | None => FileFate::Created,
    };
    files.insert(path, fate);
}

fn remove<'a>(files: &mut BTreeMap<&'a str, FileFate>, path: &'a str) {
    match files.get(path) {
        Some(FileFate::Created) => {
            files.remove(path);
        }
        Some(FileFate::Edited | FileFate::Deleted) | None => {
            files.insert(path, FileFate::Deleted);
        }
    }
}

/// The commands that succeeded since a file was last changed, each once.
pub(super) fn confirmations<'a>(changes: impl Iterator<Item = &'a StateChange>) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for change in changes {
        match change {
            StateChange::ProcessExited {
                command,
                code: Some(0),
            } if !commands.contains(command) => {
                commands.push(command.clone());
            }
            StateChange::ProcessExited { code: Some(0), .. } => {}
            StateChange::ProcessExited { command, .. } => commands.retain(|other| other != command),
            StateChange::FileCreated { .. }
            | StateChange::FileEdited { .. }
            | StateChange::FileDeleted { .. }
            | StateChange::FileMoved { .. } => commands.clear(),
            StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => {}
        }
    }
    commands
}

//! The changes of a run in order, and their net effect. Computed from observations and finished calls; the workspace is not read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::Iteration;
use crate::agent_report::AgentWork;
use crate::observation::Observation;
use crate::tool::{FileVersion, StateChange};

/// A file whose content changed over the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// The path relative to the workspace.
    pub path: String,
    /// The net change.
    pub kind: FileChangeKind,
}

/// The net change of a file over the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    /// The file did not exist before the run.
    Created,
    /// The file existed before the run, with different content.
    Edited,
    /// The file no longer exists.
    Deleted,
}

/// Returns the changes made by ended sub-tasks, then by finished calls of running sub-tasks, then by agents that have not reported yet.
pub(super) fn changes<'a>(
    iterations: &'a [Iteration],
    unreported: &'a [&AgentWork],
) -> impl Iterator<Item = &'a StateChange> {
    let observed = iterations
        .iter()
        .flat_map(|iteration| &iteration.observations)
        .flat_map(Observation::changes);
    let finished = iterations
        .iter()
        .flat_map(|iteration| iteration.active.values())
        .flat_map(|active| &active.calls)
        .flat_map(|call| &call.result.changes);
    observed
        .chain(finished)
        .chain(unreported.iter().flat_map(|work| &work.changes))
}

/// Formats the changes as unified diffs. Omits files whose final content equals their original content.
pub(super) fn diff<'a>(changes: impl Iterator<Item = &'a StateChange>) -> String {
    let changes: Vec<&StateChange> = changes.collect();
    let files = net_changes(changes.iter().copied());
    let is_as_before = |path: &str| files.get(path).is_some_and(NetChange::is_as_before);
    let mut text = String::new();
    for change in changes {
        match change {
            StateChange::FileCreated { path, .. }
            | StateChange::FileEdited { path, .. }
            | StateChange::FileDeleted { path, .. }
                if is_as_before(path) => {}
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
                        crate::tool::display_path(path)
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

/// Returns the net changes, sorted by path. Omits files whose final content equals their original content.
pub(super) fn changed_files<'a>(changes: impl Iterator<Item = &'a StateChange>) -> Vec<ChangedFile> {
    let files = net_changes(changes)
        .into_iter()
        .filter(|(_, net)| !net.is_as_before());
    files
        .map(|(path, net)| ChangedFile {
            path: path.to_owned(),
            kind: net.kind,
        })
        .collect()
}

/// The net change of a path.
struct NetChange<'a> {
    kind: FileChangeKind,
    /// The content before the first change, if known.
    before: Option<&'a FileVersion>,
    /// The content after the last change, if known.
    after: Option<&'a FileVersion>,
}

impl NetChange<'_> {
    /// Returns true if the file's final content equals its content before the first change.
    fn is_as_before(&self) -> bool {
        match self.kind {
            FileChangeKind::Edited => self.before.is_some() && self.before == self.after,
            FileChangeKind::Created | FileChangeKind::Deleted => false,
        }
    }
}

fn net_changes<'a>(changes: impl Iterator<Item = &'a StateChange>) -> BTreeMap<&'a str, NetChange<'a>> {
    let mut files = BTreeMap::new();
    for change in changes {
        match change {
            StateChange::FileCreated { path, after, .. } => create(&mut files, path, after.as_ref()),
            StateChange::FileEdited {
                path, before, after, ..
            } => edit(&mut files, path, before.as_ref(), after.as_ref()),
            StateChange::FileDeleted { path, before, .. } => remove(&mut files, path, before.as_ref()),
            StateChange::FileMoved { from, to, version } => {
                remove(&mut files, from, version.as_ref());
                create(&mut files, to, version.as_ref());
            }
            StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => {}
        }
    }
    files
}

type Files<'a> = BTreeMap<&'a str, NetChange<'a>>;

fn edit<'a>(
    files: &mut Files<'a>,
    path: &'a str,
    before: Option<&'a FileVersion>,
    after: Option<&'a FileVersion>,
) {
    let kind = FileChangeKind::Edited;
    files
        .entry(path)
        .and_modify(|net| net.after = after)
        .or_insert(NetChange { kind, before, after });
}

fn create<'a>(files: &mut Files<'a>, path: &'a str, after: Option<&'a FileVersion>) {
    let known = files.remove(path);
    let (kind, before) = match known {
        Some(NetChange {
            kind: FileChangeKind::Deleted | FileChangeKind::Edited,
            before,
            ..
        }) => (FileChangeKind::Edited, before),
        Some(NetChange {
            kind: FileChangeKind::Created,
            ..
        })
        | None => (FileChangeKind::Created, None),
    };
    files.insert(path, NetChange { kind, before, after });
}

fn remove<'a>(files: &mut Files<'a>, path: &'a str, before: Option<&'a FileVersion>) {
    let before = match files.remove(path) {
        Some(NetChange {
            kind: FileChangeKind::Created,
            ..
        }) => return,
        Some(NetChange {
            kind: FileChangeKind::Edited | FileChangeKind::Deleted,
            before,
            ..
        }) => before,
        None => before,
    };
    let (kind, after) = (FileChangeKind::Deleted, None);
    files.insert(path, NetChange { kind, before, after });
}

/// Returns the commands that succeeded after the last file change and have not failed since, without duplicates.
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

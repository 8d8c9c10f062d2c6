//! The changes of a run in order, and their net effect: changes by file tools and, separately, changes that happened while commands ran
//! (PAOR-10). Computed from observations and finished calls; the workspace is not read.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::Iteration;
use crate::agent_report::AgentWork;
use crate::text::single_line;
use crate::tool::{FileVersion, StateChange, display_path};
use crate::undo::attribution::without_file_tools;

/// Maximum length of a command in a title, in characters.
const MAX_COMMAND: usize = 120;

/// A file whose content changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// The path relative to the workspace.
    pub path: String,
    /// The net change.
    pub kind: FileChangeKind,
}

/// Changes that happened while a command of the run ran, made by the command or by others (PAOR-10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandChanges {
    /// The command line.
    pub command: String,
    /// The net changes over all executions of the command, sorted by path.
    pub files: Vec<ChangedFile>,
}

/// The net change of a file over the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    /// The file did not exist before the run.
    Created,
    /// The file existed before the run, with different content.
    Edited,
    /// The file no longer exists.
    Deleted,
}

/// The changes of one sub-task or agent, in order. Its calls ran one after another.
struct Track<'a> {
    iteration: usize,
    changes: Vec<&'a StateChange>,
}

/// Returns the changes of ended sub-tasks, then of running ones, then of agents that have not reported yet.
fn tracks<'a>(iterations: &'a [Iteration], unreported: &'a [&AgentWork]) -> Vec<Track<'a>> {
    let mut tracks = Vec::new();
    for (place, iteration) in iterations.iter().enumerate() {
        for observation in &iteration.observations {
            let changes = observation.changes().collect();
            tracks.push(Track {
                iteration: place,
                changes,
            });
        }
    }
    for (place, iteration) in iterations.iter().enumerate() {
        for active in iteration.active.values() {
            let changes = active.calls.iter().flat_map(|call| &call.result.changes);
            tracks.push(Track {
                iteration: place,
                changes: changes.collect(),
            });
        }
    }
    tracks.extend(unreported.iter().map(|work| Track {
        iteration: iterations.len().saturating_sub(1),
        changes: work.changes.iter().collect(),
    }));
    tracks
}

/// Returns the changes made by ended sub-tasks, then by finished calls of running sub-tasks, then by agents that have not reported yet.
pub(super) fn changes<'a>(
    iterations: &'a [Iteration],
    unreported: &'a [&AgentWork],
) -> impl Iterator<Item = &'a StateChange> {
    let tracks = tracks(iterations, unreported);
    tracks.into_iter().flat_map(|track| track.changes)
}

/// Returns what changed while each command ran, in the order of the commands' first executions. Leaves out what file tools changed at the
/// same time, in another sub-task of the same iteration.
pub(super) fn during_commands(iterations: &[Iteration], unreported: &[&AgentWork]) -> Vec<CommandChanges> {
    let net = changes_during_commands(iterations, unreported).into_iter();
    let net = net.map(|(command, changes)| CommandChanges {
        command: command.to_owned(),
        files: changed_files(changes.iter()),
    });
    net.filter(|command| !command.files.is_empty()).collect()
}

fn changes_during_commands<'a>(
    iterations: &'a [Iteration],
    unreported: &'a [&AgentWork],
) -> Vec<(&'a str, Vec<StateChange>)> {
    let tracks = tracks(iterations, unreported);
    let mut commands: Vec<(&str, Vec<StateChange>)> = Vec::new();
    for (place, track) in tracks.iter().enumerate() {
        for change in &track.changes {
            let StateChange::ProcessExited { command, files, .. } = change else {
                continue;
            };
            let concurrent = || {
                let others = tracks.iter().enumerate();
                let others = others.filter(|(other, _)| *other != place);
                let others = others.filter(|(_, other)| other.iteration == track.iteration);
                others.flat_map(|(_, other)| other.changes.iter().copied())
            };
            let others = files
                .iter()
                .filter_map(|file| without_file_tools(file, concurrent()));
            let place = commands.iter().position(|(known, _)| known == command);
            match place {
                Some(place) => commands[place].1.extend(others),
                None => commands.push((command, others.collect())),
            }
        }
    }
    commands
}

/// Formats the changes of file tools as unified diffs. Omits files whose final content equals their original content. Then lists what
/// changed while commands ran, in lines that begin with `#`.
pub(super) fn diff(iterations: &[Iteration], unreported: &[&AgentWork]) -> String {
    let made: Vec<&StateChange> = changes(iterations, unreported).collect();
    let mut text = diffs(&made);
    for command in during_commands(iterations, unreported) {
        let _ = writeln!(text, "# {}:", command.title());
        for file in &command.files {
            let _ = writeln!(text, "#   {} {}", file.kind, display_path(&file.path));
        }
    }
    text
}

fn diffs(changes: &[&StateChange]) -> String {
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
                        display_path(path)
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

impl CommandChanges {
    /// Returns the title of the files: "changed while `cargo test` ran, by it or by others".
    pub fn title(&self) -> String {
        during_command_title(&self.command)
    }
}

/// Returns the title for the changes while a command ran, in words for users: "changed while `cargo test` ran, by it or by others".
pub fn during_command_title(command: &str) -> String {
    let command = single_line(command, MAX_COMMAND);
    format!("changed while `{command}` ran, by it or by others")
}

impl FileChangeKind {
    /// Returns the kind of a single change; `None` if the change is not that of one file.
    pub fn from_change(change: &StateChange) -> Option<Self> {
        match change {
            StateChange::FileCreated { .. } => Some(FileChangeKind::Created),
            StateChange::FileEdited { .. } => Some(FileChangeKind::Edited),
            StateChange::FileDeleted { .. } => Some(FileChangeKind::Deleted),
            StateChange::FileMoved { .. }
            | StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => None,
        }
    }
}

impl fmt::Display for FileChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FileChangeKind::Created => "created",
            FileChangeKind::Edited => "edited",
            FileChangeKind::Deleted => "deleted",
        })
    }
}

/// Returns the net changes of file tools, sorted by path. Omits files whose final content equals their original content.
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

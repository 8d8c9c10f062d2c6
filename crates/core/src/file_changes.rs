//! The net effect of a run's changes on files, and on what else it has changed (PAOR-10). Computed from the changes that tools and commands
//! reported; the workspace is not read.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::EffectId;
use crate::text::single_line;
use crate::tool::{FileVersion, StateChange};

/// Maximum length of a command in a title, in characters.
const MAX_COMMAND: usize = 120;
/// Maximum number of commands in a title.
const MAX_COMMANDS: usize = 3;

/// A file whose content changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// The path relative to the workspace.
    pub path: String,
    /// The net change.
    pub kind: FileChangeKind,
}

/// Changes that happened while a command was running, made by the command or by something else, except changes by file tools (PAOR-10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuringCommand {
    /// The call that ran the command; of several commands, the call that ended last.
    pub call: EffectId,
    /// The command line; of several commands, the one that ended first.
    pub command: String,
    /// The other commands that saw the changes, because they ran in parallel, in the order of their ends.
    pub in_parallel: Vec<String>,
    /// Created, edited and deleted files, sorted by path.
    pub changes: Vec<StateChange>,
}

impl DuringCommand {
    /// Returns the commands that were running.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &str> {
        let others = self.in_parallel.iter().map(String::as_str);
        std::iter::once(self.command.as_str()).chain(others)
    }
}

/// Changes that happened while a command of the run was running, made by the command or by something else (PAOR-10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandChanges {
    /// The command line.
    pub command: String,
    /// The other commands that ran in parallel, so that each of them may have made the changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_parallel: Vec<String>,
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

/// Returns the changes of databases, each table in the order of its first change, with the rows of each table added up.
pub(crate) fn database_changes<'a>(changes: impl Iterator<Item = &'a StateChange>) -> Vec<StateChange> {
    let mut found: Vec<StateChange> = Vec::new();
    for change in changes {
        match change {
            StateChange::RowsChanged { rows, .. } => match found
                .iter_mut()
                .find(|known| is_same_table(known, change))
            {
                Some(StateChange::RowsChanged { rows: known, .. }) => *known = known.saturating_add(*rows),
                Some(_) | None => found.push(change.clone()),
            },
            StateChange::TableCreated { .. } | StateChange::TableDropped { .. } => found.push(change.clone()),
            StateChange::FileCreated { .. }
            | StateChange::FileEdited { .. }
            | StateChange::FileDeleted { .. }
            | StateChange::FileMoved { .. }
            | StateChange::ProcessExited { .. }
            | StateChange::RequestSent { .. } => {}
        }
    }
    found
}

/// Returns the run's changes other than file changes: changes of databases, and sent requests that may have changed something. One text per
/// change.
pub(crate) fn other_changes<'a>(changes: impl Iterator<Item = &'a StateChange>) -> Vec<String> {
    let is_sent =
        |change: &StateChange| matches!(change, StateChange::RequestSent { .. }) && change.is_reflected();
    let (sent, others): (Vec<_>, Vec<_>) = changes.partition(|change| is_sent(change));
    let mut found: Vec<String> = database_changes(others.into_iter())
        .iter()
        .map(ToString::to_string)
        .collect();
    for request in sent.into_iter().map(ToString::to_string) {
        if !found.contains(&request) {
            found.push(request);
        }
    }
    found
}

/// Returns true if both changes are changes of rows of the same table.
fn is_same_table(one: &StateChange, other: &StateChange) -> bool {
    let table = |change: &StateChange| match change {
        StateChange::RowsChanged {
            connection, table, ..
        } => Some((connection.clone(), table.clone())),
        StateChange::FileCreated { .. }
        | StateChange::FileEdited { .. }
        | StateChange::FileDeleted { .. }
        | StateChange::FileMoved { .. }
        | StateChange::ProcessExited { .. }
        | StateChange::TableCreated { .. }
        | StateChange::TableDropped { .. }
        | StateChange::RequestSent { .. } => None,
    };
    table(one).is_some() && table(one) == table(other)
}

/// Returns the net changes that happened while each command was running, over all executions of the command. Commands are in the order of
/// their first executions.
pub(crate) fn command_changes(during: &[DuringCommand]) -> Vec<CommandChanges> {
    type Commands<'a> = (&'a str, &'a [String]);
    let mut commands: Vec<(Commands<'_>, Vec<&StateChange>)> = Vec::new();
    for during in during {
        let key = (during.command.as_str(), during.in_parallel.as_slice());
        match commands.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => known.extend(&during.changes),
            None => commands.push((key, during.changes.iter().collect())),
        }
    }
    let net = commands
        .into_iter()
        .map(|((command, in_parallel), changes)| CommandChanges {
            command: command.to_owned(),
            in_parallel: in_parallel.to_vec(),
            files: changed_files(changes.into_iter()),
        });
    net.filter(|command| !command.files.is_empty()).collect()
}

impl CommandChanges {
    /// Returns the title of the files: "changed while `cargo test` ran, by this command or something else".
    pub fn title(&self) -> String {
        during_command_title(&self.command, &self.in_parallel)
    }
}

/// Returns the title, as shown to users, for changes that happened while a command was running: "changed while `cargo test` ran, by this
/// command or something else". `in_parallel` has the other commands that ran at the same time.
pub fn during_command_title(command: &str, in_parallel: &[String]) -> String {
    during_commands_title(&[&[command.to_owned()], in_parallel].concat())
}

/// Like [`during_command_title`], for changes while several commands ran. Names the first commands only.
pub fn during_commands_title(commands: &[String]) -> String {
    let named = commands.iter().take(MAX_COMMANDS);
    let named: Vec<String> = named
        .map(|command| format!("`{}`", single_line(command, MAX_COMMAND)))
        .collect();
    let more = match commands.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let which = match commands.len() {
        1 => "this command",
        _ => "these commands",
    };
    format!(
        "changed while {}{more} ran, by {which} or something else",
        named.join(", ")
    )
}

impl FileChangeKind {
    /// Returns the kind of a single change; `None` if the change does not concern exactly one file.
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
pub(crate) fn changed_files<'a>(changes: impl Iterator<Item = &'a StateChange>) -> Vec<ChangedFile> {
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

//! The files that changed while commands of a run were running (PAOR-10), compared with the workspace.

use std::collections::BTreeMap;

use dirigent_core::id::EffectId;
use dirigent_core::run::FileChangeKind;
use dirigent_core::tool::StateChange;
use dirigent_core::undo::{DuringCommand, PathState, RestorePath, RestoreStep, UndoPlan, states};
use dirigent_tools::workspace::Workspace;
use serde::Serialize;

use super::refusal::{RefusalReason, RefusedPath};

/// The files that changed while a command was running, whether by the command or by something else. JSON: `{"call": "a1.3", "command":
/// "cargo test", "files": […]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandFiles {
    /// The effect id of the call that ran the command; of several commands, the call that ended last.
    pub call: EffectId,
    /// The command line.
    pub command: String,
    /// The other commands that ran in parallel, so that each of them may have made the changes. Absent in JSON if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_parallel: Vec<String>,
    /// The files that still differ from their state before the command, sorted by path.
    pub files: Vec<CommandFile>,
}

/// A file that changed while a command was running. JSON: `{"path": "Cargo.lock", "kind": "created", "restorable": true}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandFile {
    /// The path, relative to the workspace.
    pub path: String,
    /// How the file changed.
    pub kind: FileChangeKind,
    /// False if the content before or after the command is unknown, so that the file cannot be restored.
    pub restorable: bool,
}

/// Returns the files whose changes are still in effect. `plan` is an undo plan that includes the changes during commands.
pub(super) fn command_files(plan: &UndoPlan, workspace: &Workspace) -> Vec<CommandFiles> {
    let steps: BTreeMap<&str, &RestorePath> = plan
        .steps
        .iter()
        .filter_map(|step| match step {
            RestoreStep::Restore(restoration) => Some((restoration.path.as_str(), restoration)),
            RestoreStep::Move(_) => None,
        })
        .collect();
    let is_in_effect = |path: &str| match steps.get(path) {
        Some(step) => workspace.path_state(path).ok() != Some(step.original.clone()),
        None => !is_reverted(&plan.during_commands, path),
    };
    let commands = plan.during_commands.iter().map(|during| CommandFiles {
        call: during.call,
        command: during.command.clone(),
        in_parallel: during.in_parallel.clone(),
        files: during
            .changes
            .iter()
            .filter(|change| change.path().is_some_and(is_in_effect))
            .filter_map(command_file)
            .collect(),
    });
    commands.filter(|command| !command.files.is_empty()).collect()
}

fn command_file(change: &StateChange) -> Option<CommandFile> {
    let (before, after) = states(change)?;
    Some(CommandFile {
        path: change.path()?.to_owned(),
        kind: FileChangeKind::from_change(change)?,
        restorable: before != PathState::Unknown && after != PathState::Unknown,
    })
}

/// Returns true if later commands changed the path back.
fn is_reverted(commands: &[DuringCommand], path: &str) -> bool {
    let changes = commands.iter().flat_map(|during| &during.changes);
    let mut states = changes
        .filter(|change| change.path() == Some(path))
        .filter_map(states);
    let Some((first, mut last)) = states.next() else {
        return true;
    };
    if let Some((_, state)) = states.next_back() {
        last = state;
    }
    first == last && first != PathState::Unknown
}

/// Refuses files that were changed both by file tools and while a command was running, because restoring them according to `plan` would
/// also undo the changes made during the command.
pub(super) fn refuse_mixed(
    refused: &mut Vec<RefusedPath>,
    plan: &UndoPlan,
    with_commands: &UndoPlan,
    workspace: &Workspace,
) {
    for step in &plan.steps {
        let RestoreStep::Restore(RestorePath {
            path,
            changed_by_others,
            ..
        }) = step
        else {
            continue;
        };
        let mut commands = with_commands.during_commands.iter().rev();
        let Some(during) = commands.find(|during| {
            let mut paths = during.changes.iter().filter_map(StateChange::path);
            paths.any(|other| other == path)
        }) else {
            continue;
        };
        let reason = RefusalReason::DuringCommand {
            command: during.command.clone(),
            in_parallel: during.in_parallel.clone(),
        };
        match refused.iter_mut().find(|refused| refused.path == *path) {
            Some(refused) if is_as_expected(workspace, with_commands, path) => refused.reason = reason,
            Some(_) => {}
            None if *changed_by_others => refused.push(RefusedPath {
                path: path.clone(),
                reason,
            }),
            None => {}
        }
    }
}

/// Returns true if a path is in the state that the plan expects.
fn is_as_expected(workspace: &Workspace, plan: &UndoPlan, path: &str) -> bool {
    plan.steps.iter().any(|step| match step {
        RestoreStep::Restore(restoration) => {
            restoration.path == path
                && workspace.path_state(path).ok().as_ref() == Some(&restoration.expected)
        }
        RestoreStep::Move(_) => false,
    })
}

//! Separates the changes of file tools from all other changes that happened while a command was running (PAOR-10).

use super::{PathState, change_between, is_within};
use crate::tool::StateChange;

/// Returns a file change that was detected while a command was running, without the part that file tools made at the same time; `None` if
/// nothing remains. `concurrent` has the changes of all calls that may have run at the same time as the command.
pub(super) fn without_file_tools<'a>(
    noticed: &StateChange,
    concurrent: impl IntoIterator<Item = &'a StateChange>,
) -> Option<StateChange> {
    let Some((path, before, after)) = states(noticed).pop() else {
        return Some(noticed.clone());
    };
    let mut tools = Vec::new();
    for change in concurrent {
        if moves_folder_with(change, path) {
            return None;
        }
        let of_path = states(change).into_iter().filter(|(other, _, _)| *other == path);
        tools.extend(of_path.map(|(_, before, after)| (before, after)));
    }
    if tools.is_empty() {
        return Some(noticed.clone());
    }
    let (first, last) = trim((before.clone(), after.clone()), tools);
    // The content after the command is what a tool wrote last, so only the tool's change is known to have happened.
    let is_explained = before == PathState::Unknown && last != after;
    if first == last || is_explained || after == PathState::Unknown {
        return None;
    }
    if (&first, &last) == (&before, &after) {
        return Some(noticed.clone());
    }
    change_between(path, &first, &last)
}

/// Removes the steps of file tools at the beginning and at the end of a change. Returns the states between which something else changed
/// the file.
fn trim(
    (mut before, mut after): (PathState, PathState),
    mut tools: Vec<(PathState, PathState)>,
) -> (PathState, PathState) {
    while before != after {
        let next = tools
            .iter()
            .position(|(from, _)| *from == before && before != PathState::Unknown);
        let Some(next) = next else { break };
        before = tools.remove(next).1;
    }
    while before != after {
        let Some(last) = tools.iter().position(|(_, to)| *to == after) else {
            break;
        };
        after = tools.remove(last).0;
    }
    (before, after)
}

/// Returns the paths that a change concerns, each with its states before and after the change.
pub(super) fn states(change: &StateChange) -> Vec<(&str, PathState, PathState)> {
    let file = PathState::from_version;
    match change {
        StateChange::FileCreated { path, after, .. } => {
            vec![(path, PathState::Nothing, file(after.as_ref()))]
        }
        StateChange::FileEdited {
            path, before, after, ..
        } => vec![(path, file(before.as_ref()), file(after.as_ref()))],
        StateChange::FileDeleted { path, before, .. } => {
            vec![(path, file(before.as_ref()), PathState::Nothing)]
        }
        StateChange::FileMoved { from, to, version } => {
            let moved = file(version.as_ref());
            vec![
                (from, moved.clone(), PathState::Nothing),
                (to, PathState::Nothing, moved),
            ]
        }
        StateChange::ProcessExited { .. }
        | StateChange::TableCreated { .. }
        | StateChange::TableDropped { .. }
        | StateChange::RowsChanged { .. }
        | StateChange::RequestSent { .. } => Vec::new(),
    }
}

/// Returns true if the change moves a folder, or a file of unknown content, together with this path.
fn moves_folder_with(change: &StateChange, path: &str) -> bool {
    match change {
        StateChange::FileMoved {
            from,
            to,
            version: None,
        } => is_within(path, from) || is_within(path, to),
        StateChange::FileMoved { .. }
        | StateChange::FileCreated { .. }
        | StateChange::FileEdited { .. }
        | StateChange::FileDeleted { .. }
        | StateChange::ProcessExited { .. }
        | StateChange::TableCreated { .. }
        | StateChange::TableDropped { .. }
        | StateChange::RowsChanged { .. }
        | StateChange::RequestSent { .. } => false,
    }
}

//! The steps of an undo as the user sees them, and how they follow from the steps of the plan.

use dirigent_core::undo::{MoveBack, PathState, RestorePath, RestoreStep};
use serde::Serialize;

/// One step of an undo. JSON: `{"action": "restore", "path": "src/a.rs"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum UndoStep {
    /// Restores the content and the permissions of a file.
    Restore {
        /// The file's path, relative to the workspace.
        path: String,
        /// True if something else, such as a command of the run, changed the file between two of the run's changes. The undo also discards
        /// that change.
        changed_by_others: bool,
    },
    /// Recreates a deleted file or an empty folder.
    Recreate {
        /// The path of the file or folder, relative to the workspace.
        path: String,
    },
    /// Deletes a file that the run created.
    Delete {
        /// The file's path, relative to the workspace.
        path: String,
    },
    /// Moves a file or folder back.
    Move {
        /// The path of the file or folder when this step is executed.
        from: String,
        /// The path before the run moved the file or folder.
        to: String,
    },
}

impl UndoStep {
    pub(super) fn from_step(step: &RestoreStep) -> UndoStep {
        match step {
            RestoreStep::Restore(RestorePath {
                path,
                expected,
                original,
                changed_by_others,
                ..
            }) => match (expected, original) {
                (_, PathState::Nothing) => UndoStep::Delete { path: path.clone() },
                (PathState::Nothing, _) => UndoStep::Recreate { path: path.clone() },
                (PathState::File(_) | PathState::Folder | PathState::Unknown, _) => UndoStep::Restore {
                    path: path.clone(),
                    changed_by_others: *changed_by_others,
                },
            },
            RestoreStep::Move(MoveBack { from, to, .. }) => UndoStep::Move {
                from: from.clone(),
                to: to.clone(),
            },
        }
    }
}

/// Returns the path under which a step is reported.
pub(super) fn step_path(step: &RestoreStep) -> &str {
    match step {
        RestoreStep::Restore(restoration) => &restoration.path,
        RestoreStep::Move(back) => &back.from,
    }
}

/// Returns the path and the current content digest of each file that is restored before the first move. Later steps can restore these
/// contents at other paths.
pub(super) fn contents_before_moves(steps: &[RestoreStep]) -> impl Iterator<Item = (&str, &str)> {
    steps
        .iter()
        .map_while(|step| match step {
            RestoreStep::Restore(restoration) => Some(restoration),
            RestoreStep::Move(_) => None,
        })
        .filter_map(|restoration| match &restoration.expected {
            PathState::File(version) => Some((restoration.path.as_str(), version.digest.as_str())),
            PathState::Nothing | PathState::Folder | PathState::Unknown => None,
        })
}

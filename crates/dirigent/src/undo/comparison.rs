//! Compares the plan of an undo with the workspace, and refuses the paths that cannot be undone. Changes nothing in the workspace.

use std::collections::BTreeSet;

use dirigent_core::tool::FileVersion;
use dirigent_core::undo::{MoveBack, PathState, RestorePath, RestoreStep, UndoPlan};
use dirigent_store::{Journal, Original};
use dirigent_tools::workspace::{FileError, Workspace};

use super::refusal::{RefusalReason, RefusedPath};
use super::steps::{contents_before_moves, step_path};
use crate::DirigentError;

/// Removes from the plan the steps whose paths are already restored, and returns the paths that cannot be undone.
pub(super) fn compare(
    plan: &mut UndoPlan,
    workspace: &Workspace,
    journal: &Journal,
) -> Result<Vec<RefusedPath>, DirigentError> {
    let mut refusals = Vec::new();
    let freed = restored_paths(plan);
    let steps = std::mem::take(&mut plan.steps);
    let mut moved = false;
    let available: BTreeSet<String> = contents_before_moves(&steps)
        .map(|(_, digest)| digest.to_owned())
        .collect();
    for step in steps {
        let refused = match &step {
            // Until the preceding move runs, the file is not at this path, so it is compared only when it is restored.
            RestoreStep::Restore(restoration) if moved => content_refusal(restoration, &available, journal)?,
            RestoreStep::Restore(restoration) => {
                let actual = path_state(workspace, &restoration.path, &restoration.expected);
                match actual {
                    Ok(actual) if actual == restoration.original && actual != PathState::Unknown => {
                        continue;
                    }
                    Ok(actual) => match state_mismatch(&actual, &restoration.expected) {
                        Some(reason) => Some(reason),
                        None => content_refusal(restoration, &available, journal)?,
                    },
                    Err(error) => Some(error.into()),
                }
            }
            RestoreStep::Move(back) => {
                moved = true;
                move_refusal(workspace, back, &freed)
            }
        };
        if let Some(reason) = refused {
            let path = step_path(&step).to_owned();
            refusals.push(RefusedPath { path, reason });
        }
        plan.steps.push(step);
    }
    Ok(refusals)
}

/// Refuses a file that differs from its version before an interrupted call.
pub(super) fn check_interrupted(refused: &mut Vec<RefusedPath>, workspace: &Workspace, original: &Original) {
    let actual = workspace.path_state(&original.path);
    let same = actual.is_ok_and(|actual| actual == PathState::File(original.version.clone()));
    let interrupted = RefusedPath {
        path: original.path.clone(),
        reason: RefusalReason::Interrupted {
            call: original.effect,
        },
    };
    if !same && !refused.iter().any(|other| other.path == interrupted.path) {
        refused.push(interrupted);
    }
}

/// Returns a reason for refusal if the content to restore is not available. `available` contains the digests of contents that are in
/// the workspace before the first move.
fn content_refusal(
    restoration: &RestorePath,
    available: &BTreeSet<String>,
    journal: &Journal,
) -> Result<Option<RefusalReason>, DirigentError> {
    Ok(match (&restoration.original, &restoration.expected) {
        (PathState::Unknown, _) | (_, PathState::Unknown) => Some(RefusalReason::Unknown),
        (PathState::File(FileVersion { digest, .. }), _)
            if !available.contains(digest) && !journal.has_content(digest)? =>
        {
            Some(RefusalReason::NoSnapshot)
        }
        (PathState::File(_) | PathState::Nothing | PathState::Folder, _) => None,
    })
}

fn restored_paths(plan: &UndoPlan) -> BTreeSet<String> {
    let steps = plan.steps.iter();
    steps
        .filter_map(|step| match step {
            RestoreStep::Restore(restoration) => Some(restoration.path.clone()),
            RestoreStep::Move(_) => None,
        })
        .collect()
}

/// Returns the state of a path. An empty folder counts as [`PathState::Nothing`] if `expected` is [`PathState::Nothing`].
fn path_state(workspace: &Workspace, path: &str, expected: &PathState) -> Result<PathState, FileError> {
    let actual = workspace.path_state(path)?;
    if actual == PathState::Folder && *expected == PathState::Nothing && workspace.is_free(path)? {
        return Ok(PathState::Nothing);
    }
    Ok(actual)
}

fn state_mismatch(actual: &PathState, expected: &PathState) -> Option<RefusalReason> {
    match (expected, actual) {
        (expected, actual) if expected == actual => None,
        (PathState::Unknown, _) => Some(RefusalReason::Unknown),
        (PathState::Nothing, _) => Some(RefusalReason::Exists),
        (_, PathState::Nothing) => Some(RefusalReason::Gone),
        (PathState::File(expected), PathState::File(actual)) if expected.digest == actual.digest => {
            Some(RefusalReason::Mode)
        }
        (PathState::File(_) | PathState::Folder, _) => Some(RefusalReason::Changed),
    }
}

fn move_refusal(workspace: &Workspace, back: &MoveBack, freed: &BTreeSet<String>) -> Option<RefusalReason> {
    if let Some(source) = &back.source {
        match workspace.path_state(source) {
            Ok(PathState::Nothing) => return Some(RefusalReason::Gone),
            Ok(PathState::File(_) | PathState::Folder | PathState::Unknown) => {}
            Err(error) => return Some(error.into()),
        }
    }
    let target = back.target.as_ref()?;
    let below = format!("{target}/");
    if freed
        .iter()
        .any(|path| path == target || path.starts_with(&below))
    {
        // An earlier step may free the target, so the target is checked only when the move is executed.
        return None;
    }
    match workspace.is_free(target) {
        Ok(true) => None,
        Ok(false) => Some(RefusalReason::Exists),
        Err(error) => Some(error.into()),
    }
}

//! Executes the plan of an undo inside the workspace jail: restores contents from the journal, and moves files and folders back.

use std::collections::BTreeSet;
use std::sync::Arc;

use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::FileVersion;
use dirigent_core::undo::{MoveBack, PathState, RestorePath, RestoreStep, UndoPlan};
use dirigent_store::Journal;
use dirigent_tools::workspace::{PreviousState, Workspace};
use dirigent_tools::{ContentStore, RunChanges};
use serde::Serialize;

use super::refusal::{RefusalReason, RefusedPath};
use super::steps::{UndoStep, contents_before_moves, step_path};
use crate::DirigentError;

/// The result of an undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undone {
    /// The steps that were executed.
    pub done: Vec<UndoStep>,
    /// The paths that could not be undone because they changed in the meantime or could not be written, and the paths that depend on them.
    pub failed: Vec<RefusedPath>,
}

/// Executes the steps of the plan. Content is recorded in the journal before it is replaced or deleted.
pub(super) fn execute(
    plan: &UndoPlan,
    workspace: Workspace,
    journal: &Journal,
) -> Result<Undone, DirigentError> {
    let snapshots = Arc::new(UndoSnapshots(journal.clone()));
    let workspace = workspace.with_content_store(snapshots);
    let mut undone = Undone {
        done: Vec::new(),
        failed: Vec::new(),
    };
    save_moved_contents(plan, &workspace, journal)?;
    let mut rest = plan.clone();
    rest.steps.reverse();
    while let Some(step) = rest.steps.pop() {
        let result = match &step {
            RestoreStep::Restore(restoration) => restore(&workspace, journal, restoration),
            RestoreStep::Move(MoveBack { from, to, .. }) => workspace.move_back(from, to).map_err(Into::into),
        };
        let Err(reason) = result else {
            undone.done.push(UndoStep::from_step(&step));
            continue;
        };
        let (path, touched) = match step {
            RestoreStep::Restore(RestorePath { path, .. }) => (path.clone(), BTreeSet::from([path])),
            RestoreStep::Move(MoveBack { from, to, .. }) => (from.clone(), BTreeSet::from([from, to])),
        };
        let left = rest.clone().without(&touched);
        let with = &path;
        let dependent = rest.steps.iter().rev().filter(|step| !left.steps.contains(step));
        let dependent: Vec<_> = dependent
            .map(|step| RefusedPath {
                path: step_path(step).to_owned(),
                reason: RefusalReason::DependsOn { with: with.clone() },
            })
            .collect();
        undone.failed.push(RefusedPath { path, reason });
        undone.failed.extend(dependent);
        rest = left;
    }
    Ok(undone)
}

/// Records contents that exist only in the workspace, and that a later step restores at another path.
fn save_moved_contents(
    plan: &UndoPlan,
    workspace: &Workspace,
    journal: &Journal,
) -> Result<(), DirigentError> {
    let steps = &plan.steps;
    let needed: BTreeSet<&str> = steps
        .iter()
        .filter_map(|step| match step {
            RestoreStep::Restore(RestorePath {
                original: PathState::File(version),
                ..
            }) => Some(version.digest.as_str()),
            RestoreStep::Restore(_) | RestoreStep::Move(_) => None,
        })
        .collect();
    for (path, digest) in contents_before_moves(steps) {
        if !needed.contains(digest) || journal.has_content(digest)? {
            continue;
        }
        // The content of a symbolic link is its target. Content with another digest is not recorded.
        let bytes = match std::fs::read_link(workspace.root().join(path)) {
            Ok(target) => Some(target.into_os_string().into_encoded_bytes()),
            Err(_) => workspace.read(path).ok(),
        };
        if let Some(bytes) = bytes.filter(|bytes| sha256_hex(bytes) == digest) {
            journal.record_content(digest, &bytes)?;
        }
    }
    Ok(())
}

fn restore(workspace: &Workspace, journal: &Journal, restoration: &RestorePath) -> Result<(), RefusalReason> {
    let RestorePath {
        path,
        expected,
        original,
        ..
    } = restoration;
    let content;
    let past = match original {
        PathState::Nothing => PreviousState::Nothing,
        PathState::Folder => PreviousState::Folder,
        PathState::Unknown => return Err(RefusalReason::Unknown),
        PathState::File(FileVersion { digest, mode }) => {
            content = journal
                .content(digest)
                .map_err(|error| RefusalReason::Failed {
                    error: error.to_string(),
                })?
                .ok_or(RefusalReason::NoSnapshot)?;
            PreviousState::File(&content, *mode)
        }
    };
    Ok(workspace.restore(path, expected, past)?)
}

/// The content store of an undo, which records contents in the journal before they are replaced.
#[derive(Debug)]
struct UndoSnapshots(Journal);

impl ContentStore for UndoSnapshots {
    fn record(&self, _: &str, version: &FileVersion, bytes: &[u8]) -> Result<(), String> {
        let recorded = self.0.record_content(&version.digest, bytes);
        recorded.map_err(|error| error.to_string())
    }

    fn load(&self, digest: &str) -> Result<Option<Vec<u8>>, String> {
        self.0.content(digest).map_err(|error| error.to_string())
    }

    fn run_changes(&self) -> Result<RunChanges, String> {
        Err("the run is being undone".to_owned())
    }
}

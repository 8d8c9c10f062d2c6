//! Applies changes to several files as one transaction: if a change fails, the earlier changes are reverted
//! as far as possible.
//!
//! The caller reads every file and computes its new content before the transaction.

use dirigent_core::tool::{StateChange, ToolResult, code};
use dirigent_core::undo::PathState;
use tokio_util::sync::CancellationToken;

use crate::workspace::{FileError, PreviousState, Workspace};

/// A change to one file. It fails if the file differs from the state that the operation expects.
pub(crate) struct FileChange {
    pub(crate) operation: FileOperation,
    /// The diff to report.
    pub(crate) diff: Option<String>,
}

/// An operation on a file, with the content that the file must have before the operation.
pub(crate) enum FileOperation {
    Create {
        path: String,
        after: Vec<u8>,
    },
    Replace {
        path: String,
        before: Vec<u8>,
        after: Vec<u8>,
    },
    Move {
        from: String,
        to: String,
        content: Vec<u8>,
    },
    Remove {
        path: String,
        before: Vec<u8>,
    },
}

/// Reason why a transaction was aborted.
pub(crate) enum AbortReason {
    Cancelled,
    File(FileError),
}

/// A transaction that was aborted.
pub(crate) struct Aborted {
    pub(crate) reason: AbortReason,
    /// The changes that were made and could not be reverted.
    pub(crate) not_reverted: Vec<StateChange>,
}

impl Aborted {
    /// Creates the result of the failed call, which reports the changes that could not be reverted.
    pub(crate) fn failure(self) -> ToolResult {
        let (reason, code) = match self.reason {
            AbortReason::Cancelled => ("cancelled".to_owned(), code::CANCELLED),
            AbortReason::File(error) => (error.to_string(), error.code()),
        };
        let state = match self.not_reverted.len() {
            0 => "nothing was changed".to_owned(),
            not_reverted => {
                format!("{not_reverted} earlier changes could not be reverted: see `changes`")
            }
        };
        ToolResult::failure(format!("{reason}; {state}"))
            .with_code(code)
            .with_changes(self.not_reverted)
    }
}

/// Makes the changes in order. If one fails or the call is cancelled, the earlier changes are reverted.
/// Blocks.
pub(crate) fn apply_all(
    workspace: &Workspace,
    changes: &mut [FileChange],
    cancel: &CancellationToken,
) -> Result<Vec<StateChange>, Aborted> {
    let mut made: Vec<(&FileOperation, StateChange, Vec<String>)> = Vec::with_capacity(changes.len());
    for change in changes {
        let folders = change.operation.missing_folders(workspace);
        let result = match cancel.is_cancelled() {
            true => Err(AbortReason::Cancelled),
            false => change.operation.apply(workspace).map_err(AbortReason::File),
        };
        match result {
            Ok(applied) => made.push((&change.operation, applied.with_diff(change.diff.take()), folders)),
            Err(reason) => {
                let not_reverted = made
                    .into_iter()
                    .rev()
                    .filter_map(|(operation, applied, folders)| {
                        let reverted = operation.revert(workspace, &applied, &folders);
                        reverted.is_err().then_some(applied)
                    });
                let mut not_reverted: Vec<StateChange> = not_reverted.collect();
                not_reverted.reverse();
                return Err(Aborted { reason, not_reverted });
            }
        }
    }
    Ok(made.into_iter().map(|(_, applied, _)| applied).collect())
}

impl FileOperation {
    fn apply(&self, workspace: &Workspace) -> Result<StateChange, FileError> {
        match self {
            FileOperation::Create { path, after } => workspace.create(path, after),
            FileOperation::Replace { path, before, after } => workspace.replace(path, before, after),
            FileOperation::Move { from, to, content } => workspace.rename(from, to, Some(content)),
            FileOperation::Remove { path, before } => workspace.remove(path, Some(before)),
        }
    }

    fn revert(
        &self,
        workspace: &Workspace,
        applied: &StateChange,
        created_folders: &[String],
    ) -> Result<(), FileError> {
        match self {
            FileOperation::Create { path, after } => workspace.remove(path, Some(after)).map(drop),
            FileOperation::Replace { path, before, after } => {
                workspace.replace(path, after, before).map(drop)
            }
            FileOperation::Move { from, to, content } => workspace.rename(to, from, Some(content)).map(drop),
            FileOperation::Remove { path, before } => {
                if let StateChange::FileDeleted {
                    before: Some(version),
                    ..
                } = applied
                {
                    let previous = PreviousState::File(before, version.mode);
                    workspace.restore(path, &PathState::Nothing, previous)
                } else {
                    workspace.create(path, before).map(drop)
                }
            }
        }?;
        for folder in created_folders {
            // Fails if somebody else has created files in the folder. In this case, the folder remains.
            let _ = workspace.remove(folder, None);
        }
        Ok(())
    }

    /// Returns the missing folders that the operation will create, the deepest first.
    fn missing_folders(&self, workspace: &Workspace) -> Vec<String> {
        let path = match self {
            FileOperation::Create { path, .. } | FileOperation::Move { to: path, .. } => path,
            FileOperation::Replace { .. } | FileOperation::Remove { .. } => return Vec::new(),
        };
        let parent = |path: &String| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        std::iter::successors(parent(path), parent)
            .take_while(|folder| matches!(workspace.kind(folder), Err(FileError::NotFound { .. })))
            .collect()
    }
}

//! Changes to several files that belong together: all of them are made or, as far as the disk allows, none.
//!
//! It works nothing out: who gives it changes has read every file and knows what each is to be.

use dirigent_core::tool::{StateChange, ToolResult, code};
use dirigent_core::undo::PathState;
use tokio_util::sync::CancellationToken;

use crate::workspace::{FileError, PreviousState, Workspace};

/// A change to one file. Each is made only where the file is as it says.
pub(crate) struct FileChange {
    pub(crate) operation: FileOperation,
    /// For the operator.
    pub(crate) diff: Option<String>,
}

/// What is done to a file.
pub(crate) enum FileOperation {
    /// A file that is not there yet.
    Create { path: String, after: Vec<u8> },
    /// Other content for a file.
    Replace {
        path: String,
        before: Vec<u8>,
        after: Vec<u8>,
    },
    /// Another name for a file.
    Move {
        from: String,
        to: String,
        content: Vec<u8>,
    },
    /// A file that is to go.
    Remove { path: String, before: Vec<u8> },
}

/// Why not all of them were made.
pub(crate) enum AbortReason {
    /// Nobody waits for them any more.
    Cancelled,
    /// One could not be.
    File(FileError),
}

/// Why it stopped, and what stays changed as it could not be put back.
pub(crate) struct Aborted {
    pub(crate) reason: AbortReason,
    pub(crate) not_reverted: Vec<StateChange>,
}

impl Aborted {
    /// The failed call, with what stays changed.
    pub(crate) fn failure(self) -> ToolResult {
        let (why, code) = match self.reason {
            AbortReason::Cancelled => ("cancelled".to_owned(), code::CANCELLED),
            AbortReason::File(fault) => (fault.to_string(), fault.code()),
        };
        let state = match self.not_reverted.len() {
            0 => "nothing was changed".to_owned(),
            not_reverted => {
                format!("{not_reverted} changes made before that could not be put back: see `changes`")
            }
        };
        ToolResult::failure(format!("{why}; {state}"))
            .with_code(code)
            .with_changes(self.not_reverted)
    }
}

/// Makes the changes in their order. Where one cannot be made, or nobody waits any more, those before it are put back. It blocks.
pub(crate) fn apply_all(
    workspace: &Workspace,
    changes: &mut [FileChange],
    cancel: &CancellationToken,
) -> Result<Vec<StateChange>, Aborted> {
    let mut made: Vec<(&FileOperation, StateChange, Vec<String>)> = Vec::with_capacity(changes.len());
    for change in changes {
        let folders = change.operation.missing_folders(workspace);
        let attempt = match cancel.is_cancelled() {
            true => Err(AbortReason::Cancelled),
            false => change.operation.apply(workspace).map_err(AbortReason::File),
        };
        match attempt {
            Ok(applied) => made.push((&change.operation, applied.with_diff(change.diff.take()), folders)),
            Err(reason) => {
                let not_reverted = made
                    .into_iter()
                    .rev()
                    .filter_map(|(operation, applied, folders)| {
                        let undone = operation.revert(workspace, &applied, &folders);
                        undone.is_err().then_some(applied)
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
        made_folders: &[String],
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
        for folder in made_folders {
            // One in which somebody else has put something stays.
            let _ = workspace.remove(folder, None);
        }
        Ok(())
    }

    /// The folders that making it makes, the deepest first.
    fn missing_folders(&self, workspace: &Workspace) -> Vec<String> {
        let path = match self {
            FileOperation::Create { path, .. } | FileOperation::Move { to: path, .. } => path,
            FileOperation::Replace { .. } | FileOperation::Remove { .. } => return Vec::new(),
        };
        let above = |path: &String| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        std::iter::successors(above(path), above)
            .take_while(|folder| matches!(workspace.kind(folder), Err(FileError::NotFound { .. })))
            .collect()
    }
}

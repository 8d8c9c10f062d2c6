//! Changes to several files that belong together: all of them are made or, as far as the disk allows, none.
//!
//! It works nothing out: who gives it changes has read every file and knows what each is to be.

use dirigent_core::tool::{StateChange, ToolResult, code};
use dirigent_core::undo::There;
use tokio_util::sync::CancellationToken;

use crate::workspace::{FileFault, Past, Workspace};

/// A change to one file. Each is made only where the file is as it says.
pub(crate) struct Change {
    pub(crate) what: What,
    /// For the operator.
    pub(crate) diff: Option<String>,
}

/// What is done to a file.
pub(crate) enum What {
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
pub(crate) enum Halt {
    /// Nobody waits for them any more.
    Cancelled,
    /// One could not be.
    Fault(FileFault),
}

/// Why it stopped, and what stays changed as it could not be put back.
pub(crate) struct Halted {
    pub(crate) halt: Halt,
    pub(crate) left: Vec<StateChange>,
}

impl Halted {
    /// The failed call, with what stays changed.
    pub(crate) fn failure(self) -> ToolResult {
        let (why, code) = match self.halt {
            Halt::Cancelled => ("cancelled".to_owned(), code::CANCELLED),
            Halt::Fault(fault) => (fault.to_string(), fault.code()),
        };
        let state = match self.left.len() {
            0 => "nothing was changed".to_owned(),
            left => format!("{left} changes made before that could not be put back: see `changes`"),
        };
        ToolResult::failure(format!("{why}; {state}"))
            .with_code(code)
            .with_changes(self.left)
    }
}

/// Makes the changes in their order. Where one cannot be made, or nobody waits any more, those before it are put back. It blocks.
pub(crate) fn make(
    workspace: &Workspace,
    changes: &mut [Change],
    cancel: &CancellationToken,
) -> Result<Vec<StateChange>, Halted> {
    let mut made: Vec<(&What, StateChange, Vec<String>)> = Vec::with_capacity(changes.len());
    for change in changes {
        let folders = change.what.missing_folders(workspace);
        let attempt = match cancel.is_cancelled() {
            true => Err(Halt::Cancelled),
            false => change.what.make(workspace).map_err(Halt::Fault),
        };
        match attempt {
            Ok(told) => made.push((&change.what, told.with_diff(change.diff.take()), folders)),
            Err(halt) => {
                let left = made.into_iter().rev().filter_map(|(what, told, folders)| {
                    let undone = what.put_back(workspace, &told, &folders);
                    undone.is_err().then_some(told)
                });
                let mut left: Vec<StateChange> = left.collect();
                left.reverse();
                return Err(Halted { halt, left });
            }
        }
    }
    Ok(made.into_iter().map(|(_, told, _)| told).collect())
}

impl What {
    fn make(&self, workspace: &Workspace) -> Result<StateChange, FileFault> {
        match self {
            What::Create { path, after } => workspace.create(path, after),
            What::Replace { path, before, after } => workspace.replace(path, before, after),
            What::Move { from, to, content } => workspace.rename(from, to, Some(content)),
            What::Remove { path, before } => workspace.remove(path, Some(before)),
        }
    }

    fn put_back(
        &self,
        workspace: &Workspace,
        told: &StateChange,
        made_folders: &[String],
    ) -> Result<(), FileFault> {
        match self {
            What::Create { path, after } => workspace.remove(path, Some(after)).map(drop),
            What::Replace { path, before, after } => workspace.replace(path, after, before).map(drop),
            What::Move { from, to, content } => workspace.rename(to, from, Some(content)).map(drop),
            What::Remove { path, before } => {
                if let StateChange::FileDeleted {
                    before: Some(version),
                    ..
                } = told
                {
                    let past = Past::File(before, version.mode);
                    workspace.restore(path, &There::Nothing, past)
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
            What::Create { path, .. } | What::Move { to: path, .. } => path,
            What::Replace { .. } | What::Remove { .. } => return Vec::new(),
        };
        let above = |path: &String| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        std::iter::successors(above(path), above)
            .take_while(|folder| matches!(workspace.kind(folder), Err(FileFault::NotFound { .. })))
            .collect()
    }
}

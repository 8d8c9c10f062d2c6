//! The paths that cannot be undone, each with the reason.

use dirigent_core::id::EffectId;
use dirigent_core::run::during_command_title;
use dirigent_tools::workspace::FileError;
use serde::Serialize;

/// A path that cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedPath {
    /// The path, relative to the workspace.
    pub path: String,
    /// Why the path cannot be undone.
    #[serde(flatten)]
    pub reason: RefusalReason,
}

/// Why a path cannot be undone. JSON: `{"reason": "changed"}`. The displayed text follows the path: `src/a.rs has been deleted since the run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalReason {
    /// The content differs from the content after the run.
    #[error("has changed since the run")]
    Changed,
    /// The permissions differ from the permissions after the run.
    #[error("has different permissions than after the run")]
    Mode,
    /// The file or folder no longer exists.
    #[error("has been deleted since the run")]
    Gone,
    /// The file also changed while a command was running, after or between the changes by file tools.
    /// [`Undo::include_commands`](super::Undo::include_commands) also undoes these changes.
    #[error("also {}", during_command_title(command, in_parallel))]
    DuringCommand {
        /// The command line.
        command: String,
        /// The other commands that ran in parallel. Absent in JSON if there are none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        in_parallel: Vec<String>,
    },
    /// A file or folder now exists at a path where nothing existed after the run.
    #[error("has been created again since the run")]
    Exists,
    /// The journal has no digest of the file's content before or after the change.
    #[error(
        "was changed by a command, was too big, or was not a regular file: its content before the run is unknown"
    )]
    Unknown,
    /// The journal has the digest of the original content, but not the content.
    #[error("cannot be restored: its content before the run is not in this journal")]
    NoSnapshot,
    /// An interrupted or failed call may have changed the file without reporting it. The journal has the content from before the call.
    #[error(
        "may have been changed by the interrupted or failed call {call}, or by others since, so it was not restored: check its content"
    )]
    Interrupted {
        /// The effect id of the interrupted call.
        call: EffectId,
    },
    /// Undoing the path depends on another path that could not be undone: the other path of a moved file, or a parent folder.
    #[error("depends on {with}, which could not be undone")]
    DependsOn {
        /// The path that could not be undone.
        with: String,
    },
    /// The file system returned an error.
    #[error("cannot be accessed: {error}")]
    Failed {
        /// The file system's error message.
        error: String,
    },
}

impl From<FileError> for RefusalReason {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Changed { .. } => RefusalReason::Changed,
            FileError::NotFound { .. } => RefusalReason::Gone,
            FileError::Exists { .. } => RefusalReason::Exists,
            error => RefusalReason::Failed {
                error: error.to_string(),
            },
        }
    }
}

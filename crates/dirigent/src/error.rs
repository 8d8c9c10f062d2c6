//! The errors of this crate.

use std::path::PathBuf;

use dirigent_core::id::RunId;
use dirigent_runtime::RuntimeError;
use dirigent_store::StoreError;

use crate::RecordingError;
use crate::config::ConfigError;

/// Why an operation of [`Dirigent`](crate::Dirigent) or its [`Builder`](crate::Builder) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirigentError {
    /// The goal is empty.
    #[error("the goal is empty: describe what to achieve, such as \"rename parse_amount to parse_money\"")]
    EmptyGoal,
    /// The workspace cannot be used.
    #[error("the workspace {} cannot be used: {reason}", path.display())]
    Workspace {
        /// The workspace's path.
        path: PathBuf,
        /// Why the workspace cannot be used.
        reason: String,
    },
    /// Neither `XDG_DATA_HOME` nor a home folder is known.
    #[error(
        "the default folder of the journal is unknown: set HOME or XDG_DATA_HOME, or name a journal file"
    )]
    NoDataFolder,
    /// An agent's definition is invalid.
    #[error("agent `{name}`: {reason}")]
    Agent {
        /// The agent's name.
        name: String,
        /// The error in its definition.
        reason: String,
    },
    /// A run that a process owns cannot be undone.
    #[error("run {run} is owned by process {pid}: cancel it first")]
    RunActive {
        /// The run's id.
        run: RunId,
        /// The process id of the owner.
        pid: u32,
    },
    /// Some paths cannot be undone, so nothing was undone.
    #[error("nothing was undone: {refused} {} cannot be undone", if *refused == 1 { "file" } else { "files" })]
    UndoRefused {
        /// The number of paths in [`Undo::refused`](crate::Undo::refused).
        refused: usize,
    },
    /// The configuration is invalid, or no longer has a model that a run was started with.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A recording cannot be read or written.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The journal or the runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl DirigentError {
    /// Returns the journal's error if that is the cause.
    pub fn store_error(&self) -> Option<&StoreError> {
        match self {
            DirigentError::Runtime(RuntimeError::Journal(error)) => error.downcast_ref(),
            _ => None,
        }
    }
}

impl From<StoreError> for DirigentError {
    fn from(error: StoreError) -> Self {
        DirigentError::Runtime(RuntimeError::Journal(error.into()))
    }
}

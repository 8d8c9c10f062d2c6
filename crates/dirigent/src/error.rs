//! What a caller can do something about.

use std::path::PathBuf;

use dirigent_core::id::RunId;
use dirigent_runtime::RuntimeError;
use dirigent_store::StoreError;

use crate::RecordingError;
use crate::config::ConfigError;

/// Why Dirigent could not be built or a run not be started.
#[derive(Debug, thiserror::Error)]
pub enum DirigentError {
    /// There is nothing to do.
    #[error("the goal is empty: say what is to be reached, such as \"rename parse_amount to parse_money\"")]
    EmptyGoal,
    /// The folder cannot be worked in.
    #[error("the workspace {} cannot be used: {reason}", path.display())]
    Workspace {
        /// Which folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Neither `XDG_DATA_HOME` nor a home folder is known.
    #[error("no place for the journal: set HOME or XDG_DATA_HOME, or name a file")]
    NoDataFolder,
    /// An agent that uses a tool that there is not.
    #[error("agent `{name}`: {reason}")]
    Agent {
        /// Which agent.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A run that a process carries out cannot be undone meanwhile.
    #[error("run {run} is owned by process {pid}: cancel it first with `dirigent cancel {}`", run.short())]
    RunActive {
        /// The run.
        run: RunId,
        /// The process.
        pid: u32,
    },
    /// Part of what is to be undone cannot be, so that nothing was.
    #[error("nothing was undone, as {refused} {} cannot be", if *refused == 1 { "file" } else { "files" })]
    UndoRefused {
        /// How many [`Undo::refused`](crate::Undo::refused) has.
        refused: usize,
    },
    /// The configuration, or a model that a run was started with and that is no longer in it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A recording cannot be read or written.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The journal, or the actors.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl From<StoreError> for DirigentError {
    fn from(error: StoreError) -> Self {
        DirigentError::Runtime(RuntimeError::Journal(error))
    }
}

//! Why nothing was run, in words that a model can act on.

use std::io;
use std::path::PathBuf;

use dirigent_core::tool::{ToolResult, code};

use crate::sandbox::{Confinement, SpawnError};
use crate::workspace::FileError;

/// One variant for each thing that the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// The agent may only look.
    #[error("commands may change files, and this agent may only look; nothing was run")]
    AccessDenied,
    /// A parameter that makes no sense.
    #[error("{0}")]
    BadParameters(String),
    /// Where to run it.
    #[error("`working_directory`: {0}")]
    WorkingDirectory(FileError),
    /// No program of that name, or none that can be run.
    #[error("{0}")]
    ProgramNotFound(String),
    /// There is no place for its temporary files.
    #[error("no folder could be made for its temporary files: {0}; nothing was run")]
    NoTemporaryFolder(io::Error),
    /// What is to stay as it is cannot be kept.
    #[error("git's hooks and settings, which commands may not change, cannot be kept: {0}; nothing was run")]
    NoGuard(io::Error),
    /// Its task ended before it did.
    #[error("how it ended is unknown: {0}")]
    TaskFailed(io::Error),
    /// The system cannot confine it.
    #[error(
        "this system cannot confine commands, so nothing was run: {0}. It takes Linux 5.13 or newer with Landlock switched on (`lsm=` of \
         the kernel's command line) and seccomp. The user can let commands run unconfined by `commands = \"unconfined\"` under \
         `[sandbox]` in dirigent.toml"
    )]
    SandboxUnavailable(String),
    /// The system did not start it.
    #[error("`{path}` could not be started: {error}{}", permission_hint(error, *confinement))]
    SpawnFailed {
        /// Its file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
        /// Whether it was to be confined.
        confinement: Confinement,
    },
}

impl CommandError {
    pub(super) fn from_spawn_error(spawn_error: SpawnError, path: PathBuf, confinement: Confinement) -> Self {
        match spawn_error {
            SpawnError::SandboxUnavailable(why) => CommandError::SandboxUnavailable(why),
            SpawnError::Io(error) => CommandError::SpawnFailed {
                path,
                error,
                confinement,
            },
        }
    }

    fn code(&self) -> &'static str {
        match self {
            CommandError::AccessDenied => code::ACCESS_DENIED,
            CommandError::BadParameters(_) => code::BAD_PARAMETERS,
            CommandError::WorkingDirectory(error) => error.code(),
            CommandError::ProgramNotFound(_) => "not_found",
            CommandError::TaskFailed(_) => code::BROKE_DOWN,
            CommandError::SandboxUnavailable(_) => "no_sandbox",
            CommandError::NoGuard(_) => "no_guard",
            CommandError::NoTemporaryFolder(_) | CommandError::SpawnFailed { .. } => "denied",
        }
    }

    pub(super) fn into_result(self) -> ToolResult {
        ToolResult::failure(self.to_string()).with_code(self.code())
    }
}

fn permission_hint(error: &io::Error, confinement: Confinement) -> &'static str {
    match confinement {
        Confinement::Required if error.kind() == io::ErrorKind::PermissionDenied => {
            "; it is not executable or not in the workspace, the system's folders or what `read` under `[sandbox]` in dirigent.toml names"
        }
        Confinement::Required | Confinement::Off => "",
    }
}

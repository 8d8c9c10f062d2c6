//! Errors of commands that were not run or whose outcome is unknown, with messages that a model can act on.

use std::io;
use std::path::PathBuf;

use dirigent_core::tool::{ToolResult, code};

use crate::sandbox::{Confinement, SpawnError};
use crate::workspace::FileError;

/// Reason why a command was not run, or why its outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("this agent has read-only access, and commands may change files; nothing was run")]
    AccessDenied,
    #[error("{0}")]
    BadParameters(String),
    #[error("`working_directory`: {0}")]
    WorkingDirectory(FileError),
    #[error("{0}")]
    ProgramNotFound(String),
    #[error("the folder for the command's temporary files could not be created: {0}; nothing was run")]
    NoTemporaryFolder(io::Error),
    /// The protected files could not be saved before the command.
    #[error(
        "git's hooks and settings, which commands must not change, cannot be protected: {0}; nothing was run"
    )]
    NoGuard(io::Error),
    /// The task that ran the command ended early.
    #[error("the tool failed internally, so it is unknown whether the command ended: {0}")]
    TaskFailed(io::Error),
    #[error(
        "this system cannot confine commands, so nothing was run: {0}. Confining requires Linux 5.13 or newer with seccomp and Landlock \
         (`lsm=` on the kernel's command line). The user can allow unconfined commands with `commands = \"unconfined\"` under \
         `[sandbox]` in dirigent.toml"
    )]
    SandboxUnavailable(String),
    #[error("`{path}` could not be started: {error}{}", permission_hint(error, *confinement))]
    SpawnFailed {
        path: PathBuf,
        error: io::Error,
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
            "; it is not executable, or not in the workspace, a system folder or a path of `read` under `[sandbox]` in dirigent.toml"
        }
        Confinement::Required | Confinement::Off => "",
    }
}

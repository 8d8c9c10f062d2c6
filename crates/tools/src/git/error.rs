//! Errors of the `git` tool.

use std::time::Duration;

use dirigent_core::tool::code;

use crate::workspace::FileError;

/// Reason why a call of the tool failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitError {
    #[error(
        "`{0}` is not a valid `revision`: give a commit, branch, tag or range, such as `HEAD~1` or `main..topic`"
    )]
    InvalidRevision(String),
    #[error("`blame` needs exactly one file in `paths`")]
    BlameNeedsOneFile,
    #[error("lines are counted from 1, and `end_line` must not be before `start_line`")]
    InvalidLines,
    #[error(
        "the workspace is not a git repository (it has no `.git` folder), so there is no history: read the files, and call `read_output` with \
         the handle `diff` to see what this run has changed"
    )]
    NoRepository,
    #[error(
        "the root of the git repository is outside the workspace, so git would show files outside the workspace: the workspace must \
         be the repository's root"
    )]
    RepositoryOutside,
    #[error(
        "the repository has too many settings to check them for programs that git would run: shorten `.git/config`"
    )]
    TooManySettings,
    #[error(transparent)]
    Path(#[from] FileError),
    #[error(transparent)]
    Run(#[from] GitRunError),
}

impl GitError {
    pub(super) fn code(&self) -> &'static str {
        match self {
            GitError::InvalidRevision(_) | GitError::BlameNeedsOneFile | GitError::InvalidLines => {
                code::BAD_PARAMETERS
            }
            GitError::NoRepository => "no_repository",
            GitError::RepositoryOutside => "outside_workspace",
            GitError::TooManySettings => code::REFUSED,
            GitError::Path(error) => error.code(),
            GitError::Run(run_error) => run_error.code(),
        }
    }
}

/// Reason why the git process did not start or did not succeed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitRunError {
    #[error("git is not installed: {0}")]
    GitNotFound(String),
    #[error("git was not run, because this system cannot confine it: {0}")]
    SandboxUnavailable(String),
    #[error("git could not be started: {0}")]
    SpawnFailed(String),
    #[error("git failed: {error}")]
    Exited {
        error: String,
        code: Option<i32>,
        output: Vec<u8>,
    },
    #[error("git was killed after {} seconds: narrow the request, for example to fewer paths", .0.as_secs())]
    TimedOut(Duration),
    #[error("cancelled")]
    Cancelled,
    #[error("internal error in the git tool: {0}")]
    Internal(String),
}

impl GitRunError {
    fn code(&self) -> &'static str {
        match self {
            GitRunError::GitNotFound(_) => "not_found",
            GitRunError::SandboxUnavailable(_) => "no_sandbox",
            GitRunError::SpawnFailed(_) => "denied",
            GitRunError::Exited { .. } => "exited",
            GitRunError::TimedOut(_) => code::TIMED_OUT,
            GitRunError::Cancelled => code::CANCELLED,
            GitRunError::Internal(_) => code::BROKE_DOWN,
        }
    }
}

//! The exit codes.

use std::process::ExitCode;

use dirigent::{DirigentError, EndReason, FailureCause, RepositoryError, RuntimeError, StoreError};
use dirigent_server::{McpServerError, ServerError, TokenError};

/// The exit codes in `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    the goal was achieved, or the command succeeded
  1    the run failed: the goal cannot be achieved, or an error ended the run; or standard output
       could not be written (a closed pipe is not an error); or `journal check` found damage; or
       `mcp` saved or trusted a service that cannot be started, or skipped one
  2    the command was refused: invalid arguments; an empty goal; an unusable workspace; no git
       repository for a worktree; a run that is unknown, has ended, belongs to another process or
       rejects the message; an unusable recording or exported run; an unusable workflow; a fact that
       the memory refuses or does not have; a system prompt that is invalid, does not exist or has
       changed since; an unknown approval rule; an MCP service that is unknown, exists already or has
       invalid settings, or a file without services; a file that cannot be undone or already exists; changes
       of a worktree that conflict with yours; an address or a token file that `serve` cannot use
  3    a limit ended the run: iterations, time, tokens, cost, model calls, or the turns or time of
       its lead or reflector; continue it, with a higher limit if it has one: dirigent resume RUN
  4    the run is waiting for you: answer its question or decide about its calls, then dirigent resume RUN
  5    the journal cannot be used: locked, damaged, from a newer version, not a journal, disk full
  6    a replay differs from its recording
  7    the configuration is invalid, or `config check` or `models` cannot reach a model or database
  130  cancelled (Ctrl-C)";

/// The result of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    Failed,
    Usage,
    Limit,
    NeedsUser,
    Journal,
    Configuration,
    ReplayMismatch,
    Cancelled,
    /// A second Ctrl-C ended the process before the run had ended.
    Killed,
}

/// An error in the arguments, or in what they name.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl Exit {
    pub(crate) fn from_end_reason(end: Option<&EndReason>) -> Self {
        match end {
            Some(EndReason::GoalAchieved) => Exit::Success,
            Some(
                EndReason::IterationLimit { .. }
                | EndReason::TimeLimit
                | EndReason::BudgetExhausted { .. }
                | EndReason::Failed {
                    cause: FailureCause::AgentLimit,
                    ..
                },
            ) => Exit::Limit,
            Some(EndReason::Failed { .. }) | None => Exit::Failed,
            Some(EndReason::UserRequired) => Exit::NeedsUser,
            Some(EndReason::Cancelled) => Exit::Cancelled,
        }
    }

    pub(crate) fn from_error(error: &anyhow::Error) -> Self {
        if error.downcast_ref::<UsageError>().is_some() {
            return Exit::Usage;
        }
        if error.downcast_ref::<TokenError>().is_some() {
            return Exit::Usage;
        }
        if let Some(error) = error.downcast_ref::<ServerError>() {
            return match error {
                ServerError::Listen { .. } | ServerError::Workspace { .. } | ServerError::Exposed { .. } => {
                    Exit::Usage
                }
                ServerError::Journal(_) => Exit::Journal,
                _ => Exit::Failed,
            };
        }
        if let Some(error) = error.downcast_ref::<McpServerError>() {
            return match error {
                McpServerError::Workspace { .. } => Exit::Usage,
                McpServerError::Journal(_) => Exit::Journal,
                _ => Exit::Failed,
            };
        }
        match error.downcast_ref::<DirigentError>() {
            Some(
                DirigentError::EmptyGoal
                | DirigentError::EmptyTitle
                | DirigentError::Workspace { .. }
                | DirigentError::Agent { .. }
                | DirigentError::RunActive { .. }
                | DirigentError::UndoRefused { .. }
                | DirigentError::WorkspaceShared { .. }
                | DirigentError::Workflow(_)
                | DirigentError::Service(_)
                | DirigentError::TurnUnfinished { .. }
                | DirigentError::Memory(_)
                | DirigentError::SystemPrompt(_)
                | DirigentError::ApprovalRule(_)
                | DirigentError::Recording(_),
            ) => Exit::Usage,
            Some(DirigentError::Repository(error)) => match error {
                RepositoryError::Io { .. } | RepositoryError::Git(_) => Exit::Failed,
                _ => Exit::Usage,
            },
            Some(DirigentError::Config(_)) => Exit::Configuration,
            Some(DirigentError::ConversationBudget { .. }) => Exit::Limit,
            Some(DirigentError::StartCancelled) => Exit::Cancelled,
            Some(DirigentError::NoDataFolder | DirigentError::StartsBlocked) => Exit::Journal,
            Some(DirigentError::Runtime(error)) => Exit::from_runtime_error(error),
            Some(_) | None => Exit::Failed,
        }
    }

    fn from_store_error(error: &StoreError) -> Self {
        match error {
            StoreError::NotARunId { .. }
            | StoreError::NoSuchRun { .. }
            | StoreError::AmbiguousRun { .. }
            | StoreError::NoSuchEntry { .. }
            | StoreError::AlreadyClaimed { .. }
            | StoreError::RunExists { .. }
            | StoreError::NoSuchConversation { .. }
            | StoreError::AmbiguousConversation { .. }
            | StoreError::ConversationActive { .. }
            | StoreError::TurnExists { .. }
            | StoreError::FileExists { .. }
            | StoreError::UnreadableExport { .. }
            | StoreError::NotAnExport { .. } => Exit::Usage,
            _ => Exit::Journal,
        }
    }

    fn from_runtime_error(error: &RuntimeError) -> Self {
        match error {
            RuntimeError::Journal(error) => {
                error.downcast_ref().map_or(Exit::Journal, Exit::from_store_error)
            }
            RuntimeError::Replay { .. } => Exit::Journal,
            RuntimeError::ReplayMismatch(_) => Exit::ReplayMismatch,
            RuntimeError::Ended { .. }
            | RuntimeError::AtLimit { .. }
            | RuntimeError::NeverBegan { .. }
            | RuntimeError::NoQuestion { .. }
            | RuntimeError::Question { .. }
            | RuntimeError::NoAgent { .. }
            | RuntimeError::Decision { .. }
            | RuntimeError::Answer { .. }
            | RuntimeError::MessageRejected { .. }
            | RuntimeError::CannotFork { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Limit => 3,
            Exit::NeedsUser => 4,
            Exit::Journal => 5,
            Exit::ReplayMismatch => 6,
            Exit::Configuration => 7,
            Exit::Cancelled | Exit::Killed => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        exit.code().into()
    }
}

//! The errors of this crate.

use std::path::PathBuf;

use dirigent_core::id::{ConversationId, RunId};
use dirigent_mcp::McpError;
use dirigent_runtime::RuntimeError;
use dirigent_store::StoreError;
use dirigent_tools::RepositoryError;

use crate::RecordingError;
use crate::approval_rules::ApprovalRuleError;
use crate::config::ConfigError;
use crate::memory::MemoryError;
use crate::services::ServiceError;
use crate::system_prompts::SystemPromptError;
use crate::undo::RefusedPath;
use crate::workflows::WorkflowError;

/// Why an operation of [`Dirigent`](crate::Dirigent) or its [`Builder`](crate::Builder) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirigentError {
    /// The goal is empty.
    #[error("the goal is empty: describe what to achieve, such as \"rename parse_amount to parse_money\"")]
    EmptyGoal,
    /// The title of a conversation is empty.
    #[error("the title is empty: give one with at least one visible character")]
    EmptyTitle,
    /// The workspace cannot be used.
    #[error("the workspace {} cannot be used: {reason}", path.display())]
    Workspace {
        /// The workspace's path.
        path: PathBuf,
        /// Why the workspace cannot be used.
        reason: String,
    },
    /// Another process holds the lock for starting runs in the journal.
    #[error(
        "the run was not started, because another process has been starting a run in the same journal for half a minute: end that process if it \
         hangs, and try again"
    )]
    StartsBlocked,
    /// The start was cancelled while it waited ([`Dirigent::cancel_starts`](crate::Dirigent::cancel_starts)).
    #[error("the run was not started: its start was cancelled while waiting")]
    StartCancelled,
    /// Neither `XDG_DATA_HOME` nor a home folder is known.
    #[error(
        "the default folder of the journal is unknown: set HOME or XDG_DATA_HOME, or give the path of a journal"
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
    /// A tool has the same name as a tool that every agent has.
    #[error(
        "a tool must not have the name `{name}`, because every agent has a tool with this name: rename it"
    )]
    ReservedTool {
        /// The tool's name.
        name: String,
    },
    /// A run that a process owns cannot be undone.
    #[error(
        "nothing was done, because run {} is still active in process {pid}: wait until the run ends, or cancel it",
        run.short()
    )]
    RunActive {
        /// The run's id.
        run: RunId,
        /// The process id of the owner.
        pid: u32,
    },
    /// Other active runs work in the workspace, and the run must not share it ([`WhenShared::Refuse`](crate::WhenShared::Refuse)).
    #[error(
        "the run was not started, because other runs are working in {workspace}: {}. Wait until they end, or use a worktree",
        runs.iter().map(|run| run.short()).collect::<Vec<_>>().join(", ")
    )]
    WorkspaceShared {
        /// The folder in which the run would work.
        workspace: String,
        /// The other runs.
        runs: Vec<RunId>,
    },
    /// The last turn of the conversation has not ended, so no new turn can begin.
    #[error(
        "the message was not sent as a turn, because the last turn, run {}, has not ended: answer it, resume it or cancel it first", run.short()
    )]
    TurnUnfinished {
        /// The run of the last turn.
        run: RunId,
    },
    /// The conversation has used up its own token or cost limit.
    #[error(
        "the conversation has reached its limit of {limit}: raise the limit, or begin another conversation"
    )]
    ConversationBudget {
        /// The limit.
        limit: String,
    },
    /// The stored settings of a conversation cannot be read.
    #[error("the settings of conversation {} cannot be read, perhaps because a newer version wrote them: {source}", conversation.short())]
    ConversationSettings {
        /// The conversation.
        conversation: ConversationId,
        /// The error in the JSON of the settings.
        source: serde_json::Error,
    },
    /// The git repository of a workspace cannot have a worktree, or the changes of a worktree cannot be applied.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// Some paths cannot be undone, so nothing was undone.
    #[error("nothing was undone: {}", refused_paths(refused))]
    UndoRefused {
        /// The paths of [`Undo::refused`](crate::Undo::refused), with the reasons. At least one.
        refused: Vec<RefusedPath>,
    },
    /// The memory refuses a fact, or does not contain it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// An approval rule cannot be added or deleted.
    #[error(transparent)]
    ApprovalRule(#[from] ApprovalRuleError),
    /// A base system prompt cannot be read or written.
    #[error(transparent)]
    SystemPrompt(#[from] SystemPromptError),
    /// The configuration is invalid, or no longer has a model that a run was started with.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A service cannot be added, changed or used.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The MCP services cannot be run.
    #[error(transparent)]
    Mcp(#[from] McpError),
    /// A workflow cannot be used.
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
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

/// The maximum number of paths that the message of a refused undo names.
const MAX_REFUSED_PATHS: usize = 5;

/// Names the paths that cannot be undone with the reasons, the first ones if there are many.
fn refused_paths(refused: &[RefusedPath]) -> String {
    let named = refused.iter().take(MAX_REFUSED_PATHS);
    let mut named: Vec<String> = named
        .map(|refused| format!("{} {}", refused.path, refused.reason))
        .collect();
    if refused.len() > MAX_REFUSED_PATHS {
        named.push(format!("and {} more", refused.len() - MAX_REFUSED_PATHS));
    }
    named.join("; ")
}

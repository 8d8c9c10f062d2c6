//! A multi-agent orchestrator. Dirigent takes a goal, has a language model plan it as a graph of sub-tasks, executes them with sub-agents and
//! tools, reflects on the results, and plans again until the goal is reached, a limit is reached, or only the user can decide.
//!
//! ```
//! use dirigent::{Dirigent, Goal};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), dirigent::DirigentError> {
//! # let folder = tempfile::tempdir().unwrap();
//! # std::fs::write(folder.path().join("notes.txt"), "one\ntwo\n").unwrap();
//! let dirigent = Dirigent::builder().journal(folder.path().join("journal.db")).build().await?;
//! let run = dirigent.start(Goal::new("Count the lines in notes.txt").workspace(folder.path())).await?;
//!
//! let mut events = run.events(0);
//! while let Some(event) = events.next().await {
//!     println!("{:?}", event?.kind);
//! }
//! let report = run.outcome().await?;
//! assert!(report.is_achieved(), "{}", report.summary);
//! # Ok(())
//! # }
//! ```
//!
//! By default, Dirigent asks the [offline model](OfflineModel), which needs no key and no network. To use another model, see
//! [`Builder::model`] and [`Builder::config`].
#![warn(missing_docs)]

mod agents;
pub mod approval_rules;
mod blocking;
mod builder;
mod call_forms;
pub mod completions;
pub mod config;
mod conversation;
mod dirigent;
mod error;
mod first_spec;
mod goal;
mod goal_files;
mod known_tools;
mod limit_text;
mod maintenance;
mod markdown;
pub mod memory;
mod paths;
mod project;
mod prompts;
mod recording;
pub mod render;
mod request_keys;
mod service_tools;
pub mod services;
mod sharing;
mod start_queue;
mod stored_settings;
mod suggest;
pub mod system_prompts;
mod time;
mod tools_watch;
mod undo;
mod waiting_runs;
pub mod workflows;
mod worktree;

pub use agents::{
    AgentDefinition, AgentSource, Agents, ListedAgent, PromptOptions, RefusedAgent, shipped_agents,
};
pub use builder::Builder;
pub use config::{Config, ConfigError};
pub use conversation::{
    Conversation, ConversationChanges, ConversationInfo, ConversationSettings, ConversationTurn, ResumedTurn,
    Sent, StillWaiting,
};
pub use dirigent::Dirigent;
pub use dirigent_core::agent_spec::BasePrompt;
pub use dirigent_core::agent_spec::ModelProfile;
pub use dirigent_core::approval::{Approval, ApprovalAnswer, Decision, DecisionError};
pub use dirigent_core::end_reason::{EndReason, FailureCause};
pub use dirigent_core::id::{AgentId, ConversationId, EffectId, RunId};
pub use dirigent_core::limits::{
    AgentLimitSettings, AgentLimits, Limit, LimitSetting, LimitSettings, RunLimitSettings, RunLimits,
};
pub use dirigent_core::mode::Mode;
pub use dirigent_core::phase::Phase;
pub use dirigent_core::policy::{Policy, Rule, Ruling};
pub use dirigent_core::price::{Cost, Price};
pub use dirigent_core::prompt::{OutputHandle, ParseHandleError};
pub use dirigent_core::question::{OpenQuestion, Question, SelectionError, select_question};
pub use dirigent_core::recording::{Difference, Recording};
pub use dirigent_core::run::Report;
pub use dirigent_core::spec::Worktree;
pub use dirigent_core::steering::Steering;
pub use dirigent_core::time::Millis;
pub use dirigent_core::view::{Event, EventKind, RunView};
pub use dirigent_mcp as mcp;
pub use dirigent_offline::OfflineModel;
pub use dirigent_runtime::{
    Delta, Events, OutputText, PendingMessage, Resume, RunHandle, RuntimeError, SteerOutcome, UserPresence,
    WhenShared,
};
pub use dirigent_store::{
    ConversationFilter, JournalCheck, JournalProblem, JournalSpace, MessageId, MessageState, PausedRuns,
    Pruned, PrunedRun, RunFilter, RunPage, RunRecord, RunState, StoreError,
};
pub use dirigent_tools::{
    Confinement, Connection, ConnectionCheck, Connections, Database, HttpRules, RepositoryError, Sandbox,
    ToolSettings, WorktreeChanges,
};
pub use error::DirigentError;
pub use goal::Goal;
pub use limit_text::{parse_dollars, parse_duration, set_limit};
pub use paths::default_journal;
pub use prompts::AgentPrompt;
pub use recording::{RecordingError, check_recording_file, read_recording, write_recording};
pub use render::Detail;
pub use request_keys::RequestClaim;

pub use dirigent_runtime::{CommandDiff, CommandFileDiff, FileDiff};
pub use undo::{
    CommandFile, CommandFiles, RefusalReason, RefusedPath, RunDiff, Undo, UndoStep, Undone, UnfinishedCall,
};
pub use waiting_runs::{ResumedRun, WaitingRun};
pub use workflows::{Workflow, WorkflowError, Workflows};
pub use worktree::{AppliedWorktree, RunWorktree};

/// The events of runs with all their data, and the live previews of model replies. `docs/events.md` describes their JSON form.
pub mod events {
    pub use dirigent_core::agent_report::{AgentFailure, AgentWork, CallSummary};
    pub use dirigent_core::approval::{Approval, ApprovalAnswer, Decision, Digest};
    pub use dirigent_core::brief::AgentRole;
    pub use dirigent_core::budget::{BudgetExceeded, BudgetKind};
    pub use dirigent_core::call::SUBMIT_PLAN;
    pub use dirigent_core::end_reason::{EndReason, FailureCause};
    pub use dirigent_core::id::{AgentId, EffectId, IdError, RunId, Scope, SubTaskId};
    pub use dirigent_core::message::{ModelFailure, ToolCall, Usage};
    pub use dirigent_core::observation::{Observation, ObservationStatus, ObservedCall, SubTaskResult};
    pub use dirigent_core::phase::{Phase, Transition};
    pub use dirigent_core::plan::{Plan, PlannedCall, SubTask, Work};
    pub use dirigent_core::price::Cost;
    pub use dirigent_core::question::{OpenQuestion, Question};
    pub use dirigent_core::spec::Worktree;
    pub use dirigent_core::time::{Millis, Timestamp};
    pub use dirigent_core::tool::{FileVersion, StateChange, ToolOutcome, ToolResult, display_path};
    pub use dirigent_core::view::{Event, EventKind, JSON_VERSION};
    pub use dirigent_runtime::{Delta, Events};
}

/// SHA-256 digests as hexadecimal digits.
pub mod digest {
    pub use dirigent_core::digest::{hex, sha256_hex};
}

/// The intents of messages in a conversation, and the reasons for them (INTENT-1).
pub mod intent {
    pub use dirigent_core::intent::{
        Classification, HitlIntent, Intent, IntentReason, IntentRule, McpIntent, McpTarget, MemoryIntent,
        ServiceState,
    };
}

/// Run reports and the types that they contain, except those in [`events`].
pub mod report {
    pub use dirigent_core::confirmation::Confirmation;
    pub use dirigent_core::plan::{PlanGraph, SubTaskState};
    pub use dirigent_core::reflection::{Reflection, ReflectionVerdict};
    pub use dirigent_core::run::{
        ChangedFile, CommandChanges, FileChangeKind, GuidanceStatus, IterationReport, Report, WaitingCall,
        during_command_title,
    };
    pub use dirigent_core::usage::{AgentUsage, ModelUsage, UsageReport, UsageTotals};
}

/// The runs and the entries of the journal, for programs that show runs step by step.
pub mod journal {
    pub use dirigent_core::agent::AgentInput;
    pub use dirigent_core::journal::{Entry, Input};
    pub use dirigent_core::recording::{RecordedEntry, RecordedRequest, Recording};
    pub use dirigent_core::run::RunInput;
    pub use dirigent_core::view::RunView;
    pub use dirigent_store::{ForkPoint, RunFilter, RunPage, RunRecord, RunState, UnknownRunState};
}

/// Chat models: the API for custom models, models on servers, and wrappers of other models.
pub mod model {
    pub use dirigent_core::agent_spec::ModelProfile;
    pub use dirigent_core::call::CallForm;
    pub use dirigent_core::message::{
        FinishReason, MalformedCall, Message, ModelFailure, ModelFailureKind, ModelReply, ToolCall, Usage,
    };
    pub use dirigent_core::price::{Cost, Price};
    pub use dirigent_mcp as mcp;
    pub use dirigent_model::openai::Delivery;
    pub use dirigent_model::{
        Alternative, ChatModel, ChatRequest, DeltaSink, Fallback, HostedApi, HostedModel, HostedOptions,
        HttpClient, Jitter, Limited, ModelLimits, ModelSetupError, OpenAiModel, OpenAiOptions, Priced,
        ReplyFormat, RetryPolicy, Retrying, Timeouts,
    };
    pub use dirigent_offline::OfflineModel;
}

/// The API for custom tools, and the settings of the built-in tools.
pub mod tools {
    pub use dirigent_core::tool::{
        Access, CallDemand, CallRule, FileVersion, ParameterValues, Repeat, SeenFile, StateChange,
        ToolCategory, ToolOutcome, ToolResult, ToolSpec,
    };
    pub use dirigent_tools::{
        AskUser, Confinement, Connection, ConnectionCheck, Connections, Database, HttpRules, IntoToolResult,
        Sandbox, Tool, ToolContext, ToolSettings, TypedTool, disallowed_reason, execute_command, execute_sql,
        http_request, typed,
    };
}

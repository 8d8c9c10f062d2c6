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
mod blocking;
mod builder;
pub mod config;
mod dirigent;
mod error;
mod goal;
mod known_tools;
mod limit_text;
mod maintenance;
mod paths;
mod recording;
pub mod render;
mod suggest;
mod undo;

pub use agents::{AgentDefinition, AgentSource, Agents, ListedAgent, RefusedAgent, shipped_agents};
pub use builder::Builder;
pub use config::{Config, ConfigError};
pub use dirigent::Dirigent;
pub use dirigent_core::agent_spec::ModelProfile;
pub use dirigent_core::approval::{Approval, ApprovalAnswer, Decision, DecisionError};
pub use dirigent_core::end_reason::{EndReason, FailureCause};
pub use dirigent_core::id::{AgentId, EffectId, RunId};
pub use dirigent_core::limits::{
    AgentLimitSettings, AgentLimits, Limit, LimitSetting, LimitSettings, RunLimitSettings, RunLimits,
};
pub use dirigent_core::phase::Phase;
pub use dirigent_core::policy::{Policy, Rule, Ruling};
pub use dirigent_core::price::{Cost, Price};
pub use dirigent_core::recording::{Difference, Recording};
pub use dirigent_core::run::Report;
pub use dirigent_core::steering::Steering;
pub use dirigent_core::time::Millis;
pub use dirigent_core::view::{Event, EventKind, RunView};
pub use dirigent_offline::OfflineModel;
pub use dirigent_runtime::{
    Delta, Events, PendingMessage, Resume, RunHandle, RuntimeError, SteerOutcome, UserPresence,
};
pub use dirigent_store::{
    JournalCheck, JournalProblem, JournalSpace, MessageId, MessageState, PausedRuns, Pruned, PrunedRun,
    RunFilter, RunPage, RunRecord, RunState, StoreError,
};
pub use dirigent_tools::{
    Confinement, Connection, ConnectionCheck, Connections, Database, HttpRules, Sandbox, ToolSettings,
};
pub use error::DirigentError;
pub use goal::Goal;
pub use limit_text::{parse_duration, set_limit};
pub use paths::default_journal;
pub use recording::{RecordingError, check_recording_file, read_recording, write_recording};
pub use render::Detail;

pub use undo::{FileDiff, RefusalReason, RefusedPath, RunDiff, Undo, UndoStep, Undone, UnfinishedCall};

/// The domain types and the state machines, for programs that read journals or drive the state machines themselves.
pub use dirigent_core as core;
/// Chat models.
pub use dirigent_model as model;
/// The journal, which stores runs in an SQLite file.
pub use dirigent_store as store;
/// The tools, and the API for custom tools.
pub use dirigent_tools as tools;

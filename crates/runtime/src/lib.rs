//! The actors around the state machines of `dirigent_core`: they execute the machines' commands, and pass the results back as inputs.
//!
//! ```text
//! Orchestrator                 finds, starts and resumes runs
//! └── RunSupervisor …          one per run, owns the Run state machine
//!     └── AgentActor …         one per lead, reflector and sub-agent, owns its Agent state machine
//! ```
//!
//! Messages to a run wait in its mailbox. Messages from other processes first go to the run's inbox in the journal. The run's supervisor
//! passes each message to the state machine that handles it; the message takes effect once it is journaled.
//!
//! The order is fixed: an input is journaled first, then the commands that it caused are executed. A message
//! handler never awaits slow work: model requests and tool calls run in separate tasks that send their
//! results back, so that an actor reacts to cancellation, guidance and deadlines at once. All decisions are
//! made by the state machines, none in this crate.
//!
//! The actors reach everything outside of this crate through ports: [`run_log::RunLog`], where runs are journaled;
//! [`dirigent_model::ChatModel`]; and [`dirigent_tools::ToolSource`].
#![warn(missing_docs)]

mod ack;
mod agent_actor;
mod agent_message;
mod blocking;
mod change_diffs;
mod clock;
mod confirmations;
mod content_recorder;
mod crashed_agent;
mod deltas;
mod driver;
mod dry_run;
mod effects;
mod error;
mod events;
mod forking;
mod handle;
mod inbox_forwarder;
mod journal_reader;
mod json;
mod orchestrator;
mod outcome;
mod pending_messages;
mod read_output;
mod replayed_run;
mod replaying;
mod resuming;
mod run_diff;
mod run_ending;
pub mod run_log;
mod run_mailbox;
mod run_resources;
mod services;
mod shared_budget;
mod spans;
mod steering;
mod supervisor;
mod user_presence;
mod when_shared;

pub use change_diffs::{ChangeDiffs, CommandDiff, CommandFileDiff, FileDiff, change_diffs, diff_bytes};
pub use deltas::Delta;
pub use error::RuntimeError;
pub use events::Events;
pub use handle::RunHandle;
pub use journal_reader::{read_run, read_run_until};
pub use orchestrator::Orchestrator;
pub use pending_messages::{PendingMessage, check_message, pending_messages};
pub use read_output::{OutputText, output_text};
pub use replaying::record_run;
pub use resuming::Resume;
pub use services::{RunServices, Services, with_read_output};
pub use steering::SteerOutcome;
pub use user_presence::UserPresence;
pub use when_shared::WhenShared;

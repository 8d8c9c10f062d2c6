//! The actors that execute the machines' commands: commands become work, and its results become inputs.
//!
//! ```text
//! Orchestrator                 finds, starts and resumes runs
//! └── RunSupervisor …          one per run, owns the Run machine
//!     └── AgentActor …         one per planner, reflector and sub-agent, owns its Agent machine
//! ```
//!
//! Messages to a run wait in its mailbox. Those of other processes come through the run's inbox in the journal. The run's supervisor passes them
//! to the machine that handles them, and they take effect once they are journaled.
//!
//! The order is fixed: journal the input, then act on its commands. A handler never awaits slow work: models and tools run in tasks that send
//! their results back, so that cancelling, guidance and deadlines are handled at once. Nothing here decides what a machine could decide.
#![warn(missing_docs)]

mod ack;
mod agent_actor;
mod agent_message;
mod blocking;
mod clock;
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
mod run_ending;
mod run_mailbox;
mod run_resources;
mod services;
mod shared_budget;
mod steering;
#[cfg(test)]
mod supervision_tests;
mod supervisor;
mod user_presence;

pub use deltas::Delta;
pub use error::RuntimeError;
pub use events::Events;
pub use handle::RunHandle;
pub use journal_reader::read_run;
pub use orchestrator::Orchestrator;
pub use pending_messages::{PendingMessage, pending_messages};
pub use replaying::record_run;
pub use resuming::Resume;
pub use services::Services;
pub use steering::SteerOutcome;
pub use user_presence::UserPresence;

//! The actors that carry out what the machines command: commands become work, and what comes of it becomes inputs.
//!
//! ```text
//! Orchestrator                 finds, starts and resumes runs
//! └── RunSupervisor …          one per run, owns the Run machine
//!     └── AgentActor …         one per planner, reflector and sub-agent, owns its Agent machine
//! ```
//!
//! What people say to a run waits at its mailbox, whichever process they say it in: what other processes say comes by the run's inbox in
//! the journal. A run's supervisor gives it to the machine that it is for, and it counts once it is journaled.
//!
//! The order is fixed: journal the input, then act on its commands. A handler never awaits slow work: models and tools run
//! in tasks that send their result back, so that cancelling, guidance and deadlines are handled at once. Nothing here decides
//! what a machine could decide.
#![warn(missing_docs)]

mod agent_actor;
mod clock;
mod content_recorder;
mod crashed_agent;
mod deltas;
mod driver;
mod effects;
mod error;
mod forking;
mod handle;
mod inbox_forwarder;
mod orchestrator;
mod read_output;
mod replaying;
mod resuming;
mod run_mailbox;
mod shared_budget;
mod steering;
#[cfg(test)]
mod supervision_tests;
mod supervisor;

pub use deltas::Delta;
pub use error::RuntimeError;
pub use handle::{Events, RunHandle, read_run};
pub use orchestrator::{Orchestrator, Services, UserPresence};
pub use replaying::record_run;
pub use resuming::Resume;
pub use steering::{PendingMessage, SteerOutcome, pending_messages};

//! The runtime's errors. A failed run is not an error of the runtime: it ends with a [`dirigent_core::run::EndReason`].

use crate::run_log::RunLogError;
use dirigent_core::approval::DecisionError;
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{AgentId, RunId};
use dirigent_core::machine::Refusal;
use dirigent_core::question::{AnswerError, SelectionError};
use dirigent_core::recording::Difference;
use dirigent_core::route::SteeringError;

/// A failure to start, resume, steer or read a run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The journal cannot be read or written. A run whose journal cannot be written stops.
    #[error(transparent)]
    Journal(#[from] RunLogError),
    /// The run has ended.
    #[error("run {} has already ended", run.short())]
    Ended {
        /// The run's id.
        run: RunId,
    },
    /// The run ended at a limit, and would exceed this limit at once if it were resumed.
    #[error("run {} cannot continue, because it has reached a limit: {reason}; resume it with a higher limit", run.short())]
    AtLimit {
        /// The run's id.
        run: RunId,
        /// The limit that ended the run.
        reason: EndReason,
    },
    /// The run is not active in this process.
    #[error("run {} is not active in this process", run.short())]
    NotRunning {
        /// The run's id.
        run: RunId,
    },
    /// The answered question is not open.
    #[error("run {} has no such open question: it was answered, has expired, was withdrawn by guidance, or was never asked", run.short())]
    NoQuestion {
        /// The run's id.
        run: RunId,
    },
    /// The answer is for a question that is not open, or does not specify which of several open questions it
    /// is for (LEAD-4).
    #[error("run {}: {error}", run.short())]
    Question {
        /// The run's id.
        run: RunId,
        /// Why no question was selected, with the open questions.
        error: SelectionError,
    },
    /// The message is for an agent that has ended or never existed.
    #[error("run {} has no active agent {agent}", run.short())]
    NoAgent {
        /// The run's id.
        run: RunId,
        /// The agent's id.
        agent: AgentId,
    },
    /// A decision about a call was rejected (APPROVE-3).
    #[error("run {}: {error}", run.short())]
    Decision {
        /// The run's id.
        run: RunId,
        /// Why the decision was rejected.
        error: DecisionError,
    },
    /// The answer does not fit the run's question, which stays open (PAOR-9).
    #[error("run {}: {error}", run.short())]
    Answer {
        /// The run's id.
        run: RunId,
        /// Why the answer was rejected.
        error: AnswerError,
    },
    /// The run rejected a message, either for a reason without its own variant, or in another process, which reports its reason only as
    /// text.
    #[error("run {} rejected the message: {reason}", run.short())]
    MessageRejected {
        /// The run's id.
        run: RunId,
        /// The reason, as text for the user.
        reason: String,
    },
    /// The run crashed or ended while it processed a message. The journal may or may not contain the message.
    #[error("run {} stopped while processing the message, which may or may not have been applied", run.short())]
    DeliveryUnknown {
        /// The run's id.
        run: RunId,
    },
    /// The run cannot be forked at this entry (HOST-9).
    #[error("run {} cannot be forked at entry {at}: {reason}", run.short())]
    CannotFork {
        /// The run's id.
        run: RunId,
        /// The number of the last entry that the fork would share.
        at: u64,
        /// The reason, and the entries at which the run can be forked.
        reason: String,
    },
    /// The process that created the run ended before the run's first input was stored, so the run has done nothing.
    #[error("run {} was created but never started, so nothing was done; start a new run with its goal", run.short())]
    NeverBegan {
        /// The run's id.
        run: RunId,
    },
    /// The run's journal entries cannot be replayed, because a machine refuses one of them.
    #[error("the journal of run {} cannot be replayed at entry {seq}: {refusal}; the journal may be damaged, or written by another version of Dirigent", run.short())]
    Replay {
        /// The run's id.
        run: RunId,
        /// The entry's number.
        seq: u64,
        /// The machine's refusal.
        refusal: Refusal,
    },
    /// The replayed run differs from its recording (HOST-9).
    #[error(transparent)]
    ReplayMismatch(#[from] Box<Difference>),
    /// The run's supervisor crashed too often.
    #[error("run {} crashed {times} times and was stopped: {message}; its journal is intact, so it can be resumed", run.short())]
    SupervisorCrashed {
        /// The run's id.
        run: RunId,
        /// The number of crashes.
        times: u32,
        /// The message of the last crash.
        message: String,
    },
    /// The orchestrator is shutting down, or an actor could not be started.
    #[error("the orchestrator is not running: {reason}")]
    Stopped {
        /// Why the orchestrator is not running.
        reason: String,
    },
}

impl RuntimeError {
    /// Returns the error for a message that could not be routed to a machine.
    pub(crate) fn steering(run: RunId, error: SteeringError) -> RuntimeError {
        match error {
            SteeringError::NoQuestion => RuntimeError::NoQuestion { run },
            SteeringError::Answer(error) => RuntimeError::Answer { run, error },
            SteeringError::NoAgent { agent } => RuntimeError::NoAgent { run, agent },
            SteeringError::Decision(error) => RuntimeError::Decision { run, error },
        }
    }

    /// Returns the error for an answer for which no question can be selected.
    pub fn question(run: RunId, error: SelectionError) -> RuntimeError {
        match error {
            SelectionError::NoQuestion => RuntimeError::NoQuestion { run },
            error => RuntimeError::Question { run, error },
        }
    }

    /// Returns the error for an input that the run's machine refused. `end` is the reason why the run ended; `None` if it has not ended.
    pub(crate) fn rejected_by_run(run: RunId, refusal: Refusal, end: Option<&EndReason>) -> RuntimeError {
        match (refusal, end) {
            (Refusal::Decision(error), _) => RuntimeError::Decision { run, error },
            (Refusal::Answer(error), _) => RuntimeError::Answer { run, error },
            (_, Some(_)) => RuntimeError::Ended { run },
            (refusal, None) => {
                let reason = refusal.to_string();
                RuntimeError::MessageRejected { run, reason }
            }
        }
    }

    /// Returns the error for a message that an agent refused. If the refusal contains the error of a decision
    /// or answer, returns that error, otherwise `self`.
    pub(crate) fn or_refusal(self, run: RunId, refusal: Refusal) -> RuntimeError {
        match refusal {
            Refusal::Decision(error) => RuntimeError::Decision { run, error },
            Refusal::Answer(error) => RuntimeError::Answer { run, error },
            Refusal::Stale { .. }
            | Refusal::Finished { .. }
            | Refusal::AtLimit { .. }
            | Refusal::InvalidState { .. }
            | Refusal::Transition(_) => self,
        }
    }

    /// Describes why a message was rejected, without naming the run.
    pub(crate) fn reason(&self) -> String {
        match self {
            RuntimeError::Decision { error, .. } => error.to_string(),
            RuntimeError::Answer { error, .. } => error.to_string(),
            RuntimeError::Question { error, .. } => error.to_string(),
            RuntimeError::MessageRejected { reason, .. } => reason.clone(),
            RuntimeError::NoQuestion { .. } => {
                "it has no such open question: it was answered, has expired, was withdrawn by guidance, or was never asked".to_owned()
            }
            RuntimeError::NoAgent { agent, .. } => format!("it has no active agent {agent}"),
            RuntimeError::Journal(_)
            | RuntimeError::Ended { .. }
            | RuntimeError::AtLimit { .. }
            | RuntimeError::NotRunning { .. }
            | RuntimeError::DeliveryUnknown { .. }
            | RuntimeError::CannotFork { .. }
            | RuntimeError::NeverBegan { .. }
            | RuntimeError::Replay { .. }
            | RuntimeError::ReplayMismatch(_)
            | RuntimeError::SupervisorCrashed { .. }
            | RuntimeError::Stopped { .. } => self.to_string(),
        }
    }
}

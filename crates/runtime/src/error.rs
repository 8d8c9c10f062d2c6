//! The runtime's errors: failures to start, run or steer a run. How a run ends is [`dirigent_core::run::EndReason`] instead.

use dirigent_core::approval::DecisionError;
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{AgentId, RunId};
use dirigent_core::machine::Refusal;
use dirigent_core::question::AnswerError;
use dirigent_core::recording::Difference;
use dirigent_core::route::SteeringError;
use dirigent_store::StoreError;

/// A failure to start, resume, steer or read a run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The journal cannot be read or written. A run whose journal cannot be written stops.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// The run is over.
    #[error("run {} has already ended", run.short())]
    Ended {
        /// The run.
        run: RunId,
    },
    /// The run failed at a limit that it would exceed again at once.
    #[error("run {} cannot continue, as it is at its limit: {reason}; resume it with a higher limit", run.short())]
    AtLimit {
        /// The run.
        run: RunId,
        /// The limit.
        reason: EndReason,
    },
    /// The run is not active in this process.
    #[error("run {} is not active in this process", run.short())]
    NotRunning {
        /// The run.
        run: RunId,
    },
    /// An answer came while the run asks no question.
    #[error("run {} has no pending question: it asks none, or has an answer already", run.short())]
    NoQuestion {
        /// The run.
        run: RunId,
    },
    /// The message is for an agent that is not active: it has ended or never existed.
    #[error("run {} has no active agent {agent}", run.short())]
    NoAgent {
        /// The run.
        run: RunId,
        /// The agent.
        agent: AgentId,
    },
    /// A decision about a call was rejected (APPROVE-3).
    #[error("run {}: {fault}", run.short())]
    Decision {
        /// The run.
        run: RunId,
        /// The reason.
        fault: DecisionError,
    },
    /// A text does not answer the run's question, which stays open (PAOR-9).
    #[error("run {}: {fault}", run.short())]
    Answer {
        /// The run.
        run: RunId,
        /// The reason.
        fault: AnswerError,
    },
    /// The run rejected a message for a reason without a variant, or in another process.
    #[error("run {} rejected the message: {reason}", run.short())]
    MessageRejected {
        /// The run.
        run: RunId,
        /// The reason, for people.
        reason: String,
    },
    /// The run crashed or ended while it processed a message.
    #[error("run {} stopped while processing the message, which may or may not have been applied", run.short())]
    DeliveryUnknown {
        /// The run.
        run: RunId,
    },
    /// The run cannot be forked at this entry (HOST-9).
    #[error("run {} cannot be forked at entry {at}: {reason}", run.short())]
    CannotFork {
        /// The run.
        run: RunId,
        /// The last entry that the fork would share.
        at: u64,
        /// The reason, and the entries at which it can be forked.
        reason: String,
    },
    /// The process that created the run ended before the run's first input was stored, so the run has done nothing.
    #[error("run {} was created but never started, so nothing was done; start its goal again", run.short())]
    NeverBegan {
        /// The run.
        run: RunId,
    },
    /// The machines refuse an input of the journal.
    #[error("the journal of run {} cannot be replayed at entry {seq}: {refusal}", run.short())]
    Replay {
        /// The run.
        run: RunId,
        /// The entry's number.
        seq: u64,
        /// The machine's refusal.
        refusal: Refusal,
    },
    /// The present run differs from the recorded one (HOST-9).
    #[error(transparent)]
    ReplayMismatch(#[from] Box<Difference>),
    /// The run's supervisor crashed too often.
    #[error("run {} crashed {times} times and was stopped: {message}; its journal is intact, so it can be resumed", run.short())]
    SupervisorCrashed {
        /// The run.
        run: RunId,
        /// The number of crashes.
        times: u32,
        /// The message of the last crash.
        message: String,
    },
    /// The orchestrator is shutting down, or an actor could not be started.
    #[error("the orchestrator is not running: {reason}")]
    Stopped {
        /// The reason.
        reason: String,
    },
}

impl RuntimeError {
    /// Returns the error for a message that has no machine to handle it.
    pub(crate) fn steering(run: RunId, error: SteeringError) -> RuntimeError {
        match error {
            SteeringError::NoQuestion => RuntimeError::NoQuestion { run },
            SteeringError::Answer(fault) => RuntimeError::Answer { run, fault },
            SteeringError::NoAgent { agent } => RuntimeError::NoAgent { run, agent },
            SteeringError::Decision(fault) => RuntimeError::Decision { run, fault },
        }
    }

    /// Returns the error for an input that the run's machine refused. `end` is the machine's end, if it has one.
    pub(crate) fn rejected_by_run(run: RunId, refusal: Refusal, end: Option<&EndReason>) -> RuntimeError {
        match (refusal, end) {
            (Refusal::Decision(fault), _) => RuntimeError::Decision { run, fault },
            (Refusal::Answer(fault), _) => RuntimeError::Answer { run, fault },
            (_, Some(_)) => RuntimeError::Ended { run },
            (refusal, None) => {
                let reason = refusal.to_string();
                RuntimeError::MessageRejected { run, reason }
            }
        }
    }

    /// Returns the error for an agent's refusal: the refused decision or answer, else this error.
    pub(crate) fn or_refusal(self, run: RunId, refusal: Refusal) -> RuntimeError {
        match refusal {
            Refusal::Decision(fault) => RuntimeError::Decision { run, fault },
            Refusal::Answer(fault) => RuntimeError::Answer { run, fault },
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
            RuntimeError::Decision { fault, .. } => fault.to_string(),
            RuntimeError::Answer { fault, .. } => fault.to_string(),
            RuntimeError::MessageRejected { reason, .. } => reason.clone(),
            RuntimeError::NoQuestion { .. } => {
                "it has no pending question: it asks none, or has an answer already".to_owned()
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

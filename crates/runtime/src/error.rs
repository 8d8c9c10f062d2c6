//! What can go wrong with carrying out a run, as opposed to what a run can end with.

use dirigent_core::approval::DecisionError;
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{AgentId, RunId};
use dirigent_core::machine::Refusal;
use dirigent_core::question::AnswerError;
use dirigent_core::recording::Difference;
use dirigent_store::StoreError;

/// Why a run could not be started, watched or carried on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The journal cannot be read or written. A run whose journal cannot be written stops.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// The run is over.
    #[error("run {} has already ended; see it with `dirigent show {}`", run.short(), run.short())]
    Ended {
        /// Which.
        run: RunId,
    },
    /// The run failed at a limit that it would be at again at once.
    #[error("run {} cannot go on, as it is at its limit: {reason}; resume it with a higher limit", run.short())]
    AtLimit {
        /// The run.
        run: RunId,
        /// The limit.
        reason: EndReason,
    },
    /// This process does not carry out that run.
    #[error("run {} is not under way here; go on with it with `dirigent resume {}`", run.short(), run.short())]
    NotRunning {
        /// Which.
        run: RunId,
    },
    /// An answer came, but nothing was asked.
    #[error("run {} has no question that waits for an answer: it asks none, or has an answer already", run.short())]
    NoQuestion {
        /// Which.
        run: RunId,
    },
    /// What was said was for an agent that is not at work: it has ended, or never was.
    #[error("run {} has no agent {agent} at work; see its agents with `dirigent show {}`", run.short(), run.short())]
    NoAgent {
        /// Which run.
        run: RunId,
        /// Which agent.
        agent: AgentId,
    },
    /// A decision about a call does not count (APPROVE-3).
    #[error("run {}: {fault}", run.short())]
    Decision {
        /// Which run.
        run: RunId,
        /// Why.
        fault: DecisionError,
    },
    /// A text does not answer the run's question, which still waits (PAOR-9).
    #[error("run {}: {fault}", run.short())]
    Answer {
        /// Which run.
        run: RunId,
        /// Why.
        fault: AnswerError,
    },
    /// What was said does not count for another reason, or the process that carries the run out said why.
    #[error("run {} did not take it: {reason}", run.short())]
    MessageRejected {
        /// Which run.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// Something broke down or ended while it was told something.
    #[error(
        "run {} broke down or ended while it was told that, so look with `dirigent show {}` whether it was heard", run.short(), run.short()
    )]
    DeliveryUnknown {
        /// Which run.
        run: RunId,
    },
    /// A run cannot be forked there (HOST-9).
    #[error("run {} cannot be forked at entry {at}: {reason}", run.short())]
    CannotFork {
        /// Which run.
        run: RunId,
        /// The last entry that the new run would share.
        at: u64,
        /// Why not, and where it can be.
        reason: String,
    },
    /// The process that created the run ended before its first input was stored, so it has done nothing.
    #[error("run {} was created but never began, so nothing was done; start its goal again", run.short())]
    NeverBegan {
        /// Which.
        run: RunId,
    },
    /// The journal's inputs do not fit the machines.
    #[error("the journal of run {} cannot be replayed at entry {seq}: {refusal}", run.short())]
    Replay {
        /// Which.
        run: RunId,
        /// The entry's number.
        seq: u64,
        /// What the machine said.
        refusal: Refusal,
    },
    /// The present run is not the recorded one (HOST-9).
    #[error(transparent)]
    ReplayMismatch(#[from] Box<Difference>),
    /// The run's supervisor broke down again and again.
    #[error(
        "run {} broke down {times} times and was given up: {message}; its journal is kept, so `dirigent resume {}` can go on",
        run.short(), run.short()
    )]
    SupervisorCrashed {
        /// Which.
        run: RunId,
        /// How often.
        times: u32,
        /// What it said last.
        message: String,
    },
    /// The orchestrator is shutting down, or an actor could not be started.
    #[error("the orchestrator is not running: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
}

impl RuntimeError {
    /// Why an agent does not take something: the decision's fault, or else this.
    pub(crate) fn or_decision(self, run: RunId, refusal: Refusal) -> RuntimeError {
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

    /// Why something that was said to a run does not count, for where the run is named already.
    pub(crate) fn reason(&self) -> String {
        match self {
            RuntimeError::Decision { fault, .. } => fault.to_string(),
            RuntimeError::MessageRejected { reason, .. } => reason.clone(),
            RuntimeError::NoQuestion { .. } => {
                "it has no question that waits for an answer: it asks none, or has an answer already"
                    .to_owned()
            }
            RuntimeError::Answer { fault, .. } => fault.to_string(),
            RuntimeError::NoAgent { run, agent } => format!(
                "it has no agent {agent} at work; see its agents with `dirigent show {}`",
                run.short()
            ),
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

//! What a caller holds of a run: a way to steer it, to watch it and to wait for its end.

use std::collections::VecDeque;
use std::sync::Arc;

use dirigent_core::approval::{Approval, Decision};
use dirigent_core::id::{AgentId, EffectId, RunId};
use dirigent_core::journal::Entry;
use dirigent_core::run::Report;
use dirigent_core::steering::Steering;
use dirigent_core::view::{Event, RunView};
use dirigent_store::{Journal, StoreError, Tail};
use tokio::sync::{broadcast, oneshot, watch};

use crate::deltas::{Delta, Listeners};
use crate::error::RuntimeError;
use crate::orchestrator::blocking;
use crate::run_mailbox::{Ack, RunMailbox, RunMessage, RunMessageBody};
use crate::supervisor::Outcome;

/// How many entries are read from the journal at once.
const BATCH: usize = 1_000;

/// A run that this process carries out. Clones are the same run; dropping them does not stop it.
#[derive(Clone)]
pub struct RunHandle {
    pub(crate) run: RunId,
    pub(crate) journal: Journal,
    pub(crate) mailbox: Arc<RunMailbox>,
    pub(crate) outcome: watch::Receiver<Outcome>,
    pub(crate) listeners: Listeners,
}

impl RunHandle {
    /// The run.
    pub fn id(&self) -> RunId {
        self.run
    }

    /// Says something to the run: its next plan takes it into account (PAOR-8).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] where the run is over.
    pub fn guide(&self, guidance: impl Into<String>) -> Result<(), RuntimeError> {
        let guidance = guidance.into();
        self.send(RunMessage::unacknowledged(Steering::Guide { guidance }))
    }

    /// Says something that cannot wait: what is under way is stopped for it, and the next plan is made now (PAOR-8).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] where the run is over.
    pub fn guide_now(&self, guidance: impl Into<String>) -> Result<(), RuntimeError> {
        let guidance = guidance.into();
        self.send(RunMessage::unacknowledged(Steering::Redirect { guidance }))
    }

    /// Says something to one of the run's agents: its next model request takes it into account. Returns once that is journaled.
    ///
    /// # Errors
    /// [`RuntimeError::NoAgent`] where that agent is not at work; as [`Self::steer`].
    pub async fn guide_agent(&self, agent: AgentId, guidance: impl Into<String>) -> Result<(), RuntimeError> {
        let guidance = guidance.into();
        self.steer(Steering::GuideAgent { agent, guidance }).await
    }

    /// Decides about a call that waits for an approval: one of [`Self::approvals`] (APPROVE-2). It counts for exactly that call, once,
    /// unchanged and before it expires. Returns once that is journaled.
    ///
    /// # Errors
    /// [`RuntimeError::Decision`] where it does not count (APPROVE-3): nothing has happened then. As [`Self::steer`].
    pub async fn decide(&self, effect: EffectId, decision: Decision) -> Result<(), RuntimeError> {
        self.steer(Steering::Decide { effect, decision }).await
    }

    /// Answers the question that the run asks at this moment (PAOR-9), and no later one: in the user's words, or with the number of one of its
    /// choices. Returns once that is journaled.
    ///
    /// # Errors
    /// [`RuntimeError::Answer`] for a number that no choice has: the question still waits. [`RuntimeError::NoQuestion`] where it asks none, or somebody else's answer came first. As [`Self::steer`].
    pub async fn answer(&self, answer: impl Into<String>) -> Result<(), RuntimeError> {
        self.ensure_running()?;
        let effect = self
            .mailbox
            .question()
            .map_err(|refused| refused.into_error(self.run))?;
        let answer = answer.into();
        self.steer(Steering::Answer { effect, answer }).await
    }

    /// Says that from now on nobody is there who could answer a question or decide about a call, as [`UserPresence::Absent`] does from
    /// the start. Where nothing goes on without that, the run stops and can be resumed (PAOR-9).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] where the run is over.
    ///
    /// [`UserPresence::Absent`]: crate::UserPresence::Absent
    pub fn set_user_absent(&self) -> Result<(), RuntimeError> {
        self.ensure_running()?;
        self.mailbox
            .set_user_absent()
            .map_err(|refused| refused.into_error(self.run))
    }

    /// Ends the run: its agents, model requests and child processes stop within a second, and its journal says so (HOST-8).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] where the run is over.
    pub fn cancel(&self) -> Result<(), RuntimeError> {
        self.send(RunMessage::unacknowledged(Steering::Cancel))
    }

    /// Says anything that can be said to a run, and returns once it is journaled: whatever becomes of this process, it counts then.
    ///
    /// # Errors
    /// Why it does not count: [`RuntimeError::Decision`], [`RuntimeError::NoAgent`], [`RuntimeError::NoQuestion`], [`RuntimeError::Answer`],
    /// [`RuntimeError::MessageRejected`], or [`RuntimeError::Ended`] where the run is over and did not hear it. [`RuntimeError::DeliveryUnknown`] where a
    /// breakdown or the run's end left open whether it counts.
    pub async fn steer(&self, steering: Steering) -> Result<(), RuntimeError> {
        let (reply, mut told) = oneshot::channel();
        let said = RunMessageBody::Steering(steering);
        let ack = Ack::new(reply);
        self.send(RunMessage { said, ack })?;
        let run = self.run;
        tokio::select! {
            biased;
            told = &mut told => told.unwrap_or(Err(RuntimeError::DeliveryUnknown { run })),
            ended = self.outcome() => match told.try_recv() {
                // Both have come since that was looked for.
                Ok(told) => told,
                // What waited at the mailbox was refused before: this was with an agent that had to be given up.
                Err(_) => Err(ended.err().unwrap_or(RuntimeError::DeliveryUnknown { run })),
            },
        }
    }

    /// The calls of the run and its agents that wait for an approval at this moment, the oldest first; also those that a run which
    /// stands still waits for. Reads the whole journal of the run: who follows it has them at less cost from [`Events::view`].
    ///
    /// # Errors
    /// [`RuntimeError::Journal`] and [`RuntimeError::Replay`].
    pub async fn approvals(&self) -> Result<Vec<Arc<Approval>>, RuntimeError> {
        let (journal, run) = (self.journal.clone(), self.run);
        blocking(move || Ok(read_run(&journal, run)?.0.approvals())).await
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// What kept the run from being carried out. That it failed is an end like any other, in [`Report::end`].
    pub async fn outcome(&self) -> Result<Arc<Report>, RuntimeError> {
        let mut outcome = self.outcome.clone();
        match outcome.wait_for(Option::is_some).await {
            Ok(ended) => match &*ended {
                Some(ended) => ended.clone(),
                None => Err(stopped()),
            },
            Err(_) => Err(stopped()),
        }
    }

    /// What happens in the run, from its beginning.
    pub fn events(&self) -> Events {
        Events::new(self.journal.tail(self.run, 0))
    }

    /// What the run's models are saying, as it comes, from the next request on. Only a preview, which is journaled nowhere: a listener
    /// that is slow is told how many pieces it missed, and never slows the run. It ends when all handles of the run are dropped.
    pub fn deltas(&self) -> broadcast::Receiver<Delta> {
        self.listeners.listen()
    }

    fn send(&self, message: RunMessage) -> Result<(), RuntimeError> {
        self.ensure_running()?;
        self.mailbox
            .send(message)
            .map_err(|refused| refused.into_error(self.run))
    }

    fn ensure_running(&self) -> Result<(), RuntimeError> {
        match &*self.outcome.borrow() {
            Some(_) => Err(RuntimeError::Ended { run: self.run }),
            None => Ok(()),
        }
    }
}

fn stopped() -> RuntimeError {
    RuntimeError::Stopped {
        reason: "it was shut down while the run was under way".to_owned(),
    }
}

/// The events of a run, in order and without gaps, however slowly they are read: they come from the journal, not from
/// the run.
pub struct Events {
    tail: Tail,
    view: RunView,
    ready: VecDeque<Event>,
}

impl Events {
    /// The events of the run that is followed, from its beginning: those end where the tail ends.
    pub(crate) fn new(tail: Tail) -> Self {
        Events {
            tail,
            view: RunView::new(),
            ready: VecDeque::new(),
        }
    }

    /// The next event; none after the last.
    pub async fn next(&mut self) -> Option<Result<Event, RuntimeError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let entry = match self.tail.next().await? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let (run, seq) = (entry.run, entry.seq);
            match self.view.apply(entry) {
                Ok(events) => self.ready.extend(events),
                Err(refusal) => return Some(Err(RuntimeError::Replay { run, seq, refusal })),
            }
        }
    }

    /// The run as of the last event.
    pub fn view(&self) -> &RunView {
        &self.view
    }
}

/// A run rebuilt from what its journal has now, with its events. Reads the disk: not for an async context.
///
/// # Errors
/// [`RuntimeError::Journal`] and [`RuntimeError::Replay`].
pub fn read_run(journal: &Journal, run: RunId) -> Result<(RunView, Vec<Event>), RuntimeError> {
    let (mut view, mut events) = (RunView::new(), Vec::new());
    for entry in read_entries(journal, run)? {
        let seq = entry.seq;
        events.extend(
            view.apply(entry)
                .map_err(|refusal| RuntimeError::Replay { run, seq, refusal })?,
        );
    }
    Ok((view, events))
}

/// All entries of a run.
pub(crate) fn read_entries(journal: &Journal, run: RunId) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    loop {
        let batch = journal.entries(run, entries.len() as u64, BATCH)?;
        let last = batch.len() < BATCH;
        entries.extend(batch);
        if last {
            return Ok(entries);
        }
    }
}

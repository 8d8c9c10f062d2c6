//! What a caller holds of a run: a way to steer it, to watch it and to wait for its end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
use dirigent_core::id::AgentId;
use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use dirigent_core::run::Report;
use dirigent_core::view::{Event, RunView};
use dirigent_store::{Journal, StoreError, Tail};
use ractor::ActorRef;
use tokio::sync::watch;

use crate::error::RuntimeError;
use crate::supervisor::{Outcome, SupervisorMsg};

/// How many entries are read from the journal at once.
const BATCH: usize = 1_000;

/// A run that this process carries out. Clones are the same run; dropping them does not stop it.
#[derive(Clone)]
pub struct RunHandle {
    pub(crate) run: RunId,
    pub(crate) journal: Journal,
    pub(crate) door: Arc<Door>,
    pub(crate) outcome: watch::Receiver<Outcome>,
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
        self.send(Steering::Guide(guidance.into()))
    }

    /// Answers the run's question (PAOR-9). An answer to no question is dropped.
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] where the run is over.
    pub fn answer(&self, answer: impl Into<String>) -> Result<(), RuntimeError> {
        self.send(Steering::Answer(answer.into()))
    }

    /// Says that nobody can answer the run's question now: the run stops and can be resumed with the answer (PAOR-9).
    /// Where there is no question, nothing happens.
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] where the run is over.
    pub fn leave_question(&self) -> Result<(), RuntimeError> {
        self.send(Steering::LeaveQuestion)
    }

    /// Ends the run: its agents, model requests and child processes stop within a second, and its journal says so (HOST-8).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] where the run is over.
    pub fn cancel(&self) -> Result<(), RuntimeError> {
        self.send(Steering::Cancel)
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
        Events::new(&self.journal, self.run)
    }

    fn send(&self, steering: Steering) -> Result<(), RuntimeError> {
        if self.outcome.borrow().is_some() {
            return Err(RuntimeError::Ended { run: self.run });
        }
        self.door.send(steering);
        Ok(())
    }
}

fn stopped() -> RuntimeError {
    RuntimeError::Stopped {
        reason: "it was shut down while the run was under way".to_owned(),
    }
}

/// What a caller tells a run.
pub(crate) enum Steering {
    Guide(String),
    Answer(String),
    LeaveQuestion,
    Cancel,
    #[cfg(test)]
    Break,
    #[cfg(test)]
    BreakAgent(AgentId),
}

/// The way to a run's supervisor, which may be another one after a breakdown: what was said waits here until it is taken,
/// as a broken actor's mailbox is lost.
#[derive(Default)]
pub(crate) struct Door(Mutex<DoorState>);

#[derive(Default)]
struct DoorState {
    waiting: VecDeque<Steering>,
    supervisor: Option<ActorRef<SupervisorMsg>>,
}

impl Door {
    /// From now on that one is told.
    pub(crate) fn open(&self, supervisor: ActorRef<SupervisorMsg>) {
        let mut state = self.state();
        for _ in &state.waiting {
            let _ = supervisor.send_message(SupervisorMsg::Steered);
        }
        state.supervisor = Some(supervisor);
    }

    pub(crate) fn send(&self, steering: Steering) {
        let mut state = self.state();
        state.waiting.push_back(steering);
        if let Some(supervisor) = &state.supervisor {
            // One that is gone has a successor, or has told its outcome.
            let _ = supervisor.send_message(SupervisorMsg::Steered);
        }
    }

    /// What has waited longest.
    pub(crate) fn take(&self) -> Option<Steering> {
        self.state().waiting.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, DoorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// The events of a run of that journal, from its beginning. They end with the run, or, where no run of this process
    /// writes them, with what is there.
    pub fn new(journal: &Journal, run: RunId) -> Self {
        Events {
            tail: journal.tail(run, 0),
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
    replay(run, read_entries(journal, run)?)
}

pub(crate) fn replay(run: RunId, entries: Vec<Entry>) -> Result<(RunView, Vec<Event>), RuntimeError> {
    let (mut view, mut events) = (RunView::new(), Vec::new());
    for entry in entries {
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

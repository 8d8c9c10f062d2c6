//! What a caller holds of a run: a way to steer it, to watch it and to wait for its end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dirigent_core::id::{AgentId, EffectId, RunId};
use dirigent_core::journal::Entry;
use dirigent_core::run::Report;
use dirigent_core::view::{Event, RunView};
use dirigent_store::{Journal, StoreError, Tail};
use ractor::ActorRef;
use tokio::sync::{broadcast, watch};

use crate::deltas::{Delta, Listeners};
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
        self.send(Steering::Guide(guidance.into()))
    }

    /// Says something to one of the run's agents: its next model request takes it into account. An agent that is not at
    /// work then does not hear it.
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] where the run is over.
    pub fn guide_agent(&self, agent: AgentId, guidance: impl Into<String>) -> Result<(), RuntimeError> {
        self.send(Steering::GuideAgent(agent, guidance.into()))
    }

    /// Answers the question that the run asks at this moment (PAOR-9), and no later one.
    ///
    /// # Errors
    /// [`RuntimeError::NoQuestion`] where it asks none, [`RuntimeError::Ended`] where the run is over.
    pub fn answer(&self, answer: impl Into<String>) -> Result<(), RuntimeError> {
        self.still_under_way()?;
        let answered = self.door.answer(answer.into());
        answered.map_err(|refused| refused.of(self.run))
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

    /// What the run's models are saying, as it comes, from the next request on. Only a preview, which is journaled nowhere: a listener
    /// that is slow is told how many pieces it missed, and never slows the run. It ends when all handles of the run are dropped.
    pub fn deltas(&self) -> broadcast::Receiver<Delta> {
        self.listeners.listen()
    }

    fn send(&self, steering: Steering) -> Result<(), RuntimeError> {
        self.still_under_way()?;
        self.door.send(steering).map_err(|refused| refused.of(self.run))
    }

    fn still_under_way(&self) -> Result<(), RuntimeError> {
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

/// What a caller tells a run.
pub(crate) enum Steering {
    Guide(String),
    GuideAgent(AgentId, String),
    /// The answer to that question.
    Answer(EffectId, String),
    LeaveQuestion,
    Cancel,
    #[cfg(test)]
    Break,
    #[cfg(test)]
    BreakAgent(AgentId),
}

/// Why a run is not told something.
pub(crate) enum NotTold {
    Ending,
    NothingAsked,
}

impl NotTold {
    fn of(self, run: RunId) -> RuntimeError {
        match self {
            NotTold::Ending => RuntimeError::Ended { run },
            NotTold::NothingAsked => RuntimeError::NoQuestion { run },
        }
    }
}

/// What those at the door can know of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hearing {
    /// It hears what is said, but asks nothing.
    #[default]
    Nothing,
    /// It asks that.
    Asking(EffectId),
    /// It ends, and hears nothing more.
    Ending,
}

/// The way to a run's supervisor, which may be another one after a breakdown: what was said waits here until it is taken,
/// as a broken actor's mailbox is lost.
#[derive(Default)]
pub(crate) struct Door(Mutex<DoorState>);

#[derive(Default)]
struct DoorState {
    waiting: VecDeque<Steering>,
    supervisor: Option<ActorRef<SupervisorMsg>>,
    hearing: Hearing,
}

impl Door {
    pub(crate) fn new(hearing: Hearing) -> Self {
        Door(Mutex::new(DoorState {
            hearing,
            ..DoorState::default()
        }))
    }

    /// Does `work`, which may change what the run hears; whoever learns of the change by the journal finds it here.
    pub(crate) fn change<T>(&self, work: impl FnOnce() -> (Hearing, T)) -> T {
        let mut state = self.state();
        let (hearing, result) = work();
        state.hearing = hearing;
        result
    }

    /// The run ends.
    pub(crate) fn close(&self) {
        self.state().hearing = Hearing::Ending;
    }

    /// From now on that one is told.
    pub(crate) fn open(&self, supervisor: ActorRef<SupervisorMsg>) {
        let mut state = self.state();
        for _ in &state.waiting {
            let _ = supervisor.send_message(SupervisorMsg::Steered);
        }
        state.supervisor = Some(supervisor);
    }

    pub(crate) fn send(&self, steering: Steering) -> Result<(), NotTold> {
        let mut state = self.state();
        match state.hearing {
            Hearing::Ending => return Err(NotTold::Ending),
            Hearing::Nothing | Hearing::Asking(_) => {}
        }
        state.push(steering);
        Ok(())
    }

    /// Answers the question that is asked now.
    pub(crate) fn answer(&self, answer: String) -> Result<(), NotTold> {
        let mut state = self.state();
        match state.hearing {
            Hearing::Ending => Err(NotTold::Ending),
            Hearing::Nothing => Err(NotTold::NothingAsked),
            Hearing::Asking(question) => {
                state.push(Steering::Answer(question, answer));
                Ok(())
            }
        }
    }

    /// Breaks something down, whatever the run hears.
    #[cfg(test)]
    pub(crate) fn break_down(&self, steering: Steering) {
        self.state().push(steering);
    }

    /// What has waited longest.
    pub(crate) fn take(&self) -> Option<Steering> {
        self.state().waiting.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, DoorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DoorState {
    fn push(&mut self, steering: Steering) {
        self.waiting.push_back(steering);
        if let Some(supervisor) = &self.supervisor {
            // One that is gone has a successor, or has told its outcome.
            let _ = supervisor.send_message(SupervisorMsg::Steered);
        }
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

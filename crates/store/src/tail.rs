//! Following a run: what is stored, then what is being stored, in one sequence.
//!
//! A tail reads the journal and is only told how far it has got, so it misses nothing, holds up nobody and
//! may be as slow as it likes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use tokio::sync::watch;

use crate::error::StoreError;
use crate::journal::Journal;
use crate::reader::Ownership;
use crate::watcher::ChangeSubscription;

/// What is read in one go.
const BATCH: usize = 256;

/// How long nothing is written before it is asked whether the run's process still lives: that is not written anywhere.
const OWNER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How far a run has got in this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// The last place that is stored.
    pub(crate) committed: u64,
    /// Nothing more comes.
    pub(crate) closed: bool,
}

/// The runs that this process carries out, for those who follow them.
#[derive(Default)]
pub(crate) struct LiveRuns(HashMap<RunId, watch::Sender<Progress>>);

impl LiveRuns {
    pub(crate) fn insert(&mut self, run: RunId, progress: Progress) {
        self.0.insert(run, watch::Sender::new(progress));
    }

    pub(crate) fn get(&self, run: &RunId) -> Option<&watch::Sender<Progress>> {
        self.0.get(run)
    }

    /// Those who follow see that nothing more comes.
    pub(crate) fn remove(&mut self, run: &RunId) {
        self.0.remove(run);
    }
}

/// Shared by the writer and those who follow.
#[derive(Default)]
pub(crate) struct Live(pub(crate) Mutex<LiveRuns>);

impl Live {
    pub(crate) fn follow(&self, run: RunId) -> Option<watch::Receiver<Progress>> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get(&run).map(watch::Sender::subscribe)
    }
}

/// A run's entries, those to come included. Made by [`Journal::tail`] and [`Journal::follow`].
pub struct Tail {
    journal: Journal,
    run: RunId,
    /// The last place read from the journal.
    position: u64,
    read: VecDeque<Result<Entry, StoreError>>,
    following: TailSource,
}

enum TailSource {
    /// This process writes the run.
    Live(watch::Receiver<Progress>),
    /// Some process may write the run.
    Watched(ChangeSubscription, InitialState),
    /// Nothing more comes than is stored by now.
    Stored,
    Finished,
}

/// How a run that is watched was at the first look.
#[derive(Clone, Copy)]
enum InitialState {
    Unknown,
    Running,
    /// Ended, at that time, but claimed to go on: this end is not the one to wait for.
    Ended(u64),
}

impl Tail {
    pub(crate) fn for_this_process(
        journal: Journal,
        run: RunId,
        after: u64,
        live: Option<watch::Receiver<Progress>>,
    ) -> Self {
        Tail {
            journal,
            run,
            position: after,
            read: VecDeque::new(),
            following: live.map_or(TailSource::Stored, TailSource::Live),
        }
    }

    pub(crate) fn for_any_process(
        journal: Journal,
        run: RunId,
        after: u64,
        watch: ChangeSubscription,
    ) -> Self {
        Tail {
            journal,
            run,
            position: after,
            read: VecDeque::new(),
            following: TailSource::Watched(watch, InitialState::Unknown),
        }
    }

    /// The next entry, as soon as it is stored. `None` once everything was read and nothing more comes: the
    /// run was marked as ended, its claim was released, or (for [`Journal::tail`]) this process did not hold it
    /// when the tail was made. After an error comes `None`.
    ///
    /// Dropping the future loses nothing. It must be awaited within a Tokio runtime: the journal is read on
    /// its blocking threads. The runtime needs timers for [`Journal::follow`].
    pub async fn next(&mut self) -> Option<Result<Entry, StoreError>> {
        loop {
            if let Some(entry) = self.read.pop_front() {
                if entry.is_err() {
                    self.stop();
                }
                return Some(entry);
            }
            match &mut self.following {
                TailSource::Finished => return None,
                TailSource::Stored => {
                    if !self.read_more().await {
                        self.stop();
                    }
                }
                TailSource::Watched(_, InitialState::Unknown) => self.check_owner().await,
                TailSource::Watched(..) => {
                    if !self.read_more().await {
                        self.check_owner().await;
                        self.wait_for_more().await;
                    }
                }
                TailSource::Live(progress) => {
                    // Looked at before reading: what is stored in between is read now or seen in the next
                    // round.
                    let Progress { committed, closed } = *progress.borrow_and_update();
                    if committed > self.position {
                        self.read_more().await;
                    } else if closed || progress.changed().await.is_err() {
                        self.following = TailSource::Stored;
                    }
                }
            }
        }
    }

    /// Learns whether more may come than is stored by now.
    async fn check_owner(&mut self) {
        let (journal, run) = (self.journal.clone(), self.run);
        let ownership = tokio::task::spawn_blocking(move || journal.readers().ownership(run)).await;
        let TailSource::Watched(_, initial) = &mut self.following else {
            return;
        };
        match (ownership, *initial) {
            (Ok(Ok(Ownership::Owned { ended_at: None })), _) => *initial = InitialState::Running,
            (Ok(Ok(Ownership::Owned { ended_at: Some(at) })), InitialState::Unknown) => {
                *initial = InitialState::Ended(at)
            }
            (Ok(Ok(Ownership::Owned { ended_at: Some(at) })), InitialState::Ended(before))
                if at == before => {}
            (
                Ok(Ok(Ownership::Owned { ended_at: Some(_) })),
                InitialState::Ended(_) | InitialState::Running,
            )
            | (Ok(Ok(Ownership::Free)), _) => self.following = TailSource::Stored,
            (Ok(Err(e)), _) => self.read.push_back(Err(e)),
            // The runtime is shutting down.
            (Err(_), _) => self.stop(),
        }
    }

    /// Until something was written, or it is time to see whether the run's process still lives.
    async fn wait_for_more(&mut self) {
        if let TailSource::Watched(watch, _) = &mut self.following
            && self.read.is_empty()
        {
            // Whichever comes first, the journal is read again.
            let _ = tokio::time::timeout(OWNER_CHECK_INTERVAL, watch.wait_for_write()).await;
        }
    }

    /// Whether anything was there.
    async fn read_more(&mut self) -> bool {
        let (journal, run, position) = (self.journal.clone(), self.run, self.position);
        let read = tokio::task::spawn_blocking(move || journal.read(run, position, BATCH)).await;
        match read {
            Ok(Ok(stored)) => {
                self.position = stored.last_seq.unwrap_or(self.position);
                self.read = stored.entries.into();
            }
            Ok(Err(e)) => self.read.push_back(Err(e)),
            // The runtime is shutting down.
            Err(_) => self.stop(),
        }
        !self.read.is_empty()
    }

    fn stop(&mut self) {
        self.read.clear();
        self.following = TailSource::Finished;
    }
}

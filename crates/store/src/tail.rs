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
use crate::reader::Standing;
use crate::watcher::Watch;

/// What is read in one go.
const BATCH: usize = 256;

/// How long nothing is written before it is asked whether the run's process still lives: that is not written anywhere.
const IDLE: Duration = Duration::from_secs(1);

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
    following: Following,
}

enum Following {
    /// This process writes the run.
    Live(watch::Receiver<Progress>),
    /// Some process may write the run.
    Watched(Watch, Found),
    /// Nothing more comes than is stored by now.
    Stored,
    Over,
}

/// How a run that is watched was at the first look.
#[derive(Clone, Copy)]
enum Found {
    NotYet,
    UnderWay,
    /// Ended, at that time, but claimed to go on: this end is not the one to wait for.
    Ended(u64),
}

impl Tail {
    pub(crate) fn of_this_process(
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
            following: live.map_or(Following::Stored, Following::Live),
        }
    }

    pub(crate) fn of_any_process(journal: Journal, run: RunId, after: u64, watch: Watch) -> Self {
        Tail {
            journal,
            run,
            position: after,
            read: VecDeque::new(),
            following: Following::Watched(watch, Found::NotYet),
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
                Following::Over => return None,
                Following::Stored => {
                    if !self.read_more().await {
                        self.stop();
                    }
                }
                Following::Watched(_, Found::NotYet) => self.look().await,
                Following::Watched(..) => {
                    if !self.read_more().await {
                        self.look().await;
                        self.wait_for_more().await;
                    }
                }
                Following::Live(progress) => {
                    // Looked at before reading: what is stored in between is read now or seen in the next
                    // round.
                    let Progress { committed, closed } = *progress.borrow_and_update();
                    if committed > self.position {
                        self.read_more().await;
                    } else if closed || progress.changed().await.is_err() {
                        self.following = Following::Stored;
                    }
                }
            }
        }
    }

    /// Learns whether more may come than is stored by now.
    async fn look(&mut self) {
        let (journal, run) = (self.journal.clone(), self.run);
        let standing = tokio::task::spawn_blocking(move || journal.readers().standing(run)).await;
        let Following::Watched(_, found) = &mut self.following else {
            return;
        };
        match (standing, *found) {
            (Ok(Ok(Standing::Held { ended_at: None })), _) => *found = Found::UnderWay,
            (Ok(Ok(Standing::Held { ended_at: Some(at) })), Found::NotYet) => *found = Found::Ended(at),
            (Ok(Ok(Standing::Held { ended_at: Some(at) })), Found::Ended(before)) if at == before => {}
            (Ok(Ok(Standing::Held { ended_at: Some(_) })), Found::Ended(_) | Found::UnderWay)
            | (Ok(Ok(Standing::Free)), _) => self.following = Following::Stored,
            (Ok(Err(e)), _) => self.read.push_back(Err(e)),
            // The runtime is shutting down.
            (Err(_), _) => self.stop(),
        }
    }

    /// Until something was written, or it is time to see whether the run's process still lives.
    async fn wait_for_more(&mut self) {
        if let Following::Watched(watch, _) = &mut self.following
            && self.read.is_empty()
        {
            // Whichever comes first, the journal is read again.
            let _ = tokio::time::timeout(IDLE, watch.written()).await;
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
        self.following = Following::Over;
    }
}

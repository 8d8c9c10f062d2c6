//! Following a run: what is stored, then what is being stored, in one sequence.
//!
//! A tail reads the journal and is only told how far it has got, so it misses nothing, holds up nobody and
//! may be as slow as it likes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use tokio::sync::watch;

use crate::error::StoreError;
use crate::journal::Journal;

/// What is read in one go.
const BATCH: usize = 256;

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

/// A run's entries, those to come included. Made by [`Journal::tail`].
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
    /// Nothing more comes than is stored by now.
    Stored,
    Over,
}

impl Tail {
    pub(crate) fn new(
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

    /// The next entry, as soon as it is stored. `None` once everything was read and nothing more comes: the
    /// run was marked as ended, its claim was released, or this process did not hold it when the tail was
    /// made. After an error comes `None`.
    ///
    /// Dropping the future loses nothing. It must be awaited within a Tokio runtime: the journal is read on
    /// its blocking threads.
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

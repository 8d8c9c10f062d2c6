//! Follows a run: returns first its stored entries and then new ones, in one sequence.
//!
//! A tail reads all entries from the database; notifications only tell it that there are new ones. So a tail
//! misses no entry, and a slow tail does not delay the writer.

use std::collections::VecDeque;
use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use tokio::sync::watch;

use crate::error::StoreError;
use crate::journal::Journal;
use crate::progress::Progress;
use crate::reader::Ownership;
use crate::watcher::ChangeSubscription;

/// Maximum number of entries per read.
const BATCH: usize = 256;

/// The interval at which the liveness of the run's owner is checked, because nothing is written to the journal when the owner dies.
const OWNER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Journal {
    /// Follows a run, starting after entry `after` (0: from the first entry), regardless of which process
    /// owns the run. The tail returns the stored entries and then new ones, which it notices within about 200
    /// ms. Ends when the run is marked as ended, or about a second after its owner released it or died. A
    /// slow tail does not delay the writer.
    pub fn follow(&self, run: RunId, after: u64) -> Tail {
        let source = match self.live().subscribe(run) {
            Some(progress) => TailSource::Live(progress),
            None => TailSource::Watched(self.subscribe(), InitialState::Unknown),
        };
        Tail::new(self.clone(), run, after, source)
    }
}

/// A run's stored and future entries. Created by [`Journal::follow`].
pub struct Tail {
    journal: Journal,
    run: RunId,
    /// The number of the last entry read from the journal.
    position: u64,
    read: VecDeque<Result<Entry, StoreError>>,
    source: TailSource,
}

enum TailSource {
    /// This process owns the run. The writer thread reports each stored entry.
    Live(watch::Receiver<Progress>),
    /// This process did not own the run when the tail was created. The journal is watched for writes by other processes.
    Watched(ChangeSubscription, InitialState),
    /// Only stored entries remain to be read.
    Stored,
    Finished,
}

/// The state of a watched run at the first check of its owner.
#[derive(Clone, Copy)]
enum InitialState {
    Unknown,
    Running,
    /// The run was marked as ended at this time, but a process owns it and may resume it. The tail does not stop because of this end.
    Ended(u64),
}

impl Tail {
    fn new(journal: Journal, run: RunId, after: u64, source: TailSource) -> Self {
        Tail {
            journal,
            run,
            position: after,
            read: VecDeque::new(),
            source,
        }
    }

    /// Waits until the next entry is stored and returns it. Returns `None` after the last entry, once the run is marked as ended or its claim
    /// is released, and after an error.
    ///
    /// Cancel safe. Must be awaited in a Tokio runtime with timers. The journal is read on the runtime's blocking
    /// threads.
    pub async fn next(&mut self) -> Option<Result<Entry, StoreError>> {
        loop {
            if let Some(entry) = self.read.pop_front() {
                if entry.is_err() {
                    self.stop();
                }
                return Some(entry);
            }
            match &mut self.source {
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
                    // The progress is read before the entries, so an entry that is stored in between is
                    // either read now or noticed next time.
                    let Progress { committed, closed } = *progress.borrow_and_update();
                    if committed > self.position {
                        self.read_more().await;
                    } else if closed || progress.changed().await.is_err() {
                        self.source = TailSource::Stored;
                    }
                }
            }
        }
    }

    /// Checks the owner of the run, and stops watching if no more entries can come.
    async fn check_owner(&mut self) {
        let (journal, run) = (self.journal.clone(), self.run);
        let ownership = tokio::task::spawn_blocking(move || journal.readers().ownership(run)).await;
        let TailSource::Watched(_, initial) = &mut self.source else {
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
            | (Ok(Ok(Ownership::Unowned)), _) => self.source = TailSource::Stored,
            (Ok(Err(e)), _) => self.read.push_back(Err(e)),
            // The runtime is shutting down.
            (Err(_), _) => self.stop(),
        }
    }

    /// Waits for a write, or until the owner of the run must be checked again.
    async fn wait_for_more(&mut self) {
        if let TailSource::Watched(subscription, _) = &mut self.source
            && self.read.is_empty()
        {
            // The caller reads the journal again even after a timeout.
            let _ = tokio::time::timeout(OWNER_CHECK_INTERVAL, subscription.wait_for_write()).await;
        }
    }

    /// Reads the next batch. Returns false if there was nothing to read.
    async fn read_more(&mut self) -> bool {
        let (journal, run, position) = (self.journal.clone(), self.run, self.position);
        let read = tokio::task::spawn_blocking(move || journal.readers().entries(run, position, BATCH)).await;
        match read {
            Ok(Ok(batch)) => {
                self.position = batch.last_seq.unwrap_or(self.position);
                self.read = batch.entries.into();
            }
            Ok(Err(e)) => self.read.push_back(Err(e)),
            // The runtime is shutting down.
            Err(_) => self.stop(),
        }
        !self.read.is_empty()
    }

    fn stop(&mut self) {
        self.read.clear();
        self.source = TailSource::Finished;
    }
}

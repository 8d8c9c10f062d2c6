//! The queue for the journal's start lock: one start at a time, without occupying threads.

use std::sync::Arc;
use std::time::Duration;

use dirigent_store::{Journal, StartLock};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::Instant;

use crate::DirigentError;
use crate::blocking::blocking;

/// The pause after the first failed attempt to lock. Each later pause is twice as long, up to [`MAX_PAUSE`].
///
/// The lock is polled, because the operating system reports no event when another process releases a file lock, and a thread that blocks on
/// the lock cannot be interrupted.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Maximum pause between two attempts, which is about the maximum delay until a released lock is noticed.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// The maximum time to wait for another process that starts a run in the journal. A start takes much less time, unless its process is
/// suspended.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The queue for the start lock of a journal. Clones share it.
///
/// The starts of an orchestrator wait in this queue; only the first of them polls the lock file. The holder of the lock needs tokio's
/// blocking threads to start its run, so waiting starts must not occupy them.
#[derive(Clone, Debug)]
pub(crate) struct StartQueue {
    journal: Journal,
    first: Arc<Mutex<()>>,
    /// True once starts are cancelled.
    cancelled: Arc<watch::Sender<bool>>,
}

/// The start lock of a journal, and the first place in the queue. Dropping it releases both.
pub(crate) struct HeldStartLock {
    // Dropped first, so that the next in the queue can lock the file.
    _file: StartLock,
    _first: OwnedMutexGuard<()>,
}

impl StartQueue {
    pub(crate) fn new(journal: Journal) -> Self {
        StartQueue {
            journal,
            first: Arc::default(),
            cancelled: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Cancels all starts that are waiting, and all later ones.
    pub(crate) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Waits for `work`, on which a start depends, until starts are cancelled.
    ///
    /// # Errors
    /// [`DirigentError::StartCancelled`] once starts are cancelled; the error of the work.
    pub(crate) async fn unless_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, DirigentError>>,
    ) -> Result<T, DirigentError> {
        let mut cancelled = self.cancelled.subscribe();
        tokio::select! {
            biased;
            // Fails only once the sender is dropped, which this queue owns.
            _ = cancelled.wait_for(|cancelled| *cancelled) => Err(DirigentError::StartCancelled),
            done = work => done,
        }
    }

    /// Waits for the lock. A caller that stops waiting leaves the queue.
    ///
    /// # Errors
    /// [`DirigentError::StartsBlocked`] if another process holds the lock for too long; an error of the lock's file.
    pub(crate) async fn lock(&self) -> Result<HeldStartLock, DirigentError> {
        let first = self.first.clone().lock_owned().await;
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let journal = self.journal.clone();
            if let Some(file) = blocking(move || journal.try_lock_starts()).await? {
                return Ok(HeldStartLock {
                    _file: file,
                    _first: first,
                });
            }
            if began.elapsed() >= MAX_WAIT {
                return Err(DirigentError::StartsBlocked);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

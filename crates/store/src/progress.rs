//! The storage progress of the runs of this process. The writer thread updates it, and tails wait for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use dirigent_core::id::RunId;
use tokio::sync::{Notify, watch};

/// The storage progress of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// The number of the last stored entry.
    pub(crate) committed: u64,
    /// True once the run is marked as ended, after which no more entries follow.
    pub(crate) closed: bool,
}

/// The progress of each run that this process owns.
#[derive(Default)]
pub(crate) struct LiveRuns {
    runs: Mutex<HashMap<RunId, watch::Sender<Progress>>>,
    listeners: Mutex<Vec<Weak<WrittenRuns>>>,
}

/// The runs that this process has written since a listener asked last. Each run counts once, however often it was written, so a slow
/// listener delays nobody and needs no more memory than there are runs.
#[derive(Default)]
pub(crate) struct WrittenRuns {
    runs: Mutex<BTreeSet<RunId>>,
    written: Notify,
}

impl WrittenRuns {
    fn add(&self, run: RunId) {
        self.lock().insert(run);
        self.written.notify_one();
    }

    /// Removes and returns the runs.
    pub(crate) fn take(&self) -> BTreeSet<RunId> {
        std::mem::take(&mut *self.lock())
    }

    /// Waits until a run is written. Returns at once if one was written since the last wait ended. Cancel safe.
    pub(crate) async fn wait(&self) {
        self.written.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveRuns {
    pub(crate) fn insert(&self, run: RunId, progress: Progress) {
        self.lock().insert(run, watch::Sender::new(progress));
    }

    pub(crate) fn update(&self, run: RunId, change: impl FnOnce(&mut Progress)) {
        if let Some(progress) = self.lock().get(&run) {
            progress.send_modify(change);
        }
    }

    /// Removes a run. Its subscribers see the channel close.
    pub(crate) fn remove(&self, run: RunId) {
        self.lock().remove(&run);
    }

    /// Subscribes to a run's progress; `None` if this process does not own the run.
    pub(crate) fn subscribe(&self, run: RunId) -> Option<watch::Receiver<Progress>> {
        self.lock().get(&run).map(watch::Sender::subscribe)
    }

    /// Subscribes to the writes of this process, until the subscription is dropped.
    pub(crate) fn listen(&self) -> Arc<WrittenRuns> {
        let listener = Arc::default();
        self.listeners().push(Arc::downgrade(&listener));
        listener
    }

    /// Tells the listeners that a run was written.
    pub(crate) fn written(&self, run: RunId) {
        self.listeners().retain(|listener| match listener.upgrade() {
            Some(listener) => {
                listener.add(run);
                true
            }
            None => false,
        });
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Weak<WrittenRuns>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<Progress>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

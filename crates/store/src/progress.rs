//! The storage progress of the runs of this process. The writer thread updates it, and tails wait for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dirigent_core::id::RunId;
use tokio::sync::watch;

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

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<Progress>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

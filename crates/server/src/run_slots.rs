//! Limits the number of runs that this server has active at once.
//!
//! A slot is reserved before a run starts or is resumed, so that concurrent requests cannot exceed the limit together. It is kept until the run
//! ends, and given back at once if no run came of it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dirigent::{RunHandle, RunId};

use crate::problem::Problem;

/// The slots for the active runs of a server. Clones share them.
#[derive(Clone, Debug)]
pub struct RunSlots {
    limit: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of runs that are being started.
    reserved: usize,
    active: HashSet<RunId>,
}

/// A reserved slot; free again when dropped.
#[derive(Debug)]
pub(crate) struct RunSlot {
    slots: RunSlots,
    /// False once the slot belongs to a run.
    is_reserved: bool,
}

impl RunSlots {
    pub(crate) fn new(limit: usize) -> Self {
        RunSlots {
            limit,
            state: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a slot for a run that is going to start or to be resumed.
    pub(crate) fn reserve(&self) -> Result<RunSlot, Problem> {
        let mut state = self.state();
        if state.reserved + state.active.len() >= self.limit {
            return Err(Problem::too_many_runs(self.limit));
        }
        state.reserved += 1;
        Ok(RunSlot {
            slots: self.clone(),
            is_reserved: true,
        })
    }

    /// Counts a run that goes on without a reserved slot, such as one that is resumed when the server starts, even beyond the limit: then no other run starts before enough have ended.
    pub fn count(&self, run: &RunHandle) {
        if self.state().active.insert(run.id()) {
            self.release_after(run.clone());
        }
    }

    /// Frees the slot of a run when the run ends.
    fn release_after(&self, run: RunHandle) {
        let slots = self.clone();
        tokio::spawn(async move {
            let id = run.id();
            // A run that stops without an end is no longer active either.
            let _ = run.outcome().await;
            drop(run);
            slots.state().active.remove(&id);
        });
    }
}

impl RunSlot {
    /// Keeps the slot until the run ends.
    pub(crate) fn keep_for(mut self, run: &RunHandle) {
        let is_new = {
            let mut state = self.slots.state();
            state.reserved -= 1;
            self.is_reserved = false;
            state.active.insert(run.id())
        };
        if is_new {
            self.slots.release_after(run.clone());
        }
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        if self.is_reserved {
            self.slots.state().reserved -= 1;
        }
    }
}

//! One after another: between the look at a file and its replacement nobody else replaces it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by all that may change the same files. It is held for a look and a renaming only, never while content is written or a
/// future waits, so that one is enough for all workspaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteLock(Arc<Mutex<()>>);

impl WriteLock {
    /// Until the guard is dropped, everybody else with this lock waits.
    pub(super) fn alone(&self) -> MutexGuard<'_, ()> {
        // It guards no data that a panic could have left half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! One after another: between the look at a file and its replacement nobody else in this process replaces it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held for a look and a renaming only, never while content is written or a future waits, so that one is enough for all workspaces
/// and all tools, whoever made them.
static REPLACING: Mutex<()> = Mutex::new(());

/// Until the guard is dropped, everybody else who asks for one waits.
pub(super) fn lock_replacing() -> MutexGuard<'static, ()> {
    // It guards no data that a panic could have left half-changed.
    REPLACING.lock().unwrap_or_else(PoisonError::into_inner)
}

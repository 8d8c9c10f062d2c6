//! The lock that makes the check and the replacement of a file atomic within this process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One lock for all workspaces and tools. It is held only for a check and a rename, never while content is
/// written or a future is awaited.
static REPLACING: Mutex<()> = Mutex::new(());

/// Takes the lock; it is released when the guard is dropped.
pub(super) fn lock_replacing() -> MutexGuard<'static, ()> {
    // The lock guards no data, so a panic cannot leave inconsistent data behind.
    REPLACING.lock().unwrap_or_else(PoisonError::into_inner)
}

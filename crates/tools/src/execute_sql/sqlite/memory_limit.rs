//! The memory limit of a statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum growth of the process while a statement runs, in KiB.
const MAX_GROWTH: u64 = 512 * 1024;

/// Limits the growth of the whole process, because the memory of a single thread is unknown. The growth of
/// other threads also counts, so a statement may be ended too early, but never too late.
#[derive(Clone)]
pub(super) struct MemoryLimit {
    #[cfg(target_os = "linux")]
    status: Option<Arc<std::fs::File>>,
    before: u64,
    was_exceeded: Arc<AtomicBool>,
}

impl MemoryLimit {
    /// Starts measuring. Must be called before the thread is confined, because a confined thread cannot open `/proc/self/status`.
    pub(super) fn start() -> Self {
        let mut memory = MemoryLimit {
            #[cfg(target_os = "linux")]
            status: std::fs::File::open("/proc/self/status").ok().map(Arc::new),
            before: 0,
            was_exceeded: Arc::default(),
        };
        memory.before = memory.resident().unwrap_or(0);
        memory
    }

    /// Checks whether the process has grown too much since the start.
    pub(super) fn is_exceeded(&self) -> bool {
        let too_much = self
            .resident()
            .is_some_and(|now| now.saturating_sub(self.before) > MAX_GROWTH);
        self.was_exceeded.fetch_or(too_much, Ordering::Relaxed);
        too_much
    }

    /// Returns true if any check found the limit exceeded.
    pub(super) fn was_exceeded(&self) -> bool {
        self.was_exceeded.load(Ordering::Relaxed)
    }

    /// Returns the resident memory of the process, in KiB. `None` if unknown.
    #[cfg(target_os = "linux")]
    fn resident(&self) -> Option<u64> {
        use std::os::unix::fs::FileExt;
        let mut bytes = [0; 4096];
        let read = self.status.as_ref()?.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes[..read]).ok()?;
        let (_, rest) = text.split_once("VmRSS:")?;
        rest.split_whitespace().next()?.parse().ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn resident(&self) -> Option<u64> {
        None
    }
}

//! How much memory a statement takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// By how many KiB the process may grow while a statement runs.
const MAX_GROWTH: u64 = 512 * 1024;

/// What the whole process takes, as a thread's own share is not known: others that grow meanwhile count as well, which ends statements
/// early rather than late.
#[derive(Clone)]
pub(super) struct MemoryLimit {
    #[cfg(target_os = "linux")]
    status: Option<Arc<std::fs::File>>,
    before: u64,
    was_exceeded: Arc<AtomicBool>,
}

impl MemoryLimit {
    /// From now on. A confined thread could not look any more, so that it is made before.
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

    /// Whether the process has grown too much since.
    pub(super) fn is_exceeded(&self) -> bool {
        let too_much = self
            .resident()
            .is_some_and(|now| now.saturating_sub(self.before) > MAX_GROWTH);
        self.was_exceeded.fetch_or(too_much, Ordering::Relaxed);
        too_much
    }

    /// Whether it ever had where that was looked at.
    pub(super) fn was_exceeded(&self) -> bool {
        self.was_exceeded.load(Ordering::Relaxed)
    }

    /// In KiB, where the system says.
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

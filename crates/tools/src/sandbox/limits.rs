//! Resource limits of a command. Its processes inherit them and cannot raise them.

use rustix::io::{Errno, Result};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::settings::Sandbox;

const GIB: u64 = 1 << 30;
const DEFAULT_MAX_MEMORY: u64 = 16 * GIB;
const DEFAULT_MAX_FILE: u64 = 8 * GIB;
/// Default number of processes and threads that may run in addition to those already running on the machine
/// when a command starts.
const DEFAULT_ADDED_PROCESSES: u64 = 4096;

pub(super) struct ResourceLimits([(Resource, Rlimit); 4]);

impl ResourceLimits {
    /// Creates the limits from the settings, capped at Dirigent's own limits.
    pub(super) fn from_sandbox(sandbox: &Sandbox) -> Self {
        let processes = sandbox
            .max_processes
            .unwrap_or_else(|| count_tasks().saturating_add(DEFAULT_ADDED_PROCESSES));
        let limits = [
            (Resource::Core, 0),
            (Resource::Data, sandbox.max_memory.unwrap_or(DEFAULT_MAX_MEMORY)),
            (Resource::Fsize, sandbox.max_file.unwrap_or(DEFAULT_MAX_FILE)),
            (Resource::Nproc, processes),
        ];
        ResourceLimits(limits.map(|(resource, wanted)| {
            let ours = getrlimit(resource);
            let capped = Some(ours.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
            let limit = Rlimit {
                current: capped,
                maximum: capped,
            };
            (resource, limit)
        }))
    }

    /// Applies the limits to a process.
    pub(super) fn set(&self, process: Pid) -> Result<()> {
        for (resource, limit) in &self.0 {
            match prlimit(Some(process), *resource, *limit) {
                // `SRCH`: the process has already ended.
                Ok(_) | Err(Errno::SRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Counts the processes and threads on the machine.
fn count_tasks() -> u64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = load.split(' ').nth(3).and_then(|tasks| tasks.split_once('/'));
    tasks.and_then(|(_, all)| all.parse().ok()).unwrap_or_default()
}

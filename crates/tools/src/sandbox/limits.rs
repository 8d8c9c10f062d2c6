//! The resources of a command's processes: each process inherits them, and none can raise them.

use rustix::io::{Errno, Result};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::Sandbox;

const GIB: u64 = 1 << 30;
const MAX_MEMORY: u64 = 16 * GIB;
const MAX_FILE: u64 = 8 * GIB;
const MORE_PROCESSES: u64 = 4096;

/// What a process may use.
pub(super) struct ResourceLimits([(Resource, Rlimit); 4]);

impl ResourceLimits {
    /// Those of a command, which are no higher than ours.
    pub(super) fn from_sandbox(sandbox: &Sandbox) -> Self {
        let processes = sandbox
            .max_processes
            .unwrap_or_else(|| processes().saturating_add(MORE_PROCESSES));
        let limits = [
            (Resource::Core, 0),
            (Resource::Data, sandbox.max_memory.unwrap_or(MAX_MEMORY)),
            (Resource::Fsize, sandbox.max_file.unwrap_or(MAX_FILE)),
            (Resource::Nproc, processes),
        ];
        ResourceLimits(limits.map(|(resource, most)| {
            let ours = getrlimit(resource);
            let most = Some(ours.maximum.map_or(most, |maximum| maximum.min(most)));
            let limit = Rlimit {
                current: most,
                maximum: most,
            };
            (resource, limit)
        }))
    }

    /// Sets them for a process.
    pub(super) fn set(&self, process: Pid) -> Result<()> {
        for (resource, limit) in &self.0 {
            match prlimit(Some(process), *resource, *limit) {
                // It has ended already.
                Ok(_) | Err(Errno::SRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// How many processes and threads there are on the machine.
fn processes() -> u64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = load.split(' ').nth(3).and_then(|tasks| tasks.split_once('/'));
    tasks.and_then(|(_, all)| all.parse().ok()).unwrap_or_default()
}

//! The resources of a command's processes: each process inherits them, and none can raise them.

use rustix::io::Result;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::Sandbox;

const GIB: u64 = 1 << 30;
const MAX_MEMORY: u64 = 16 * GIB;
const MAX_FILE: u64 = 8 * GIB;
const MORE_PROCESSES: u64 = 4096;

/// Sets the limits of a process that was started this moment. What it does in the few microseconds before is not limited, which is less
/// than it takes to load its libraries.
pub(super) fn set(process: Pid, sandbox: &Sandbox) -> Result<()> {
    let processes = sandbox
        .max_processes
        .unwrap_or_else(|| processes().saturating_add(MORE_PROCESSES));
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Data, sandbox.max_memory.unwrap_or(MAX_MEMORY)),
        (Resource::Fsize, sandbox.max_file.unwrap_or(MAX_FILE)),
        (Resource::Nproc, processes),
    ] {
        let ours = getrlimit(resource);
        let most = Some(ours.maximum.map_or(most, |maximum| maximum.min(most)));
        let limit = Rlimit {
            current: most,
            maximum: most,
        };
        match prlimit(Some(process), resource, limit) {
            // It has ended already.
            Ok(_) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How many processes and threads there are on the machine.
fn processes() -> u64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = load.split(' ').nth(3).and_then(|tasks| tasks.split_once('/'));
    tasks.and_then(|(_, all)| all.parse().ok()).unwrap_or_default()
}

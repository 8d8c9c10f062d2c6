//! The resources of a command's processes: each process inherits them, and none can raise them.

use rustix::io::{Errno, Result};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::Sandbox;
use super::domain::Domain;

const GIB: u64 = 1 << 30;
const MAX_MEMORY: u64 = 16 * GIB;
const MAX_FILE: u64 = 8 * GIB;
const MORE_PROCESSES: u64 = 4096;

/// How often to look for processes that were started before their parent had its limits.
const PASSES: u32 = 10;

/// What a process may use.
pub(super) struct Limits([(Resource, Rlimit); 4]);

impl Limits {
    /// Those of a command, which are no higher than ours.
    pub(super) fn of(sandbox: &Sandbox) -> Self {
        let processes = sandbox
            .max_processes
            .unwrap_or_else(|| processes().saturating_add(MORE_PROCESSES));
        let limits = [
            (Resource::Core, 0),
            (Resource::Data, sandbox.max_memory.unwrap_or(MAX_MEMORY)),
            (Resource::Fsize, sandbox.max_file.unwrap_or(MAX_FILE)),
            (Resource::Nproc, processes),
        ];
        Limits(limits.map(|(resource, most)| {
            let ours = getrlimit(resource);
            let most = Some(ours.maximum.map_or(most, |maximum| maximum.min(most)));
            let limit = Rlimit {
                current: most,
                maximum: most,
            };
            (resource, limit)
        }))
    }

    /// Sets them for a process that was started this moment. What it does in the few microseconds before is not limited, which is less
    /// than it takes to load its libraries. Returns whether it had them already.
    pub(super) fn set(&self, process: Pid) -> Result<bool> {
        let mut had_all = true;
        for (resource, limit) in &self.0 {
            match prlimit(Some(process), *resource, *limit) {
                Ok(before) => had_all &= before.maximum == limit.maximum,
                // It has ended already, or has lowered its own.
                Err(Errno::SRCH | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(had_all)
    }

    /// Sets them for the processes of a domain until all have them: under load the first may have started others before it got its own.
    pub(super) fn set_for_all(&self, domain: &Domain) -> Result<()> {
        for _ in 0..PASSES {
            let mut had_all = true;
            for process in domain.processes() {
                had_all &= self.set(process)?;
            }
            if had_all {
                break;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::{fs, thread};

    use rustix::process::Signal;

    use super::*;

    /// As if a process had started another before it got its limits.
    #[test]
    fn what_was_started_before_the_limits_gets_them_too() {
        let limits = Limits::of(&Sandbox {
            max_file: Some(4096),
            ..Sandbox::default()
        });
        thread::spawn(move || {
            let domain = Domain::enter(None).unwrap();
            let mut child = Command::new("sh")
                .args(["-c", "sleep 1000 & echo started; wait"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdout.take().unwrap().read_exact(&mut [0; 8]).unwrap();
            limits.set_for_all(&domain).unwrap();
            let limited = domain.processes().into_iter().filter(|process| {
                let limits =
                    fs::read_to_string(format!("/proc/{}/limits", process.as_raw_nonzero())).unwrap();
                let of_files = limits
                    .lines()
                    .find(|line| line.starts_with("Max file size"))
                    .unwrap();
                of_files.split_whitespace().skip(3).take(2).eq(["4096", "4096"])
            });
            assert_eq!(limited.count(), 2);
            domain.signal(Signal::KILL);
            child.wait().unwrap();
        })
        .join()
        .unwrap();
    }
}

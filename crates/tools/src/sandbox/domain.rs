//! The Landlock domain of a command, seen from within: what shuts the calling thread in, and finds and ends what else is in it.

use std::fs;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, kill_process_group, test_kill_process};

use super::AccessRules;

/// The newest rights that commands are denied where the kernel has them. Those after it are about sockets, which have a filter.
const NEWEST_ABI: ABI = ABI::V5;
/// Harmless devices.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// The domain that the calling thread is in. It is of no use to any other thread, and cannot leave it.
pub(super) struct Domain {
    /// Whether signals reach this domain and nothing else.
    scoped: bool,
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

impl Domain {
    /// Shuts the calling thread in, and all that it starts from now on. Without a reach there is no limit for files: the domain is there
    /// to know its processes.
    pub(super) fn enter(rules: Option<&AccessRules>) -> Result<Self, String> {
        match ruleset(rules, true) {
            Ok(ruleset) => Domain::from_ruleset(ruleset, true),
            Err(_) => Domain::from_ruleset(ruleset(rules, false).map_err(|error| error.to_string())?, false),
        }
    }

    fn from_ruleset(ruleset: RulesetCreated, scoped: bool) -> Result<Self, String> {
        // What the supervisor itself is denied is part of its work and nothing for the system's log, where the kernel can leave it out.
        let ruleset = ruleset.set_compatibility(CompatLevel::BestEffort);
        let ruleset = ruleset.log_same_exec(false).map_err(|error| error.to_string())?;
        let status = ruleset.restrict_self().map_err(|error| error.to_string())?;
        match status.ruleset {
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {}
            RulesetStatus::NotEnforced => return Err("the kernel did not enforce the rules".to_owned()),
        }
        let domain = Domain {
            scoped,
            _of_this_thread: std::marker::PhantomData,
        };
        domain.verify_isolation()?;
        Ok(domain)
    }

    /// Our parent is outside of every domain of ours. A kernel that lets us at it would have us end everything that the user runs.
    fn verify_isolation(&self) -> Result<(), String> {
        let Some(parent) = getppid() else { return Ok(()) };
        if self.scoped && test_kill_process(parent).is_ok() || is_in_domain(parent) {
            return Err("the kernel enforces the rules for files alone".to_owned());
        }
        Ok(())
    }

    /// Sends a signal to every process of the domain but our own.
    pub(super) fn signal(&self, signal: Signal) {
        if self.scoped {
            // To process group 1, which is how -1 is written: every process that we may signal, and that is this domain.
            let _ = kill_process_group(Pid::INIT, signal);
            return;
        }
        for process in self.processes() {
            let _ = kill_process(process, signal);
        }
    }

    /// The processes of the domain that have not ended, without our own.
    pub(super) fn processes(&self) -> Vec<Pid> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        ids.filter_map(Pid::from_raw)
            .filter(|process| *process != getpid() && is_in_domain(*process))
            .collect()
    }
}

/// Whether a process has not ended and is in the calling thread's domain, or in one within it: Landlock lets nobody look at others.
fn is_in_domain(process: Pid) -> bool {
    fs::read_link(format!("/proc/{}/cwd", process.as_raw_nonzero())).is_ok()
}

fn ruleset(rules: Option<&AccessRules>, scoped: bool) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if scoped {
        ruleset = ruleset.scope(Scope::Signal)?;
    }
    let Some(rules) = rules else {
        // A domain must be about something: this one allows what it is about.
        let ruleset = ruleset.handle_access(AccessFs::MakeBlock)?.create()?;
        return match PathFd::new("/") {
            Ok(root) => ruleset.add_rule(PathBeneath::new(root, AccessFs::MakeBlock)),
            Err(_) => Ok(ruleset),
        };
    };
    let ruleset = ruleset
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST_ABI))?
        .create()?
        .set_compatibility(CompatLevel::BestEffort);
    ruleset
        .add_rules(path_beneath_rules(&rules.read, AccessFs::from_read(NEWEST_ABI)))?
        .add_rules(path_beneath_rules(&rules.write, write_access()))?
        .add_rules(path_beneath_rules(
            DEVICES,
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
        ))
}

/// All rights but those to make a device of one's own and to use it: root could reach its disks by one.
fn write_access() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST_ABI) & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Command;
    use std::thread;

    use super::*;

    /// As on kernels whose domains have no scope.
    #[test]
    fn without_a_scope_each_process_of_the_domain_is_found() {
        let of_another = Command::new("sleep").arg("1000").spawn();
        thread::spawn(|| {
            let domain = Domain::from_ruleset(ruleset(None, false).unwrap(), false).unwrap();
            let mut child = Command::new("setsid")
                .args(["env", "-i", "sleep", "1000"])
                .spawn()
                .unwrap();
            assert_eq!(domain.processes().len(), 1);
            domain.signal(Signal::KILL);
            assert_eq!(child.wait().unwrap().code(), None);
            assert_eq!(domain.processes(), []);
        })
        .join()
        .unwrap();
        let mut of_another = of_another.unwrap();
        assert_eq!(of_another.try_wait().unwrap(), None);
        of_another.kill().unwrap();
        of_another.wait().unwrap();
    }
}

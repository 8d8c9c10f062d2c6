//! Landlock domains: enters a domain, and finds and signals the other processes in it.

use std::fs;
use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, kill_process_group, test_kill_process};

use super::access_rules::AccessRules;

/// The newest Landlock ABI whose access rights are restricted, as far as the kernel supports them. Later ABIs add rights for sockets, which
/// the seccomp filter covers.
const NEWEST_ABI: ABI = ABI::V5;
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// The Landlock domain of the calling thread. The thread cannot leave it, and the value is usable only on that thread.
pub(super) struct Domain {
    /// Whether the kernel confines signals to this domain.
    scoped: bool,
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

impl Domain {
    /// Confines the calling thread and all processes that it starts from now on. Without rules, file access
    /// is not limited, and the domain only serves to find the processes.
    pub(super) fn enter(rules: Option<&AccessRules>) -> Result<Self, String> {
        match ruleset(rules, true) {
            Ok(ruleset) => Domain::from_ruleset(ruleset, true),
            Err(_) => Domain::from_ruleset(ruleset(rules, false).map_err(|error| error.to_string())?, false),
        }
    }

    fn from_ruleset(ruleset: RulesetCreated, scoped: bool) -> Result<Self, String> {
        // Denials of the supervisor itself are expected, so they are kept out of the system's log if the kernel supports it.
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

    /// Checks the isolation, with Dirigent's parent process as the test case. This process is never in the
    /// domain, so the domain must not be able to signal it, nor count it as one of its own processes.
    /// Otherwise ending the domain would kill all of the user's processes.
    fn verify_isolation(&self) -> Result<(), String> {
        let Some(parent) = getppid() else { return Ok(()) };
        if self.scoped && test_kill_process(parent).is_ok() || is_in_domain(parent) {
            return Err("the kernel does not isolate the domain's processes".to_owned());
        }
        Ok(())
    }

    /// Sends a signal to all processes of the domain except Dirigent's own.
    pub(super) fn signal(&self, signal: Signal) {
        if self.scoped {
            // For process group 1, this is `kill(-1, …)`, which signals all processes that this thread may
            // signal. These are the processes of the domain.
            let _ = kill_process_group(Pid::INIT, signal);
            return;
        }
        for process in self.processes() {
            let _ = kill_process(process, signal);
        }
    }

    /// Lists the running processes of the domain, without Dirigent's own.
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

/// Returns true if a process is running and is in the calling thread's domain or in a nested one. Landlock denies access to
/// `/proc/<pid>/cwd` for all other processes.
fn is_in_domain(process: Pid) -> bool {
    fs::read_link(format!("/proc/{}/cwd", process.as_raw_nonzero())).is_ok()
}

fn ruleset(rules: Option<&AccessRules>, scoped: bool) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if scoped {
        ruleset = ruleset.scope(Scope::Signal)?;
    }
    let Some(rules) = rules else {
        // A domain must restrict at least one right, so this domain restricts a right, and then allows it
        // everywhere.
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

/// Returns all rights except those to create and control devices, with which root could access disks
/// directly.
fn write_access() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST_ABI) & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev)
}

/// Irrevocably limits the calling thread's file access to `folder`, and to reading `readable`. Missing paths
/// in `readable` are ignored, and a kernel without Landlock confines nothing.
pub(crate) fn confine_thread(folder: &Path, readable: &[&str]) -> io::Result<()> {
    // ABI 1 suffices, because with it, Landlock denies all moves between folders, and SQLite truncates only
    // files that it has opened.
    let all = AccessFs::from_all(ABI::V1);
    let restrict = || {
        Ruleset::default()
            .handle_access(all)?
            .create()?
            .add_rule(PathBeneath::new(PathFd::new(folder)?, all))?
            .add_rules(path_beneath_rules(readable, AccessFs::from_read(ABI::V1)))?
            .restrict_self()
            .map_err(Box::<dyn std::error::Error + Send + Sync>::from)
    };
    restrict().map(drop).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Command;
    use std::thread;

    use super::*;

    /// Covers kernels that cannot limit signals to a domain.
    #[test]
    fn finds_each_process_of_a_domain_without_signal_scope() {
        let outsider = Command::new("sleep").arg("1000").spawn();
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
        let mut outsider = outsider.unwrap();
        assert_eq!(outsider.try_wait().unwrap(), None);
        outsider.kill().unwrap();
        outsider.wait().unwrap();
    }

    #[test]
    fn a_confined_thread_reaches_only_its_folder() {
        let (workspace, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (ours, theirs) = (workspace.path().join("ours"), outside.path().join("theirs"));
        fs::write(&theirs, "unchanged").unwrap();
        let (folder, victim) = (workspace.path().to_owned(), theirs.clone());
        std::thread::spawn(move || {
            confine_thread(&folder, &[]).unwrap();
            fs::write(&ours, "written").unwrap();
            fs::remove_file(&ours).unwrap();
            assert!(fs::read(&victim).is_err());
            assert!(fs::remove_file(&victim).is_err());
        })
        .join()
        .unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "unchanged");
    }
}

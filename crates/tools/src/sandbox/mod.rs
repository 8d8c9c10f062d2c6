//! The sandbox of the commands that agents run: it limits their files, network and resources, and makes sure that all their processes end.
//!
//! The operating system enforces the limits, so they do not depend on parsing the command line. The run's policy decides which commands
//! need approval.
//!
//! On Linux each command is started by its own thread, the [supervisor](supervisor::SandboxSupervisor), which first enters a Landlock
//! domain and installs a seccomp filter. All processes that the thread starts, and their descendants, inherit both and cannot remove them.
//! No code of Dirigent runs between `fork` and `exec`. Resource limits are set while `/bin/sh` waits for a line of input, before it `exec`s
//! the [`Program`]. If the kernel cannot execute the program's file, the shell runs it as a shell script.
//!
//! The domain also ensures that no process outlives its command. A process can leave its process group and
//! its session, and lose its parent, but not leave its domain. From within a domain that is scoped for
//! signals, `kill(-1, SIGKILL)` reaches exactly the other processes of the domain, in one step, so that no
//! `fork` can escape it. The supervisor thread lives as long as the command, so that it can send this signal
//! from within the domain. Process groups and sessions are left alone, so `timeout`, job control and test
//! runners work as usual.
//!
//! | kernel | files | signals to other processes | end of the processes |
//! | --- | --- | --- | --- |
//! | Linux 6.12 and newer (Landlock ABI 6) | confined | refused | all at once |
//! | Linux 5.13 and newer | confined | allowed as for the user | the process group at once, then each process found in the domain |
//! | others, only with [`Confinement::Off`] | – | allowed as for the user | the process group, without processes that left it |
//!
//! Before Linux 6.12 a command can therefore signal, and kill, Dirigent itself, other commands, and other programs of the user.
//!
//! Before Linux 5.19 commands cannot move or link files between folders, and before 6.2 they can truncate any file that the user may write.
//! Landlock does not hide metadata: `stat` shows whether a file exists, its size and its times, and `ps` shows other processes. Root can
//! read everything in the system's folders. If Dirigent is killed, its commands keep running.

mod access_rules;
#[cfg(target_os = "linux")]
mod domain;
mod error;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod privileges;
mod program;
mod program_path;
#[cfg(target_os = "linux")]
mod seccomp;
mod settings;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod supervisor;

pub(crate) use access_rules::AccessRules;
#[cfg(target_os = "linux")]
pub(crate) use domain::confine_thread;
pub(crate) use error::SpawnError;
pub(crate) use program::Program;
pub(crate) use program_path::{locate_program, search_path};
pub use settings::{Confinement, Sandbox};
pub(crate) use supervisor::SandboxSupervisor;
#[cfg(not(target_os = "linux"))]
pub(crate) use supervisor::confine_thread;

impl Sandbox {
    /// Checks whether this system can confine commands, by confining a short-lived thread. The result does
    /// not depend on the settings.
    ///
    /// # Errors
    ///
    /// A message for people that names what is missing.
    pub fn check() -> Result<(), String> {
        supervisor::check()
    }
}

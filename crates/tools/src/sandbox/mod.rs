//! What bounds the commands that agents run, whatever they are: files, network, resources, and an end that is certain.
//!
//! It is for the system to enforce, never for a look at the command line. What must be asked is another matter: the run's policy.
//!
//! On Linux a command is started by a thread of its own, its [supervisor](supervisor::SandboxSupervisor), which has shut itself into a Landlock domain
//! and behind a seccomp filter before that: what a thread starts, and all that descends from it, is in the same domain and behind the
//! same filter, and nothing leads out of either. Nothing runs between `fork` and `exec`. The
//! limits of its resources are set while `/bin/sh`, which every such system has, waits to become the [`Program`]; a file that is no
//! program to the system is a script to it.
//!
//! The domain is what makes the end of a command certain, too. A process can leave its group and its session, and lose its parent,
//! but not its domain. From within a domain that has the scope of signals, `kill(-1, SIGKILL)` reaches the processes of that domain
//! and no other, in one step that no `fork` can outrun. The supervisor stays for as long as the command to do that. Process groups and
//! sessions are left alone, so that `timeout`, job control and test runners work as anywhere.
//!
//! | kernel | files | signals to others | end of the processes |
//! | --- | --- | --- | --- |
//! | Linux 6.12 and newer (Landlock's ABI 6) | confined | refused | all at once |
//! | Linux 5.13 and newer | confined | those that the user may send | the group at once, then each that is found in the domain |
//! | others, only with [`Confinement::Off`] | – | those that the user may send | the process group, without what left it |
//!
//! Before Linux 6.12 a command can thus signal, and end, Dirigent itself, whatever else the user runs, and other commands.
//!
//! Before Linux 5.19 commands cannot move or link files from one folder to another, and before 6.2 they can empty files anywhere that they
//! may write as the user. Landlock does not hide names: whether a file exists, its size and its times are seen by `stat`, and
//! of other processes what `ps` shows. Root reads all that is in the system's folders. Nothing ends a command whose Dirigent is killed.

mod access_rules;
#[cfg(target_os = "linux")]
mod domain;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod privileges;
mod program;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod supervisor;

use std::io;
use std::path::PathBuf;

pub(crate) use access_rules::AccessRules;
pub(crate) use program::Program;
pub(crate) use supervisor::SandboxSupervisor;

/// What commands may reach. The default is the narrowest that builds and tests run in: the workspace and a folder of their own for
/// temporary files are writable, the system's files and toolchains readable, and there is no network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether there is one.
    pub confinement: Confinement,
    /// Whether commands can use the network. Local services, such as Docker's, are reached by the same means.
    pub network: bool,
    /// Further files and folders that commands can read and run programs of; `~/` is the user's home. What does not exist is left out.
    pub read: Vec<PathBuf>,
    /// Further files and folders that commands can read and write. What does not exist is left out.
    pub write: Vec<PathBuf>,
    /// Further environment variables that commands get, by their names, which are identifiers: a shell drops others.
    pub environment: Vec<String>,
    /// How much memory each process may hold as data, in bytes; 16 GiB by default.
    pub max_memory: Option<u64>,
    /// How large a file may become, in bytes; 8 GiB by default.
    pub max_file: Option<u64>,
    /// How many processes and threads the user may have before commands can start no more; by default 4096 more than there are on the
    /// machine when a command begins. The system does not count for root.
    pub max_processes: Option<u64>,
}

impl Sandbox {
    /// Whether this system can confine commands, as far as trying it tells, whatever the settings are. It takes a moment and changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// What is missing, in words for people.
    pub fn check() -> Result<(), String> {
        supervisor::check()
    }
}

/// Whether commands run where the system confines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Yes, or not at all: a system that cannot is an error.
    #[default]
    Required,
    /// They can do whatever the user can, except to signal processes that they did not start and to gain rights by `sudo` and the like.
    Off,
}

/// Why a command was not started.
#[derive(Debug)]
pub(crate) enum SpawnError {
    /// The system cannot confine it; what is missing.
    SandboxUnavailable(String),
    /// The system said no.
    Io(io::Error),
}

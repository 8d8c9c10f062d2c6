//! The user's settings for the sandbox.

use std::path::PathBuf;

/// Access and limits of the commands that agents run.
///
/// The default is the narrowest that builds and tests can run with: commands can write to the workspace and to a temporary folder of
/// their own, read the system's files and toolchains, and have no network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether commands are confined.
    pub confinement: Confinement,
    /// Whether commands can use the network, including local services such as Docker's.
    pub network: bool,
    /// Additional files and folders that commands can read and run programs from; `~/` is the user's home. Missing paths are ignored.
    pub read: Vec<PathBuf>,
    /// Additional files and folders that commands can read and write. Missing paths are ignored.
    pub write: Vec<PathBuf>,
    /// Names of additional environment variables passed to commands. They must be identifiers: a shell drops other names.
    pub environment: Vec<String>,
    /// Maximum data memory of each process, in bytes; 16 GiB by default.
    pub max_memory: Option<u64>,
    /// Maximum size of a file, in bytes; 8 GiB by default.
    pub max_file: Option<u64>,
    /// Maximum number of processes and threads of the user, beyond which commands can start no more. The default is 4096 more than the
    /// machine runs when a command begins. Has no effect for root.
    pub max_processes: Option<u64>,
}

/// Whether the system confines commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Commands run confined; if the system cannot confine them, they fail.
    #[default]
    Required,
    /// Commands can do whatever the user can, except signal processes that they did not start and gain rights with `sudo` and the like.
    Off,
}

//! The user's settings for the sandbox.

use std::path::PathBuf;

/// Access and limits of the commands that agents run.
///
/// The default is the narrowest access with which builds and tests can run: commands can write to the workspace and to a private temporary
/// folder, read the system's files and toolchains, and have no network.
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
    /// Names of additional environment variables passed to commands. They must be identifiers, because a
    /// shell drops other names.
    pub environment: Vec<String>,
    /// Maximum data memory of each process, in bytes; 16 GiB by default.
    pub max_memory: Option<u64>,
    /// Maximum size of a file, in bytes; 8 GiB by default.
    pub max_file: Option<u64>,
    /// Maximum number of processes and threads of the user; commands cannot start more once it is reached. The default is 4096 more than
    /// the number running on the machine when a command starts. Has no effect for root.
    pub max_processes: Option<u64>,
}

/// Whether the system confines commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Commands run confined; if the system cannot confine them, they fail.
    #[default]
    Required,
    /// Commands run with the user's rights. Where Landlock is available, they still cannot gain more rights, with `sudo` for example, and
    /// on Linux 6.12 and newer they cannot signal processes that they did not start.
    Off,
}

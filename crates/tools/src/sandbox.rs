//! What bounds the commands that agents run, whatever they are: files, network, resources, and an end that is certain.
//!
//! It is for the system to enforce, never for a look at the command line. What must be asked is another matter: the run's policy.

use std::path::PathBuf;

/// What commands may reach. The default is the narrowest that builds and tests run in: the workspace and a folder of their own for
/// temporary files are writable, the system's files and toolchains readable, and there is no network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether there is one.
    pub confinement: Confinement,
    /// Whether commands can use the network. Local services, such as Docker's, are reached by the same means.
    pub network: bool,
    /// Further files and folders that commands can read; `~/` is the user's home.
    pub read: Vec<PathBuf>,
    /// Further files and folders that commands can read and write.
    pub write: Vec<PathBuf>,
    /// Further environment variables that commands get, by their names.
    pub environment: Vec<String>,
    /// How much memory each process may hold as data, in bytes.
    pub max_memory: Option<u64>,
    /// How large a file may become, in bytes.
    pub max_file: Option<u64>,
    /// How many processes the user may have before commands can start no more.
    pub max_processes: Option<u64>,
}

/// Whether commands run where the system confines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Yes, or not at all: a system that cannot is an error.
    #[default]
    Required,
    /// They can do whatever the user can.
    Off,
}

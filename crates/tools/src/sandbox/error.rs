//! Errors of starting a command.

use std::io;

/// Reason why a command was not started.
#[derive(Debug)]
pub(crate) enum SpawnError {
    /// The system cannot confine the command; names what is missing.
    SandboxUnavailable(String),
    Io(io::Error),
}

//! The description of `execute_command` for models. It says what the sandbox denies, so that a model does not have to try.

use std::path::PathBuf;

use crate::sandbox::{Confinement, Sandbox};

/// Returns the description for commands that run in this sandbox.
pub(super) fn description(sandbox: &Sandbox) -> String {
    format!(
        "Runs a command in the workspace. {} The call fails if the exit code is not 0 or the time is up. \
         Processes that the command leaves behind are killed.",
        confinement(sandbox)
    )
}

/// Describes what commands can access.
fn confinement(sandbox: &Sandbox) -> String {
    match sandbox.confinement {
        Confinement::Off => "It is not confined.".to_owned(),
        Confinement::Required => {
            let network = if sandbox.network {
                "can use the network"
            } else {
                "has no network, not even local services"
            };
            format!(
                "It {network}, writes only to the workspace{} and $TMPDIR, and reads only these, the system and toolchains{}. \
                 Changes to git's hooks and settings are undone.",
                paths(&sandbox.write),
                paths(&sandbox.read)
            )
        }
    }
}

/// Formats additional paths for the middle of a list.
fn paths(paths: &[PathBuf]) -> String {
    let quoted = paths.iter().map(|path| format!(", `{}`", path.display()));
    quoted.collect()
}

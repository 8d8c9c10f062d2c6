//! What there is of a sandbox on systems other than Linux: commands are started unconfined, where that is allowed, and end with their
//! process group.

use process_wrap::tokio::ChildWrapper;
use rustix::process::Signal;

use super::{AccessRules, Confinement, Program, Sandbox, SpawnError};

/// Stands for the thread that keeps a command on Linux.
pub(crate) struct SandboxSupervisor;

impl SandboxSupervisor {
    pub(crate) async fn start(
        sandbox: Sandbox,
        rules: AccessRules,
        program: Program,
    ) -> Result<(Self, Box<dyn ChildWrapper>), SpawnError> {
        match sandbox.confinement {
            Confinement::Required => Err(SpawnError::SandboxUnavailable(
                "only Linux has Landlock".to_owned(),
            )),
            Confinement::Off => {
                let child = program.start().map_err(SpawnError::Io)?;
                Ok((SandboxSupervisor, child))
            }
        }
    }

    pub(crate) fn signal(&self, _signal: Signal) -> bool {
        false
    }

    pub(crate) async fn end(&mut self) -> usize {
        0
    }
}

/// Whether this system can confine.
pub(super) fn check() -> Result<(), String> {
    Err("only Linux has Landlock".to_owned())
}

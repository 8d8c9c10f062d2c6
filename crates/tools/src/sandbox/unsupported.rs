//! The sandbox on systems other than Linux: commands run unconfined, if the settings allow it, and are killed with their process group.

use std::io;
use std::path::Path;

use process_wrap::tokio::ChildWrapper;
use rustix::process::Signal;

use super::access_rules::AccessRules;
use super::error::SpawnError;
use super::program::Program;
use super::settings::{Confinement, Sandbox};

/// The counterpart of the supervisor on Linux, without a thread or a domain.
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

/// Returns an error, because this system cannot confine commands.
pub(super) fn check() -> Result<(), String> {
    Err("only Linux has Landlock".to_owned())
}

/// Does nothing, because only Linux can confine a thread.
pub(crate) fn confine_thread(_: &Path, _: &[&str]) -> io::Result<()> {
    Ok(())
}

//! What there is of a sandbox on systems other than Linux: commands are started unconfined, where that is allowed, and end with their
//! process group.

use process_wrap::tokio::ChildWrapper;
use rustix::process::Signal;

use super::{Confinement, NotStarted, Program, Reach, Sandbox};

/// Stands for the thread that keeps a command on Linux.
pub(crate) struct Keeper;

impl Keeper {
    pub(crate) async fn start(
        sandbox: Sandbox,
        _reach: Reach,
        program: Program,
    ) -> Result<(Self, Box<dyn ChildWrapper>), NotStarted> {
        match sandbox.confinement {
            Confinement::Required => Err(NotStarted::NoSandbox("only Linux has Landlock".to_owned())),
            Confinement::Off => {
                let child = program.start().map_err(NotStarted::Refused)?;
                Ok((Keeper, child))
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

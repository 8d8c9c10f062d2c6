//! Saying something to a run, wherever it is carried out.

use dirigent_core::id::RunId;
use dirigent_core::steering::Steering;

use crate::error::RuntimeError;
use crate::orchestrator::Orchestrator;

/// What became of something that was said to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steered {
    /// The run has taken it.
    Taken,
    /// Nobody carries the run out at this moment: it is taken as soon as it goes on.
    Waiting,
}

impl Orchestrator {
    /// Says something to a run, here or in another process; one that nobody carries out hears it as soon as it goes on. It is taken
    /// exactly once.
    ///
    /// # Errors
    /// As [`crate::RunHandle::steer`], where another process carries the run out in [`RuntimeError::Refused`]. [`RuntimeError::Journal`].
    pub async fn steer(&self, run: RunId, steering: Steering) -> Result<Steered, RuntimeError> {
        match self.run(run) {
            Some(handle) => handle.steer(steering).await.map(|()| Steered::Taken),
            None => Err(RuntimeError::NotRunning { run }),
        }
    }
}

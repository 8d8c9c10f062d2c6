//! Saying something to a run, wherever it is carried out.

use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::steering::Steering;
use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, MessageId, MessageState, StoreError};

use crate::error::RuntimeError;
use crate::orchestrator::{Orchestrator, blocking};

/// How long to wait for the process that carries the run out; it looks into the run's inbox several times a second.
const SETTLING: Duration = Duration::from_secs(3);

/// What became of something that was said to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steered {
    /// The run has taken it.
    Taken,
    /// Nobody carries the run out at this moment, or its process has not come to it within three seconds: it is taken as soon as the
    /// run goes on.
    Waiting,
}

impl Orchestrator {
    /// Says something to a run, here or in another process; one that nobody carries out hears it as soon as it goes on. It is taken
    /// exactly once.
    ///
    /// # Errors
    /// As [`crate::RunHandle::steer`], where another process carries the run out in [`RuntimeError::Refused`]. [`RuntimeError::Journal`].
    pub async fn steer(&self, run: RunId, steering: Steering) -> Result<Steered, RuntimeError> {
        if let Some(handle) = self.run(run) {
            match handle.steer(steering.clone()).await {
                // It did not hear that, as it is over or stands still by now: the journal knows which.
                Err(RuntimeError::Ended { .. }) => {}
                taken => return taken.map(|()| Steered::Taken),
            }
        }
        let (services, journal) = (self.services(), self.services().journal.clone());
        let at = services.clock.now();
        let (message, held) = blocking(move || post(&journal, run, at, &steering)).await?;
        if !held {
            return Ok(Steered::Waiting);
        }
        match services.journal.settled(message, SETTLING).await? {
            MessageState::Taken => Ok(Steered::Taken),
            MessageState::Refused { reason } => Err(RuntimeError::Refused { run, reason }),
            MessageState::Waiting => Ok(Steered::Waiting),
        }
    }
}

/// The message, and whether anybody carries the run out.
fn post(
    journal: &Journal,
    run: RunId,
    at: Timestamp,
    steering: &Steering,
) -> Result<(MessageId, bool), RuntimeError> {
    #[expect(clippy::expect_used, reason = "plain data, which always serializes")]
    let body = serde_json::to_string(steering).expect("what is said serializes");
    let message = journal.post(run, at, body).map_err(|error| match error {
        StoreError::Over { run } => RuntimeError::Ended { run },
        error => RuntimeError::Journal(error),
    })?;
    Ok((message, journal.run(run)?.held_by.is_some()))
}

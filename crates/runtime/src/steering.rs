//! Saying something to a run, wherever it is carried out.

use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::steering::Steering;
use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, Message, MessageId, MessageState, StoreError};

use crate::error::RuntimeError;
use crate::forking::Past;
use crate::orchestrator::{Orchestrator, blocking};
use crate::supervisor::Rehearsal;

/// How long to wait for the process that carries the run out. It looks into the run's inbox several times a second, but may be slow on a
/// busy machine, or stopped.
const SETTLING: Duration = Duration::from_secs(10);

/// What became of something that was said to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steered {
    /// The run has taken it.
    Taken,
    /// Nobody carries the run out at this moment, or its process has not come to it within ten seconds: it is taken as soon as the
    /// run goes on.
    Waiting,
}

impl Orchestrator {
    /// Says something to a run, here or in another process. It is taken exactly once. One that nobody carries out hears it as soon as
    /// it goes on, after what was said to it before: what would be refused then is refused at once. Such a run is cancelled at
    /// once, too.
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
        let idle = journal.clone();
        if steering == Steering::Cancel && blocking(move || is_idle(&idle, run)).await? {
            match self.cancel_idle(run).await {
                // Somebody has taken it up since.
                Err(RuntimeError::Journal(StoreError::Held { .. })) => {}
                cancelled => return cancelled.map(|()| Steered::Taken),
            }
        }
        if let Steering::Guide { guidance } | Steering::Redirect { guidance } = &steering
            && self.guide_failed(run, guidance.clone()).await?
        {
            return Ok(Steered::Taken);
        }
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

/// Something that was said to a run and waits until a process comes to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Its number in the journal.
    pub message: MessageId,
    /// When it was said.
    pub at: Timestamp,
    /// What was said.
    pub steering: Steering,
}

/// What was said to a run and waits, in that order. Reads the disk: not for an async context.
///
/// # Errors
/// A failure to read.
pub fn kept(journal: &Journal, run: RunId) -> Result<Vec<Kept>, StoreError> {
    let waiting = journal.waiting_messages(run)?;
    Ok(waiting.into_iter().filter_map(understood).collect())
}

/// What a message says. One that is not understood is refused by the process that carries the run out.
fn understood(message: Message) -> Option<Kept> {
    Some(Kept {
        message: message.id,
        at: message.at,
        steering: serde_json::from_str(&message.body).ok()?,
    })
}

/// Whether nobody carries the run out.
fn is_idle(journal: &Journal, run: RunId) -> Result<bool, RuntimeError> {
    // One that has just ended here is given free behind what was written before.
    journal.flush()?;
    Ok(journal.run(run)?.held_by.is_none())
}

/// Leaves a message for a run that goes on only later, if the run would take it then, after all that waits for it. Of two that exclude each
/// other, such as two answers to one question, one is refused, whichever processes they come from.
///
/// # Errors
/// Why the run would not take it; [`RuntimeError::Ended`] and [`RuntimeError::Journal`].
pub(crate) fn post_for_later(
    journal: &Journal,
    run: RunId,
    at: Timestamp,
    steering: &Steering,
) -> Result<MessageId, RuntimeError> {
    loop {
        let waiting = journal.waiting_messages(run)?;
        let last = waiting.last().map(|message| message.id);
        let mut rehearsal = Rehearsal::new(run, Past::read(journal, run)?, at)?;
        for earlier in waiting.into_iter().filter_map(understood) {
            // The run's process refuses it then as well.
            let _ = rehearsal.hear(earlier.steering);
        }
        rehearsal.hear(steering.clone())?;
        match journal.post_after(run, at, body(steering), last) {
            // Somebody has said something meanwhile.
            Err(StoreError::OtherMessages { .. }) => {}
            posted => return posted.map_err(|error| not_posted(run, error)),
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
    let message = if is_idle(journal, run)? {
        post_for_later(journal, run, at, steering)?
    } else {
        let posted = journal.post(run, at, body(steering));
        posted.map_err(|error| not_posted(run, error))?
    };
    Ok((message, journal.run(run)?.held_by.is_some()))
}

#[expect(clippy::expect_used, reason = "plain data, which always serializes")]
fn body(steering: &Steering) -> String {
    serde_json::to_string(steering).expect("what is said serializes")
}

fn not_posted(run: RunId, error: StoreError) -> RuntimeError {
    match error {
        StoreError::Over { .. } => RuntimeError::Ended { run },
        error => RuntimeError::Journal(error),
    }
}

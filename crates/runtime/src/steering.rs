//! Saying something to a run, wherever it is carried out.

use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::steering::Steering;
use dirigent_core::time::Timestamp;
use dirigent_store::{Journal, Message, MessageId, MessageState, StoreError};

use crate::error::RuntimeError;
use crate::forking::ReplayedRun;
use crate::orchestrator::{Orchestrator, blocking};
use crate::supervisor::DryRun;

/// How long to wait for the process that carries the run out. It looks into the run's inbox several times a second, but may be slow on a
/// busy machine, or stopped.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// What became of something that was said to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteerOutcome {
    /// The run has taken it.
    Accepted,
    /// Nobody carries the run out at this moment, or its process has not come to it within ten seconds: it is taken as soon as the
    /// run goes on.
    Pending,
}

impl Orchestrator {
    /// Says something to a run, here or in another process. It is taken exactly once. One that nobody carries out hears it as soon as
    /// it goes on, after what was said to it before: what would be refused then is refused at once. Such a run is cancelled at
    /// once, too.
    ///
    /// # Errors
    /// As [`crate::RunHandle::steer`], where another process carries the run out in [`RuntimeError::MessageRejected`]. [`RuntimeError::Journal`].
    pub async fn steer(&self, run: RunId, steering: Steering) -> Result<SteerOutcome, RuntimeError> {
        if let Some(handle) = self.run(run) {
            match handle.steer(steering.clone()).await {
                // It did not hear that, as it is over or stands still by now: the journal knows which.
                Err(RuntimeError::Ended { .. }) => {}
                taken => return taken.map(|()| SteerOutcome::Accepted),
            }
        }
        let (services, journal) = (self.services(), self.services().journal.clone());
        let idle = journal.clone();
        if steering == Steering::Cancel && blocking(move || is_unowned(&idle, run)).await? {
            match self.cancel_unowned(run).await {
                // Somebody has taken it up since.
                Err(RuntimeError::Journal(StoreError::AlreadyClaimed { .. })) => {}
                cancelled => return cancelled.map(|()| SteerOutcome::Accepted),
            }
        }
        if let Steering::Guide { guidance } | Steering::Redirect { guidance } = &steering
            && self.guide_failed(run, guidance.clone()).await?
        {
            return Ok(SteerOutcome::Accepted);
        }
        let at = services.clock.now();
        let (message, owned) = blocking(move || post(&journal, run, at, &steering)).await?;
        if !owned {
            return Ok(SteerOutcome::Pending);
        }
        match services.journal.wait_settled(message, SETTLE_TIMEOUT).await? {
            MessageState::Accepted => Ok(SteerOutcome::Accepted),
            MessageState::Rejected { reason } => Err(RuntimeError::MessageRejected { run, reason }),
            MessageState::Pending => Ok(SteerOutcome::Pending),
        }
    }
}

/// Something that was said to a run and waits until a process comes to it.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingMessage {
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
pub fn pending_messages(journal: &Journal, run: RunId) -> Result<Vec<PendingMessage>, StoreError> {
    let waiting = journal.pending_messages(run)?;
    Ok(waiting.into_iter().filter_map(parse_message).collect())
}

/// What a message says. One that is not understood is refused by the process that carries the run out.
fn parse_message(message: Message) -> Option<PendingMessage> {
    Some(PendingMessage {
        message: message.id,
        at: message.at,
        steering: serde_json::from_str(&message.body).ok()?,
    })
}

/// Whether nobody carries the run out.
fn is_unowned(journal: &Journal, run: RunId) -> Result<bool, RuntimeError> {
    // One that has just ended here is given free behind what was written before.
    journal.flush()?;
    Ok(journal.run(run)?.owner_pid.is_none())
}

/// Leaves a message for a run that goes on only later, if the run would take it then, after all that waits for it. Of two that exclude each
/// other, such as two answers to one question, one is refused, whichever processes they come from.
///
/// # Errors
/// Why the run would not take it; [`RuntimeError::Ended`] and [`RuntimeError::Journal`].
pub(crate) fn post_for_resume(
    journal: &Journal,
    run: RunId,
    at: Timestamp,
    steering: &Steering,
) -> Result<MessageId, RuntimeError> {
    loop {
        let waiting = journal.pending_messages(run)?;
        let last = waiting.last().map(|message| message.id);
        let mut dry_run = DryRun::new(run, ReplayedRun::read(journal, run)?, at)?;
        for earlier in waiting.into_iter().filter_map(parse_message) {
            // The run's process refuses it then as well.
            let _ = dry_run.handle(earlier.steering);
        }
        dry_run.handle(steering.clone())?;
        match journal.post_after(run, at, body(steering), last) {
            // Somebody has said something meanwhile.
            Err(StoreError::OtherMessages { .. }) => {}
            posted => return posted.map_err(|error| post_error(run, error)),
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
    let message = if is_unowned(journal, run)? {
        post_for_resume(journal, run, at, steering)?
    } else {
        let posted = journal.post(run, at, body(steering));
        posted.map_err(|error| post_error(run, error))?
    };
    Ok((message, journal.run(run)?.owner_pid.is_some()))
}

#[expect(clippy::expect_used, reason = "plain data, which always serializes")]
fn body(steering: &Steering) -> String {
    serde_json::to_string(steering).expect("what is said serializes")
}

fn post_error(run: RunId, error: StoreError) -> RuntimeError {
    match error {
        StoreError::Finished { .. } => RuntimeError::Ended { run },
        error => RuntimeError::Journal(error),
    }
}

//! Messages that wait in the journal for a run's next owner.

use dirigent_core::id::RunId;
use dirigent_core::steering::Steering;
use dirigent_core::time::Timestamp;

use crate::dry_run::DryRun;
use crate::error::RuntimeError;
use crate::json::to_json;
use crate::replayed_run::ReplayedRun;
use crate::run_log::{Message, MessageId, Position, RunClaim, RunLog, RunLogError, RunLogErrorKind};

/// A steering message that no process has handled yet.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingMessage {
    /// The message's id in the journal.
    pub message: MessageId,
    /// The time at which the message was posted.
    pub at: Timestamp,
    /// The content of the message.
    pub steering: Steering,
}

/// Reads the pending messages of a run, oldest first. Messages that cannot be parsed are left out. So are
/// messages about runs that share the workspace, because the run drops these messages when it is resumed.
/// Blocks on disk IO, so async code must not call it directly.
///
/// # Errors
/// An error if the journal cannot be read.
pub fn pending_messages(journal: &dyn RunLog, run: RunId) -> Result<Vec<PendingMessage>, RuntimeError> {
    let pending = journal.pending_messages(run)?;
    let parsed = pending.into_iter().filter_map(parse_message);
    Ok(parsed.filter(|message| !is_about_sharing(message)).collect())
}

/// Rejects the pending messages that informed an earlier owner about runs that share the workspace. The
/// process that resumes the run looks for such runs again. Blocks until the rejections are stored, so that
/// the run's inbox does not return the messages.
pub(crate) fn drop_sharing_messages(
    journal: &dyn RunLog,
    claim: &dyn RunClaim,
    run: RunId,
) -> Result<(), RuntimeError> {
    let pending = journal.pending_messages(run)?;
    let outdated = pending
        .into_iter()
        .filter_map(parse_message)
        .filter(is_about_sharing);
    let outdated: Vec<MessageId> = outdated.map(|message| message.message).collect();
    if outdated.is_empty() {
        return Ok(());
    }
    for message in outdated {
        claim.reject_message(message, "the run was resumed".to_owned());
    }
    Ok(journal.flush()?)
}

fn is_about_sharing(message: &PendingMessage) -> bool {
    matches!(message.steering, Steering::ShareWorkspace { .. })
}

/// Parses a message. `None` if its content is unknown; the run's owner rejects such a message.
fn parse_message(message: Message) -> Option<PendingMessage> {
    Some(PendingMessage {
        message: message.id,
        at: message.at,
        steering: serde_json::from_str(&message.body).ok()?,
    })
}

/// Posts a message to a run that another process owns.
pub(crate) fn post_to_owner(
    journal: &dyn RunLog,
    run: RunId,
    at: Timestamp,
    steering: &Steering,
) -> Result<MessageId, RuntimeError> {
    let posted = journal.post(run, at, to_json(steering), Position::Last);
    posted.map_err(|error| post_error(run, error))
}

/// Posts a message for an unowned run, which handles it once resumed. First, a dry run checks that the run would accept the message after
/// all earlier pending messages. So the second of two conflicting messages, such as two answers to one question, is rejected, even if they
/// come from different processes.
///
/// # Errors
/// The error with which the run would reject the message. [`RuntimeError::Ended`] and [`RuntimeError::Journal`].
pub(crate) fn post_for_resume(
    journal: &dyn RunLog,
    run: RunId,
    at: Timestamp,
    steering: &Steering,
) -> Result<MessageId, RuntimeError> {
    loop {
        let pending = journal.pending_messages(run)?;
        let last = pending.last().map(|message| message.id);
        let mut dry_run = DryRun::new(run, ReplayedRun::read(journal, run)?, at)?;
        for earlier in pending.into_iter().filter_map(parse_message) {
            // If the dry run rejects an earlier message, the run's owner will reject it as well.
            let _ = dry_run.handle(earlier.steering);
        }
        dry_run.handle(steering.clone())?;
        match journal.post(run, at, to_json(steering), Position::After(last)) {
            // Another message was posted in the meantime, so check again after that message.
            Err(error) if error.kind() == RunLogErrorKind::OtherMessages => {}
            posted => return posted.map_err(|error| post_error(run, error)),
        }
    }
}

/// Checks that a run would accept a message after all pending messages, without sending it.
///
/// # Errors
/// The error with which the run would reject the message. [`RuntimeError::Ended`] and [`RuntimeError::Journal`].
pub fn check_message(
    journal: &dyn RunLog,
    run: RunId,
    at: Timestamp,
    steering: Steering,
) -> Result<(), RuntimeError> {
    let mut dry_run = DryRun::new(run, ReplayedRun::read(journal, run)?, at)?;
    for earlier in journal
        .pending_messages(run)?
        .into_iter()
        .filter_map(parse_message)
    {
        // If the dry run rejects an earlier message, the run's owner will reject it as well.
        let _ = dry_run.handle(earlier.steering);
    }
    dry_run.handle(steering)
}

fn post_error(run: RunId, error: RunLogError) -> RuntimeError {
    match error.kind() {
        RunLogErrorKind::Finished => RuntimeError::Ended { run },
        _ => RuntimeError::Journal(error),
    }
}

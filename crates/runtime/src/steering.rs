//! Sends steering messages to runs, whichever process owns them.

use std::time::Duration;

use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{RunId, Scope};
use dirigent_core::journal::InputRef;
use dirigent_core::machine::Machine as _;
use dirigent_core::phase::Phase;
use dirigent_core::run::{Run, RunInput};
use dirigent_core::steering::Steering;
use dirigent_core::time::Timestamp;

use crate::blocking::blocking;
use crate::error::RuntimeError;
use crate::json::to_json;
use crate::orchestrator::Orchestrator;
use crate::pending_messages::{post_for_resume, post_to_owner};
use crate::replayed_run::ReplayedRun;
use crate::resuming::not_resumed;
use crate::run_ending::{end_status, run_ending};
use crate::run_log::{Durability, MessageId, MessageState, NewEntry, RunLog, RunLogError, RunLogErrorKind};
use crate::run_mailbox::{MailboxState, RunMailbox};
use crate::services::RunServices;
use crate::supervisor::{Recovery, ResumedRun, StartMode};
use crate::user_presence::UserPresence;

/// The time to wait for another process to handle a message. A process notices messages within about 200 ms,
/// unless the computer is busy or the process is suspended.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of sending a message to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteerOutcome {
    /// The run has accepted the message.
    Accepted,
    /// The message is waiting in the journal, because no process owns the run, or because its owner has not
    /// handled the message within ten seconds.
    Pending,
}

impl Orchestrator {
    /// Sends a message to a run, whichever process owns it. The message is handled exactly once. If no process owns the run, the message
    /// stays pending until the run is resumed, and is handled after earlier pending messages. If the run would reject the message then, the
    /// rejection is returned at once. A cancellation also takes effect at once.
    ///
    /// # Errors
    /// The errors of [`crate::RunHandle::steer`]. [`RuntimeError::MessageRejected`] if another process rejects the message.
    /// [`RuntimeError::Journal`] if the journal cannot be read or written.
    pub async fn steer(&self, run: RunId, steering: Steering) -> Result<SteerOutcome, RuntimeError> {
        self.ensure_running()?;
        if let Some(handle) = self.run(run) {
            match handle.steer(steering.clone()).await {
                // The run has finished or paused without handling the message. The journal, which is read
                // below, shows whether it finished or paused.
                Err(RuntimeError::Ended { .. }) => {}
                handled => return handled.map(|()| SteerOutcome::Accepted),
            }
        }
        let (services, journal) = (self.services(), self.services().journal.clone());
        let idle = journal.clone();
        if steering == Steering::Cancel && blocking(move || is_unowned(&*idle, run)).await? {
            match self.cancel_unowned(run).await {
                // Another process has resumed the run in the meantime, so post the message to that process.
                Err(RuntimeError::Journal(error)) if error.kind() == RunLogErrorKind::AlreadyClaimed => {}
                cancelled => return cancelled.map(|()| SteerOutcome::Accepted),
            }
        }
        if let Steering::Guide { guidance } | Steering::Redirect { guidance } = &steering
            && self.guide_failed(run, guidance.clone()).await?
        {
            return Ok(SteerOutcome::Accepted);
        }
        let at = services.clock.now();
        let (message, owned) = blocking(move || post(&*journal, run, at, &steering)).await?;
        if !owned {
            return Ok(SteerOutcome::Pending);
        }
        match services.journal.wait_settled(message, SETTLE_TIMEOUT).await? {
            MessageState::Accepted => Ok(SteerOutcome::Accepted),
            MessageState::Rejected { reason } => Err(RuntimeError::MessageRejected { run, reason }),
            MessageState::Pending => Ok(SteerOutcome::Pending),
        }
    }

    /// Cancels an unowned run: resumes it with the cancellation as its first message, so that no model request and no tool call starts.
    async fn cancel_unowned(&self, run: RunId) -> Result<(), RuntimeError> {
        let (journal, at) = (self.services().journal.clone(), self.services().clock.now());
        if blocking(move || cancel_never_began(&*journal, run, at)).await? {
            return Ok(());
        }
        let (claim, replayed, _) = self.claim_resumable(run, ()).await?;
        if replayed.view.run().phase() == Phase::Failed {
            return Err(RuntimeError::Ended { run });
        }
        let mode = StartMode::Resume(Box::new(ResumedRun {
            replayed,
            recovery: Recovery::StayEnded,
            limits: None,
            first_messages: vec![Steering::Cancel],
        }));
        let mailbox = RunMailbox::new(UserPresence::Absent, MailboxState::Open);
        let handle = self
            .launch(run, claim, mode, mailbox, RunServices::default())
            .await?;
        match handle.outcome().await?.end {
            Some(EndReason::Cancelled) => Ok(()),
            // The run had already ended, but the journal did not have its end yet.
            Some(_) | None => Err(RuntimeError::Ended { run }),
        }
    }

    /// Journals guidance for a failed run that can be resumed; the next plan takes it into account (PAOR-8). For any other run, does
    /// nothing and returns false.
    async fn guide_failed(&self, run: RunId, guidance: String) -> Result<bool, RuntimeError> {
        let (journal, at) = (self.services().journal.clone(), self.services().clock.now());
        let (reader, claimed) = (journal.clone(), journal.clone());
        let can_be_guided = blocking(move || {
            let record = reader.run(run)?;
            if record.ended_at.is_none() || record.owner_pid.is_some() {
                return Ok(false);
            }
            let replayed = ReplayedRun::read(&*reader, run)?;
            Ok(is_resumable_failure(replayed.view.run()))
        });
        if !can_be_guided.await? {
            return Ok(false);
        }
        blocking(move || {
            let claim = match claimed.claim(run) {
                Ok(claim) => claim,
                // Another process is about to end the run, or has resumed it in the meantime.
                Err(error) if error.kind() == RunLogErrorKind::AlreadyClaimed => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let machines = ReplayedRun::read(&*claimed, run)?.view.into_machines();
            let (mut machine, _) = machines.into_machines();
            if !is_resumable_failure(&machine) {
                return Ok(false);
            }
            let input = RunInput::Guided { guidance };
            let body = to_json(&InputRef::Run(&input));
            machine
                .handle(at, input)
                .map_err(|refusal| not_resumed(run, refusal))?;
            let Some(reason) = machine.end() else {
                return Ok(false);
            };
            let entry = NewEntry {
                at,
                scope: Scope::Run,
                body,
                shared: Vec::new(),
                durability: Durability::Full,
                consumes: None,
            };
            let (stored, result) = std::sync::mpsc::channel();
            let ended = stored.clone();
            claim.append(entry, Box::new(move |done| drop(stored.send(done.map(drop)))));
            let on_end = Box::new(move |done| drop(ended.send(done)));
            claim.end(at, end_status(reason), run_ending(reason), on_end);
            for done in result {
                done?;
            }
            Ok(true)
        })
        .await
    }
}

fn is_resumable_failure(machine: &Run) -> bool {
    machine.phase() == Phase::Failed && machine.end().is_some_and(EndReason::is_resumable)
}

/// Posts a message to a run. Also returns true if a process owns the run afterwards.
fn post(
    journal: &dyn RunLog,
    run: RunId,
    at: Timestamp,
    steering: &Steering,
) -> Result<(MessageId, bool), RuntimeError> {
    let message = if is_unowned(journal, run)? {
        post_for_resume(journal, run, at, steering)?
    } else {
        post_to_owner(journal, run, at, steering)?
    };
    Ok((message, journal.run(run)?.owner_pid.is_some()))
}

/// Returns true if no process owns the run.
fn is_unowned(journal: &dyn RunLog, run: RunId) -> Result<bool, RuntimeError> {
    // Waits for queued writes, because a run that has just ended in this process is released only after its
    // last entries are written.
    journal.flush()?;
    Ok(journal.run(run)?.owner_pid.is_none())
}

/// Marks a run without entries as cancelled; returns false if the run has entries or has ended.
fn cancel_never_began(journal: &dyn RunLog, run: RunId, at: Timestamp) -> Result<bool, RuntimeError> {
    let never_began = || {
        let record = journal.run(run)?;
        Ok::<_, RunLogError>(record.entries == 0 && record.ended_at.is_none())
    };
    if !never_began()? {
        return Ok(false);
    }
    let claim = journal.claim(run)?;
    // Another process may have owned the run in the meantime.
    if !never_began()? {
        return Ok(false);
    }
    let (sender, ended) = std::sync::mpsc::channel();
    let reason = EndReason::Cancelled;
    let on_end = Box::new(move |done| drop(sender.send(done)));
    claim.end(at, end_status(&reason), run_ending(&reason), on_end);
    ended.into_iter().collect::<Result<(), RunLogError>>()?;
    Ok(true)
}

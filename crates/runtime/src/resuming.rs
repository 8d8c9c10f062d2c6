//! Going on with a run that no process carries out: after a crash (HOST-2), with an answer (PAOR-9), or after it failed at a limit or
//! for want of a model (PAOR-1).

use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{RunId, Scope};
use dirigent_core::journal::InputRef;
use dirigent_core::limits::RunLimits;
use dirigent_core::machine::{Machine as _, Refusal};
use dirigent_core::phase::Phase;
use dirigent_core::run::{Run, RunInput};
use dirigent_core::steering::Steering;
use dirigent_store::{Durability, NewEntry, RunClaim, StoreError};

use crate::driver::{end_status, run_ending};
use crate::error::RuntimeError;
use crate::forking::ReplayedRun;
use crate::handle::RunHandle;
use crate::orchestrator::{Orchestrator, UserPresence, blocking};
use crate::run_mailbox::{MailboxState, RunMailbox};
use crate::steering::post_for_resume;
use crate::supervisor::{Recovery, StartMode};

/// How a run is resumed. By default nobody is there to be asked, nothing is answered, and the run's limits stay as they are.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    user: UserPresence,
    answer: Option<String>,
    limits: Option<RunLimits>,
}

impl Resume {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether somebody can answer questions and decide about calls.
    #[must_use]
    pub fn user(mut self, user: UserPresence) -> Self {
        self.user = user;
        self
    }

    /// The answer to the question with which the run stopped: in the user's words, or the number of one of its choices. The run takes it
    /// after what was said to it before.
    #[must_use]
    pub fn answer(mut self, answer: impl Into<Option<String>>) -> Self {
        self.answer = answer.into();
        self
    }

    /// The limits that hold from now on, in place of those that the run has.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<Option<RunLimits>>) -> Self {
        self.limits = limits.into();
        self
    }
}

impl Orchestrator {
    /// Goes on with a run where its journal ends (HOST-2). One that failed at a limit, or because no model could be reached, plans
    /// again (PAOR-1).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] for a run that is over, [`RuntimeError::AtLimit`] for one that would be at a limit at once,
    /// [`RuntimeError::NeverBegan`] for one without any input, [`RuntimeError::NoQuestion`] for an answer that nobody asked for or before
    /// which another came, [`RuntimeError::Answer`] for a number that no choice has: the run does not go on, and its question still waits;
    /// [`RuntimeError::Journal`] for one that another process owns or whose journal cannot be read,
    /// [`RuntimeError::Replay`] for one whose journal does not fit the machines.
    pub async fn resume(&self, run: RunId, resume: Resume) -> Result<RunHandle, RuntimeError> {
        let Resume { user, answer, limits } = resume;
        let (claim, replayed, has_ended) = self.claim_resumable(run).await?;
        let view = &replayed.view;
        let checked = view
            .run()
            .check_resume(view.last_at(), limits.as_ref(), &view.cut_off());
        let recovery = match checked {
            Ok(()) => Recovery::Recover,
            // The process ended before it could say so.
            Err(_) if !has_ended => Recovery::StayEnded,
            Err(refusal) => return Err(not_resumed(run, refusal)),
        };
        let question = view.run().question().map(|(effect, _)| effect);
        if let Some(answer) = answer {
            let effect = question.ok_or(RuntimeError::NoQuestion { run })?;
            let (journal, at) = (self.services().journal.clone(), self.services().clock.now());
            let said = Steering::Answer { effect, answer };
            blocking(move || post_for_resume(&journal, run, at, &said)).await?;
        }
        let mailbox_state = question.map_or(MailboxState::Open, MailboxState::AwaitingAnswer);
        let begin = StartMode::Resume {
            replayed: Box::new(replayed),
            recovery,
            limits: limits.map(Box::new),
            first_message: None,
        };
        self.launch(run, claim, begin, RunMailbox::new(user, mailbox_state))
            .await
    }

    /// Claims a run that can go on. Also says whether its end, if it has one, is journaled.
    async fn claim_resumable(&self, run: RunId) -> Result<(RunClaim, ReplayedRun, bool), RuntimeError> {
        let journal = self.services().journal.clone();
        blocking(move || {
            let claim = journal.claim(run)?;
            let replayed = ReplayedRun::read(&journal, run)?;
            let machine = replayed.view.run();
            if machine.spec().is_none() {
                return Err(RuntimeError::NeverBegan { run });
            }
            let is_over =
                machine.phase().is_terminal() && !machine.end().is_some_and(EndReason::is_resumable);
            let has_ended = journal.run(run)?.ended_at.is_some();
            if is_over && has_ended {
                return Err(RuntimeError::Ended { run });
            }
            Ok((claim, replayed, has_ended))
        })
        .await
    }

    /// Ends a run that nobody carries out: it goes on with its end, before anything is asked or done.
    pub(crate) async fn cancel_unowned(&self, run: RunId) -> Result<(), RuntimeError> {
        let (claim, replayed, _) = self.claim_resumable(run).await?;
        if replayed.view.run().phase() == Phase::Failed {
            return Err(RuntimeError::Ended { run });
        }
        let begin = StartMode::Resume {
            replayed: Box::new(replayed),
            recovery: Recovery::StayEnded,
            limits: None,
            first_message: Some(Steering::Cancel),
        };
        let mailbox = RunMailbox::new(UserPresence::Absent, MailboxState::Open);
        let handle = self.launch(run, claim, begin, mailbox).await?;
        match handle.outcome().await?.end {
            Some(EndReason::Cancelled) => Ok(()),
            // It had come to its end before, and only the journal did not have it yet.
            Some(_) | None => Err(RuntimeError::Ended { run }),
        }
    }

    /// Journals guidance for a run that failed and can be resumed: its next plan takes it into account (PAOR-8). `false` if the run
    /// is not such a one.
    pub(crate) async fn guide_failed(&self, run: RunId, guidance: String) -> Result<bool, RuntimeError> {
        let (journal, at) = (self.services().journal.clone(), self.services().clock.now());
        let (reader, claimed) = (journal.clone(), journal.clone());
        let found = blocking(move || {
            let record = reader.run(run)?;
            if record.ended_at.is_none() || record.owner_pid.is_some() {
                return Ok(false);
            }
            let machine = ReplayedRun::read(&reader, run)?.view.into_machines().0;
            Ok(is_resumable_failure(&machine))
        });
        if !found.await? {
            return Ok(false);
        }
        blocking(move || {
            let claim = match claimed.claim(run) {
                Ok(claim) => claim,
                // A process is about to end it, or has resumed it since.
                Err(StoreError::AlreadyClaimed { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let mut machine = ReplayedRun::read(&claimed, run)?.view.into_machines().0;
            if !is_resumable_failure(&machine) {
                return Ok(false);
            }
            let input = RunInput::Guided { guidance };
            #[expect(
                clippy::expect_used,
                reason = "inputs are plain data, which always serializes"
            )]
            let body = serde_json::to_string(&InputRef::Run(&input)).expect("an input serializes");
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
                durability: Durability::Full,
                consumes: None,
            };
            let (stored, result) = std::sync::mpsc::channel();
            let ended = stored.clone();
            journal.append(&claim, entry, move |done| drop(stored.send(done.map(drop))));
            journal.end(&claim, at, end_status(reason), run_ending(reason), move |done| {
                drop(ended.send(done))
            });
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

fn not_resumed(run: RunId, refusal: Refusal) -> RuntimeError {
    match refusal {
        Refusal::AtLimit { reason } => RuntimeError::AtLimit { run, reason },
        Refusal::Finished { .. }
        | Refusal::Stale { .. }
        | Refusal::InvalidState { .. }
        | Refusal::Decision(_)
        | Refusal::Answer(_)
        | Refusal::Transition(_) => RuntimeError::Ended { run },
    }
}

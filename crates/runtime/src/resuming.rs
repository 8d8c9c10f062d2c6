//! Resumes an unowned run: after a crash (HOST-2), with an answer (PAOR-9), or after it failed at a limit or because its model could not be
//! reached (PAOR-1).

use std::sync::Arc;

use dirigent_core::end_reason::EndReason;
use dirigent_core::id::RunId;
use dirigent_core::limits::RunLimits;
use dirigent_core::machine::Refusal;
use dirigent_core::policy::CallPattern;
use dirigent_core::question::select_question;
use dirigent_core::run::Run;
use dirigent_core::steering::Steering;
use dirigent_model::ChatModel;
use dirigent_tools::Tool;

use crate::blocking::blocking;
use crate::error::RuntimeError;
use crate::handle::RunHandle;
use crate::orchestrator::Orchestrator;
use crate::pending_messages::{drop_sharing_messages, post_for_resume};
use crate::replayed_run::ReplayedRun;
use crate::run_log::RunClaim;
use crate::run_mailbox::{MailboxState, RunMailbox};
use crate::services::RunServices;
use crate::supervisor::{Recovery, ResumedRun, StartMode};
use crate::user_presence::UserPresence;
use crate::when_shared::WhenShared;

/// Options for resuming a run. By default the user is absent, no question is answered, the run keeps its
/// limits, and its agents use the orchestrator's model and tools.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    user: UserPresence,
    answer: Option<String>,
    limits: Option<RunLimits>,
    when_shared: WhenShared,
    shares_with: Vec<RunId>,
    allowed: Vec<CallPattern>,
    own: RunServices,
}

impl Resume {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether a user can answer questions and decide about calls.
    #[must_use]
    pub fn user(mut self, user: UserPresence) -> Self {
        self.user = user;
        self
    }

    /// Answers the run's open question, which must be the only one, with text or the number of a choice. The run handles the answer after
    /// its pending messages.
    #[must_use]
    pub fn answer(mut self, answer: impl Into<Option<String>>) -> Self {
        self.answer = answer.into();
        self
    }

    /// Replaces the run's limits from now on.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<Option<RunLimits>>) -> Self {
        self.limits = limits.into();
        self
    }

    /// Sets what happens if other runs are working in the run's workspace. The orchestrator does not look for
    /// such runs. The program that resumes the run does, and it reads this setting with [`Self::shared`].
    #[must_use]
    pub fn when_shared(mut self, when: WhenShared) -> Self {
        self.when_shared = when;
        self
    }

    /// Informs the run about other runs that share its workspace.
    #[must_use]
    pub fn shares_with(mut self, runs: Vec<RunId>) -> Self {
        self.shares_with = runs;
        self
    }

    /// Allows calls without approval from now on, such as those that the user has allowed while the run was not active.
    #[must_use]
    pub fn allow(mut self, calls: Vec<CallPattern>) -> Self {
        let new = calls.into_iter().filter(|calls| !self.allowed.contains(calls));
        let new: Vec<CallPattern> = new.collect();
        self.allowed.extend(new);
        self
    }

    /// Returns what happens if other runs are working in the run's workspace.
    pub fn shared(&self) -> WhenShared {
        self.when_shared
    }

    /// Sets the model of the run's agents, such as the one that the run was started with. By default, they ask the orchestrator's model.
    #[must_use]
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.own.model = Some(Arc::new(model));
        self
    }

    /// Adds a tool that the run was started with. A call of a tool that the run knows, but this process does not have, fails with an error for
    /// the model. Tools that the run does not know are not offered to its agents.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.own.tools.insert(tool);
        self
    }

    /// Returns true if the run's agents ask a model that is set with [`Self::model`].
    pub fn has_model(&self) -> bool {
        self.own.model.is_some()
    }
}

impl Orchestrator {
    /// Continues a run from its last journal entry (HOST-2). A run that failed at a limit, or because no model could be reached, plans
    /// again (PAOR-1).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] if the run has ended. [`RuntimeError::AtLimit`] if the run would exceed a limit at once.
    /// [`RuntimeError::NeverBegan`] if the run has no input. [`RuntimeError::NoQuestion`] if there is an answer but no open question, or
    /// another answer came first, and [`RuntimeError::Question`] if several questions are open. [`RuntimeError::Answer`] if the answer is a
    /// number that no choice has; in this case the run is not resumed and its question stays open. [`RuntimeError::Journal`] if another
    /// process owns the run or its entries cannot be read. [`RuntimeError::Replay`] if the machines refuse its entries.
    pub async fn resume(&self, run: RunId, resume: Resume) -> Result<RunHandle, RuntimeError> {
        self.resume_locked(run, resume, ()).await
    }

    /// Continues a run like [`Self::resume`], and drops `lock` as soon as the run is claimed, before its entries are read. This lets a
    /// caller look for other runs and claim this run under one lock.
    ///
    /// # Errors
    /// The errors of [`Self::resume`].
    pub async fn resume_locked(
        &self,
        run: RunId,
        resume: Resume,
        lock: impl Send + 'static,
    ) -> Result<RunHandle, RuntimeError> {
        let Resume {
            user,
            answer,
            limits,
            own,
            when_shared: _,
            shares_with,
            allowed,
        } = resume;
        let (claim, replayed, has_ended) = self.claim_resumable(run, lock).await?;
        let view = &replayed.view;
        let checked = view
            .run()
            .check_resume(view.last_at(), limits.as_ref(), &view.interrupted_work());
        let recovery = match checked {
            Ok(()) => Recovery::Recover,
            // The process died before it journaled the end.
            Err(_) if !has_ended => Recovery::StayEnded,
            Err(refusal) => return Err(not_resumed(run, refusal)),
        };
        if let Some(answer) = answer {
            let open = view.questions();
            let asked = select_question(&open, None).map_err(|error| RuntimeError::question(run, error))?;
            let effect = asked.effect;
            let (journal, at) = (self.services().journal.clone(), self.services().clock.now());
            let steering = Steering::Answer { effect, answer };
            blocking(move || post_for_resume(&*journal, run, at, &steering)).await?;
        }
        let question = view.run().question().map(|(effect, _)| effect);
        let mailbox_state = question.map_or(MailboxState::Open, MailboxState::AwaitingAnswer);
        let mode = StartMode::Resume(Box::new(ResumedRun {
            first_messages: allow_messages(allowed, replayed.view.run()),
            replayed,
            recovery,
            limits: limits.map(Box::new),
        }));
        let mailbox = RunMailbox::new(user, mailbox_state).sharing_with(shares_with);
        self.launch(run, claim, mode, mailbox, own).await
    }

    /// Claims a run that can be resumed, drops the lock, and replays the run. The returned flag is true if the journal marks the run as ended.
    pub(crate) async fn claim_resumable(
        &self,
        run: RunId,
        lock: impl Send + 'static,
    ) -> Result<(Arc<dyn RunClaim>, ReplayedRun, bool), RuntimeError> {
        self.ensure_running()?;
        let journal = self.services().journal.clone();
        blocking(move || {
            let claim = journal.claim(run)?;
            drop(lock);
            let replayed = ReplayedRun::read(&*journal, run)?;
            let machine = replayed.view.run();
            let is_finished =
                machine.phase().is_terminal() && !machine.end().is_some_and(EndReason::is_resumable);
            let has_ended = journal.run(run)?.ended_at.is_some();
            if is_finished && has_ended {
                return Err(RuntimeError::Ended { run });
            }
            drop_sharing_messages(&*journal, &*claim, run)?;
            Ok((claim, replayed, has_ended))
        })
        .await
    }
}

/// Returns the messages that allow calls in a resumed run, except for calls that the run already allows.
pub(crate) fn allow_messages(allowed: Vec<CallPattern>, run: &Run) -> Vec<Steering> {
    let new = allowed.into_iter().filter(|calls| !run.allows(calls));
    new.map(|calls| Steering::AllowCalls { calls }).collect()
}

/// Returns the error for a run whose machine refuses to continue.
pub(crate) fn not_resumed(run: RunId, refusal: Refusal) -> RuntimeError {
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

//! The handle of a run, to steer it, watch it and wait for its end.

use std::sync::Arc;

use dirigent_core::approval::{Approval, Decision};
use dirigent_core::id::{AgentId, EffectId, RunId};
use dirigent_core::question::{OpenQuestion, select_question};
use dirigent_core::run::Report;
use dirigent_core::steering::Steering;
use dirigent_core::view::RunView;
use tokio::sync::{broadcast, oneshot, watch};

use crate::ack::Ack;
use crate::blocking::blocking;
use crate::deltas::{Delta, Listeners};
use crate::error::RuntimeError;
use crate::events::{Events, Feeds};
use crate::journal_reader::read_view;
use crate::outcome::Outcome;
use crate::run_mailbox::{RunMailbox, RunMessage, RunMessageBody, SendError};

/// A handle of a run that this process owns. Clones are handles of the same run; dropping them does not stop the run.
#[derive(Clone)]
pub struct RunHandle {
    pub(crate) run: RunId,
    pub(crate) feeds: Feeds,
    pub(crate) mailbox: Arc<RunMailbox>,
    pub(crate) outcome: watch::Receiver<Outcome>,
    pub(crate) listeners: Listeners,
}

impl RunHandle {
    /// Returns the run's id.
    pub fn id(&self) -> RunId {
        self.run
    }

    /// Gives guidance to the run; the next plan takes it into account (PAOR-8).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] if the run has ended.
    pub fn guide(&self, guidance: impl Into<String>) -> Result<(), RuntimeError> {
        let guidance = guidance.into();
        self.send(RunMessage::unacknowledged(Steering::Guide { guidance }))
    }

    /// Gives immediate guidance to the run: the run stops its current work and plans again at once (PAOR-8).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] if the run has ended.
    pub fn guide_now(&self, guidance: impl Into<String>) -> Result<(), RuntimeError> {
        let guidance = guidance.into();
        self.send(RunMessage::unacknowledged(Steering::Redirect { guidance }))
    }

    /// Gives guidance to one of the run's agents; the agent's next model request includes it. Returns once the guidance is journaled.
    ///
    /// # Errors
    /// [`RuntimeError::NoAgent`] if the agent is not active, and the errors of [`Self::steer`].
    pub async fn guide_agent(&self, agent: AgentId, guidance: impl Into<String>) -> Result<(), RuntimeError> {
        let guidance = guidance.into();
        self.steer(Steering::GuideAgent { agent, guidance }).await
    }

    /// Decides about a call that waits for an approval (see [`Self::approvals`], APPROVE-2). The decision applies once, to exactly this
    /// call, as long as the call has not changed or expired. Returns once the decision is journaled.
    ///
    /// # Errors
    /// [`RuntimeError::Decision`] if the decision is rejected and so has no effect (APPROVE-3), and the errors of [`Self::steer`].
    pub async fn decide(&self, effect: EffectId, decision: Decision) -> Result<(), RuntimeError> {
        self.steer(Steering::Decide { effect, decision }).await
    }

    /// Answers the only open question of the run and its agents with text or the number of a choice (PAOR-9,
    /// LEAD-4). Returns once the answer is journaled. An answer to the run's own question never applies to a
    /// later question. If several agents may ask questions, specify the question with
    /// [`Self::answer_question`].
    ///
    /// # Errors
    /// [`RuntimeError::Answer`] if the answer is a number that no choice has; the question stays open. [`RuntimeError::NoQuestion`] if no
    /// question is open, or it is already answered. [`RuntimeError::Question`] if several are open. The errors of [`Self::steer`] and
    /// [`Self::questions`].
    pub async fn answer(&self, answer: impl Into<String>) -> Result<(), RuntimeError> {
        self.ensure_running()?;
        let (run, answer) = (self.run, answer.into());
        let effect = match self.mailbox.question() {
            Ok(effect) => effect,
            Err(SendError::NoQuestion) => {
                let open = self.questions().await?;
                let asked = select_question(&open, None);
                asked.map_err(|error| RuntimeError::question(run, error))?.effect
            }
            Err(SendError::Closed) => return Err(RuntimeError::Ended { run }),
        };
        self.steer(Steering::Answer { effect, answer }).await
    }

    /// Answers one of several open questions (see [`Self::questions`]), as [`Self::answer`] does.
    ///
    /// # Errors
    /// [`RuntimeError::NoQuestion`] if the question is not open, and the errors of [`Self::answer`].
    pub async fn answer_question(
        &self,
        question: EffectId,
        answer: impl Into<String>,
    ) -> Result<(), RuntimeError> {
        let (effect, answer) = (question, answer.into());
        self.steer(Steering::Answer { effect, answer }).await
    }

    /// Tells the run that its user has left; from then on, the run behaves as with [`UserPresence::Absent`].
    /// If the run is waiting only for its user, it stops and can be resumed (PAOR-9).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] if the run has ended.
    ///
    /// [`UserPresence::Absent`]: crate::UserPresence::Absent
    pub fn set_user_absent(&self) -> Result<(), RuntimeError> {
        self.ensure_running()?;
        self.mailbox
            .set_user_absent()
            .map_err(|error| error.into_error(self.run))
    }

    /// Cancels the run: its agents, model requests and child processes stop within a second, and its end is journaled (HOST-8).
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] if the run has ended.
    pub fn cancel(&self) -> Result<(), RuntimeError> {
        self.send(RunMessage::unacknowledged(Steering::Cancel))
    }

    /// Sends a steering message to the run, and returns once the message is journaled. From then on, the message takes effect even if
    /// this process dies.
    ///
    /// # Errors
    /// The reason of the rejection: [`RuntimeError::Decision`], [`RuntimeError::NoAgent`], [`RuntimeError::NoQuestion`],
    /// [`RuntimeError::Answer`], [`RuntimeError::MessageRejected`], or [`RuntimeError::Ended`] if the run ended without handling the
    /// message. [`RuntimeError::DeliveryUnknown`] if the run crashed or ended, and the message may or may not have been applied.
    pub async fn steer(&self, steering: Steering) -> Result<(), RuntimeError> {
        let (reply, settled) = oneshot::channel();
        let body = RunMessageBody::Steering(steering);
        let ack = Ack::new(reply);
        self.send(RunMessage { body, ack })?;
        acknowledged(self.run, settled, self.outcome()).await
    }

    /// Reads the calls of the run and its agents that wait for an approval, oldest first, also those of a paused run. Reads all of the
    /// run's entries; a caller that reads the run's events gets the same calls from [`Events::with_view`] at less cost.
    ///
    /// # Errors
    /// [`RuntimeError::Journal`] and [`RuntimeError::Replay`].
    pub async fn approvals(&self) -> Result<Vec<Arc<Approval>>, RuntimeError> {
        self.read_pending(RunView::approvals).await
    }

    /// Reads the open questions of the run and its agents, oldest first, also those of a paused run. Reads all of the run's entries, as
    /// [`Self::approvals`] does.
    ///
    /// # Errors
    /// [`RuntimeError::Journal`] and [`RuntimeError::Replay`].
    pub async fn questions(&self) -> Result<Vec<OpenQuestion>, RuntimeError> {
        self.read_pending(RunView::questions).await
    }

    async fn read_pending<T: Send + 'static>(
        &self,
        pending: fn(&RunView) -> Vec<T>,
    ) -> Result<Vec<T>, RuntimeError> {
        let (journal, run) = (self.feeds.journal.clone(), self.run);
        blocking(move || match read_view(&*journal, run) {
            Ok(view) => Ok(pending(&view)),
            // The run's first entry is not stored yet.
            Err(RuntimeError::NeverBegan { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        })
        .await
    }

    /// Waits for the run's end and returns its report. A failed run has a report, too, with the failure in [`Report::end`].
    ///
    /// # Errors
    /// The reason why the run stopped without an end.
    pub async fn outcome(&self) -> Result<Arc<Report>, RuntimeError> {
        let mut outcome = self.outcome.clone();
        match outcome.wait_for(Option::is_some).await {
            Ok(ended) => match &*ended {
                Some(ended) => ended.clone(),
                None => Err(stopped()),
            },
            Err(_) => Err(stopped()),
        }
    }

    /// Returns the events of the run after journal entry `after` (0: from the first). They end with the run.
    pub fn events(&self, after: u64) -> Events {
        self.feeds.watch(self.run, after)
    }

    /// Subscribes to live previews of the model replies, from the next request on. The previews are not
    /// journaled. A slow listener learns how many deltas it has missed, and never slows the run down. The
    /// channel closes when all handles of the run are dropped.
    pub fn deltas(&self) -> broadcast::Receiver<Delta> {
        self.listeners.listen()
    }

    fn send(&self, message: RunMessage) -> Result<(), RuntimeError> {
        self.ensure_running()?;
        self.mailbox
            .send(message)
            .map_err(|error| error.into_error(self.run))
    }

    fn ensure_running(&self) -> Result<(), RuntimeError> {
        match &*self.outcome.borrow() {
            Some(_) => Err(RuntimeError::Ended { run: self.run }),
            None => Ok(()),
        }
    }
}

/// Waits until a message is accepted or rejected, or the run stops.
async fn acknowledged(
    run: RunId,
    mut settled: oneshot::Receiver<Result<(), RuntimeError>>,
    outcome: impl Future<Output = Result<Arc<Report>, RuntimeError>>,
) -> Result<(), RuntimeError> {
    tokio::select! {
        biased;
        result = &mut settled => result.unwrap_or(Err(RuntimeError::DeliveryUnknown { run })),
        ended = outcome => match settled.try_recv() {
            // The acknowledgement arrived together with the outcome, after the first branch was polled.
            Ok(result) => result,
            // Messages that are still in the mailbox are rejected before the outcome is set. So this message had already been passed to
            // an actor, which was stopped.
            Err(_) => Err(ended.err().unwrap_or(RuntimeError::DeliveryUnknown { run })),
        },
    }
}

fn stopped() -> RuntimeError {
    RuntimeError::Stopped {
        reason: "it was shut down while the run was active".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::run_mailbox::MailboxState;
    use crate::user_presence::UserPresence;

    const RUN: RunId = RunId(uuid::Uuid::nil());

    #[tokio::test]
    async fn an_accepted_message_counts_even_if_the_run_ends_at_once() {
        // Many attempts, because it is rare that a run ends between the check for the reply and the check for
        // the end.
        for _ in 0..5_000 {
            let (reply, settled) = oneshot::channel();
            let (ending, mut ended) = watch::channel(false);
            let run = std::thread::spawn(move || {
                Ack::new(reply).accepted();
                ending.send_replace(true);
            });
            let outcome = async move {
                let _ = ended.wait_for(|ended| *ended).await;
                Err(stopped())
            };
            acknowledged(RUN, settled, outcome).await.unwrap();
            run.join().unwrap();
        }
    }

    #[tokio::test]
    async fn a_run_that_has_ended_rejects_unhandled_messages() {
        let mailbox = RunMailbox::new(UserPresence::Absent, MailboxState::Open);
        let (reply, settled) = oneshot::channel();
        let body = RunMessageBody::Steering(Steering::Cancel);
        let ack = Ack::new(reply);
        assert!(mailbox.send(RunMessage { body, ack }).is_ok());

        mailbox.reject_all(RUN);

        let refused = acknowledged(RUN, settled, std::future::pending())
            .await
            .unwrap_err();
        assert!(matches!(refused, RuntimeError::Ended { run: RUN }), "{refused}");
    }
}

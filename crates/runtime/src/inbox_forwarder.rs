//! What other processes say to a run that is carried out here: taken from its inbox in the journal and brought to its mailbox, one by
//! one. Each becomes one entry or is refused, whatever breaks down or is killed in between.

use std::future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::steering::Steering;
use dirigent_store::{Journal, Message, MessageId, MessageState, RunClaim};
use tokio::sync::{oneshot, watch};

use crate::error::RuntimeError;
use crate::orchestrator::blocking;
use crate::run_mailbox::{Ack, RunMailbox, RunMessage, RunMessageBody};
use crate::supervisor::{Outcome, SupervisorMsg};

/// Brings a run's messages to its mailbox for as long as it is carried out here.
pub(crate) struct InboxForwarder {
    pub(crate) run: RunId,
    pub(crate) journal: Journal,
    pub(crate) claim: Weak<RunClaim>,
    pub(crate) mailbox: Arc<RunMailbox>,
    pub(crate) outcome: watch::Receiver<Outcome>,
}

/// How long to wait for a journal that cannot be read or written.
const PAUSE: Duration = Duration::from_millis(200);

impl InboxForwarder {
    /// Works until the run has ended here. What still waits then was refused with its end or, where it only stands still, waits until it
    /// goes on.
    pub(crate) async fn run(self) {
        let mut outcome = self.outcome.clone();
        tokio::select! {
            biased;
            _ = outcome.wait_for(Option::is_some) => {}
            () = self.forward_all() => {}
        }
    }

    async fn forward_all(&self) {
        let mut inbox = self.journal.inbox(self.run);
        loop {
            let message = inbox.next().await;
            self.mailbox.set_delivering(true);
            self.forward(message).await;
            self.mailbox.set_delivering(false);
            self.mailbox.notify_supervisor(SupervisorMsg::MessageSettled);
        }
    }

    /// Returns once the message is taken or refused, and the journal says so.
    async fn forward(&self, message: Message) {
        let steering: Steering = match serde_json::from_str(&message.body) {
            Ok(steering) => steering,
            Err(error) => {
                return self
                    .reject(message.id, format!("it is not understood: {error}"))
                    .await;
            }
        };
        loop {
            let (reply, told) = oneshot::channel();
            let run_message = RunMessage {
                said: RunMessageBody::Steering(steering.clone()),
                ack: Ack::for_message(message.id, reply),
            };
            if self.mailbox.send(run_message).is_err() {
                self.mailbox.reopened().await;
                continue;
            }
            match told.await {
                Ok(Ok(())) => return,
                // It ends, but for a breakdown.
                Ok(Err(RuntimeError::Ended { .. })) => self.mailbox.reopened().await,
                Ok(Err(error)) => return self.reject(message.id, error.reason()).await,
                // Whoever was told broke down, before it was journaled or after.
                Err(_) if self.is_settled(message.id).await => return,
                Err(_) => {}
            }
        }
    }

    /// Returns once the journal says that it is refused: to those who look whether anything waits, it would wait for ever.
    async fn reject(&self, message: MessageId, reason: String) {
        loop {
            match self.claim.upgrade() {
                Some(claim) => self.journal.reject_message(&claim, message, reason.clone()),
                // The run was given free: its outcome is about to be told.
                None => future::pending().await,
            }
            if self.is_settled(message).await {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether it is an entry or refused, once what was appended is stored or has failed to be.
    async fn is_settled(&self, message: MessageId) -> bool {
        loop {
            let journal = self.journal.clone();
            let state = blocking(move || {
                // A failure is what the run's actors are told.
                let _ = journal.flush();
                Ok(journal.message(message)?)
            });
            match state.await {
                Ok(MessageState::Pending) => return false,
                Ok(MessageState::Accepted | MessageState::Rejected { .. }) => return true,
                Err(error) => {
                    tracing::warn!(run = %self.run, %error, "what became of a message is not known");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

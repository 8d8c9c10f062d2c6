//! Forwards messages from other processes, one at a time, from a run's inbox in the journal to the run's mailbox. Each message becomes
//! exactly one journal entry or is rejected, even if an actor crashes or the process is killed in between.

use std::future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::steering::Steering;
use futures::StreamExt as _;
use tokio::sync::{oneshot, watch};

use crate::ack::Ack;
use crate::blocking::blocking;
use crate::error::RuntimeError;
use crate::outcome::Outcome;
use crate::run_log::{Message, MessageId, MessageState, RunClaim, RunLog};
use crate::run_mailbox::{RunMailbox, RunMessage, RunMessageBody};

/// Forwards a run's messages for as long as this process owns the run.
pub(crate) struct InboxForwarder {
    pub(crate) run: RunId,
    pub(crate) journal: Arc<dyn RunLog>,
    pub(crate) claim: Weak<dyn RunClaim>,
    pub(crate) mailbox: Arc<RunMailbox>,
    pub(crate) outcome: watch::Receiver<Outcome>,
}

/// The pause before retrying a failed read or write of the journal.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

impl InboxForwarder {
    /// Forwards messages until the run has ended in this process. The journal rejects the remaining messages when it stores the run's end;
    /// if the run is only paused, they stay pending until it is resumed.
    pub(crate) async fn run(self) {
        let mut outcome = self.outcome.clone();
        tokio::select! {
            biased;
            _ = outcome.wait_for(Option::is_some) => {}
            () = self.forward_all() => {}
        }
    }

    async fn forward_all(&self) {
        let Some(mut inbox) = self.claim.upgrade().map(|claim| claim.inbox()) else {
            return;
        };
        while let Some(message) = inbox.next().await {
            self.mailbox.set_delivering(true);
            self.forward(message).await;
            self.mailbox.set_delivering(false);
            self.mailbox.notify_settled();
        }
    }

    /// Delivers a message. Returns once the journal records it as accepted or rejected.
    async fn forward(&self, message: Message) {
        let steering: Steering = match serde_json::from_str(&message.body) {
            Ok(steering) => steering,
            Err(error) => {
                return self
                    .reject(message.id, format!("the message cannot be parsed: {error}"))
                    .await;
            }
        };
        loop {
            let (reply, settled) = oneshot::channel();
            let run_message = RunMessage {
                body: RunMessageBody::Steering(steering.clone()),
                ack: Ack::for_message(message.id, reply),
            };
            if self.mailbox.send(run_message).is_err() {
                self.mailbox.reopened().await;
                continue;
            }
            match settled.await {
                Ok(Ok(())) => return,
                // The run is ending. If its supervisor crashes first, the mailbox opens again and the message is sent again.
                Ok(Err(RuntimeError::Ended { .. })) => self.mailbox.reopened().await,
                Ok(Err(error)) => return self.reject(message.id, error.reason()).await,
                // The actor that handled the message has crashed, before or after the message was journaled.
                Err(_) if self.is_settled(message.id).await => return,
                Err(_) => {}
            }
        }
    }

    /// Rejects a message. Retries until the journal records the rejection, because the message would otherwise stay pending forever.
    async fn reject(&self, message: MessageId, reason: String) {
        loop {
            match self.claim.upgrade() {
                Some(claim) => claim.reject_message(message, reason.clone()),
                // The run was released. Its outcome is about to be set, which ends this forwarder.
                None => future::pending().await,
            }
            if self.is_settled(message).await {
                return;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Returns true if the journal records the message as accepted or rejected. First waits until all earlier appends are stored or have
    /// failed.
    async fn is_settled(&self, message: MessageId) -> bool {
        loop {
            let journal = self.journal.clone();
            let state = blocking(move || {
                // A failure is ignored here, because the journal also reports it to the run's actors.
                let _ = journal.flush();
                Ok(journal.message(message)?)
            });
            match state.await {
                Ok(MessageState::Pending) => return false,
                Ok(MessageState::Accepted | MessageState::Rejected { .. }) => return true,
                Err(error) => {
                    tracing::warn!(run = %self.run, %error, "cannot read the state of a message");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }
}

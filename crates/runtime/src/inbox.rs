//! What other processes say to a run that is carried out here: taken from its inbox in the journal and brought to its door, one by
//! one. Each becomes one entry or is refused, whatever breaks down or is killed in between.

use std::sync::{Arc, Weak};

use dirigent_core::id::RunId;
use dirigent_core::steering::Steering;
use dirigent_store::{Journal, Message, MessageId, MessageState, RunClaim};
use tokio::sync::{oneshot, watch};

use crate::door::{Door, Receipt, Said, Word};
use crate::error::RuntimeError;
use crate::orchestrator::blocking;
use crate::supervisor::{Outcome, SupervisorMsg};

/// Brings a run's messages to its door for as long as it is carried out here.
pub(crate) struct Postman {
    pub(crate) run: RunId,
    pub(crate) journal: Journal,
    pub(crate) claim: Weak<RunClaim>,
    pub(crate) door: Arc<Door>,
    pub(crate) outcome: watch::Receiver<Outcome>,
}

/// The run ends. What still waits is refused with its end or, where it only stands still, waits until it goes on.
struct Ending;

impl Postman {
    pub(crate) async fn work(self) {
        let mut outcome = self.outcome.clone();
        tokio::select! {
            biased;
            _ = outcome.wait_for(Option::is_some) => {}
            _ = self.bring_all() => {}
        }
    }

    async fn bring_all(&self) -> Ending {
        let mut inbox = self.journal.inbox(self.run);
        loop {
            let message = inbox.next().await;
            if let Err(ending) = self.bring(message).await {
                return ending;
            }
            self.door.tell(SupervisorMsg::MessageSettled);
        }
    }

    /// Returns once the message is taken or refused, and the journal says so.
    async fn bring(&self, message: Message) -> Result<(), Ending> {
        let steering: Steering = match serde_json::from_str(&message.body) {
            Ok(steering) => steering,
            Err(error) => {
                return self
                    .refuse(message.id, format!("it is not understood: {error}"))
                    .await;
            }
        };
        loop {
            let (reply, told) = oneshot::channel();
            let word = Word {
                said: Said::Steering(steering.clone()),
                receipt: Receipt::of(message.id, reply),
            };
            self.door.send(word).map_err(|_| Ending)?;
            match told.await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(RuntimeError::Ended { .. })) => return Err(Ending),
                Ok(Err(error)) => return self.refuse(message.id, error.to_string()).await,
                // Whoever was told broke down, before it was journaled or after.
                Err(_) if self.is_settled(message.id).await => return Ok(()),
                Err(_) => {}
            }
        }
    }

    async fn refuse(&self, message: MessageId, reason: String) -> Result<(), Ending> {
        let claim = self.claim.upgrade().ok_or(Ending)?;
        self.journal.refuse(&claim, message, reason);
        drop(claim);
        self.flush().await;
        Ok(())
    }

    async fn is_settled(&self, message: MessageId) -> bool {
        self.flush().await;
        let journal = self.journal.clone();
        let state = blocking(move || Ok(journal.message(message)?)).await;
        match state {
            Ok(MessageState::Waiting) => false,
            Ok(MessageState::Taken | MessageState::Refused { .. }) => true,
            Err(error) => {
                tracing::warn!(run = %self.run, %error, "what became of a message is not known");
                true
            }
        }
    }

    /// What was appended is stored when this returns, or has failed to be, which the run's actors are told.
    async fn flush(&self) {
        let journal = self.journal.clone();
        let _ = blocking(move || Ok(journal.flush()?)).await;
    }
}

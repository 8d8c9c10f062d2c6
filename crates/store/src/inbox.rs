//! Messages between processes: posting them to a run, receiving them, and waiting for the result.

use std::collections::VecDeque;
use std::future;
use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;
use dirigent_runtime::run_log::{MAX_MESSAGE_BYTES, Message, MessageId, MessageState, Position};

use crate::error::StoreError;
use crate::job::Job;
use crate::journal::{Journal, RunClaim};
use crate::message;
use crate::watcher::{ChangeSubscription, INTERVAL};

/// Maximum number of messages per read. Small, because a message can be 1 MiB long.
const BATCH: usize = 16;

impl Journal {
    /// Posts a message to a run. `body` is JSON that the run's owner understands. No claim is needed. When this function returns, the
    /// message survives a power failure. Blocks on the writer thread, so it must not be called from a callback of [`Journal::append`].
    ///
    /// The process that owns the run receives the message from its [`Inbox`] within about 200 ms. If no process owns the run, the message
    /// waits for the next owner.
    ///
    /// # Errors
    /// [`StoreError::Finished`] if the run has finished; [`StoreError::OtherMessages`] if the newest pending message is not the expected one;
    /// [`StoreError::NoSuchRun`]; [`StoreError::MessageTooLong`]; [`StoreError::TooManyMessages`]; a write failure.
    pub fn post(
        &self,
        run: RunId,
        at: Timestamp,
        body: String,
        position: Position,
    ) -> Result<MessageId, StoreError> {
        check_length(&body)?;
        self.wait(|reply| Job::Post {
            run,
            at,
            body,
            position,
            reply,
        })
    }

    /// Reads the state of a message. Blocks on disk access.
    ///
    /// # Errors
    /// [`StoreError::NoSuchMessage`]; a read failure.
    pub fn message(&self, id: MessageId) -> Result<MessageState, StoreError> {
        self.readers()
            .with(|db| message::state(db, id))?
            .ok_or_else(|| StoreError::NoSuchMessage {
                message: id,
                path: self.path().to_owned(),
            })
    }

    /// Waits until a message is accepted or rejected. Notices this within about 200 ms. Returns
    /// [`MessageState::Pending`] after `timeout`. Waits even if no process owns the run; check
    /// [`crate::RunRecord::owner_pid`] first. Must be awaited in a Tokio runtime with timers.
    ///
    /// # Errors
    /// The errors of [`Journal::message`].
    pub async fn wait_settled(&self, id: MessageId, timeout: Duration) -> Result<MessageState, StoreError> {
        let mut changes = self.subscribe();
        let settled = async {
            loop {
                match self.message_now(id).await {
                    Ok(MessageState::Pending) => changes.wait_for_write().await,
                    settled => return settled,
                }
            }
        };
        match tokio::time::timeout(timeout, settled).await {
            Ok(state) => state,
            Err(_) => Ok(MessageState::Pending),
        }
    }

    /// Queues the rejection of a message to a claimed run, with a reason for the user. Never blocks. The rejection is stored after
    /// everything appended before. Does nothing if the message is already accepted or rejected.
    pub fn reject_message(&self, claim: &RunClaim, message: MessageId, reason: String) {
        if !self.issued(claim) {
            return tracing::error!("run {} is not claimed through this journal", claim.run());
        }
        let run = claim.run();
        // If the writer thread has stopped, the message stays pending until the run's next owner handles it.
        let _ = self.send(Job::RejectMessage { run, message, reason });
    }

    /// Returns true if a run has pending messages. Blocks on disk access.
    ///
    /// # Errors
    /// Any failure to read the journal.
    pub fn has_pending_messages(&self, run: RunId) -> Result<bool, StoreError> {
        let pending = self
            .readers()
            .with(|db| message::pending(db, run, MessageId(0), 1))?;
        Ok(!pending.is_empty())
    }

    /// Reads all pending messages of a run, oldest first, which is the order in which its next owner handles them. Blocks on disk access.
    ///
    /// # Errors
    /// Any failure to read the journal.
    pub fn pending_messages(&self, run: RunId) -> Result<Vec<Message>, StoreError> {
        self.readers()
            .with(|db| message::pending(db, run, MessageId(0), usize::MAX))
    }

    /// Opens a run's inbox, for the process that owns the run. Only the holder of the claim can accept messages (see
    /// [`crate::NewEntry::consumes`]) or reject them.
    pub fn inbox(&self, run: RunId) -> Inbox {
        Inbox {
            changes: self.subscribe(),
            journal: self.clone(),
            run,
            position: MessageId(0),
            read: VecDeque::new(),
            more: true,
        }
    }

    async fn message_now(&self, id: MessageId) -> Result<MessageState, StoreError> {
        let journal = self.clone();
        match tokio::task::spawn_blocking(move || journal.message(id)).await {
            Ok(state) => state,
            // The runtime is shutting down.
            Err(_) => future::pending().await,
        }
    }
}

fn check_length(body: &str) -> Result<(), StoreError> {
    if body.len() > MAX_MESSAGE_BYTES {
        return Err(StoreError::MessageTooLong { bytes: body.len() });
    }
    Ok(())
}

/// A run's pending and future messages. Created by [`Journal::inbox`].
///
/// Returns each message once. A message that was neither accepted nor rejected is returned again by the run's next inbox, in this process
/// or in the next owner.
pub struct Inbox {
    changes: ChangeSubscription,
    journal: Journal,
    run: RunId,
    /// The last message read from the journal.
    position: MessageId,
    read: VecDeque<Message>,
    /// Set while the journal may have unread messages.
    more: bool,
}

impl Inbox {
    /// Waits for the next message and returns it, oldest first. Retries if the journal cannot be read.
    ///
    /// Cancel safe. Must be awaited in a Tokio runtime with timers. The journal is read on the runtime's blocking threads.
    pub async fn next(&mut self) -> Message {
        loop {
            if let Some(message) = self.read.pop_front() {
                return message;
            }
            if !self.more {
                self.changes.wait_for_message().await;
                self.more = true;
            }
            if let Err(e) = self.read_more().await {
                tracing::warn!(run = %self.run, "cannot read the run's messages: {e}");
                tokio::time::sleep(INTERVAL).await;
            }
        }
    }

    async fn read_more(&mut self) -> Result<(), StoreError> {
        let (journal, run, position) = (self.journal.clone(), self.run, self.position);
        let read = move || {
            journal
                .readers()
                .with(|db| message::pending(db, run, position, BATCH))
        };
        let messages = match tokio::task::spawn_blocking(read).await {
            Ok(messages) => messages?,
            // The runtime is shutting down.
            Err(_) => future::pending().await,
        };
        match messages.last() {
            Some(last) => self.position = last.id,
            None => self.more = false,
        }
        self.read = messages.into();
        Ok(())
    }
}

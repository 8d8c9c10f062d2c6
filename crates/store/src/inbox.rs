//! What other processes say to a run: posting it, taking it up, and learning what came of it.

use std::collections::VecDeque;
use std::future;
use std::sync::mpsc;
use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;

use crate::error::StoreError;
use crate::journal::{Journal, RunClaim};
use crate::message::{self, Message, MessageId, MessageState};
use crate::watcher::{ChangeSubscription, INTERVAL};
use crate::writer::Job;

/// What is read in one go: bodies may be long.
const BATCH: usize = 16;

impl Journal {
    /// Leaves a message for a run, whichever process carries it out, now or later; `body` is what the run's process
    /// understands, as JSON. Once this returns it survives a power failure. No claim is needed. Waits for the writer: not to be
    /// called from a callback of [`Journal::append`].
    ///
    /// The process that carries the run out finds it in its [`Inbox`] within about 200 ms. Where there is none, it waits for
    /// the next.
    ///
    /// # Errors
    /// [`StoreError::Finished`] for a run that has ended, [`StoreError::NoSuchRun`], [`StoreError::MessageTooLong`],
    /// [`StoreError::TooManyMessages`]; a failure to write.
    pub fn post(&self, run: RunId, at: Timestamp, body: String) -> Result<MessageId, StoreError> {
        self.post_if(run, at, body, None)
    }

    /// As [`Self::post`], but only if `last` is still the newest message that waits for the run, `None` if none does: for a message that
    /// counts only after exactly those that its sender knows of.
    ///
    /// # Errors
    /// [`StoreError::OtherMessages`] if others wait by now; as [`Self::post`].
    pub fn post_after(
        &self,
        run: RunId,
        at: Timestamp,
        body: String,
        last: Option<MessageId>,
    ) -> Result<MessageId, StoreError> {
        self.post_if(run, at, body, Some(last.unwrap_or(MessageId(0))))
    }

    fn post_if(
        &self,
        run: RunId,
        at: Timestamp,
        body: String,
        last: Option<MessageId>,
    ) -> Result<MessageId, StoreError> {
        message::check_length(&body)?;
        let (reply, answer) = mpsc::sync_channel(1);
        self.send(Job::Post {
            run,
            at,
            body,
            last,
            reply,
        })?;
        answer.recv().map_err(|_| self.stopped())?
    }

    /// What has come of a message. Reads the disk.
    ///
    /// # Errors
    /// [`StoreError::NoSuchMessage`]; a failure to read.
    pub fn message(&self, id: MessageId) -> Result<MessageState, StoreError> {
        self.readers()
            .with(|db| message::state(db, id))?
            .ok_or_else(|| StoreError::NoSuchMessage {
                message: id,
                path: self.path().to_owned(),
            })
    }

    /// Waits until a message has been taken or refused, which is noticed within about 200 ms, or `timeout` is over; then it is
    /// [`MessageState::Pending`] still. Nobody needs to be there to take it: see [`crate::RunRecord::owner_pid`]. To be awaited
    /// within a Tokio runtime with timers.
    ///
    /// # Errors
    /// As those of [`Journal::message`].
    pub async fn wait_settled(&self, id: MessageId, timeout: Duration) -> Result<MessageState, StoreError> {
        let mut watch = self.watch();
        let settled = async {
            loop {
                match self.message_now(id).await {
                    Ok(MessageState::Pending) => watch.wait_for_write().await,
                    other => return other,
                }
            }
        };
        match tokio::time::timeout(timeout, settled).await {
            Ok(state) => state,
            Err(_) => Ok(MessageState::Pending),
        }
    }

    /// Says that a message for a claimed run comes to nothing, and why, for people. Never waits; it is stored after all that was
    /// appended before. A message that has been taken or refused stays so.
    pub fn reject_message(&self, claim: &RunClaim, message: MessageId, reason: String) {
        if !self.issued(claim) {
            return tracing::error!("run {} is not claimed through this journal", claim.run());
        }
        let run = claim.run();
        // Without a writer it waits for the next process that carries the run out.
        let _ = self.send(Job::RejectMessage { run, message, reason });
    }

    /// Whether a message waits for a run. Reads the disk.
    ///
    /// # Errors
    /// A failure to read.
    pub fn has_pending_messages(&self, run: RunId) -> Result<bool, StoreError> {
        let waiting = self
            .readers()
            .with(|db| message::waiting(db, run, MessageId(0), 1))?;
        Ok(!waiting.is_empty())
    }

    /// All that waits for a run, in the order in which it was posted: of one that nobody carries out, what it is told first when it goes
    /// on. Reads the disk.
    ///
    /// # Errors
    /// A failure to read.
    pub fn pending_messages(&self, run: RunId) -> Result<Vec<Message>, StoreError> {
        self.readers()
            .with(|db| message::waiting(db, run, MessageId(0), usize::MAX))
    }

    /// What waits for a run, and what will come. To be used by who carries it out: it is the claim's holder who takes messages
    /// (see [`crate::NewEntry::consumes`]) or refuses them.
    pub fn inbox(&self, run: RunId) -> Inbox {
        Inbox {
            watch: self.watch(),
            journal: self.clone(),
            run,
            position: MessageId(0),
            read: VecDeque::new(),
            look: true,
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

/// A run's messages, those to come included. Made by [`Journal::inbox`].
///
/// It brings each message once; one that was neither taken nor refused is brought again by the next inbox, in this process or,
/// after its end, in another.
pub struct Inbox {
    watch: ChangeSubscription,
    journal: Journal,
    run: RunId,
    /// The last one read.
    position: MessageId,
    read: VecDeque<Message>,
    /// More may be there than was read.
    look: bool,
}

impl Inbox {
    /// The next message, in the order in which they were posted; waits for one. A journal that cannot be read is tried again
    /// until it can.
    ///
    /// Dropping the future loses nothing. It must be awaited within a Tokio runtime with timers: the journal is read on its
    /// blocking threads.
    pub async fn next(&mut self) -> Message {
        loop {
            if let Some(message) = self.read.pop_front() {
                return message;
            }
            if !self.look {
                self.watch.wait_for_message().await;
                self.look = true;
            }
            if let Err(e) = self.read_more().await {
                tracing::warn!("the messages for run {} cannot be read: {e}", self.run);
                tokio::time::sleep(INTERVAL).await;
            }
        }
    }

    async fn read_more(&mut self) -> Result<(), StoreError> {
        let (journal, run, position) = (self.journal.clone(), self.run, self.position);
        let read = move || {
            journal
                .readers()
                .with(|db| message::waiting(db, run, position, BATCH))
        };
        let messages = match tokio::task::spawn_blocking(read).await {
            Ok(messages) => messages?,
            // The runtime is shutting down.
            Err(_) => future::pending().await,
        };
        match messages.last() {
            Some(last) => self.position = last.id,
            None => self.look = false,
        }
        self.read = messages.into();
        Ok(())
    }
}

//! The acknowledgement of a message to a run.

use tokio::sync::oneshot;

use crate::error::RuntimeError;
use crate::run_log::MessageId;

type Reply = oneshot::Sender<Result<(), RuntimeError>>;

/// Tells the sender of a message that the message is journaled, or why it was rejected. If an `Ack` is dropped unused, the sender only sees
/// that the channel is closed. The default value has no sender.
#[derive(Default)]
pub(crate) struct Ack {
    reply: Option<Reply>,
    message: Option<MessageId>,
}

impl Ack {
    pub(crate) fn new(reply: Reply) -> Self {
        Ack {
            reply: Some(reply),
            message: None,
        }
    }

    /// Creates the acknowledgement of a message from the journal's inbox.
    pub(crate) fn for_message(message: MessageId, reply: Reply) -> Self {
        Ack {
            reply: Some(reply),
            message: Some(message),
        }
    }

    /// Returns the inbox message that the journal marks as accepted when it stores the message's entry;
    /// `None` for a message from this process.
    pub(crate) fn message(&self) -> Option<MessageId> {
        self.message
    }

    /// Reports that the message is journaled.
    pub(crate) fn accepted(self) {
        self.send(Ok(()));
    }

    /// Reports why the message was rejected.
    pub(crate) fn rejected(self, error: RuntimeError) {
        self.send(Err(error));
    }

    fn send(self, result: Result<(), RuntimeError>) {
        if let Some(reply) = self.reply {
            // The sender may no longer wait.
            let _ = reply.send(result);
        }
    }
}

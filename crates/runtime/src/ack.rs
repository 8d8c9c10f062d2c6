//! The acknowledgement of a message to a run.

use dirigent_store::MessageId;
use tokio::sync::oneshot;

use crate::error::RuntimeError;

type Reply = oneshot::Sender<Result<(), RuntimeError>>;

/// Tells a message's sender that the message is journaled, or why it was rejected. Dropping it tells neither; the sender then sees the channel
/// close. The default acknowledges to nobody.
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

    /// The acknowledgement of a message from the journal's inbox.
    pub(crate) fn for_message(message: MessageId, reply: Reply) -> Self {
        Ack {
            reply: Some(reply),
            message: Some(message),
        }
    }

    /// The inbox message that the entry is to consume; `None` for a message of this process.
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

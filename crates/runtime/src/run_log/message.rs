//! Messages to runs. A message is pending until it is either accepted, as an entry of its run, or rejected.

use std::fmt;

use dirigent_core::time::Timestamp;

/// Maximum length of a message's body, in bytes: 1 MiB.
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// Maximum number of pending messages of a run.
pub const MAX_PENDING_MESSAGES: u64 = 1_000;

/// A message's number in its run log. Later messages have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A message to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of the message.
    pub id: MessageId,
    /// The time at which the message was posted.
    pub at: Timestamp,
    /// The text that was passed to [`RunLog::post`](super::RunLog::post).
    pub body: String,
}

/// The state of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// The message is not handled yet, because no process owns the run, or its owner has not read the
    /// message.
    Pending,
    /// The message is stored as an entry of the run.
    Accepted,
    /// The message will not become an entry.
    Rejected {
        /// The reason, as text for the user.
        reason: String,
    },
}

/// The required position of a new message among the pending messages of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// After all pending messages, whatever they are.
    Last,
    /// Directly after this message, which must still be the newest pending message. With `None`, no message
    /// may be pending. Used for a message that is valid only after the messages that its sender has read.
    After(Option<MessageId>),
}

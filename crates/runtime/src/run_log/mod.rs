//! The interface to the store in which runs are journaled. The actors use only this trait, so the store can be a database or the log of a
//! durable-execution engine.

mod error;
mod message;
mod record;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use dirigent_core::time::Timestamp;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub use error::{RunLogError, RunLogErrorKind};
pub use message::{MAX_MESSAGE_BYTES, MAX_PENDING_MESSAGES, Message, MessageId, MessageState, Position};
pub use record::{Durability, ForkPoint, NewEntry, NewRun, Original, RunEnding, RunRecord, TurnNumber};

/// A callback for the result of a write. It is called exactly once, by the log's writer, so it should only send a message.
pub type OnCommit<T> = Box<dyn FnOnce(Result<T, RunLogError>) + Send>;

/// The entries of a run, first the stored ones and then new ones. Ends after an error.
pub type EntryStream = BoxStream<'static, Result<Entry, RunLogError>>;

/// The log of runs: every input of every run, in order (HOST-2); messages between processes; and the contents of changed files.
///
/// Only one process at a time owns a run, by holding its [`RunClaim`]. When that process ends, even by `kill -9`, others can claim its runs.
/// A log appends entries in the order of the calls, numbers them from 1, and never stores an entry after one that failed.
///
/// The methods that return a `Result` directly may block on the disk, so async code must call them in a blocking task. They must not be
/// called from an [`OnCommit`].
pub trait RunLog: fmt::Debug + Send + Sync + 'static {
    /// Creates a run and claims it.
    ///
    /// # Errors
    /// A run with this id exists, its conversation does not exist or has a turn with this number, or a write failed.
    fn create(&self, run: RunId, new: NewRun) -> Result<Arc<dyn RunClaim>, RunLogError>;

    /// Claims an existing run. A run that has ended remains ended until its next entry is appended.
    ///
    /// # Errors
    /// [`RunLogErrorKind::AlreadyClaimed`] while a live process owns the run, this process included; [`RunLogErrorKind::BrokenEntry`]; no
    /// such run.
    fn claim(&self, run: RunId) -> Result<Arc<dyn RunClaim>, RunLogError>;

    /// Creates the run `new` with the entries of `source` up to and including `at`, and claims it (HOST-9). Any process may own `source`.
    ///
    /// # Errors
    /// [`RunLogErrorKind::BrokenEntry`]; `source` or its entry `at` does not exist; a run with the id `new` exists; a write failed.
    fn fork(
        &self,
        source: RunId,
        at: u64,
        new: RunId,
        now: Timestamp,
    ) -> Result<Arc<dyn RunClaim>, RunLogError>;

    /// Reads the record of a run.
    ///
    /// # Errors
    /// No such run, or a read failure.
    fn run(&self, run: RunId) -> Result<RunRecord, RunLogError>;

    /// Reads up to `limit` entries of a run, in order, starting after entry `after` (0: from the first entry).
    ///
    /// # Errors
    /// [`RunLogErrorKind::BrokenEntry`]; no such run; a read failure.
    fn entries(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<Entry>, RunLogError>;

    /// Reads a run's entries after entry `after` and then new ones, whichever process owns the run. Ends with the run, or once no process
    /// owns it. A slow reader does not delay the writer.
    fn follow(&self, run: RunId, after: u64) -> EntryStream;

    /// Blocks until everything appended before is stored or has failed.
    ///
    /// # Errors
    /// The log's writer has stopped.
    fn flush(&self) -> Result<(), RunLogError>;

    /// Posts a message to a run, whichever process owns it. `body` is JSON that the run's owner understands. When this function returns, the
    /// message survives a power failure.
    ///
    /// # Errors
    /// [`RunLogErrorKind::Finished`]; [`RunLogErrorKind::OtherMessages`]; a body of more than [`MAX_MESSAGE_BYTES`]; more than
    /// [`MAX_PENDING_MESSAGES`]; no such run; a write failure.
    fn post(
        &self,
        run: RunId,
        at: Timestamp,
        body: String,
        position: Position,
    ) -> Result<MessageId, RunLogError>;

    /// Reads the state of a message.
    ///
    /// # Errors
    /// No such message, or a read failure.
    fn message(&self, id: MessageId) -> Result<MessageState, RunLogError>;

    /// Waits until a message is accepted or rejected. Returns [`MessageState::Pending`] after `timeout`.
    fn wait_settled(
        &self,
        id: MessageId,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<MessageState, RunLogError>>;

    /// Reads all pending messages of a run, oldest first.
    ///
    /// # Errors
    /// A read failure.
    fn pending_messages(&self, run: RunId) -> Result<Vec<Message>, RunLogError>;

    /// Returns true if a run has pending messages.
    ///
    /// # Errors
    /// A read failure.
    fn has_pending_messages(&self, run: RunId) -> Result<bool, RunLogError>;

    /// Records a file that a call is about to change. When this function returns, the content survives a power failure.
    ///
    /// # Errors
    /// A write failure; nothing is recorded then, and no run's entries fail.
    fn record_original(&self, original: Original, bytes: &[u8]) -> Result<(), RunLogError>;

    /// Reads recorded content by its SHA-256 in hexadecimal digits; `None` if it was never recorded.
    ///
    /// # Errors
    /// A read failure.
    fn content(&self, digest: &str) -> Result<Option<Vec<u8>>, RunLogError>;

    /// Reads the originals of all files that a run's calls recorded, oldest first.
    ///
    /// # Errors
    /// A read failure.
    fn originals(&self, run: RunId) -> Result<Vec<Original>, RunLogError>;
}

/// The exclusive right to write a run's entries. Dropping it releases the run once everything appended with it is stored; the end of the process
/// releases the run at once. No method blocks.
pub trait RunClaim: Send + Sync + 'static {
    /// Queues an entry. After a failed write, all later entries are refused until the run is claimed again,
    /// so that the run has no gaps. Calls `on_commit` with the entry's number.
    fn append(&self, entry: NewEntry, on_commit: OnCommit<u64>);

    /// Marks the run as ended, after everything appended before. `status` is the reason as JSON. Later entries are refused until the run is
    /// claimed again. With [`RunEnding::Finished`], the run's pending messages are rejected.
    fn end(&self, at: Timestamp, status: String, ending: RunEnding, on_commit: OnCommit<()>);

    /// Queues the rejection of a message, with a reason for the user. Does nothing if the message is already accepted or rejected.
    fn reject_message(&self, message: MessageId, reason: String);

    /// Reads the run's messages, oldest first, pending ones and new ones, each once. Never ends, because a
    /// failed read is retried.
    fn inbox(&self) -> BoxStream<'static, Message>;
}

//! The errors of run logs. They distinguish the kinds of error that the runtime handles, and wrap the log's
//! own error.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use dirigent_core::id::RunId;

/// A failure of a run log. Displays the text of the log's own error, which [`RunLogError::downcast_ref`]
/// returns. `Clone`, because one failed write fails many callers.
#[derive(Clone, Debug)]
pub struct RunLogError {
    kind: RunLogErrorKind,
    error: Arc<dyn Error + Send + Sync>,
}

/// The kinds of failure that a caller can react to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunLogErrorKind {
    /// A live process owns the run.
    AlreadyClaimed,
    /// The run has finished and accepts no messages.
    Finished,
    /// The run's pending messages are not the messages that the sender expects
    /// ([`Position::After`](super::Position::After)).
    OtherMessages,
    /// An entry of the run is missing or was changed.
    BrokenEntry {
        /// The number of the first missing or changed entry.
        seq: u64,
    },
    /// Any other failure, such as a full disk.
    Other,
}

#[derive(Debug, thiserror::Error)]
#[error("run {run} is no longer owned by this process: resume it to continue it")]
struct Released {
    run: RunId,
}

impl RunLogError {
    /// Wraps an error of a run log.
    pub fn new(kind: RunLogErrorKind, error: impl Error + Send + Sync + 'static) -> Self {
        let error = Arc::new(error);
        RunLogError { kind, error }
    }

    /// Returns the error for a write to a run that this process has released.
    pub(crate) fn released(run: RunId) -> Self {
        RunLogError::new(RunLogErrorKind::Other, Released { run })
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> RunLogErrorKind {
        self.kind
    }

    /// Returns the log's own error, if it has this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

impl fmt::Display for RunLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for RunLogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

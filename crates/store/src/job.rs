//! The jobs of the writer thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;

use crate::error::StoreError;
use crate::message::MessageId;
use crate::record::{Durability, ForkPoint, NewEntry, Original, RunEnding};

/// A write, and where to report its result.
pub(crate) enum Job {
    Create {
        run: RunId,
        goal: String,
        workspace: String,
        at: Timestamp,
        reply: SyncSender<Result<(), StoreError>>,
    },
    Claim {
        run: RunId,
        reply: SyncSender<Result<(), StoreError>>,
    },
    Fork {
        point: ForkPoint,
        run: RunId,
        at: Timestamp,
        reply: SyncSender<Result<(), StoreError>>,
    },
    Append {
        run: RunId,
        entry: NewEntry,
        on_commit: OnCommit,
    },
    End {
        run: RunId,
        at: Timestamp,
        status: String,
        ending: RunEnding,
        on_commit: OnCommit,
    },
    Release {
        run: RunId,
    },
    Post {
        run: RunId,
        at: Timestamp,
        body: String,
        /// The newest message that must be pending (0: none may be), if that matters.
        last: Option<MessageId>,
        reply: SyncSender<Result<MessageId, StoreError>>,
    },
    RejectMessage {
        run: RunId,
        message: MessageId,
        reason: String,
    },
    StoreContent {
        digest: String,
        /// `None` if the content is stored already.
        bytes: Option<Vec<u8>>,
        /// The file that a call is about to change.
        original: Option<Original>,
        reply: SyncSender<Result<(), StoreError>>,
    },
    Flush {
        reply: SyncSender<Result<(), StoreError>>,
    },
}

impl Job {
    pub(crate) fn durability(&self) -> Durability {
        match self {
            Job::Append { entry, .. } => entry.durability,
            // The user is told of a run's end once; a sender may leave after posting; the file that a content came from changes next.
            Job::End { .. } | Job::Post { .. } | Job::StoreContent { .. } => Durability::Full,
            Job::Create { .. }
            | Job::Claim { .. }
            | Job::Fork { .. }
            | Job::Release { .. }
            | Job::RejectMessage { .. }
            | Job::Flush { .. } => Durability::Normal,
        }
    }

    /// Returns true if both jobs may share a transaction, and so its failure. A content that does not fit must not fail a run.
    pub(crate) fn shares_transaction_with(&self, other: &Job) -> bool {
        matches!(self, Job::StoreContent { .. }) == matches!(other, Job::StoreContent { .. })
    }
}

/// The result of a job within its transaction.
pub(crate) enum JobOutcome {
    /// Done if the transaction commits. The number is an entry's or a message's, else 0.
    Done(u64),
    /// Refused, without effect on the transaction's other jobs.
    Refused(StoreError),
}

type Callback = Box<dyn FnOnce(Result<u64, StoreError>) + Send>;

/// A caller's callback. It is called exactly once, on drop with [`StoreError::Stopped`] if not before.
pub(crate) struct OnCommit {
    callback: Option<Callback>,
    journal: Arc<PathBuf>,
}

impl OnCommit {
    pub(crate) fn new(
        journal: &Arc<PathBuf>,
        callback: impl FnOnce(Result<u64, StoreError>) + Send + 'static,
    ) -> Self {
        OnCommit {
            callback: Some(Box::new(callback)),
            journal: Arc::clone(journal),
        }
    }

    pub(crate) fn call(mut self, result: Result<u64, StoreError>) {
        if let Some(callback) = self.callback.take() {
            call_catching_panic(callback, result);
        }
    }
}

impl Drop for OnCommit {
    fn drop(&mut self) {
        if let Some(callback) = self.callback.take() {
            let path = self.journal.as_ref().clone();
            call_catching_panic(callback, Err(StoreError::Stopped { path }));
        }
    }
}

/// Calls a callback. Its panic must not end the thread that other callers wait for.
fn call_catching_panic(callback: Callback, result: Result<u64, StoreError>) {
    if catch_unwind(AssertUnwindSafe(|| callback(result))).is_err() {
        tracing::error!("a callback of the journal panicked; the journal goes on");
    }
}

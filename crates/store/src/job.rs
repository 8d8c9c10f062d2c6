//! The jobs of the writer thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;

use crate::error::StoreError;
use crate::maintenance::{ContentReferences, ImportedRun, PruneFilter};
use dirigent_runtime::run_log::{
    Durability, ForkPoint, MessageId, NewEntry, NewRun, Original, Position, RunEnding,
};
use rusqlite::Connection;

/// A write within a transaction. It must refuse, if at all, before its first change, because the transaction
/// continues after a refusal.
pub(crate) type RecordWrite = Box<dyn Fn(&Connection) -> rusqlite::Result<Result<u64, StoreError>> + Send>;

/// A job for the writer thread, with the channel or callback for its result.
pub(crate) enum Job {
    Create {
        run: RunId,
        new: NewRun,
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
        position: Position,
        reply: SyncSender<Result<MessageId, StoreError>>,
    },
    RejectMessage {
        run: RunId,
        message: MessageId,
        reason: String,
    },
    StoreContent {
        digest: String,
        bytes: Vec<u8>,
        /// The file that a call is about to change.
        original: Option<Original>,
        reply: SyncSender<Result<(), StoreError>>,
    },
    /// Writes records that are not tied to a run.
    Write {
        write: RecordWrite,
        /// Receives the number that the write returns.
        reply: SyncSender<Result<u64, StoreError>>,
    },
    Import {
        imported: Box<ImportedRun>,
        reply: SyncSender<Result<(), StoreError>>,
    },
    /// Deletes a run, if the filter still selects it.
    DeleteRun {
        run: RunId,
        filter: PruneFilter,
        /// Receives the number of deleted runs.
        reply: SyncSender<Result<u64, StoreError>>,
    },
    /// Deletes unreferenced contents.
    DeleteContents {
        references: Box<ContentReferences>,
        /// Receives the number of deleted contents.
        reply: SyncSender<Result<u64, StoreError>>,
    },
    Flush {
        reply: SyncSender<Result<(), StoreError>>,
    },
}

impl Job {
    pub(crate) fn durability(&self) -> Durability {
        match self {
            Job::Append { entry, .. } => entry.durability,
            // These jobs must survive a power failure: the end of a run is reported only once, a sender may
            // exit after posting, a recorded file is changed right afterwards, and the file of an imported
            // run may be deleted.
            Job::End { .. } | Job::Post { .. } | Job::StoreContent { .. } | Job::Import { .. } => {
                Durability::Full
            }
            Job::Create { .. }
            | Job::Claim { .. }
            | Job::Fork { .. }
            | Job::Release { .. }
            | Job::RejectMessage { .. }
            | Job::Write { .. }
            | Job::DeleteRun { .. }
            | Job::DeleteContents { .. }
            | Job::Flush { .. } => Durability::Normal,
        }
    }

    /// Returns true if both jobs may share a transaction, and so fail together. A file content or an imported run that does not fit on the
    /// disk, or a failed deletion, must not make the entries of a run fail.
    pub(crate) fn shares_transaction_with(&self, other: &Job) -> bool {
        !self.is_apart() && !other.is_apart()
            || matches!(
                (self, other),
                (Job::StoreContent { .. }, Job::StoreContent { .. })
            )
    }

    fn is_apart(&self) -> bool {
        matches!(
            self,
            Job::StoreContent { .. }
                | Job::Import { .. }
                | Job::Write { .. }
                | Job::DeleteRun { .. }
                | Job::DeleteContents { .. }
        )
    }
}

/// The result of a job within its transaction.
pub(crate) enum JobOutcome {
    /// The job is done if the transaction commits. Contains the number of the entry or message; 0 for other jobs.
    Done(u64),
    /// The job is refused, without effect on the transaction's other jobs.
    Refused(StoreError),
}

type Callback = Box<dyn FnOnce(Result<u64, StoreError>) + Send>;

/// A caller's callback. Called exactly once: by [`OnCommit::call`], or on drop with [`StoreError::Stopped`].
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

/// Calls a callback and catches its panic, which must not end the writer thread.
fn call_catching_panic(callback: Callback, result: Result<u64, StoreError>) {
    if catch_unwind(AssertUnwindSafe(|| callback(result))).is_err() {
        tracing::error!("a callback of the journal panicked; the journal continues");
    }
}

//! The writer thread: takes what is to be written off its queue, as much as has gathered, and writes it in
//! one transaction, so that many callers share one fsync.
//!
//! It never waits for more work to gather, and never stores a part of a batch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, PoisonError};

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::claimed_runs::ClaimedRuns;
use crate::contents::Original;
use crate::error::StoreError;
use crate::journal::{Durability, ForkPoint, NewEntry, RunEnding};
use crate::message::MessageId;
use crate::tail::{Live, Progress};

/// What one transaction takes at most.
const MAX_BATCH: usize = 256;

/// What the writer is asked to do.
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
        /// The newest message that must be waiting, if that matters.
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
        /// None where the content is stored already.
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
    fn durability(&self) -> Durability {
        match self {
            Job::Append { entry, .. } => entry.durability,
            // The end of a run is told to the user, and comes once; a person may go away after saying something; what was in a file
            // is gone from there the next moment.
            Job::End { .. } | Job::Post { .. } | Job::StoreContent { .. } => Durability::Full,
            Job::Create { .. }
            | Job::Claim { .. }
            | Job::Fork { .. }
            | Job::Release { .. }
            | Job::RejectMessage { .. }
            | Job::Flush { .. } => Durability::Normal,
        }
    }

    /// Whether both may share a transaction, and so its failure: a content that there is no room for fails no run.
    fn goes_with(&self, other: &Job) -> bool {
        matches!(self, Job::StoreContent { .. }) == matches!(other, Job::StoreContent { .. })
    }
}

type Callback = Box<dyn FnOnce(Result<u64, StoreError>) + Send>;

/// A caller's callback; called exactly once, also where the writer is gone.
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
            call_safely(callback, result);
        }
    }
}

impl Drop for OnCommit {
    fn drop(&mut self) {
        if let Some(callback) = self.callback.take() {
            let path = self.journal.as_ref().clone();
            call_safely(callback, Err(StoreError::Stopped { path }));
        }
    }
}

/// Other callers wait for the same thread: a panic of one of them is not theirs.
fn call_safely(callback: Callback, result: Result<u64, StoreError>) {
    if catch_unwind(AssertUnwindSafe(|| callback(result))).is_err() {
        tracing::error!("a callback of the journal panicked; the journal goes on");
    }
}

/// What became of a job in its transaction.
pub(crate) enum Outcome {
    /// Done if the transaction is; the number is an entry's place in its run, a message's number, or 0.
    Done(u64),
    /// Not done, which concerns no other job.
    Refused(StoreError),
}

/// The writer thread's state.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) path: Arc<PathBuf>,
    pub(crate) claimed: ClaimedRuns,
    pub(crate) live: Arc<Live>,
    pub(crate) synced: Option<Durability>,
}

impl Writer {
    /// Works until nobody is left who could ask for anything, and everything asked for is done.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        let mut batch = Vec::with_capacity(MAX_BATCH);
        let mut first: Option<Job> = None;
        while let Some(job) = first.take().or_else(|| jobs.recv().ok()) {
            batch.push(job);
            while batch.len() < MAX_BATCH
                && let Ok(next) = jobs.try_recv()
            {
                if !next.goes_with(&batch[0]) {
                    first = Some(next);
                    break;
                }
                batch.push(next);
            }
            let mut outcomes = Vec::with_capacity(batch.len());
            match self.write(&batch, &mut outcomes) {
                Ok(()) => self.claimed.committed(&self.path),
                Err(e) => {
                    tracing::error!(journal = %self.path.display(), "nothing of a batch was written: {e}");
                    outcomes = self.claimed.failed(&batch, outcomes, &e);
                }
            }
            for (job, outcome) in batch.drain(..).zip(outcomes) {
                self.answer(job, outcome);
            }
        }
    }

    /// Stores all of the batch, or nothing of it.
    fn write(&mut self, batch: &[Job], outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        let fails = |e| StoreError::sqlite(&self.path, e);
        let durability = batch
            .iter()
            .map(Job::durability)
            .max()
            .unwrap_or(Durability::Normal);
        // It can't be changed within a transaction. Syncing the log for a Full batch covers all Normal ones
        // before it.
        if self.synced != Some(durability) {
            let level = match durability {
                Durability::Normal => "NORMAL",
                Durability::Full => "FULL",
            };
            self.connection
                .execute_batch(&format!("PRAGMA synchronous = {level}"))
                .map_err(fails)?;
            self.synced = Some(durability);
        }
        let transaction =
            Transaction::new(&mut self.connection, TransactionBehavior::Immediate).map_err(fails)?;
        self.claimed.release_leftovers(&transaction).map_err(fails)?;
        for job in batch {
            outcomes.push(self.claimed.apply(&transaction, &self.path, job).map_err(fails)?);
        }
        transaction.commit().map_err(fails)
    }

    /// Tells those who follow the run, then the one who asked.
    fn answer(&mut self, job: Job, outcome: Outcome) {
        let result = match outcome {
            Outcome::Done(seq) => Ok(seq),
            Outcome::Refused(e) => Err(e),
        };
        match job {
            Job::Create { run, reply, .. } | Job::Claim { run, reply } | Job::Fork { run, reply, .. } => {
                if result.is_ok()
                    && let Some(progress) = self.claimed.progress(run)
                {
                    self.live().insert(run, progress);
                }
                // Whoever asked waits for the answer.
                let _ = reply.send(result.map(drop));
            }
            Job::Append { run, on_commit, .. } => {
                if let Ok(seq) = result {
                    self.update_progress(run, |progress| progress.committed = seq);
                }
                on_commit.call(result);
            }
            Job::End { run, on_commit, .. } => {
                if result.is_ok() {
                    self.update_progress(run, |progress| progress.closed = true);
                }
                on_commit.call(result);
            }
            Job::Release { run } => {
                // Dropping the sender tells whoever still follows.
                self.live().remove(&run);
            }
            Job::Post { reply, .. } => {
                // Whoever asked waits for the answer.
                let _ = reply.send(result.map(MessageId));
            }
            Job::RejectMessage { run, message, .. } => {
                if let Err(e) = result {
                    tracing::warn!(
                        "message {message} for run {run} waits on, its refusal was not stored: {e}"
                    );
                }
            }
            Job::StoreContent { reply, .. } | Job::Flush { reply } => {
                // Whoever asked waits for the answer.
                let _ = reply.send(result.map(drop));
            }
        }
    }

    fn update_progress(&self, run: RunId, change: impl FnOnce(&mut Progress)) {
        if let Some(progress) = self.live().get(&run) {
            progress.send_modify(change);
        }
    }

    fn live(&self) -> std::sync::MutexGuard<'_, crate::tail::LiveRuns> {
        self.live.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The writer thread. It takes all waiting jobs from its queue and writes them in one transaction, so that
//! many callers share one fsync.
//!
//! The thread never delays a batch to wait for further jobs. It stores either a whole batch or nothing.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::claimed_runs::ClaimedRuns;
use crate::error::StoreError;
use crate::files;
use crate::job::{Job, JobOutcome};
use crate::progress::LiveRuns;
use dirigent_runtime::run_log::{Durability, MessageId};

/// Maximum number of jobs in one transaction.
const MAX_BATCH: usize = 256;

/// The writer thread's state.
pub(crate) struct Writer {
    connection: Connection,
    path: Arc<PathBuf>,
    /// The identity of the open file.
    file: (u64, u64),
    claimed: ClaimedRuns,
    live: Arc<LiveRuns>,
    /// The current value of SQLite's `synchronous` setting; `None` before the first transaction.
    synced: Option<Durability>,
}

impl Writer {
    pub(crate) fn new(
        connection: Connection,
        path: Arc<PathBuf>,
        file: (u64, u64),
        live: Arc<LiveRuns>,
    ) -> Self {
        Writer {
            connection,
            path,
            file,
            claimed: ClaimedRuns::default(),
            live,
            synced: None,
        }
    }

    /// Runs until all senders are dropped and the queue is empty.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        let mut batch = Vec::with_capacity(MAX_BATCH);
        let mut first: Option<Job> = None;
        while let Some(job) = first.take().or_else(|| jobs.recv().ok()) {
            batch.push(job);
            while batch.len() < MAX_BATCH
                && let Ok(next) = jobs.try_recv()
            {
                if !next.shares_transaction_with(&batch[0]) {
                    first = Some(next);
                    break;
                }
                batch.push(next);
            }
            let mut outcomes = Vec::with_capacity(batch.len());
            match self.write(&batch, &mut outcomes) {
                Ok(()) => self.claimed.committed(&self.path),
                Err(e) => {
                    tracing::error!(journal = %self.path.display(), "a transaction failed and was rolled back: {e}");
                    outcomes = self.claimed.failed(&batch, outcomes, &e);
                }
            }
            for (job, outcome) in batch.drain(..).zip(outcomes) {
                self.answer(job, outcome);
            }
        }
    }

    /// Stores the whole batch or nothing.
    fn write(&mut self, batch: &[Job], outcomes: &mut Vec<JobOutcome>) -> Result<(), StoreError> {
        let fails = |e| StoreError::sqlite(&self.path, e);
        let durability = batch
            .iter()
            .map(Job::durability)
            .max()
            .unwrap_or(Durability::Normal);
        // SQLite cannot change this setting within a transaction. Syncing the log for a Full batch also covers all earlier Normal batches.
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
        self.claimed.store_heads(&transaction).map_err(fails)?;
        // Data written to a deleted or replaced file would be lost.
        match files::identity(&self.path) {
            Ok(file) if file == self.file => {}
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(StoreError::io("find the journal", &self.path, e));
            }
            Ok(_) | Err(_) => {
                let path = self.path.as_ref().clone();
                return Err(StoreError::Moved { path });
            }
        }
        transaction.commit().map_err(fails)
    }

    /// Notifies the run's tails, then sends the result to the job's caller.
    fn answer(&mut self, job: Job, outcome: JobOutcome) {
        let result = match outcome {
            JobOutcome::Done(number) => Ok(number),
            JobOutcome::Refused(e) => Err(e),
        };
        match job {
            Job::Create { run, reply, .. } | Job::Claim { run, reply } | Job::Fork { run, reply, .. } => {
                if result.is_ok()
                    && let Some(progress) = self.claimed.progress(run)
                {
                    self.live.insert(run, progress);
                    self.live.written(run);
                }
                // The caller blocks until this reply arrives.
                let _ = reply.send(result.map(drop));
            }
            Job::Append { run, on_commit, .. } => {
                if let Ok(seq) = result {
                    self.live.update(run, |progress| progress.committed = seq);
                    self.live.written(run);
                }
                on_commit.call(result);
            }
            Job::End { run, on_commit, .. } => {
                if result.is_ok() {
                    self.live.update(run, |progress| progress.closed = true);
                    self.live.written(run);
                }
                on_commit.call(result);
            }
            Job::Release { run } => {
                self.live.remove(run);
                self.live.written(run);
            }
            Job::Post { reply, .. } => {
                let _ = reply.send(result.map(MessageId));
            }
            Job::RejectMessage { run, message, .. } => {
                if let Err(e) = result {
                    tracing::warn!(%run, %message, "a message stays pending, because its rejection could not be stored: {e}");
                }
            }
            Job::Write { reply, .. } | Job::DeleteRun { reply, .. } | Job::DeleteContents { reply, .. } => {
                let _ = reply.send(result);
            }
            Job::StoreContent { reply, .. } | Job::Import { reply, .. } | Job::Flush { reply } => {
                let _ = reply.send(result.map(drop));
            }
        }
    }
}

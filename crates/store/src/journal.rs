//! The handle of the journal: opens it, claims runs, and appends and reads entries.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread::{self, JoinHandle};

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use dirigent_core::time::Timestamp;

use crate::error::StoreError;
use crate::files::identity;
use crate::job::{Job, OnCommit};
use crate::options::{JournalAccess, JournalOptions};
use crate::progress::LiveRuns;
use crate::reader::Readers;
use crate::run_filter::{RunFilter, RunPage};
use crate::schema;
use crate::watcher::{ChangeSubscription, Watcher};
use crate::writer::Writer;
use dirigent_runtime::run_log::{ForkPoint, NewEntry, NewRun, RunEnding, RunRecord};

/// The journal of runs. Clones are handles of the same journal, which has one writer thread.
///
/// The writer thread ends when the last handle is dropped; each [`RunClaim`], [`Tail`](crate::Tail) and [`Inbox`](crate::Inbox) counts as a
/// handle. Dropping the last handle blocks until everything appended is stored and all callbacks have returned, unless a callback itself
/// drops it.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    path: Arc<PathBuf>,
    access: JournalAccess,
    /// `None` if the journal is read-only, and while it is being dropped.
    jobs: Option<Sender<Job>>,
    writer: Option<JoinHandle<()>>,
    readers: Readers,
    watcher: Arc<Watcher>,
    live: Arc<LiveRuns>,
}

impl JournalOptions {
    /// Opens the journal at `path` with these options. See [`Journal::open`].
    ///
    /// # Errors
    /// The errors of [`Journal::open`]; [`StoreError::Missing`] with [`Self::existing`].
    pub fn open(&self, path: &Path) -> Result<Journal, StoreError> {
        let live = Arc::new(LiveRuns::default());
        if self.access == JournalAccess::ReadOnly {
            let path = Arc::new(schema::check_for_reading(path, self)?);
            return Ok(Journal::with_writer(path, self, live, None));
        }
        let (connection, path) = schema::open_for_writing(path, self)?;
        let path = Arc::new(path);
        let (jobs, queue) = mpsc::channel();
        let file = identity(&path).map_err(|e| StoreError::io("open the journal", &path, e))?;
        let writer = Writer::new(connection, Arc::clone(&path), file, Arc::clone(&live));
        let writer = thread::Builder::new()
            .name("dirigent-journal".to_owned())
            .spawn(move || writer.run(&queue))
            .map_err(|e| StoreError::io("start a thread to write", &path, e))?;
        Ok(Journal::with_writer(path, self, live, Some((jobs, writer))))
    }
}

/// The exclusive right to write for a run. Dropping the claim releases the run once everything appended with
/// it is stored. If the process ends, the run is released at once.
pub struct RunClaim {
    journal: Journal,
    run: RunId,
}

impl RunClaim {
    /// Returns the claimed run.
    pub fn run(&self) -> RunId {
        self.run
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }
}

impl Drop for RunClaim {
    fn drop(&mut self) {
        // If the writer thread has stopped, the run is released when the process ends.
        let _ = self.journal.send(Job::Release { run: self.run });
    }
}

impl fmt::Debug for RunClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunClaim").field(&self.run).finish()
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Journal").field(&self.inner.path).finish()
    }
}

impl Journal {
    /// Opens the journal at `path` for reading and writing, with the default [`JournalOptions`]. A missing journal and its parent folders
    /// are created, accessible only to the current user.
    ///
    /// # Errors
    /// [`StoreError::Foreign`] for another program's file, [`StoreError::UnsupportedFormat`] for another format, and
    /// [`StoreError::Damaged`] for a damaged file; the file is left unchanged. Other errors if the file cannot be created, read or written.
    pub fn open(path: &Path) -> Result<Journal, StoreError> {
        JournalOptions::default().open(path)
    }

    /// Returns the canonical path of the journal's file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Creates a run and claims it. Blocks on the writer thread, so it must not be called from a callback of [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::RunExists`] if a run with this id exists; for a turn, [`StoreError::NoSuchConversation`] and [`StoreError::TurnExists`]; a
    /// write failure.
    pub fn create(&self, run: RunId, new: NewRun) -> Result<RunClaim, StoreError> {
        self.request_claim(run, |reply| Job::Create { run, new, reply })
    }

    /// Claims an existing run. A run that is marked as ended remains ended until its next entry is appended. Blocks on the writer thread,
    /// so it must not be called from a callback of [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::AlreadyClaimed`] while a live process owns the run, this process included; [`StoreError::NoSuchRun`]; a write failure.
    pub fn claim(&self, run: RunId) -> Result<RunClaim, StoreError> {
        self.request_claim(run, |reply| Job::Claim { run, reply })
    }

    /// Creates the run `new` with copies of the entries of `source` up to and including `at`, and claims it (HOST-9). The new run has the
    /// goal and workspace of `source`. `source` is not changed, and any process may own it. Blocks on the writer thread, so it must not be
    /// called from a callback of [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::NoSuchEntry`] if `source` has no entry `at`; [`StoreError::NoSuchRun`]; [`StoreError::RunExists`] if a run with the id
    /// `new` exists; a write failure.
    pub fn fork(&self, source: RunId, at: u64, new: RunId, now: Timestamp) -> Result<RunClaim, StoreError> {
        let point = ForkPoint { run: source, seq: at };
        self.request_claim(new, |reply| Job::Fork {
            point,
            run: new,
            at: now,
            reply,
        })
    }

    /// Queues an entry of a claimed run. Never blocks. The entries of one caller are stored in the order of its calls. One transaction can
    /// store several entries.
    ///
    /// The writer thread calls `on_commit` exactly once, after the entry was stored or could not be stored.
    /// The argument is the entry's number in the run, or the error. The callback delays all writes, so it
    /// should only send a message. A panic of the callback is logged and does not stop the journal.
    ///
    /// If a transaction fails, none of its entries is stored. Later entries of the same runs are refused ([`StoreError::Poisoned`]) until
    /// the runs are claimed again, so that a run's entries have no gaps. The same applies after an entry that consumes a message which is
    /// not pending ([`StoreError::MessageNotPending`]).
    pub fn append(
        &self,
        claim: &RunClaim,
        entry: NewEntry,
        on_commit: impl FnOnce(Result<u64, StoreError>) + Send + 'static,
    ) {
        let run = claim.run;
        self.enqueue(claim, OnCommit::new(&self.inner.path, on_commit), |on_commit| {
            Job::Append {
                run,
                entry,
                on_commit,
            }
        });
    }

    /// Marks a claimed run as ended, after everything appended before. `status` is the reason as JSON. Later entries are refused
    /// ([`StoreError::Ended`]) until the run is claimed again. With [`RunEnding::Finished`], the run's pending messages are rejected in the
    /// same transaction. `on_commit` is called as in [`Journal::append`], after an fsync.
    pub fn end(
        &self,
        claim: &RunClaim,
        at: Timestamp,
        status: String,
        ending: RunEnding,
        on_commit: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        let run = claim.run;
        let on_commit = OnCommit::new(&self.inner.path, |result| on_commit(result.map(drop)));
        self.enqueue(claim, on_commit, |on_commit| Job::End {
            run,
            at,
            status,
            ending,
            on_commit,
        });
    }

    /// Reads up to `limit` entries of a run, in order, starting after entry `after` (0: from the first entry).
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`]; [`StoreError::Entry`] for an unreadable entry; a read failure.
    pub fn entries(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let batch = self.readers().entries(run, after, limit)?;
        let entries: Vec<_> = batch.entries.into_iter().collect::<Result<_, _>>()?;
        if entries.is_empty() {
            self.run(run)?;
        }
        Ok(entries)
    }

    /// Blocks until everything appended before is stored or has failed. Must not be called from a callback of [`Journal::append`], because
    /// it blocks on the writer thread.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] if the writer thread has stopped.
    pub fn flush(&self) -> Result<(), StoreError> {
        if self.inner.access == JournalAccess::ReadOnly {
            return Ok(());
        }
        self.wait(|reply| Job::Flush { reply })
    }

    /// Reads the records of all runs, newest first.
    ///
    /// # Errors
    /// Any failure to read the journal.
    pub fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        Ok(self.readers().page(&RunFilter::new().limit(usize::MAX))?.runs)
    }

    /// Reads a page of the records of the runs that the filter selects, newest first.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`] if the page begins after a run that does not exist; any failure to read the journal.
    pub fn run_page(&self, filter: &RunFilter) -> Result<RunPage, StoreError> {
        self.readers().page(filter)
    }

    /// Reads the record of a run.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`]; a read failure.
    pub fn run(&self, run: RunId) -> Result<RunRecord, StoreError> {
        self.readers().run(run)
    }

    /// Reads the records of these runs, in no particular order. Runs that do not exist are left out.
    ///
    /// # Errors
    /// Any failure to read the journal.
    pub fn records(&self, runs: &BTreeSet<RunId>) -> Result<Vec<RunRecord>, StoreError> {
        self.readers().runs(runs)
    }

    /// Finds a run by its id, by at least 4 hexadecimal digits of the beginning or end of its id (dashes are ignored), or by `last` for the
    /// newest run.
    ///
    /// # Errors
    /// [`StoreError::NotARunId`], [`StoreError::NoSuchRun`], [`StoreError::AmbiguousRun`]; a read failure.
    pub fn find(&self, text: &str) -> Result<RunId, StoreError> {
        self.readers().find(text)
    }

    fn with_writer(
        path: Arc<PathBuf>,
        options: &JournalOptions,
        live: Arc<LiveRuns>,
        writer: Option<(Sender<Job>, JoinHandle<()>)>,
    ) -> Journal {
        let (jobs, writer) = writer.unzip();
        let inner = Inner {
            readers: Readers::new(Arc::clone(&path), options.busy_timeout),
            watcher: Watcher::new(Arc::clone(&path), options.busy_timeout),
            access: options.access,
            path,
            jobs,
            writer,
            live,
        };
        Journal {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.inner.readers
    }

    pub(crate) fn live(&self) -> &LiveRuns {
        &self.inner.live
    }

    pub(crate) fn subscribe(&self) -> ChangeSubscription {
        self.inner.watcher.subscribe()
    }

    /// Returns true if this journal issued the claim.
    pub(crate) fn issued(&self, claim: &RunClaim) -> bool {
        Arc::ptr_eq(&self.inner, &claim.journal.inner)
    }

    fn request_claim(
        &self,
        run: RunId,
        job: impl FnOnce(SyncSender<Result<(), StoreError>>) -> Job,
    ) -> Result<RunClaim, StoreError> {
        self.wait(job)?;
        Ok(RunClaim {
            journal: self.clone(),
            run,
        })
    }

    /// Sends a job to the writer thread and blocks until its reply.
    pub(crate) fn wait<T>(
        &self,
        job: impl FnOnce(SyncSender<Result<T, StoreError>>) -> Job,
    ) -> Result<T, StoreError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.send(job(reply))?;
        answer.recv().map_err(|_| self.stopped())?
    }

    fn enqueue(&self, claim: &RunClaim, on_commit: OnCommit, job: impl FnOnce(OnCommit) -> Job) {
        if !self.issued(claim) {
            return on_commit.call(Err(StoreError::NotClaimed { run: claim.run }));
        }
        // A job that cannot be sent is dropped, which calls its callback.
        let _ = self.send(job(on_commit));
    }

    pub(crate) fn send(&self, job: Job) -> Result<(), StoreError> {
        let sent = self.inner.jobs.as_ref().map(|jobs| jobs.send(job).is_ok());
        if sent == Some(true) {
            return Ok(());
        }
        Err(self.stopped())
    }

    fn stopped(&self) -> StoreError {
        let path = self.path().to_owned();
        match self.inner.access {
            JournalAccess::ReadOnly => StoreError::ReadOnly { path },
            JournalAccess::ReadWrite => StoreError::Stopped { path },
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.watcher.close();
        self.readers.close();
        self.jobs = None;
        if let Some(writer) = self.writer.take()
            && writer.thread().id() != thread::current().id()
        {
            // A panic of the thread has already been reported.
            let _ = writer.join();
        }
    }
}

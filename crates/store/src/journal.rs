//! The journal as its callers see it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dirigent_core::id::{RunId, Scope};
use dirigent_core::journal::Entry;
use dirigent_core::time::Timestamp;

use crate::error::StoreError;
use crate::held::HeldRuns;
use crate::reader::{Readers, Stored};
use crate::schema;
use crate::tail::{Live, Tail};
use crate::writer::{Job, OnCommit, Writer};

/// The journal of runs. A clone is another handle of the same journal: one writer thread serves them all.
///
/// The thread ends when the last handle is gone ([`RunClaim`]s and [`Tail`]s count as handles). Dropping that
/// one waits until all that was appended is stored and every callback was called, unless a callback itself
/// drops it.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    path: Arc<PathBuf>,
    /// `None` once dropped.
    jobs: Option<Sender<Job>>,
    writer: Option<JoinHandle<()>>,
    readers: Readers,
    live: Arc<Live>,
}

/// How a journal is opened.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    pub(crate) busy_timeout: Duration,
    pub(crate) max_bytes: Option<u64>,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            busy_timeout: Duration::from_secs(5),
            max_bytes: None,
        }
    }
}

impl JournalOptions {
    /// How long to wait for another process that is writing before giving up with [`StoreError::Locked`]. 5 s
    /// by default.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// How large the file may grow, in bytes, rounded down to whole pages of 4 KiB; its log comes on top, a
    /// few MiB as a rule. What doesn't fit fails with [`StoreError::Full`]. Unlimited by default.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Opens the journal at `path`, as [`Journal::open`] does.
    ///
    /// # Errors
    /// As those of [`Journal::open`].
    pub fn open(&self, path: &Path) -> Result<Journal, StoreError> {
        let (connection, path) = schema::open_for_writing(path, self)?;
        let path = Arc::new(path);
        let live = Arc::new(Live::default());
        let (jobs, queue) = mpsc::channel();
        let writer = Writer {
            connection,
            path: Arc::clone(&path),
            held: HeldRuns::default(),
            live: Arc::clone(&live),
            synced: None,
        };
        let writer = thread::Builder::new()
            .name("dirigent-journal".to_owned())
            .spawn(move || writer.work(&queue))
            .map_err(|e| StoreError::io("start a thread to write", &path, e))?;
        let inner = Inner {
            readers: Readers::new(Arc::clone(&path), self.busy_timeout),
            path,
            jobs: Some(jobs),
            writer: Some(writer),
            live,
        };
        Ok(Journal {
            inner: Arc::new(inner),
        })
    }
}

/// What an entry must survive once its callback is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// The end of the process, `kill -9` included, but not a power failure.
    Normal,
    /// A power failure too: for entries on which an effect in the world depends (HOST-2).
    Full,
}

/// What the journal knows of a run without reading its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// The run.
    pub run: RunId,
    /// What it is to reach.
    pub goal: String,
    /// The folder it works in.
    pub workspace: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was marked as ended.
    pub ended_at: Option<Timestamp>,
    /// Why it ended, as JSON, as it was given to [`Journal::end`].
    pub status: Option<String>,
    /// The process that carries it out at this moment.
    pub held_by: Option<u32>,
    /// How many entries it has.
    pub entries: u64,
}

/// The right to write for a run, which one process has at a time. Dropping it gives the run free, after all
/// that was appended with it; if the process dies, the run is free at once.
pub struct RunClaim {
    journal: Journal,
    run: RunId,
}

impl RunClaim {
    /// Which run.
    pub fn run(&self) -> RunId {
        self.run
    }
}

impl Drop for RunClaim {
    fn drop(&mut self) {
        // Without a writer the run is free as soon as the process has ended.
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
    /// Opens the journal at `path` for reading and writing. Where there is none, it is created, with the
    /// folders above it, for the user's eyes only; an older format is brought up to date. [`JournalOptions`]
    /// has what can be set.
    ///
    /// # Errors
    /// A file that is another program's ([`StoreError::Foreign`]), of a later version ([`StoreError::Newer`])
    /// or damaged ([`StoreError::Damaged`]) is refused and stays as it is; so is one that cannot be created,
    /// read or written.
    pub fn open(path: &Path) -> Result<Journal, StoreError> {
        JournalOptions::default().open(path)
    }

    /// The journal's file, with all links in its path followed.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Creates a run and claims it. Waits for the writer: not to be called from a callback of
    /// [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::RunExists`] where there is one with that id; a failure to write.
    pub fn create(
        &self,
        run: RunId,
        goal: &str,
        workspace: &str,
        at: Timestamp,
    ) -> Result<RunClaim, StoreError> {
        let (goal, workspace) = (goal.to_owned(), workspace.to_owned());
        self.ask(run, |reply| Job::Create {
            run,
            goal,
            workspace,
            at,
            reply,
        })
    }

    /// Claims a run to go on with it. One that was marked as ended stays so until the first entry is
    /// appended. Waits for the writer: not to be called from a callback of [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::Held`] while a live process, this one included, holds it; [`StoreError::NoSuchRun`]; a
    /// failure to write.
    pub fn claim(&self, run: RunId) -> Result<RunClaim, StoreError> {
        self.ask(run, |reply| Job::Claim { run, reply })
    }

    /// Appends an entry to a claimed run; `body` is a [`dirigent_core::journal::Input`] as JSON. Never waits:
    /// entries are stored in the order in which one caller appends them, several in one transaction.
    ///
    /// Once the entry is stored, or has failed to be, the writer thread calls `on_commit` with its place in
    /// the run, exactly once. All who write wait while it runs, so it should only send a message. If it
    /// panics, that is logged and the journal goes on.
    ///
    /// A transaction that fails is each of its entries' failure: nothing of it is stored, and later entries
    /// for the same runs are refused ([`StoreError::Broken`]) until they are claimed anew, so that an entry
    /// is never missing between others.
    pub fn append(
        &self,
        claim: &RunClaim,
        at: Timestamp,
        scope: Scope,
        body: String,
        durability: Durability,
        on_commit: impl FnOnce(Result<u64, StoreError>) + Send + 'static,
    ) {
        let run = claim.run;
        self.enqueue(claim, OnCommit::new(&self.inner.path, on_commit), |on_commit| {
            Job::Append {
                run,
                at,
                scope,
                body,
                durability,
                on_commit,
            }
        });
    }

    /// Marks a claimed run as ended, after all that was appended before; `status` says why, as JSON. What is
    /// appended after it is refused ([`StoreError::Ended`]) until the run is claimed anew. `on_commit` is
    /// called as for [`Journal::append`], after an fsync.
    pub fn end(
        &self,
        claim: &RunClaim,
        at: Timestamp,
        status: String,
        on_commit: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        let run = claim.run;
        let on_commit = OnCommit::new(&self.inner.path, |result| on_commit(result.map(drop)));
        self.enqueue(claim, on_commit, |on_commit| Job::End {
            run,
            at,
            status,
            on_commit,
        });
    }

    /// At most `limit` entries of a run, in order, from the one after place `after`; 0 for the first.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`]; [`StoreError::Entry`] for one that can't be read; a failure to read.
    pub fn entries(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let entries: Vec<_> = self
            .read(run, after, limit)?
            .entries
            .into_iter()
            .collect::<Result<_, _>>()?;
        if entries.is_empty() {
            self.run(run)?;
        }
        Ok(entries)
    }

    /// Follows a run from the entry after place `after`: what is stored, then, if this process holds the run,
    /// what it appends, until its end. Nobody waits for a tail.
    pub fn tail(&self, run: RunId, after: u64) -> Tail {
        Tail::new(self.clone(), run, after, self.inner.live.follow(run))
    }

    /// Waits until all that was appended before is stored, or has failed. Waits for the writer: not to be called from a
    /// callback of [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::Stopped`] where the writer is gone.
    pub fn flush(&self) -> Result<(), StoreError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.send(Job::Flush { reply })?;
        answer.recv().map_err(|_| StoreError::Stopped {
            path: self.path().to_owned(),
        })?
    }

    /// All runs, newest first.
    ///
    /// # Errors
    /// A failure to read.
    pub fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        self.inner.readers.runs()
    }

    /// One run.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`]; a failure to read.
    pub fn run(&self, run: RunId) -> Result<RunRecord, StoreError> {
        self.inner.readers.run(run)
    }

    /// The run that someone means: a whole id, at least 4 hexadecimal digits of its beginning or end (dashes
    /// don't matter), or `last` for the newest.
    ///
    /// # Errors
    /// [`StoreError::NotARunId`], [`StoreError::NoSuchRun`], [`StoreError::AmbiguousRun`]; a failure to read.
    pub fn find(&self, text: &str) -> Result<RunId, StoreError> {
        self.inner.readers.find(text)
    }

    pub(crate) fn read(&self, run: RunId, after: u64, limit: usize) -> Result<Stored, StoreError> {
        self.inner.readers.entries(run, after, limit)
    }

    fn ask(
        &self,
        run: RunId,
        job: impl FnOnce(SyncSender<Result<(), StoreError>>) -> Job,
    ) -> Result<RunClaim, StoreError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.send(job(reply))?;
        answer.recv().map_err(|_| StoreError::Stopped {
            path: self.path().to_owned(),
        })??;
        Ok(RunClaim {
            journal: self.clone(),
            run,
        })
    }

    fn enqueue(&self, claim: &RunClaim, on_commit: OnCommit, job: impl FnOnce(OnCommit) -> Job) {
        if !Arc::ptr_eq(&self.inner, &claim.journal.inner) {
            return on_commit.call(Err(StoreError::NotHeld { run: claim.run }));
        }
        // A job that is not taken tells its caller so as it is dropped.
        let _ = self.send(job(on_commit));
    }

    fn send(&self, job: Job) -> Result<(), StoreError> {
        let sent = self.inner.jobs.as_ref().map(|jobs| jobs.send(job).is_ok());
        if sent == Some(true) {
            return Ok(());
        }
        let path = self.path().to_owned();
        Err(StoreError::Stopped { path })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.readers.close();
        self.jobs = None;
        if let Some(writer) = self.writer.take()
            && writer.thread().id() != thread::current().id()
        {
            // It catches the panics of callbacks, so one of its own has been reported by now.
            let _ = writer.join();
        }
    }
}

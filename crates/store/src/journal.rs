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

use crate::claimed_runs::ClaimedRuns;
use crate::error::StoreError;
use crate::message::MessageId;
use crate::reader::{EntryBatch, Readers};
use crate::schema;
use crate::tail::{Live, Tail};
use crate::watcher::{ChangeSubscription, Watcher};
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
    watcher: Arc<Watcher>,
    live: Arc<Live>,
}

/// How a journal is opened.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    pub(crate) busy_timeout: Duration,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) missing: Missing,
}

/// What becomes of a journal that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Refuse,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            busy_timeout: Duration::from_secs(5),
            max_bytes: None,
            missing: Missing::Create,
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

    /// Refuses a journal that is not there ([`StoreError::Missing`]) where it would be created otherwise, so that who only
    /// reads leaves no empty journal behind under a mistyped name.
    #[must_use]
    pub fn existing(mut self) -> Self {
        self.missing = Missing::Refuse;
        self
    }

    /// Opens the journal at `path`, as [`Journal::open`] does.
    ///
    /// # Errors
    /// As those of [`Journal::open`]; [`StoreError::Missing`] after [`Self::existing`].
    pub fn open(&self, path: &Path) -> Result<Journal, StoreError> {
        let (connection, path) = schema::open_for_writing(path, self)?;
        let path = Arc::new(path);
        let live = Arc::new(Live::default());
        let (jobs, queue) = mpsc::channel();
        let writer = Writer {
            connection,
            path: Arc::clone(&path),
            claimed: ClaimedRuns::default(),
            live: Arc::clone(&live),
            synced: None,
        };
        let writer = thread::Builder::new()
            .name("dirigent-journal".to_owned())
            .spawn(move || writer.run(&queue))
            .map_err(|e| StoreError::io("start a thread to write", &path, e))?;
        let inner = Inner {
            readers: Readers::new(Arc::clone(&path), self.busy_timeout),
            watcher: Watcher::new(Arc::clone(&path), self.busy_timeout),
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

/// An entry to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// When its input came.
    pub at: Timestamp,
    /// Whose input it is.
    pub scope: Scope,
    /// A [`dirigent_core::journal::Input`] as JSON.
    pub body: String,
    /// What it must survive.
    pub durability: Durability,
    /// The message that it came from, which is taken in the transaction that stores the entry: it becomes one entry, whenever
    /// the process dies.
    pub consumes: Option<MessageId>,
}

/// Whether anything more can come of a run that is marked as ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunEnding {
    /// It is over: what waits for it is refused, and so is what is posted to it from now on.
    Finished,
    /// It stands still until someone claims it to go on: what waits for it, and what is posted to it, waits for that.
    Paused,
}

/// Where a run that was forked begins to be itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForkPoint {
    /// The run whose past it shares.
    pub run: RunId,
    /// The last entry that they share.
    pub seq: u64,
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
    /// The process that carries it out at this moment; none where that process has died, however it died.
    pub owner_pid: Option<u32>,
    /// How many entries it has.
    pub entries: u64,
    /// Where it was forked from, if it was.
    pub forked_from: Option<ForkPoint>,
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
        self.request_claim(run, |reply| Job::Create {
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
    /// [`StoreError::AlreadyClaimed`] while a live process, this one included, holds it; [`StoreError::NoSuchRun`]; a
    /// failure to write.
    pub fn claim(&self, run: RunId) -> Result<RunClaim, StoreError> {
        self.request_claim(run, |reply| Job::Claim { run, reply })
    }

    /// Creates the run `new` out of the past of `source`, the entries up to and including place `at` with their times, and
    /// claims it (HOST-9). It has the goal and the workspace of `source`, which may be under way, in any process, and does not
    /// change. Waits for the writer: not to be called from a callback of [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::NoSuchEntry`] where `source` has no entry `at`; [`StoreError::NoSuchRun`]; [`StoreError::RunExists`] where
    /// there is a run `new`; a failure to write.
    pub fn fork(&self, source: RunId, at: u64, new: RunId, now: Timestamp) -> Result<RunClaim, StoreError> {
        let point = ForkPoint { run: source, seq: at };
        self.request_claim(new, |reply| Job::Fork {
            point,
            run: new,
            at: now,
            reply,
        })
    }

    /// Appends an entry to a claimed run. Never waits: entries are stored in the order in which one caller appends them, several
    /// in one transaction.
    ///
    /// Once the entry is stored, or has failed to be, the writer thread calls `on_commit` with its place in
    /// the run, exactly once. All who write wait while it runs, so it should only send a message. If it
    /// panics, that is logged and the journal goes on.
    ///
    /// A transaction that fails is each of its entries' failure: nothing of it is stored, and later entries
    /// for the same runs are refused ([`StoreError::Poisoned`]) until they are claimed anew, so that an entry
    /// is never missing between others. The same holds for an entry that takes a message which does not wait for the run
    /// ([`StoreError::MessageNotPending`]): it was taken or refused before.
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

    /// Marks a claimed run as ended, after all that was appended before; `status` says why, as JSON. What is
    /// appended after it is refused ([`StoreError::Ended`]) until the run is claimed anew. The messages that wait for a run that
    /// is [`RunEnding::Finished`] are refused in the same transaction. `on_commit` is called as for [`Journal::append`], after an fsync.
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
        Tail::for_this_process(self.clone(), run, after, self.inner.live.follow(run))
    }

    /// Follows a run from the entry after place `after`, whichever process carries it out: what is stored, then what comes,
    /// which is noticed within about 200 ms, until the run is marked as ended or nobody carries it out (within about a second of
    /// its process's end). Nobody waits for a tail.
    pub fn follow(&self, run: RunId, after: u64) -> Tail {
        match self.inner.live.follow(run) {
            Some(live) => Tail::for_this_process(self.clone(), run, after, Some(live)),
            None => Tail::for_any_process(self.clone(), run, after, self.watch()),
        }
    }

    /// Waits until all that was appended before is stored, or has failed. Waits for the writer: not to be called from a
    /// callback of [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::Stopped`] where the writer is gone.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.wait(|reply| Job::Flush { reply })
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

    pub(crate) fn readers(&self) -> &Readers {
        &self.inner.readers
    }

    pub(crate) fn read(&self, run: RunId, after: u64, limit: usize) -> Result<EntryBatch, StoreError> {
        self.inner.readers.entries(run, after, limit)
    }

    pub(crate) fn watch(&self) -> ChangeSubscription {
        self.inner.watcher.watch()
    }

    /// Whether a claim is one of this journal.
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

    /// Has the writer do a job, and waits until it is done.
    pub(crate) fn wait(
        &self,
        job: impl FnOnce(SyncSender<Result<(), StoreError>>) -> Job,
    ) -> Result<(), StoreError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.send(job(reply))?;
        answer.recv().map_err(|_| self.stopped())?
    }

    fn enqueue(&self, claim: &RunClaim, on_commit: OnCommit, job: impl FnOnce(OnCommit) -> Job) {
        if !self.issued(claim) {
            return on_commit.call(Err(StoreError::NotClaimed { run: claim.run }));
        }
        // A job that is not taken tells its caller so as it is dropped.
        let _ = self.send(job(on_commit));
    }

    pub(crate) fn send(&self, job: Job) -> Result<(), StoreError> {
        let sent = self.inner.jobs.as_ref().map(|jobs| jobs.send(job).is_ok());
        if sent == Some(true) {
            return Ok(());
        }
        Err(self.stopped())
    }

    pub(crate) fn stopped(&self) -> StoreError {
        let path = self.path().to_owned();
        StoreError::Stopped { path }
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
            // It catches the panics of callbacks, so one of its own has been reported by now.
            let _ = writer.join();
        }
    }
}

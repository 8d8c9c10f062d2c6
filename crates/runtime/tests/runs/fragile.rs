//! A run log that makes an actor panic where a test wants it, while the actor writes, and that counts its readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use dirigent_core::id::{AgentId, RunId};
use dirigent_core::journal::Entry;
use dirigent_core::time::Timestamp;
use dirigent_runtime::RunHandle;
use dirigent_runtime::run_log::{
    EntryStream, Message, MessageId, MessageState, NewEntry, NewRun, OnCommit, Original, Position, RunClaim,
    RunEnding, RunLog, RunLogError, RunRecord,
};
use dirigent_store::Journal;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

/// Guidance with these words makes the actor that writes it panic.
pub const CRASH: &str = "break on purpose";

/// Makes the supervisor of the run panic once it handles this message.
pub fn crash(handle: &RunHandle) {
    handle.guide(CRASH).unwrap();
}

/// Makes an agent's actor panic.
pub async fn crash_agent(handle: &RunHandle, agent: AgentId) {
    let lost = handle.guide_agent(agent, CRASH).await;
    assert!(lost.is_err(), "{agent} has accepted the message");
}

/// A journal whose writers can be made to panic.
#[derive(Clone, Debug)]
pub struct Fragile {
    journal: Journal,
    at_end: Arc<AtomicBool>,
    readers: Arc<AtomicUsize>,
}

impl Fragile {
    pub fn new(journal: Journal) -> Self {
        Fragile {
            journal,
            at_end: Arc::default(),
            readers: Arc::default(),
        }
    }

    /// Makes the next supervisor that writes a run's end panic.
    pub fn crash_at_end(&self) {
        self.at_end.store(true, Ordering::SeqCst);
    }

    /// The number of readers that have followed a run.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::SeqCst)
    }

    fn claimed(&self, claim: dirigent_store::RunClaim) -> Arc<dyn RunClaim> {
        let at_end = self.at_end.clone();
        Arc::new(FragileClaim { claim, at_end })
    }
}

struct FragileClaim {
    claim: dirigent_store::RunClaim,
    at_end: Arc<AtomicBool>,
}

impl RunClaim for FragileClaim {
    fn append(&self, entry: NewEntry, on_commit: OnCommit<u64>) {
        assert!(!entry.body.contains(CRASH), "broken on purpose");
        self.claim.append(entry, on_commit);
    }

    fn end(&self, at: Timestamp, status: String, ending: RunEnding, on_commit: OnCommit<()>) {
        assert!(!self.at_end.swap(false, Ordering::SeqCst), "broken on purpose");
        self.claim.end(at, status, ending, on_commit);
    }

    fn reject_message(&self, message: MessageId, reason: String) {
        self.claim.reject_message(message, reason);
    }

    fn inbox(&self) -> BoxStream<'static, Message> {
        self.claim.inbox()
    }
}

type Result<T> = std::result::Result<T, RunLogError>;

impl RunLog for Fragile {
    fn create(&self, run: RunId, new: NewRun) -> Result<Arc<dyn RunClaim>> {
        Ok(self.claimed(self.journal.create(run, new)?))
    }

    fn claim(&self, run: RunId) -> Result<Arc<dyn RunClaim>> {
        Ok(self.claimed(self.journal.claim(run)?))
    }

    fn fork(&self, source: RunId, at: u64, new: RunId, now: Timestamp) -> Result<Arc<dyn RunClaim>> {
        Ok(self.claimed(self.journal.fork(source, at, new, now)?))
    }

    fn run(&self, run: RunId) -> Result<RunRecord> {
        RunLog::run(&self.journal, run)
    }

    fn entries(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<Entry>> {
        RunLog::entries(&self.journal, run, after, limit)
    }

    fn follow(&self, run: RunId, after: u64) -> EntryStream {
        self.readers.fetch_add(1, Ordering::SeqCst);
        RunLog::follow(&self.journal, run, after)
    }

    fn flush(&self) -> Result<()> {
        RunLog::flush(&self.journal)
    }

    fn post(&self, run: RunId, at: Timestamp, body: String, position: Position) -> Result<MessageId> {
        RunLog::post(&self.journal, run, at, body, position)
    }

    fn message(&self, id: MessageId) -> Result<MessageState> {
        RunLog::message(&self.journal, id)
    }

    fn wait_settled(&self, id: MessageId, timeout: Duration) -> BoxFuture<'static, Result<MessageState>> {
        RunLog::wait_settled(&self.journal, id, timeout)
    }

    fn pending_messages(&self, run: RunId) -> Result<Vec<Message>> {
        RunLog::pending_messages(&self.journal, run)
    }

    fn has_pending_messages(&self, run: RunId) -> Result<bool> {
        RunLog::has_pending_messages(&self.journal, run)
    }

    fn record_original(&self, original: Original, bytes: &[u8]) -> Result<()> {
        RunLog::record_original(&self.journal, original, bytes)
    }

    fn content(&self, digest: &str) -> Result<Option<Vec<u8>>> {
        RunLog::content(&self.journal, digest)
    }

    fn originals(&self, run: RunId) -> Result<Vec<Original>> {
        RunLog::originals(&self.journal, run)
    }
}

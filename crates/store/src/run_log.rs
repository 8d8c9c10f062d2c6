//! Implements the runtime's run log with the journal.

use std::sync::Arc;
use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use dirigent_core::time::Timestamp;
use dirigent_runtime::run_log::{
    EntryStream, Message, MessageId, MessageState, NewEntry, NewRun, OnCommit, Original, Position,
    RunClaim as Claim, RunEnding, RunLog, RunLogError, RunLogErrorKind, RunRecord,
};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _, TryFutureExt as _};

use crate::error::StoreError;
use crate::journal::{Journal, RunClaim};
use crate::tail::Tail;

impl From<StoreError> for RunLogError {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::AlreadyClaimed { .. } => RunLogErrorKind::AlreadyClaimed,
            StoreError::Finished { .. } => RunLogErrorKind::Finished,
            StoreError::OtherMessages { .. } => RunLogErrorKind::OtherMessages,
            StoreError::BrokenEntry { seq, .. } => RunLogErrorKind::BrokenEntry { seq: *seq },
            _ => RunLogErrorKind::Other,
        };
        RunLogError::new(kind, error)
    }
}

type Result<T> = std::result::Result<T, RunLogError>;

impl RunLog for Journal {
    fn create(&self, run: RunId, new: NewRun) -> Result<Arc<dyn Claim>> {
        Ok(Arc::new(self.create(run, new)?))
    }

    fn claim(&self, run: RunId) -> Result<Arc<dyn Claim>> {
        Ok(Arc::new(self.claim(run)?))
    }

    fn fork(&self, source: RunId, at: u64, new: RunId, now: Timestamp) -> Result<Arc<dyn Claim>> {
        Ok(Arc::new(self.fork(source, at, new, now)?))
    }

    fn run(&self, run: RunId) -> Result<RunRecord> {
        Ok(self.run(run)?)
    }

    fn entries(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<Entry>> {
        Ok(self.entries(run, after, limit)?)
    }

    fn follow(&self, run: RunId, after: u64) -> EntryStream {
        entries(self.follow(run, after))
    }

    fn flush(&self) -> Result<()> {
        Ok(self.flush()?)
    }

    fn post(&self, run: RunId, at: Timestamp, body: String, position: Position) -> Result<MessageId> {
        Ok(self.post(run, at, body, position)?)
    }

    fn message(&self, id: MessageId) -> Result<MessageState> {
        Ok(self.message(id)?)
    }

    fn wait_settled(&self, id: MessageId, timeout: Duration) -> BoxFuture<'static, Result<MessageState>> {
        let journal = self.clone();
        async move { journal.wait_settled(id, timeout).err_into().await }.boxed()
    }

    fn pending_messages(&self, run: RunId) -> Result<Vec<Message>> {
        Ok(self.pending_messages(run)?)
    }

    fn has_pending_messages(&self, run: RunId) -> Result<bool> {
        Ok(self.has_pending_messages(run)?)
    }

    fn record_original(&self, original: Original, bytes: &[u8]) -> Result<()> {
        Ok(self.record_original(original, bytes)?)
    }

    fn content(&self, digest: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.content(digest)?)
    }

    fn originals(&self, run: RunId) -> Result<Vec<Original>> {
        Ok(self.originals(run)?)
    }
}

fn entries(tail: Tail) -> EntryStream {
    let next = |mut tail: Tail| async move {
        let entry = tail.next().await?;
        Some((entry.map_err(RunLogError::from), tail))
    };
    stream::unfold(tail, next).boxed()
}

impl Claim for RunClaim {
    fn append(&self, entry: NewEntry, on_commit: OnCommit<u64>) {
        let on_commit = |stored: std::result::Result<u64, StoreError>| on_commit(stored.map_err(Into::into));
        self.journal().append(self, entry, on_commit);
    }

    fn end(&self, at: Timestamp, status: String, ending: RunEnding, on_commit: OnCommit<()>) {
        let on_commit = |ended: std::result::Result<(), StoreError>| on_commit(ended.map_err(Into::into));
        self.journal().end(self, at, status, ending, on_commit);
    }

    fn reject_message(&self, message: MessageId, reason: String) {
        self.journal().reject_message(self, message, reason);
    }

    fn inbox(&self) -> BoxStream<'static, Message> {
        let inbox = self.journal().inbox(self.run());
        stream::unfold(
            inbox,
            |mut inbox| async move { Some((inbox.next().await, inbox)) },
        )
        .boxed()
    }
}

//! The events of runs for their watchers. All watchers of a run share one feed, which reads the run's entries
//! once and applies each to one [`RunView`]. The run's actors do not depend on the feed, so no watcher slows
//! a run down.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use dashmap::DashMap;
use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use dirigent_core::machine::Refusal;
use dirigent_core::view::{Event, RunView};
use futures::StreamExt as _;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::blocking::blocking;
use crate::error::RuntimeError;
use crate::journal_reader::read_run;
use crate::run_log::{EntryStream, RunLog};

/// The number of events that a feed keeps. A watcher that lags further behind reads the run from the run log
/// again.
const WINDOW_CAPACITY: usize = 4_096;

/// The feeds of all runs that are being watched.
#[derive(Clone)]
pub(crate) struct Feeds {
    pub(crate) journal: Arc<dyn RunLog>,
    runtime: Handle,
    feeds: Arc<DashMap<RunId, Weak<Feed>>>,
}

impl Feeds {
    /// Creates the feeds of a run log. They run in the current tokio runtime.
    pub(crate) fn new(journal: Arc<dyn RunLog>) -> Self {
        Feeds {
            journal,
            runtime: Handle::current(),
            feeds: Arc::default(),
        }
    }

    /// Returns the events of a run after entry `after`.
    pub(crate) fn watch(&self, run: RunId, after: u64) -> Events {
        let mut slot = self.feeds.entry(run).or_default();
        let existing = slot.upgrade();
        let feed = match existing.as_ref().filter(|feed| !feed.has_ended()) {
            Some(feed) => feed.clone(),
            None => {
                let feed = self.start(run);
                *slot = Arc::downgrade(&feed);
                feed
            }
        };
        // Dropping `existing` may drop its feed, which then removes its slot. So the slot is unlocked first.
        drop(slot);
        drop(existing);
        Events {
            journal: self.journal.clone(),
            grown: feed.grown.clone(),
            feed,
            cursor: Cursor::AfterEntry(after),
            older: VecDeque::new(),
            has_failed: false,
        }
    }

    /// Makes later watchers of a run start a new feed. Called when this process takes over the run, because an earlier feed may end with
    /// the run's previous owner.
    pub(crate) fn renew(&self, run: RunId) {
        self.feeds.remove(&run);
    }

    fn start(&self, run: RunId) -> Arc<Feed> {
        let (growing, grown) = watch::channel(());
        let feed = Arc::new(Feed {
            run,
            window: Mutex::default(),
            grown,
            reader: OnceLock::new(),
            feeds: Arc::downgrade(&self.feeds),
        });
        let entries = self.journal.follow(run, 0);
        let reader = self.runtime.spawn(read(Arc::downgrade(&feed), entries, growing));
        let _ = feed.reader.set(reader.abort_handle());
        feed
    }
}

/// Reads the entries of a run into its feed, until the run ends or the last watcher is dropped.
async fn read(feed: Weak<Feed>, mut entries: EntryStream, growing: watch::Sender<()>) {
    while let Some(entry) = entries.next().await {
        let Some(feed) = feed.upgrade() else {
            return;
        };
        let applied = entry.map_err(RuntimeError::from).and_then(|entry| {
            let (run, seq) = (entry.run, entry.seq);
            let applied = feed.window().apply(entry);
            applied.map_err(|refusal| RuntimeError::Replay { run, seq, refusal })
        });
        if let Err(error) = applied {
            feed.window().error = Some(error);
            return;
        }
        growing.send_replace(());
    }
}

/// The newest events of a run, for all its watchers.
struct Feed {
    run: RunId,
    window: Mutex<Window>,
    /// Notified of new events. Closed once no more events can follow.
    grown: watch::Receiver<()>,
    reader: OnceLock<AbortHandle>,
    feeds: Weak<DashMap<RunId, Weak<Feed>>>,
}

impl Feed {
    fn has_ended(&self) -> bool {
        self.grown.has_changed().is_err()
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.get() {
            reader.abort();
        }
        if let Some(feeds) = self.feeds.upgrade() {
            // The slot may already have a newer feed.
            feeds.remove_if(&self.run, |_, feed| feed.strong_count() == 0);
        }
    }
}

/// The events that a feed keeps, and the state of the run after the newest of them.
#[derive(Default)]
struct Window {
    view: Option<RunView>,
    /// The number of events dropped from the front.
    dropped: usize,
    /// The number of the entry that caused the last dropped event; 0 if none is dropped.
    dropped_seq: u64,
    events: VecDeque<Arc<Event>>,
    error: Option<RuntimeError>,
}

/// A watcher's position in the events of a run.
#[derive(Clone, Copy)]
enum Cursor {
    /// After all events of the journal entries up to this number.
    AfterEntry(u64),
    /// After this many events, counted from the start of the run.
    AfterEvents(usize),
}

/// The result of reading the event at a cursor.
enum CursorRead {
    Event(Arc<Event>),
    /// The event is no longer kept.
    Evicted,
    /// The event has not happened yet.
    Pending,
}

impl Window {
    fn apply(&mut self, entry: Entry) -> Result<(), Refusal> {
        let events = match &mut self.view {
            Some(view) => view.apply(entry)?,
            None => {
                let (view, events) = RunView::start(entry)?;
                self.view = Some(view);
                events
            }
        };
        self.events.extend(events.into_iter().map(Arc::new));
        while self.events.len() > WINDOW_CAPACITY
            && let Some(event) = self.events.pop_front()
        {
            self.dropped += 1;
            self.dropped_seq = event.seq;
        }
        Ok(())
    }

    /// Returns the event at the cursor, and moves the cursor past it.
    fn take(&self, cursor: &mut Cursor) -> CursorRead {
        let index = match *cursor {
            Cursor::AfterEntry(seq) if seq < self.dropped_seq => return CursorRead::Evicted,
            Cursor::AfterEntry(seq) => self.events.partition_point(|event| event.seq <= seq),
            Cursor::AfterEvents(count) if count < self.dropped => return CursorRead::Evicted,
            Cursor::AfterEvents(count) => count - self.dropped,
        };
        match self.events.get(index) {
            Some(event) => {
                *cursor = Cursor::AfterEvents(self.dropped + index + 1);
                CursorRead::Event(event.clone())
            }
            None => CursorRead::Pending,
        }
    }
}

/// Tells when the state of a run has changed. Created by [`Events::view_changes`].
pub struct ViewChanges(watch::Receiver<()>);

impl ViewChanges {
    /// Waits until the state has changed since the last call. Returns false once it cannot change any more, because the run has ended, no
    /// process owns it, its entries cannot be read, or nobody watches it. Changes in quick succession count once. Cancel safe.
    pub async fn next(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

/// The events of a run, in order and without gaps. A slow reader misses no events, because it reads events
/// from the run log if the feed has already dropped them.
pub struct Events {
    journal: Arc<dyn RunLog>,
    feed: Arc<Feed>,
    grown: watch::Receiver<()>,
    cursor: Cursor,
    /// Events that the feed had dropped, read from the run log.
    older: VecDeque<Arc<Event>>,
    has_failed: bool,
}

impl Events {
    /// Waits for the next event; `None` after the last, or after an error. Cancel safe.
    ///
    /// # Errors
    /// [`RuntimeError::Journal`] and [`RuntimeError::Replay`].
    pub async fn next(&mut self) -> Option<Result<Arc<Event>, RuntimeError>> {
        let mut has_ended = false;
        loop {
            if let Some(event) = self.older.pop_front() {
                return Some(Ok(event));
            }
            if self.has_failed {
                return None;
            }
            // If an event arrives between this check and the wait, the wait returns at once.
            self.grown.mark_unchanged();
            let found = self.feed.window().take(&mut self.cursor);
            match found {
                CursorRead::Event(event) => return Some(Ok(event)),
                CursorRead::Evicted => {
                    if let Err(error) = self.read_older().await {
                        return Some(Err(self.fail(error)));
                    }
                }
                CursorRead::Pending if has_ended => {
                    let error = self.feed.window().error.clone()?;
                    return Some(Err(self.fail(error)));
                }
                // Events may have been added just before the end.
                CursorRead::Pending => has_ended = self.grown.changed().await.is_err(),
            }
        }
    }

    /// Passes the run's state after the newest event to `read`. The newest event may be later than the event
    /// that was returned last. Returns `None` before the first event. The feed is locked while `read` runs,
    /// so `read` should be short.
    pub fn with_view<T>(&self, read: impl FnOnce(&RunView) -> T) -> Option<T> {
        self.feed.window().view.as_ref().map(read)
    }

    /// Passes the run's state after the event that was returned last to `read`. Returns `None` before the
    /// first event, and if there are newer events. The feed is locked while `read` runs, so `read` should be
    /// short.
    pub fn with_current_view<T>(&self, read: impl FnOnce(&RunView) -> T) -> Option<T> {
        let (window, mut cursor) = (self.feed.window(), self.cursor);
        let is_current = self.older.is_empty() && matches!(window.take(&mut cursor), CursorRead::Pending);
        window.view.as_ref().filter(|_| is_current).map(read)
    }

    /// Watches the state that [`Self::with_view`] reads. The watch does not keep the events being read: it ends when the last [`Events`] of
    /// the run is dropped.
    pub fn view_changes(&self) -> ViewChanges {
        ViewChanges(self.feed.grown.clone())
    }

    fn fail(&mut self, error: RuntimeError) -> RuntimeError {
        self.has_failed = true;
        error
    }

    /// Reads all events after the cursor from the run log.
    async fn read_older(&mut self) -> Result<(), RuntimeError> {
        let (journal, run) = (self.journal.clone(), self.feed.run);
        let (_, mut events) = blocking(move || read_run(&*journal, run)).await?;
        let count = events.len();
        let seen = match self.cursor {
            Cursor::AfterEntry(seq) => events.partition_point(|event| event.seq <= seq),
            Cursor::AfterEvents(seen) => seen.min(count),
        };
        self.older = events.drain(seen..).map(Arc::new).collect();
        self.cursor = Cursor::AfterEvents(count);
        Ok(())
    }
}

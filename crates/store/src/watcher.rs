//! Noticing what other processes write: one thread for an open journal, which lives only while someone wants to know.
//!
//! It asks SQLite for `PRAGMA data_version`, which is a look at memory that the processes share: microseconds, and no disk.
//! Nobody is told what was written, only that they had better look.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

use crate::error::StoreError;
use crate::message;
use crate::schema::open_for_reading;

/// How long something may go unnoticed.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);

/// Numbers that grow when something is new.
#[derive(Clone, Copy, Debug, Default)]
struct ChangeCounters {
    /// Anything at all in the journal.
    writes: u64,
    /// A message, for whichever run.
    messages: u64,
}

/// The thread, and who wants it.
pub(crate) struct Watcher {
    path: Arc<PathBuf>,
    busy_timeout: Duration,
    news: watch::Sender<ChangeCounters>,
    state: Mutex<State>,
    /// The thread is to see whether it is still wanted.
    unwanted: Condvar,
}

#[derive(Default)]
struct State {
    watches: usize,
    running: bool,
    closed: bool,
    thread: Option<JoinHandle<()>>,
}

impl State {
    fn wanted(&self) -> bool {
        self.watches > 0 && !self.closed
    }
}

/// Someone's wish to be told; the thread ends with the last of them.
pub(crate) struct ChangeSubscription {
    watcher: Arc<Watcher>,
    receiver: watch::Receiver<ChangeCounters>,
    seen: ChangeCounters,
}

impl Watcher {
    pub(crate) fn new(path: Arc<PathBuf>, busy_timeout: Duration) -> Arc<Self> {
        Arc::new(Watcher {
            path,
            busy_timeout,
            news: watch::Sender::new(ChangeCounters::default()),
            state: Mutex::default(),
            unwanted: Condvar::new(),
        })
    }

    /// From now on nothing goes unnoticed: whoever looks at the journal after this call and then waits is told of all that is
    /// written after the look.
    pub(crate) fn watch(self: &Arc<Self>) -> ChangeSubscription {
        let receiver = self.news.subscribe();
        let seen = *receiver.borrow();
        let mut state = self.lock();
        state.watches += 1;
        if !state.running && !state.closed {
            self.start(&mut state);
        }
        drop(state);
        ChangeSubscription {
            watcher: Arc::clone(self),
            receiver,
            seen,
        }
    }

    /// Ends the thread, whoever still watches, and waits for it.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let thread = state.thread.take();
        drop(state);
        self.unwanted.notify_one();
        if let Some(thread) = thread {
            // It has no panics of its own.
            let _ = thread.join();
        }
    }

    fn start(self: &Arc<Self>, state: &mut State) {
        if let Some(last) = state.thread.take() {
            // It has said that it no longer runs and only closes its connection.
            let _ = last.join();
        }
        let watcher = Arc::clone(self);
        let thread = thread::Builder::new().name("dirigent-watcher".to_owned());
        match thread.spawn(move || watcher.run()) {
            Ok(thread) => {
                state.thread = Some(thread);
                state.running = true;
            }
            Err(e) => {
                tracing::error!(
                    "what other processes say to runs goes unnoticed, no thread can be started: {e}"
                );
            }
        }
    }

    fn run(&self) {
        let mut detector = ChangeDetector::default();
        loop {
            let changes = detector.poll(self);
            if changes.writes || changes.messages {
                self.news.send_modify(|news| {
                    news.writes += u64::from(changes.writes);
                    news.messages += u64::from(changes.messages);
                });
            }
            let state = self.lock();
            let (mut state, _) = self
                .unwanted
                .wait_timeout_while(state, INTERVAL, |state| state.wanted())
                .unwrap_or_else(PoisonError::into_inner);
            if !state.wanted() {
                state.running = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one look brought.
struct Changes {
    writes: bool,
    messages: bool,
}

/// The thread's view of the journal. What it can't see counts as new, so that those who wait look for themselves and report
/// what is wrong.
#[derive(Default)]
struct ChangeDetector {
    connection: Option<Connection>,
    version: Option<i64>,
    last_message: Option<u64>,
}

impl ChangeDetector {
    fn poll(&mut self, watcher: &Watcher) -> Changes {
        let looked = self.try_poll(watcher);
        if let Err(e) = &looked {
            tracing::debug!("the journal could not be watched: {e}");
            *self = ChangeDetector::default();
        }
        looked.unwrap_or(Changes {
            writes: true,
            messages: true,
        })
    }

    fn try_poll(&mut self, watcher: &Watcher) -> Result<Changes, StoreError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => open_for_reading(&watcher.path, watcher.busy_timeout)?,
        };
        let connection = self.connection.insert(connection);
        let fails = |e| StoreError::sqlite(&watcher.path, e);
        let version = connection
            .pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0))
            .map_err(fails)?;
        let writes = self.version.replace(version) != Some(version);
        // After the version: what is posted in between shows here or in the next look.
        let messages = writes && {
            let last = message::last(connection).map_err(fails)?;
            self.last_message.replace(last) != Some(last)
        };
        Ok(Changes { writes, messages })
    }
}

impl ChangeSubscription {
    /// Until something was written since the watch was made or this was last called.
    pub(crate) async fn wait_for_write(&mut self) {
        self.until(|seen, news| seen.writes != news.writes).await;
    }

    /// Until a message was posted since the watch was made or this was last called.
    pub(crate) async fn wait_for_message(&mut self) {
        self.until(|seen, news| seen.messages != news.messages).await;
    }

    async fn until(&mut self, new: impl Fn(&ChangeCounters, &ChangeCounters) -> bool) {
        // The watcher, and with it the sender, is here: it never closes.
        if let Ok(news) = self.receiver.wait_for(|news| new(&self.seen, news)).await {
            self.seen = *news;
        }
    }
}

impl Drop for ChangeSubscription {
    fn drop(&mut self) {
        let mut state = self.watcher.lock();
        state.watches -= 1;
        let last = state.watches == 0;
        drop(state);
        if last {
            self.watcher.unwanted.notify_one();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn watcher() -> Arc<Watcher> {
        // There is no journal: what cannot be seen counts as new.
        Watcher::new(Arc::new(PathBuf::from("/nowhere/journal.db")), INTERVAL)
    }

    #[tokio::test]
    async fn the_thread_lives_while_someone_watches() {
        let watcher = watcher();
        assert!(watcher.lock().thread.is_none());

        let (first, mut second) = (watcher.watch(), watcher.watch());
        drop(first);
        second.wait_for_write().await;
        drop(second);

        // It ends, or this would never return.
        let thread = watcher.lock().thread.take();
        thread.unwrap().join().unwrap();
        assert!(!watcher.lock().running);
        watcher.watch().wait_for_message().await;
    }

    #[tokio::test]
    async fn closing_ends_the_thread_whoever_watches() {
        let watcher = watcher();
        let _watch = watcher.watch();

        watcher.close();

        assert!(!watcher.lock().running);
        drop(watcher.watch());
        assert!(watcher.lock().thread.is_none());
    }
}

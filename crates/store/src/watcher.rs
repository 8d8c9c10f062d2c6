//! Detection of writes by other processes. Each open journal has one polling thread, which runs only while there are subscriptions.
//!
//! The thread polls `PRAGMA data_version`, which reads memory that the processes share. A poll takes microseconds and does not access the
//! disk. Subscribers learn only that something was written, and read the journal themselves.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

use crate::error::StoreError;
use crate::message;
use crate::schema::open_for_reading;

/// The polling interval, which is the maximum delay before a write is noticed.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);

/// Counters that increase with each change that a poll notices.
#[derive(Clone, Copy, Debug, Default)]
struct ChangeCounters {
    /// Writes of any kind.
    writes: u64,
    /// Messages to any run.
    messages: u64,
}

/// The polling thread and its subscriptions.
pub(crate) struct Watcher {
    path: Arc<PathBuf>,
    busy_timeout: Duration,
    counters: watch::Sender<ChangeCounters>,
    state: Mutex<State>,
    /// Wakes the polling thread early, so that it can end if it is no longer needed.
    wake: Condvar,
}

#[derive(Default)]
struct State {
    subscriptions: usize,
    running: bool,
    closed: bool,
    thread: Option<JoinHandle<()>>,
}

impl State {
    fn is_needed(&self) -> bool {
        self.subscriptions > 0 && !self.closed
    }
}

/// A subscription to changes. The thread ends when the last subscription is dropped.
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
            counters: watch::Sender::new(ChangeCounters::default()),
            state: Mutex::default(),
            wake: Condvar::new(),
        })
    }

    /// Subscribes to changes. A caller that subscribes, then reads the journal and then waits does not miss a write in between.
    pub(crate) fn subscribe(self: &Arc<Self>) -> ChangeSubscription {
        let receiver = self.counters.subscribe();
        let seen = *receiver.borrow();
        let mut state = self.lock();
        state.subscriptions += 1;
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

    /// Stops the thread, even if there are subscriptions, and waits for its end.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let thread = state.thread.take();
        drop(state);
        self.wake.notify_one();
        if let Some(thread) = thread {
            // A panic of the thread has already been reported.
            let _ = thread.join();
        }
    }

    fn start(self: &Arc<Self>, state: &mut State) {
        if let Some(last) = state.thread.take() {
            // The previous thread has left its loop and is only closing its connection.
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
                    "cannot start the thread that watches the journal, so writes by other processes are not noticed: {e}"
                );
            }
        }
    }

    fn run(&self) {
        let mut detector = ChangeDetector::default();
        loop {
            let changes = detector.poll(self);
            if changes.writes || changes.messages {
                self.counters.send_modify(|counters| {
                    counters.writes += u64::from(changes.writes);
                    counters.messages += u64::from(changes.messages);
                });
            }
            let state = self.lock();
            let (mut state, _) = self
                .wake
                .wait_timeout_while(state, INTERVAL, |state| state.is_needed())
                .unwrap_or_else(PoisonError::into_inner);
            if !state.is_needed() {
                state.running = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a poll noticed any write, and whether it noticed a new message.
struct Changes {
    writes: bool,
    messages: bool,
}

/// A detector of changes, which compares the journal with its state at the last poll. A failed poll counts as a change, so that subscribers
/// read the journal and report the error.
#[derive(Default)]
struct ChangeDetector {
    connection: Option<Connection>,
    version: Option<i64>,
    last_message: Option<u64>,
}

impl ChangeDetector {
    fn poll(&mut self, watcher: &Watcher) -> Changes {
        let polled = self.try_poll(watcher);
        if let Err(e) = &polled {
            tracing::debug!("the journal cannot be polled for changes: {e}");
            *self = ChangeDetector::default();
        }
        polled.unwrap_or(Changes {
            writes: true,
            messages: true,
        })
    }

    fn try_poll(&mut self, watcher: &Watcher) -> Result<Changes, StoreError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => open_for_reading(&watcher.path, watcher.busy_timeout)?.connection,
        };
        let connection = self.connection.insert(connection);
        let fails = |e| StoreError::sqlite(&watcher.path, e);
        let version = connection
            .pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0))
            .map_err(fails)?;
        let writes = self.version.replace(version) != Some(version);
        // The messages are read after the version, so a message that is posted in between is noticed in this poll or in the next one.
        let messages = writes && {
            let last = message::newest(connection).map_err(fails)?;
            self.last_message.replace(last) != Some(last)
        };
        Ok(Changes { writes, messages })
    }
}

impl ChangeSubscription {
    /// Waits for a write. Returns at once if there was one since the subscription began or the last wait ended.
    pub(crate) async fn wait_for_write(&mut self) {
        self.wait_for(|seen, now| seen.writes != now.writes).await;
    }

    /// Waits for a message to any run. Returns at once if there was one since the subscription began or the last wait ended.
    pub(crate) async fn wait_for_message(&mut self) {
        self.wait_for(|seen, now| seen.messages != now.messages).await;
    }

    async fn wait_for(&mut self, is_new: impl Fn(&ChangeCounters, &ChangeCounters) -> bool) {
        // The subscription keeps the watcher and its sender alive, so the channel never closes.
        if let Ok(now) = self.receiver.wait_for(|now| is_new(&self.seen, now)).await {
            self.seen = *now;
        }
    }
}

impl Drop for ChangeSubscription {
    fn drop(&mut self) {
        let mut state = self.watcher.lock();
        state.subscriptions -= 1;
        let last = state.subscriptions == 0;
        drop(state);
        if last {
            self.watcher.wake.notify_one();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn watcher() -> Arc<Watcher> {
        // There is no journal, so every poll fails, which counts as a change.
        Watcher::new(Arc::new(PathBuf::from("/nowhere/journal.db")), INTERVAL)
    }

    #[tokio::test]
    async fn the_polling_thread_runs_while_there_are_subscriptions() {
        let watcher = watcher();
        assert!(watcher.lock().thread.is_none());

        let (first, mut second) = (watcher.subscribe(), watcher.subscribe());
        drop(first);
        second.wait_for_write().await;
        drop(second);

        // `join` returns only once the thread has ended.
        let thread = watcher.lock().thread.take();
        thread.unwrap().join().unwrap();
        assert!(!watcher.lock().running);
        watcher.subscribe().wait_for_message().await;
    }

    #[tokio::test]
    async fn closing_the_journal_ends_the_polling_thread_despite_subscriptions() {
        let watcher = watcher();
        let _subscription = watcher.subscribe();

        watcher.close();

        assert!(!watcher.lock().running);
        drop(watcher.subscribe());
        assert!(watcher.lock().thread.is_none());
    }
}

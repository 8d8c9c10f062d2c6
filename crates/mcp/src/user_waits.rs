//! The time in which a call waits for the user. It counts neither towards the call's timeout nor towards its agent's time (LOOP-5).

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The waits of one call.
#[derive(Debug, Default)]
pub(crate) struct UserWaits(watch::Sender<Waited>);

#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    /// The duration of the waits that have ended.
    total: Duration,
    /// When the current wait began; `None` if the call does not wait.
    since: Option<Instant>,
}

/// A wait; dropping it ends the wait.
struct Wait<'a>(&'a UserWaits);

impl UserWaits {
    /// Waits for the user's answer. `None` if the call already waits for another one.
    pub(crate) async fn count<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let begins = self.0.send_if_modified(|waited| {
            let begins = waited.since.is_none();
            if begins {
                waited.since = Some(Instant::now());
            }
            begins
        });
        if !begins {
            return None;
        }
        let _wait = Wait(self);
        Some(answer.await)
    }

    /// Returns at this time, or later by the time in which the call waits for the user.
    pub(crate) async fn sleep_until(&self, time: Instant) {
        let mut waits = self.0.subscribe();
        loop {
            let waited = *waits.borrow_and_update();
            tokio::select! {
                () = sleep_until(time + waited.total), if waited.since.is_none() => return,
                // Never fails, because `self` is the sender.
                _ = waits.changed() => {}
            }
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|waited| {
            if let Some(since) = waited.since.take() {
                waited.total += since.elapsed();
            }
        });
    }
}

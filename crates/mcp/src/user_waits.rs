//! The time for which a call waits for the user. It counts neither towards the call's timeout nor towards its agent's time (LOOP-5).

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
    /// When the current wait began; `None` if the call is not waiting.
    since: Option<Instant>,
}

/// A wait; dropping it ends the wait.
struct Wait<'a>(&'a UserWaits);

impl UserWaits {
    /// Waits for the user's answer. `None` if the call is already waiting for another answer.
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

    /// Sleeps until this time, extended by the time for which the call waits for the user.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::time::{sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn mcp_5_waiting_for_the_user_does_not_count_towards_the_timeout() {
        let waits = UserWaits::default();
        let started = Instant::now();
        let asking = async {
            sleep(SECOND).await;
            waits.count(sleep(60 * SECOND)).await.unwrap();
            started.elapsed()
        };
        let ((), asked) = tokio::join!(waits.sleep_until(started + 3 * SECOND), asking);
        assert_eq!(asked, 61 * SECOND);
        assert_eq!(started.elapsed(), 63 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn mcp_5_a_wait_that_is_dropped_has_ended() {
        let waits = UserWaits::default();
        let started = Instant::now();
        timeout(SECOND, waits.count(std::future::pending::<()>()))
            .await
            .unwrap_err();
        waits.sleep_until(started + SECOND).await;
        assert_eq!(started.elapsed(), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn mcp_5_a_call_waits_for_one_answer_at_a_time() {
        let waits = UserWaits::default();
        let (first, second) = tokio::join!(waits.count(sleep(SECOND)), waits.count(async {}));
        assert_eq!((first, second), (Some(()), None));
    }
}

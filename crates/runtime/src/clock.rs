//! The runtime's only source of time. It starts at the system's time and follows tokio's clock, so that tests can pause it.

use std::time::{SystemTime, UNIX_EPOCH};

use dirigent_core::time::{Millis, Timestamp};
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Timestamp,
    since: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock {
            started: Timestamp(Millis::from(started).0),
            since: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.started + Millis::from(self.since.elapsed())
    }

    /// Converts a timestamp to an instant of tokio's clock. A timestamp before the clock's start is converted
    /// to the start.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.since + std::time::Duration::from(at - self.started)
    }
}

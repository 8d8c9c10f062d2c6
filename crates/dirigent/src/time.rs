//! The clock of this crate.

use std::time::SystemTime;

use dirigent_core::time::{Millis, Timestamp};

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp(since.map_or(0, |since| Millis::from(since).0))
}

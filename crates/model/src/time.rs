//! Deadlines.

use std::time::Duration;

use tokio::time::Instant;

/// Returns the instant at which a timeout that starts now ends. Timeouts are limited to 30 years, so that the sum does not overflow.
pub(crate) fn deadline_after(timeout: Duration) -> Instant {
    const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 365 * 86_400);
    let now = Instant::now();
    now.checked_add(timeout.min(MAX_TIMEOUT)).unwrap_or(now)
}

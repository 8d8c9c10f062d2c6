//! The time limit of a command. It expires before the caller would stop the call, so that the output up to
//! then is not lost.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// Time reserved before the call's deadline for ending a command and reporting its output.
const RESULT_TIME: Duration = Duration::from_secs(2);

/// The time limit of a command.
pub(super) struct TimeLimit {
    pub(super) time: Duration,
    /// Whether the limit results from the call's deadline, not from the call's own timeout.
    before_deadline: bool,
}

impl TimeLimit {
    /// Chooses the earlier of two limits: the call's timeout, or the deadline minus the time needed to return
    /// the output as a result.
    pub(super) fn new(timeout_seconds: u64, deadline: Option<Instant>) -> Self {
        let timeout = Duration::from_secs(timeout_seconds);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match left.map(|left| left - RESULT_TIME.min(left / 10)) {
            Some(time) if time < timeout => TimeLimit {
                time,
                before_deadline: true,
            },
            Some(_) | None => TimeLimit {
                time: timeout,
                before_deadline: false,
            },
        }
    }
}

/// Formats the limit for errors: `within 60 s`.
impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.before_deadline {
            f.write_str("within the remaining time of this agent or of the call")
        } else {
            write!(f, "within {} s", self.time.as_secs())
        }
    }
}

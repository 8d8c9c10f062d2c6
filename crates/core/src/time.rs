//! Points in time and durations. The state machines receive the time as an argument and never read a clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// A point in time, in milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Creates a duration of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Millis(seconds.saturating_mul(1_000))
    }
}

impl From<std::time::Duration> for Millis {
    fn from(duration: std::time::Duration) -> Self {
        Millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Millis> for std::time::Duration {
    fn from(span: Millis) -> Self {
        std::time::Duration::from_millis(span.0)
    }
}

/// Formats the duration for display: `312 ms`, `4.2 s`, `3 min 20 s`.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms @ 0..1_000 => write!(f, "{ms} ms"),
            ms @ 1_000..60_000 => write!(f, "{}.{} s", ms / 1_000, ms % 1_000 / 100),
            ms @ 60_000..3_600_000 => with_rest(f, ms / 60_000, "min", ms % 60_000 / 1_000, "s"),
            ms => with_rest(f, ms / 3_600_000, "h", ms % 3_600_000 / 60_000, "min"),
        }
    }
}

/// Writes an amount with its unit, followed by the rest in the next smaller unit if it is not zero: `2 min 5 s`, `24 h`.
fn with_rest(f: &mut fmt::Formatter<'_>, amount: u64, unit: &str, rest: u64, smaller: &str) -> fmt::Result {
    match rest {
        0 => write!(f, "{amount} {unit}"),
        rest => write!(f, "{amount} {unit} {rest} {smaller}"),
    }
}

impl AddAssign for Millis {
    fn add_assign(&mut self, span: Millis) {
        self.0 = self.0.saturating_add(span.0);
    }
}

impl Add<Millis> for Timestamp {
    type Output = Timestamp;

    fn add(self, span: Millis) -> Timestamp {
        Timestamp(self.0.saturating_add(span.0))
    }
}

impl Sub for Timestamp {
    type Output = Millis;

    /// Returns the duration since `earlier`; zero if `earlier` is later, because clocks can be set back.
    fn sub(self, earlier: Timestamp) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

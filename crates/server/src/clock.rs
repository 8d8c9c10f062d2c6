//! The time of day.

use dirigent::events::Timestamp;

/// The current time.
pub(crate) fn now() -> Timestamp {
    Timestamp(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default())
}

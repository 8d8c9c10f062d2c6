//! Moments as people read them.

use dirigent::core::time::Timestamp;

/// The day and the minute, where the user is.
pub(crate) fn local(at: Timestamp) -> String {
    zoned(at, "%Y-%m-%d %H:%M")
}

/// The time of the day to the second, where the user is.
pub(crate) fn clock(at: Timestamp) -> String {
    zoned(at, "%H:%M:%S")
}

fn zoned(at: Timestamp, format: &str) -> String {
    let at = i64::try_from(at.0)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system())
        .strftime(format)
        .to_string()
}

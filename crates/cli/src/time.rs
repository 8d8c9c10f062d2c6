//! Timestamps in local time.

use dirigent::events::Timestamp;

/// Date and time to the minute, in the local time zone.
pub(crate) fn local(at: Timestamp) -> String {
    zoned(at, "%Y-%m-%d %H:%M")
}

/// Time of day to the second, in the local time zone.
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

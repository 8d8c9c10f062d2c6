//! The pace at which the changing tools of a service are listed (MCP-2).

use std::time::Duration;

use tokio::time::Instant;

/// The pause after the first change.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);

/// The pauses after each list of a service's tools. They double while the service keeps reporting changes, because each difference is
/// written to the journals of the runs that know the tools.
#[derive(Debug, Default)]
pub(crate) struct ListPace {
    /// The time of the latest list, and the pause after it.
    latest: Option<(Instant, Duration)>,
}

impl ListPace {
    /// Returns the pause after a list at the time `now`.
    pub(crate) fn pause_after(&mut self, now: Instant) -> Duration {
        let pause = match self.latest {
            Some((before, pause)) if now.saturating_duration_since(before) < 2 * LONGEST => {
                LONGEST.min(2 * pause)
            }
            Some(_) | None => FIRST,
        };
        self.latest = Some((now, pause));
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp_2_the_pauses_double_up_to_a_minute_and_begin_again_after_a_quiet_time() {
        let (start, mut pace) = (Instant::now(), ListPace::default());
        let mut now = start;
        let mut lists = 0;
        while now < start + Duration::from_secs(3_600) {
            now += pace.pause_after(now);
            lists += 1;
        }
        assert!(lists < 70, "{lists} lists in an hour");
        assert_eq!(pace.pause_after(now), LONGEST);
        assert_eq!(pace.pause_after(now + 3 * LONGEST), FIRST);
        assert_eq!(pace.pause_after(now + 3 * LONGEST + FIRST), 2 * FIRST);
    }
}

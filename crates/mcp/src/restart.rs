//! Restarts of a service that ended unexpectedly: after increasing delays, and only a limited number of times (MCP-6).

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How services are supervised.
#[derive(Clone, Copy, Debug)]
pub struct Supervision {
    /// The number of restarts of a service within [`Supervision::restart_window`] before it counts as failed.
    pub max_restarts: usize,
    /// The time over which restarts are counted.
    pub restart_window: Duration,
    /// The delay before the first restart. Each further restart within the window doubles the delay.
    pub first_delay: Duration,
    /// The longest delay before a restart.
    pub max_delay: Duration,
    /// The time between two checks of a running service's health. No check is made during a call.
    pub ping_interval: Duration,
    /// The time within which a healthy service answers a check.
    pub ping_timeout: Duration,
    /// The time that a stopped service has after its standard input was closed, and again after SIGTERM.
    pub stop_grace: Duration,
}

impl Default for Supervision {
    fn default() -> Self {
        Supervision {
            max_restarts: 5,
            restart_window: Duration::from_secs(120),
            first_delay: Duration::from_millis(250),
            max_delay: Duration::from_secs(15),
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(20),
            stop_grace: Duration::from_secs(2),
        }
    }
}

/// The restarts of one service.
#[derive(Debug, Default)]
pub(crate) struct RestartBudget {
    restarts: VecDeque<Instant>,
}

impl RestartBudget {
    /// Returns true if there has been no restart.
    pub(crate) fn is_unused(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Returns the delay before the next restart, and counts the restart. `None` if there were too many restarts.
    pub(crate) fn next(&mut self, rules: &Supervision, now: Instant) -> Option<Duration> {
        while let Some(first) = self.restarts.front()
            && now.duration_since(*first) > rules.restart_window
        {
            self.restarts.pop_front();
        }
        let earlier = self.restarts.len();
        if earlier >= rules.max_restarts {
            return None;
        }
        self.restarts.push_back(now);
        let factor = 2_u32.saturating_pow(u32::try_from(earlier).unwrap_or(u32::MAX));
        Some(rules.first_delay.saturating_mul(factor).min(rules.max_delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp_6_restart_delays_grow_until_the_restart_budget_is_spent_and_the_budget_recovers_with_time() {
        let rules = Supervision {
            max_restarts: 4,
            restart_window: Duration::from_secs(60),
            first_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(3),
            ..Supervision::default()
        };
        let (mut budget, start) = (RestartBudget::default(), Instant::now());
        let mut at = |seconds| {
            let delay = budget.next(&rules, start + Duration::from_secs(seconds));
            delay.map(|delay| delay.as_secs())
        };
        assert_eq!([at(0), at(1), at(2), at(3)], [Some(1), Some(2), Some(3), Some(3)]);
        assert_eq!(at(50), None);
        assert_eq!(at(62), Some(3));
    }
}

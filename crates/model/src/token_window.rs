//! The tokens of the last minute: what a limit on tokens a minute is counted by (HOST-7).
//!
//! A request's tokens count from the moment when it is sent, those of its reply from the beginning on as what is reserved for it, and
//! for a minute after its end as what they were. So whatever minute a provider looks at, the first one included, it has seen no more
//! than the limit, but for what a reply has beyond its reservation and a request beyond its estimate.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::Instant;

/// How long tokens count: a minute, and a moment more, as some requests take longer than others to reach the provider.
const WINDOW_LENGTH: Duration = Duration::from_secs(61);

/// What a request is expected to have, sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestTokens {
    /// Tokens sent.
    pub(crate) input: u64,
    /// Tokens that the reply may have.
    pub(crate) output: u64,
}

/// A request that has to wait: until then at the least, or until one under way ends; `None` where only that helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowFull(pub(crate) Option<Instant>);

/// The tokens of the last minute, and of the replies under way.
#[derive(Debug)]
pub(crate) struct TokenWindow {
    limit: u64,
    /// When tokens were used, and how many, in this order.
    used: VecDeque<(Instant, u64)>,
    /// Tokens that the replies under way may have.
    reserved: u64,
}

impl TokenWindow {
    pub(crate) fn new(limit: NonZeroU64) -> Self {
        TokenWindow {
            limit: limit.get(),
            used: VecDeque::new(),
            reserved: 0,
        }
    }

    /// Lets a request go if there is room for it. One that is larger than the limit goes alone: once nothing counts any more.
    pub(crate) fn reserve(&mut self, tokens: RequestTokens, now: Instant) -> Result<(), WindowFull> {
        self.evict_expired(now);
        let used = self.used.iter().map(|(_, tokens)| *tokens);
        let in_window = used.fold(self.reserved, u64::saturating_add);
        let needed = tokens.input.saturating_add(tokens.output);
        if in_window > 0 && in_window.saturating_add(needed) > self.limit {
            return Err(WindowFull(self.used.front().map(|(at, _)| *at + WINDOW_LENGTH)));
        }
        if tokens.input > self.limit {
            tracing::warn!(
                "a model request of about {} tokens is larger than tokens_per_minute ({}): it is sent alone, and may be refused",
                tokens.input,
                self.limit
            );
        }
        self.record(tokens.input, now);
        self.reserved = self.reserved.saturating_add(tokens.output);
        Ok(())
    }

    /// A request has ended, and had so many tokens. What of them was sent counts already, but for what was not expected.
    pub(crate) fn settle(&mut self, expected: RequestTokens, actual: RequestTokens, now: Instant) {
        self.evict_expired(now);
        self.reserved = self.reserved.saturating_sub(expected.output);
        let unexpected = actual.input.saturating_sub(expected.input);
        self.record(actual.output.saturating_add(unexpected), now);
    }

    fn record(&mut self, tokens: u64, now: Instant) {
        if tokens > 0 {
            self.used.push_back((now, tokens));
        }
    }

    fn evict_expired(&mut self, now: Instant) {
        while self
            .used
            .front()
            .is_some_and(|(at, _)| *at + WINDOW_LENGTH <= now)
        {
            self.used.pop_front();
        }
    }
}

//! The sliding window of a limit on tokens per minute (HOST-7).
//!
//! A request's tokens count for a minute after it is sent. A reply counts with its reserved tokens until it is complete, and with its
//! actual tokens for a minute after that. So the provider's count stays within the limit in any minute, except when a request exceeds its
//! estimate or a reply exceeds its reservation.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::Instant;

/// Time for which tokens count: a minute, plus a second because requests take different times to reach the provider.
const WINDOW_LENGTH: Duration = Duration::from_secs(61);

/// Tokens of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestTokens {
    /// Input tokens.
    pub(crate) input: u64,
    /// Output tokens, received or reserved.
    pub(crate) output: u64,
}

/// The window has no room for a request. Retry when a request in flight ends, or at the instant in this value, when the oldest tokens
/// expire; `None` if no tokens will expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowFull(pub(crate) Option<Instant>);

/// Tokens of the last minute, and reservations of replies in progress.
#[derive(Debug)]
pub(crate) struct TokenWindow {
    limit: u64,
    /// Times and numbers of used tokens, the oldest first.
    used: VecDeque<(Instant, u64)>,
    /// Tokens reserved for replies in progress.
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

    /// Reserves a request's tokens if the window has room for them. A request that is larger than the limit needs an empty window.
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

    /// Replaces a finished request's reservation with its actual tokens. The window already contains its expected input tokens.
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

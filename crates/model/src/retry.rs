//! Retries of requests to an unavailable model (HOST-7), with exponential backoff and the server's retry delay. Other failures are
//! final. A request is safe to repeat, because nothing in a reply is executed before the reply is complete.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use futures::future::{BoxFuture, FutureExt, TryFutureExt as _};

use crate::completion::{Completion, CompletionError, CompletionModel, CompletionRequest};
use crate::time::deadline_after;
use crate::{ChatModel, ChatRequest};

/// When and how often a request is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first.
    pub attempts: u32,
    /// Pause after the first attempt. Each further pause is twice as long.
    pub first_pause: Duration,
    /// Maximum pause, unless the server asks for a longer one.
    pub longest_pause: Duration,
    /// Maximum sum of all pauses. If another pause would exceed this sum, the last failure is final. Time in the rate limiter's queue and
    /// time to wait for replies do not count.
    pub total: Duration,
    /// How pauses are varied.
    pub jitter: Jitter,
}

/// Random lengthening of pauses, so that requests that failed together are not retried together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Each pause is lengthened by a random time, up to its own length.
    Random,
    /// Pauses have their exact length.
    None,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            attempts: 4,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            total: Duration::from_secs(120),
            jitter: Jitter::Random,
        }
    }
}

impl RetryPolicy {
    fn pauses(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        let retries = usize::try_from(self.attempts.saturating_sub(1)).unwrap_or(usize::MAX);
        let pauses = ExponentialBuilder::new()
            .with_min_delay(self.first_pause)
            .with_max_delay(self.longest_pause)
            .with_max_times(retries);
        match self.jitter {
            Jitter::Random => pauses.with_jitter().build(),
            Jitter::None => pauses.build(),
        }
    }
}

/// Returns the shortest pause before a retry; `None` if a retry cannot help.
fn min_wait(kind: ModelFailureKind) -> Option<Duration> {
    match kind {
        ModelFailureKind::Unavailable { retry_after } => {
            Some(retry_after.map_or(Duration::ZERO, Duration::from))
        }
        ModelFailureKind::TooLong
        | ModelFailureKind::Configuration
        | ModelFailureKind::Rejected
        | ModelFailureKind::Panicked => None,
    }
}

/// A model whose requests are retried when it is unavailable.
#[derive(Clone, Debug)]
pub struct Retrying<M> {
    inner: M,
    policy: RetryPolicy,
}

impl<M: Clone> Retrying<M> {
    /// Retries requests to `inner`. Clones of `inner` must share its state, like clones of an `Arc`.
    pub fn new(inner: M, policy: RetryPolicy) -> Self {
        Retrying { inner, policy }
    }
}

impl<M: ChatModel + Clone> ChatModel for Retrying<M> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let model = self.inner.clone();
        // An interrupted reply is returned, not retried: it is charged, and the agent asks the model to send the reply again.
        retry(
            self.policy,
            move || model.chat(request.clone()),
            |failure| failure.kind,
        )
        .map_err(|(failure, attempts_made)| ModelFailure {
            message: given_up(failure.message, attempts_made),
            ..failure
        })
        .boxed()
    }
}

impl<M: CompletionModel + Clone> CompletionModel for Retrying<M> {
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completion, CompletionError>> {
        let model = self.inner.clone();
        retry(
            self.policy,
            move || model.complete(request.clone()),
            |error| error.kind,
        )
        .map_err(|(error, attempts_made)| CompletionError {
            message: given_up(error.message, attempts_made),
            ..error
        })
        .boxed()
    }
}

/// Makes attempts until one succeeds, no retry can help, or the policy allows no further one. Returns the last error with the number of
/// attempts, which is 1 if a retry cannot help.
async fn retry<T, E>(
    policy: RetryPolicy,
    attempt: impl Fn() -> BoxFuture<'static, Result<T, E>>,
    kind: impl Fn(&E) -> ModelFailureKind,
) -> Result<T, (E, u32)> {
    let mut remaining = policy.total;
    let mut pauses = policy.pauses();
    let mut attempts_made: u32 = 0;
    loop {
        let error = match attempt().await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        attempts_made += 1;
        let Some(at_least) = min_wait(kind(&error)) else {
            return Err((error, 1));
        };
        let pause = pauses.next().map(|pause| pause.max(at_least));
        match pause.and_then(|pause| Some((pause, remaining.checked_sub(pause)?))) {
            Some((pause, rest)) => {
                remaining = rest;
                tokio::time::sleep_until(deadline_after(pause)).await;
            }
            None => return Err((error, attempts_made)),
        }
    }
}

fn given_up(message: String, attempts_made: u32) -> String {
    match attempts_made {
        1 => message,
        _ => format!("{message} (after {attempts_made} attempts)"),
    }
}

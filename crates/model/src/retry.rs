//! Asking again when a model was unavailable (HOST-7): with growing pauses, as long as the server asks to wait, and not for ever.
//! It never asks again for what asking again can't mend. Asking is safe to repeat, as nothing acts on a reply before it is complete.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use futures::future::{BoxFuture, FutureExt};

use crate::request::deadline_after;
use crate::{ChatModel, ChatRequest};

/// When and how often a model is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a model is asked at most, the first time included.
    pub attempts: u32,
    /// The pause after the first failure; each is twice the one before.
    pub first_pause: Duration,
    /// The longest such pause. A server may ask for a longer one.
    pub longest_pause: Duration,
    /// All pauses together are no longer than this. A pause that would make them so is not begun. The time that a request waits its
    /// turn or for its answer does not count: it says nothing of how long the model is unavailable.
    pub total: Duration,
    /// Whether pauses are lengthened at random.
    pub jitter: Jitter,
}

/// Whether pauses are lengthened at random, to at most twice their length, so that those who failed together don't come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// They are.
    Random,
    /// They are not.
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
        let again = usize::try_from(self.attempts.saturating_sub(1)).unwrap_or(usize::MAX);
        let pauses = ExponentialBuilder::new()
            .with_min_delay(self.first_pause)
            .with_max_delay(self.longest_pause)
            .with_max_times(again);
        match self.jitter {
            Jitter::Random => pauses.with_jitter().build(),
            Jitter::None => pauses.build(),
        }
    }
}

/// How long to wait at least before asking again; `None` where asking again is of no use.
fn min_wait(failure: &ModelFailure) -> Option<Duration> {
    match failure.kind {
        ModelFailureKind::Unavailable { retry_after } => {
            Some(retry_after.map_or(Duration::ZERO, Duration::from))
        }
        ModelFailureKind::TooLong
        | ModelFailureKind::Configuration
        | ModelFailureKind::Rejected
        | ModelFailureKind::Panicked => None,
    }
}

/// A model that is asked again when it was unavailable.
#[derive(Clone, Debug)]
pub struct Retrying<M> {
    inner: M,
    policy: RetryPolicy,
}

impl<M: ChatModel + Clone> Retrying<M> {
    /// Asks that model, again by that policy. Clones of the model must be the same model, as those of an `Arc` are.
    pub fn new(inner: M, policy: RetryPolicy) -> Self {
        Retrying { inner, policy }
    }
}

impl<M: ChatModel + Clone> ChatModel for Retrying<M> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        ask(self.inner.clone(), self.policy, request).boxed()
    }
}

async fn ask<M: ChatModel>(
    model: M,
    policy: RetryPolicy,
    request: ChatRequest,
) -> Result<ModelReply, ModelFailure> {
    let mut remaining = policy.total;
    let mut pauses = policy.pauses();
    let mut attempts_made: u32 = 0;
    loop {
        let failure = match model.chat(request.clone()).await {
            // One that broke off, too: it was paid for, and the model can be told of it.
            Ok(reply) => return Ok(reply),
            Err(failure) => failure,
        };
        attempts_made += 1;
        let Some(at_least) = min_wait(&failure) else {
            return Err(failure);
        };
        let pause = pauses.next().map(|pause| pause.max(at_least));
        match pause.and_then(|pause| Some((pause, remaining.checked_sub(pause)?))) {
            Some((pause, rest)) => {
                remaining = rest;
                tokio::time::sleep_until(deadline_after(pause)).await;
            }
            None => return Err(given_up(failure, attempts_made)),
        }
    }
}

fn given_up(failure: ModelFailure, attempts_made: u32) -> ModelFailure {
    match attempts_made {
        1 => failure,
        _ => ModelFailure {
            message: format!("{} (asked {attempts_made} times)", failure.message),
            ..failure
        },
    }
}

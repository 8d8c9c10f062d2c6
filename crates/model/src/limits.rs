//! A rate limiter for all requests to a model (HOST-7). It limits parallel requests and tokens per minute, and pauses all requests when
//! the provider asks one of them to wait. Requests are admitted in the order of their arrival.
//!
//! After a pause, one request goes first as a probe, so that a provider that has just recovered does not receive all waiting requests at
//! once. The rest follow when the probe is answered: with the beginning of its text, a reply, or any failure except
//! [`ModelFailureKind::Unavailable`], which starts another pause. If a probe is dropped, the next request becomes the probe; if it is
//! not answered within [`ModelLimits::longest_wait`], the other requests are sent, too, as the provider has not refused the probe.
//!
//! The limiter never retries. During a pause longer than [`ModelLimits::longest_wait`], requests fail at once, so that they can go to
//! another model.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use dirigent_core::time::Millis;
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::completion::{
    Completion, CompletionError, CompletionEvent, CompletionModel, CompletionOutcome, CompletionRequest,
    CompletionStream,
};
use crate::time::deadline_after;
use crate::token_window::{RequestTokens, TokenWindow, WindowFull};
use crate::{ChatModel, ChatRequest, DeltaSink};

/// Tokens reserved for a reply if the request sets no limit. The actual number replaces this estimate when the reply is complete.
const TYPICAL_REPLY_TOKENS: u64 = 1_000;

/// Rate limits of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// Maximum number of parallel requests; `None` for no limit.
    pub concurrent: Option<NonZeroU32>,
    /// Maximum number of input and output tokens in any minute; `None` for no limit. A larger request is sent alone, after a minute
    /// without others.
    pub tokens_per_minute: Option<NonZeroU64>,
    /// Pause of all requests after the model was unavailable and its provider sent no retry delay.
    pub pause: Duration,
    /// Maximum length of a pause that requests wait for. During a longer pause, they fail as unavailable.
    pub longest_wait: Duration,
}

impl Default for ModelLimits {
    fn default() -> Self {
        ModelLimits {
            concurrent: NonZeroU32::new(8),
            tokens_per_minute: None,
            pause: Duration::from_secs(1),
            longest_wait: Duration::from_secs(60),
        }
    }
}

/// A model with rate limits. Clones share the limits; each model name has its own limits.
#[derive(Clone, Debug)]
pub struct Limited<M> {
    inner: M,
    limits: ModelLimits,
    limiters: Arc<Mutex<BTreeMap<Option<String>, Arc<Limiter>>>>,
}

impl<M> Limited<M> {
    /// Limits all requests through this model and its clones.
    pub fn new(inner: M, limits: ModelLimits) -> Self {
        Limited {
            inner,
            limits,
            limiters: Arc::default(),
        }
    }

    /// Wraps another client of the same provider. The new model shares the limits of this one.
    pub fn share_limits<N>(&self, inner: N) -> Limited<N> {
        Limited {
            inner,
            limits: self.limits,
            limiters: self.limiters.clone(),
        }
    }

    fn limiter(&self, model: Option<&String>) -> Arc<Limiter> {
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        limiters
            .entry(model.cloned())
            .or_insert_with(|| Arc::new(Limiter::new(self.limits)))
            .clone()
    }
}

impl<M: ChatModel + Clone> ChatModel for Limited<M> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let limiter = self.limiter(request.model.as_ref());
        ask(self.inner.clone(), limiter, request).boxed()
    }
}

async fn ask<M: ChatModel>(
    model: M,
    limiter: Arc<Limiter>,
    request: ChatRequest,
) -> Result<ModelReply, ModelFailure> {
    let expected = RequestTokens {
        input: match limiter.limits.tokens_per_minute {
            Some(_) => request.estimated_tokens(),
            None => 0,
        },
        output: request.max_output_tokens.unwrap_or(TYPICAL_REPLY_TOKENS),
    };
    let permit = limiter.acquire(expected).await?;
    let result = model.chat(permit.end_probe_on_first_delta(request)).await;
    match &result {
        Ok(reply) => {
            let tokens = RequestTokens {
                input: reply.usage.input_tokens,
                output: reply.usage.output_tokens,
            };
            permit.settle(tokens, None);
        }
        Err(failure) => {
            let tokens = permit.without_output();
            permit.settle(tokens, Some(failure.kind));
        }
    }
    result
}

impl<M: CompletionModel + Clone> CompletionModel for Limited<M> {
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completion, CompletionError>> {
        let limiter = self.limiter(request.upstream_name());
        complete(self.inner.clone(), limiter, request).boxed()
    }
}

/// Sends a request of an OpenAI client. Its slot is free again when its stream has ended or is dropped.
async fn complete<M: CompletionModel>(
    model: M,
    limiter: Arc<Limiter>,
    request: CompletionRequest,
) -> Result<Completion, CompletionError> {
    let expected = RequestTokens {
        input: match limiter.limits.tokens_per_minute {
            Some(_) => request.estimated_tokens(),
            None => 0,
        },
        output: request.max_output_tokens().unwrap_or(TYPICAL_REPLY_TOKENS),
    };
    let permit = limiter.acquire(expected).await;
    // 429, because the provider asked an earlier request to wait.
    let permit = permit.map_err(|failure| CompletionError::from_failure(failure, Some(429)))?;
    match model.complete(request).await {
        Ok(Completion::Whole { json, outcome }) => {
            let tokens = permit.counted(&outcome);
            permit.settle(tokens, None);
            Ok(Completion::Whole { json, outcome })
        }
        Ok(Completion::Stream(stream)) => {
            permit.end_probe();
            Ok(Completion::Stream(limited_stream(stream, permit)))
        }
        Err(error) => {
            let tokens = permit.without_output();
            permit.settle(tokens, Some(error.kind));
            Err(error)
        }
    }
}

/// Holds a permit until the stream has ended.
fn limited_stream(stream: CompletionStream, permit: Permit) -> CompletionStream {
    let state = (stream, Some(permit));
    let events = futures::stream::unfold(state, async |(mut stream, mut permit)| {
        let event = stream.next().await?;
        if let Ok(CompletionEvent::Done(outcome)) = &event
            && let Some(permit) = permit.take()
        {
            let tokens = permit.counted(outcome);
            permit.settle(tokens, None);
        }
        Some((event, (stream, permit)))
    });
    events.boxed()
}

/// The rate limiter of one model.
#[derive(Debug)]
struct Limiter {
    limits: ModelLimits,
    /// Held by the first request in the queue while it waits for a slot, a pause or tokens. Requests lock this mutex in the order of
    /// their arrival, so the mutex itself is the queue.
    queue: tokio::sync::Mutex<()>,
    slots: Arc<Semaphore>,
    state: Mutex<LimiterState>,
    /// Wakes the first request in the queue when another request or a probe ends.
    changed: Notify,
}

#[derive(Debug)]
struct LimiterState {
    paused_until: Instant,
    probe_state: ProbeState,
    /// Number of probes so far, which is also the number of the latest probe.
    probes: u64,
    window: Option<TokenWindow>,
}

/// Whether a probe holds back other requests after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeState {
    /// All requests are admitted.
    NotNeeded,
    /// The next request becomes the probe.
    Due,
    /// Other requests wait for the probe.
    InFlight { probe: u64, since: Instant },
}

/// Decision about the next request.
enum Admission {
    /// The request may be sent; `probe` is its probe number if it is a probe.
    Granted { probe: Option<u64> },
    /// The request waits until this instant or the next change.
    WaitUntil(Instant),
}

/// A running request's slot and reserved tokens, released on drop.
struct Permit {
    limiter: Arc<Limiter>,
    expected: RequestTokens,
    /// Tokens to settle on drop: the expected tokens until the request ends, then the actual tokens.
    to_settle: RequestTokens,
    probe: Option<u64>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Limiter {
    fn new(limits: ModelLimits) -> Self {
        let slots = limits.concurrent.map_or(0, NonZeroU32::get);
        let slots = usize::try_from(slots).map_or(Semaphore::MAX_PERMITS, |n| n.min(Semaphore::MAX_PERMITS));
        let now = Instant::now();
        Limiter {
            limits,
            queue: tokio::sync::Mutex::new(()),
            slots: Arc::new(Semaphore::new(slots)),
            state: Mutex::new(LimiterState {
                paused_until: now,
                probe_state: ProbeState::NotNeeded,
                probes: 0,
                window: limits.tokens_per_minute.map(TokenWindow::new),
            }),
            changed: Notify::new(),
        }
    }

    /// Waits for a slot, for the end of a pause, and for tokens. Dropping the future removes the request from the queue.
    async fn acquire(self: Arc<Self>, expected: RequestTokens) -> Result<Permit, ModelFailure> {
        let queue = self.queue.lock().await;
        let slot = match self.limits.concurrent {
            // The semaphore is never closed, so acquiring a slot never fails.
            Some(_) => self.slots.clone().acquire_owned().await.ok(),
            None => None,
        };
        let probe = loop {
            match self.try_admit(expected)? {
                Admission::Granted { probe } => break probe,
                Admission::WaitUntil(latest) => {
                    // After a change or a timeout, the loop tries again.
                    let _ = tokio::time::timeout_at(latest, self.changed.notified()).await;
                }
            }
        };
        drop(queue);
        Ok(Permit {
            limiter: self,
            expected,
            to_settle: expected,
            probe,
            _slot: slot,
        })
    }

    /// Reserves tokens and admits the request, or returns when to try again.
    fn try_admit(&self, expected: RequestTokens) -> Result<Admission, ModelFailure> {
        let now = Instant::now();
        let mut state = self.lock();
        let pause = state.paused_until.saturating_duration_since(now);
        if pause > self.limits.longest_wait {
            let retry_after = Millis::from(pause);
            return Err(ModelFailure {
                kind: ModelFailureKind::Unavailable {
                    retry_after: Some(retry_after),
                },
                message: format!("requests to the model's provider are paused for another {retry_after}"),
            });
        }
        if !pause.is_zero() {
            return Ok(Admission::WaitUntil(state.paused_until));
        }
        if let ProbeState::InFlight { since, .. } = state.probe_state {
            let latest = since.checked_add(self.limits.longest_wait);
            let latest = latest.unwrap_or_else(|| deadline_after(Duration::MAX));
            if now < latest {
                return Ok(Admission::WaitUntil(latest));
            }
            state.probe_state = ProbeState::NotNeeded;
        }
        if let Some(window) = &mut state.window
            && let Err(WindowFull(until)) = window.reserve(expected, now)
        {
            return Ok(Admission::WaitUntil(
                until.unwrap_or_else(|| deadline_after(Duration::MAX)),
            ));
        }
        let probe = state.begin_probe(now);
        Ok(Admission::Granted { probe })
    }

    /// Ends a probe successfully: all requests are admitted again. Does nothing if the probe is no longer in flight.
    fn probe_answered(&self, probe: u64) {
        self.finish_probe(probe, ProbeState::NotNeeded);
    }

    /// Sets the state after a probe. Does nothing if the probe is no longer in flight.
    fn finish_probe(&self, probe: u64, probe_state: ProbeState) {
        let mut state = self.lock();
        if matches!(state.probe_state, ProbeState::InFlight { probe: current, .. } if current == probe) {
            state.probe_state = probe_state;
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimiterState {
    /// Starts a probe if one is due, and returns its number.
    fn begin_probe(&mut self, now: Instant) -> Option<u64> {
        match self.probe_state {
            ProbeState::NotNeeded | ProbeState::InFlight { .. } => None,
            ProbeState::Due => {
                self.probes += 1;
                self.probe_state = ProbeState::InFlight {
                    probe: self.probes,
                    since: now,
                };
                Some(self.probes)
            }
        }
    }
}

impl Permit {
    /// If the request is a probe, makes the first text of its reply end the probe.
    fn end_probe_on_first_delta(&self, request: ChatRequest) -> ChatRequest {
        let Some(probe) = self.probe else {
            return request;
        };
        let limiter = self.limiter.clone();
        let deltas = request.deltas.clone();
        request.deltas(DeltaSink::new(move |text| {
            limiter.probe_answered(probe);
            if let Some(deltas) = &deltas {
                deltas.send(text);
            }
        }))
    }

    /// Returns the tokens that a reply to an OpenAI client counts with.
    fn counted(&self, outcome: &CompletionOutcome) -> RequestTokens {
        RequestTokens {
            input: outcome.input_tokens.unwrap_or(self.expected.input),
            output: outcome.output_tokens.unwrap_or(self.expected.output),
        }
    }

    /// Returns the tokens of a failed request, which the provider may count.
    fn without_output(&self) -> RequestTokens {
        RequestTokens {
            output: 0,
            ..self.expected
        }
    }

    /// Ends the request's probe successfully, if it is one.
    fn end_probe(&self) {
        if let Some(probe) = self.probe {
            self.limiter.probe_answered(probe);
        }
    }

    /// Records the tokens of a finished request and ends its probe. If the provider was unavailable, pauses all requests.
    fn settle(mut self, tokens: RequestTokens, failure: Option<ModelFailureKind>) {
        let now = Instant::now();
        self.to_settle = tokens;
        let mut state = self.limiter.lock();
        if let Some(ModelFailureKind::Unavailable { retry_after }) = failure {
            let pause = retry_after.map_or(self.limiter.limits.pause, Duration::from);
            let until = now.checked_add(pause).unwrap_or(state.paused_until);
            state.paused_until = state.paused_until.max(until);
            if state.probe_state == ProbeState::NotNeeded {
                state.probe_state = ProbeState::Due;
            }
        } else {
            drop(state);
            self.end_probe();
        }
    }
}

impl Drop for Permit {
    /// Settles the tokens. A dropped request counts in full, as the provider may count it. If the request was an unanswered probe,
    /// the next request becomes the probe.
    fn drop(&mut self) {
        if let Some(window) = &mut self.limiter.lock().window {
            window.settle(self.expected, self.to_settle, Instant::now());
        }
        self.limiter.changed.notify_one();
        if let Some(probe) = self.probe {
            self.limiter.finish_probe(probe, ProbeState::Due);
        }
    }
}

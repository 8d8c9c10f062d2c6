//! The limits of a model's provider, shared by all who ask it (HOST-7): requests in parallel, tokens a minute, and a pause for all when
//! the provider asks one of them to wait. Whoever comes first is let through first.
//!
//! After a pause one request goes alone, as a probe; the rest follow once it was answered: with the beginning of a text, a reply or any
//! failure but that of an unavailable provider, which makes all wait again. A probe that is given up leaves its place to the next, and one
//! that is not answered within the longest wait counts as answered: it is not refused, at least. So a provider that has just
//! recovered does not meet everybody at once.
//!
//! It never asks again itself, and waits only where waiting ends in sight: where the provider asked for a long pause, whoever comes is
//! told so at once, and can ask another model.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use dirigent_core::time::Millis;
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::request::deadline_after;
use crate::token_window::{RequestTokens, TokenWindow, WindowFull};
use crate::{ChatModel, ChatRequest, DeltaSink};

/// Tokens that a reply is expected to have, where the request sets no limit. What it really had counts once it has come.
const TYPICAL_REPLY_TOKENS: u64 = 1_000;

/// What a provider allows each of its models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// Requests in parallel; `None` for any number.
    pub concurrent: Option<NonZeroU32>,
    /// Tokens in any minute, sent and received; `None` for any number. A request that is larger is sent when no other was for a minute.
    pub tokens_per_minute: Option<NonZeroU64>,
    /// How long all wait after a failure for which the provider named no time.
    pub pause: Duration,
    /// The longest pause that is waited for; in a longer one, requests fail as unavailable until it is over.
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

/// A model that keeps to its provider's limits. Clones share them, and each name of a model has its own.
#[derive(Clone, Debug)]
pub struct Limited<M> {
    inner: M,
    limits: ModelLimits,
    limiters: Arc<Mutex<BTreeMap<Option<String>, Arc<Limiter>>>>,
}

impl<M> Limited<M> {
    /// Keeps all who ask through this, and through its clones, to those limits.
    pub fn new(inner: M, limits: ModelLimits) -> Self {
        Limited {
            inner,
            limits,
            limiters: Arc::default(),
        }
    }

    /// The same limits around another way to ask the same provider: both draw on them together.
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
    permit.settle(&result);
    result
}

/// Where all requests to one model come through.
#[derive(Debug)]
struct Limiter {
    limits: ModelLimits,
    /// Held by who is next, while it waits. It is what makes the order fair: tokens and pauses have no queues of their own.
    queue: tokio::sync::Mutex<()>,
    slots: Arc<Semaphore>,
    state: Mutex<LimiterState>,
    /// Told when a request has ended or a probe is over, to who is next.
    changed: Notify,
}

#[derive(Debug)]
struct LimiterState {
    paused_until: Instant,
    probe_state: ProbeState,
    /// How many probes there were: a probe's number.
    probes: u64,
    window: Option<TokenWindow>,
}

/// How many are let through when there is no pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeState {
    /// All for whom there is a place.
    NotNeeded,
    /// One, as a probe.
    Due,
    /// None: that probe is under way.
    InFlight { probe: u64, since: Instant },
}

/// What who is next may do.
enum Admission {
    /// To go; as a probe, if it has a number.
    Granted { probe: Option<u64> },
    /// To wait until then, or until something has changed.
    WaitUntil(Instant),
}

/// A request's leave to be under way: its place, given back when dropped, and the tokens that were reserved for it.
struct Permit {
    limiter: Arc<Limiter>,
    expected: RequestTokens,
    /// What it has had when it is dropped.
    actual: RequestTokens,
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

    /// Waits for a place, for the end of a pause and for tokens. Dropping the future leaves the queue.
    async fn acquire(self: Arc<Self>, expected: RequestTokens) -> Result<Permit, ModelFailure> {
        let queue = self.queue.lock().await;
        let slot = match self.limits.concurrent {
            // The semaphore is never closed, so there is always a place at last.
            Some(_) => self.slots.clone().acquire_owned().await.ok(),
            None => None,
        };
        let probe = loop {
            match self.try_admit(expected)? {
                Admission::Granted { probe } => break probe,
                Admission::WaitUntil(latest) => {
                    // Whether it has changed or takes too long: what that means is seen in the next pass of the loop.
                    let _ = tokio::time::timeout_at(latest, self.changed.notified()).await;
                }
            }
        };
        drop(queue);
        Ok(Permit {
            limiter: self,
            expected,
            actual: expected,
            probe,
            _slot: slot,
        })
    }

    /// Takes the tokens if all is open, or says what to wait for.
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
                message: format!("the model's provider asked to be left alone for another {retry_after}"),
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

    /// Lets all through, if it is still that probe that they wait for.
    fn probe_answered(&self, probe: u64) {
        self.finish_probe(probe, ProbeState::NotNeeded);
    }

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
    /// The number of the probe that begins, if one is due.
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
    /// The request; where it is as a probe, the beginning of its reply's text lets the others through.
    fn end_probe_on_first_delta(&self, request: ChatRequest) -> ChatRequest {
        let Some(probe) = self.probe else {
            return request;
        };
        let limiter = self.limiter.clone();
        let told = request.deltas.clone();
        request.deltas(DeltaSink::new(move |text| {
            limiter.probe_answered(probe);
            if let Some(told) = &told {
                told.send(text);
            }
        }))
    }

    /// Settles the probe, and closes the limiter for all where the provider could not answer.
    fn settle(mut self, result: &Result<ModelReply, ModelFailure>) {
        let now = Instant::now();
        self.actual = match result {
            Ok(reply) => RequestTokens {
                input: reply.usage.input_tokens,
                output: reply.usage.output_tokens,
            },
            // The provider may have counted what it read.
            Err(_) => RequestTokens {
                output: 0,
                ..self.expected
            },
        };
        let mut state = self.limiter.lock();
        if let Err(ModelFailure {
            kind: ModelFailureKind::Unavailable { retry_after },
            ..
        }) = result
        {
            let pause = retry_after.map_or(self.limiter.limits.pause, Duration::from);
            let until = now.checked_add(pause).unwrap_or(state.paused_until);
            state.paused_until = state.paused_until.max(until);
            if state.probe_state == ProbeState::NotNeeded {
                state.probe_state = ProbeState::Due;
            }
        } else if let Some(probe) = self.probe {
            drop(state);
            self.limiter.probe_answered(probe);
        }
    }
}

impl Drop for Permit {
    /// Settles the tokens; those of a request that was given up count in full, as the provider may have counted them. A probe without an
    /// answer leaves its place to the next request.
    fn drop(&mut self) {
        if let Some(window) = &mut self.limiter.lock().window {
            window.settle(self.expected, self.actual, Instant::now());
        }
        self.limiter.changed.notify_one();
        if let Some(probe) = self.probe {
            self.limiter.finish_probe(probe, ProbeState::Due);
        }
    }
}

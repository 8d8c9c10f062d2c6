//! The limits of a model's provider, shared by all who ask it (HOST-7): requests side by side, tokens a minute, and a pause for all when
//! the provider asks one of them to wait. Whoever comes first is let through first.
//!
//! After a pause one request goes alone, on trial; the rest follow once it was answered: with the beginning of a text, a reply or any
//! failure but that of an unavailable provider, which makes all wait again. A trial that is given up leaves its place to the next, and one
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

use crate::request::after;
use crate::window::{Full, Tokens, Window};
use crate::{ChatModel, ChatRequest, Deltas};

/// Tokens that a reply is expected to have, where the request sets no limit. What it really had counts once it has come.
const EXPECTED_REPLY: u64 = 1_000;

/// What a provider allows each of its models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// Requests side by side; `None` for any number.
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
    gates: Arc<Mutex<BTreeMap<Option<String>, Arc<Gate>>>>,
}

impl<M> Limited<M> {
    /// Keeps all who ask through this, and through its clones, to those limits.
    pub fn new(inner: M, limits: ModelLimits) -> Self {
        Limited {
            inner,
            limits,
            gates: Arc::default(),
        }
    }

    /// The same limits around another way to ask the same provider: both draw on them together.
    pub fn around<N>(&self, inner: N) -> Limited<N> {
        Limited {
            inner,
            limits: self.limits,
            gates: self.gates.clone(),
        }
    }

    fn gate(&self, model: Option<&String>) -> Arc<Gate> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates
            .entry(model.cloned())
            .or_insert_with(|| Arc::new(Gate::new(self.limits)))
            .clone()
    }
}

impl<M: ChatModel + Clone> ChatModel for Limited<M> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let gate = self.gate(request.model.as_ref());
        ask(self.inner.clone(), gate, request).boxed()
    }
}

async fn ask<M: ChatModel>(
    model: M,
    gate: Arc<Gate>,
    request: ChatRequest,
) -> Result<ModelReply, ModelFailure> {
    let expected = Tokens {
        input: match gate.limits.tokens_per_minute {
            Some(_) => request.estimated_tokens(),
            None => 0,
        },
        output: request.max_output_tokens.unwrap_or(EXPECTED_REPLY),
    };
    let pass = gate.pass(expected).await?;
    let result = model.chat(pass.heard_by(request)).await;
    pass.end(&result);
    result
}

/// Where all requests to one model come through.
#[derive(Debug)]
struct Gate {
    limits: ModelLimits,
    /// Held by who is next, while it waits. It is what makes the order fair: tokens and pauses have no queues of their own.
    turn: tokio::sync::Mutex<()>,
    places: Arc<Semaphore>,
    state: Mutex<GateState>,
    /// Told when a request has ended or a trial is over, to who is next.
    changed: Notify,
}

#[derive(Debug)]
struct GateState {
    closed_until: Instant,
    opening: Opening,
    /// How many trials there were: a trial's number.
    trials: u64,
    window: Option<Window>,
}

/// How many are let through when there is no pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// All for whom there is a place.
    All,
    /// One, on trial.
    One,
    /// None: that trial is under way.
    None { trial: u64, since: Instant },
}

/// What who is next may do.
enum Leave {
    /// To go; on trial, if it has a number.
    Go { trial: Option<u64> },
    /// To wait until then, or until something has changed.
    Until(Instant),
}

/// A request's leave to be under way: its place, given back when dropped, and the tokens that were reserved for it.
struct Pass {
    gate: Arc<Gate>,
    expected: Tokens,
    /// What it has had when it is dropped.
    had: Tokens,
    trial: Option<u64>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Gate {
    fn new(limits: ModelLimits) -> Self {
        let places = limits.concurrent.map_or(0, NonZeroU32::get);
        let places =
            usize::try_from(places).map_or(Semaphore::MAX_PERMITS, |n| n.min(Semaphore::MAX_PERMITS));
        let now = Instant::now();
        Gate {
            limits,
            turn: tokio::sync::Mutex::new(()),
            places: Arc::new(Semaphore::new(places)),
            state: Mutex::new(GateState {
                closed_until: now,
                opening: Opening::All,
                trials: 0,
                window: limits.tokens_per_minute.map(Window::new),
            }),
            changed: Notify::new(),
        }
    }

    /// Waits for a place, for the end of a pause and for tokens. Dropping the future leaves the queue.
    async fn pass(self: Arc<Self>, expected: Tokens) -> Result<Pass, ModelFailure> {
        let turn = self.turn.lock().await;
        let place = match self.limits.concurrent {
            // The semaphore is never closed, so there is always a place at last.
            Some(_) => self.places.clone().acquire_owned().await.ok(),
            None => None,
        };
        let trial = loop {
            match self.leave(expected)? {
                Leave::Go { trial } => break trial,
                Leave::Until(latest) => {
                    // Whether it has changed or takes too long: what that means is seen in the next round.
                    let _ = tokio::time::timeout_at(latest, self.changed.notified()).await;
                }
            }
        };
        drop(turn);
        Ok(Pass {
            gate: self,
            expected,
            had: expected,
            trial,
            _place: place,
        })
    }

    /// Takes the tokens if all is open, or says what to wait for.
    fn leave(&self, expected: Tokens) -> Result<Leave, ModelFailure> {
        let now = Instant::now();
        let mut state = self.lock();
        let pause = state.closed_until.saturating_duration_since(now);
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
            return Ok(Leave::Until(state.closed_until));
        }
        if let Opening::None { since, .. } = state.opening {
            let latest = since.checked_add(self.limits.longest_wait);
            let latest = latest.unwrap_or_else(|| after(Duration::MAX));
            if now < latest {
                return Ok(Leave::Until(latest));
            }
            state.opening = Opening::All;
        }
        if let Some(window) = &mut state.window
            && let Err(Full(until)) = window.begin(expected, now)
        {
            return Ok(Leave::Until(until.unwrap_or_else(|| after(Duration::MAX))));
        }
        let trial = state.begin_trial(now);
        Ok(Leave::Go { trial })
    }

    /// Lets all through, if it is still that trial that they wait for.
    fn open(&self, trial: u64) {
        self.after_trial(trial, Opening::All);
    }

    fn after_trial(&self, trial: u64, opening: Opening) {
        let mut state = self.lock();
        if matches!(state.opening, Opening::None { trial: current, .. } if current == trial) {
            state.opening = opening;
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GateState {
    /// The number of the trial that begins, if one is due.
    fn begin_trial(&mut self, now: Instant) -> Option<u64> {
        match self.opening {
            Opening::All | Opening::None { .. } => None,
            Opening::One => {
                self.trials += 1;
                self.opening = Opening::None {
                    trial: self.trials,
                    since: now,
                };
                Some(self.trials)
            }
        }
    }
}

impl Pass {
    /// The request; where it is on trial, the beginning of its reply's text lets the others through.
    fn heard_by(&self, request: ChatRequest) -> ChatRequest {
        let Some(trial) = self.trial else {
            return request;
        };
        let gate = self.gate.clone();
        let told = request.deltas.clone();
        request.deltas(Deltas::new(move |text| {
            gate.open(trial);
            if let Some(told) = &told {
                told.tell(text);
            }
        }))
    }

    /// Settles the trial, and closes the gate for all where the provider could not answer.
    fn end(mut self, result: &Result<ModelReply, ModelFailure>) {
        let now = Instant::now();
        self.had = match result {
            Ok(reply) => Tokens {
                input: reply.usage.input_tokens,
                output: reply.usage.output_tokens,
            },
            // The provider may have counted what it read.
            Err(_) => Tokens {
                output: 0,
                ..self.expected
            },
        };
        let mut state = self.gate.lock();
        if let Err(ModelFailure {
            kind: ModelFailureKind::Unavailable { retry_after },
            ..
        }) = result
        {
            let pause = retry_after.map_or(self.gate.limits.pause, Duration::from);
            let until = now.checked_add(pause).unwrap_or(state.closed_until);
            state.closed_until = state.closed_until.max(until);
            if state.opening == Opening::All {
                state.opening = Opening::One;
            }
        } else if let Some(trial) = self.trial {
            drop(state);
            self.gate.open(trial);
        }
    }
}

impl Drop for Pass {
    /// Settles the tokens; those of a request that was given up count in full, as the provider may have counted them. A trial without an
    /// answer leaves its place to the next request.
    fn drop(&mut self) {
        if let Some(window) = &mut self.gate.lock().window {
            window.end(self.expected, self.had, Instant::now());
        }
        self.gate.changed.notify_one();
        if let Some(trial) = self.trial {
            self.gate.after_trial(trial, Opening::One);
        }
    }
}

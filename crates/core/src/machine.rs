//! The common interface of the two state machines, and the table of their outstanding effects.

use std::collections::BTreeMap;

use crate::end_reason::EndReason;
use crate::id::{EffectId, Scope};
use crate::time::Timestamp;

/// A pure state machine. Its driver journals each accepted input before it executes the resulting commands. After a restart, the driver
/// replays the journal, discards the returned commands, and sends the machine its `Resumed` input.
pub trait Machine {
    /// The machine's input, which is journaled.
    type Input;
    /// The machine's command. Commands are not journaled, because replaying the inputs returns the same commands.
    type Command;

    /// Handles an input and returns the commands.
    ///
    /// # Errors
    /// [`Refusal`] if the input is refused. The state is unchanged, and the input is not journaled.
    fn handle(&mut self, now: Timestamp, input: Self::Input) -> Result<Vec<Self::Command>, Refusal>;
}

/// The reason why an input is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The effect is not outstanding: its completion arrived late or twice, or the effect never started.
    #[error("effect {effect} is not in progress: it has ended or never started")]
    Stale {
        /// The effect id in the input.
        effect: EffectId,
    },
    /// The machine does not accept this input in its current state.
    #[error("{input} is not accepted: {state}")]
    InvalidState {
        /// The input in words, such as `immediate guidance`.
        input: &'static str,
        /// The state in which the input is not accepted, such as `the lead has ended`.
        state: String,
    },
    /// The run has finished and cannot be resumed.
    #[error("the run has finished: {reason}")]
    Finished {
        /// The reason why the run ended.
        reason: EndReason,
    },
    /// The run cannot be resumed with these limits, because it has already reached one of them (PAOR-1).
    #[error(
        "the run cannot continue, because it has reached a limit: {reason}. Resume it with a higher limit"
    )]
    AtLimit {
        /// The limit that the run has reached.
        reason: EndReason,
    },
    /// The decision about a call is not valid (APPROVE-3).
    #[error(transparent)]
    Decision(#[from] crate::approval::DecisionError),
    /// The text does not answer the run's question (PAOR-9).
    #[error(transparent)]
    Answer(#[from] crate::question::AnswerError),
    /// The phase transition is not allowed (PAOR-1).
    #[error(transparent)]
    Transition(#[from] crate::phase::ImpossibleTransition),
}

/// The effects that a machine has requested and that have not completed, each with data of type `W`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outstanding<W> {
    scope: Scope,
    last_step: u32,
    waiting: BTreeMap<u32, (u32, W)>,
}

impl<W> Outstanding<W> {
    /// Creates an empty table. The ids of effects follow `last_step`.
    pub(crate) fn new(scope: Scope, last_step: u32) -> Self {
        Outstanding {
            scope,
            last_step,
            waiting: BTreeMap::new(),
        }
    }

    /// Starts an effect and returns its id.
    pub(crate) fn start(&mut self, pending: W) -> EffectId {
        let effect = self.next_effect();
        self.put(effect, pending);
        effect
    }

    /// Returns the id of the next effect.
    pub(crate) fn next_effect(&self) -> EffectId {
        EffectId {
            scope: self.scope,
            step: self.last_step + 1,
            attempt: 0,
        }
    }

    /// Reserves the next effect id without starting an effect, and returns it.
    pub(crate) fn skip(&mut self) -> EffectId {
        let effect = self.next_effect();
        self.last_step = effect.step;
        effect
    }

    /// Sets the data of an effect, which must be outstanding or the next one to start.
    pub(crate) fn put(&mut self, effect: EffectId, pending: W) {
        self.last_step = self.last_step.max(effect.step);
        self.waiting.insert(effect.step, (effect.attempt, pending));
    }

    /// Returns the data of an effect.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if this attempt of the effect is not outstanding.
    pub(crate) fn get(&self, effect: EffectId) -> Result<&W, Refusal> {
        match self.waiting.get(&effect.step) {
            Some((attempt, pending)) if *attempt == effect.attempt && effect.scope == self.scope => {
                Ok(pending)
            }
            _ => Err(Refusal::Stale { effect }),
        }
    }

    /// Like [`Self::get`], but returns a mutable reference.
    pub(crate) fn get_mut(&mut self, effect: EffectId) -> Result<&mut W, Refusal> {
        match self.waiting.get_mut(&effect.step) {
            Some((attempt, pending)) if *attempt == effect.attempt && effect.scope == self.scope => {
                Ok(pending)
            }
            _ => Err(Refusal::Stale { effect }),
        }
    }

    /// Completes an effect and returns its data.
    pub(crate) fn finish(&mut self, effect: EffectId) -> Result<W, Refusal> {
        self.get(effect)?;
        self.waiting
            .remove(&effect.step)
            .map(|(_, pending)| pending)
            .ok_or(Refusal::Stale { effect })
    }

    /// Returns the outstanding effect with this scope and step, whatever its attempt.
    pub(crate) fn at_step(&self, scope: Scope, step: u32) -> Option<(EffectId, &W)> {
        let (attempt, pending) = self.waiting.get(&step).filter(|_| scope == self.scope)?;
        let effect = EffectId {
            scope,
            step,
            attempt: *attempt,
        };
        Some((effect, pending))
    }

    /// Increments the attempt of each effect for which `should_retry` returns true. Completions of the earlier attempts become stale.
    pub(crate) fn retry(&mut self, should_retry: impl Fn(&W) -> bool) {
        for (attempt, pending) in self.waiting.values_mut() {
            *attempt += u32::from(should_retry(pending));
        }
    }

    /// Returns mutable references to the data of all effects.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut W> {
        self.waiting.values_mut().map(|(_, pending)| pending)
    }

    /// Like [`Self::iter`], but with mutable data.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (EffectId, &mut W)> {
        let scope = self.scope;
        self.waiting.iter_mut().map(move |(step, (attempt, pending))| {
            let effect = EffectId {
                scope,
                step: *step,
                attempt: *attempt,
            };
            (effect, pending)
        })
    }

    /// Removes all effects.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// An empty table that continues the numbering of steps.
    pub(crate) fn empty_successor(&self) -> Self {
        Outstanding {
            scope: self.scope,
            last_step: self.last_step,
            waiting: BTreeMap::new(),
        }
    }

    /// Iterates over all effects and their data, in the order in which the effects started.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EffectId, &W)> {
        self.waiting.iter().map(|(step, (attempt, pending))| {
            (
                EffectId {
                    scope: self.scope,
                    step: *step,
                    attempt: *attempt,
                },
                pending,
            )
        })
    }
}

//! What the two machines have in common: how they are driven, and the table of what they wait for.

use std::collections::BTreeMap;

use crate::end_reason::EndReason;
use crate::id::{EffectId, Scope};
use crate::time::Timestamp;

/// A pure state machine. Its driver journals each accepted input and only then carries out the commands; after a
/// restart it replays the journal, dropping the commands, and gives the machine its `Resumed` input.
pub trait Machine {
    /// What it takes. Journaled.
    type Input;
    /// What it asks for. Never journaled: replaying the inputs gives the same commands again.
    type Command;

    /// Takes an input. Refused inputs leave the state as it was and are not journaled.
    fn handle(&mut self, now: Timestamp, input: Self::Input) -> Result<Vec<Self::Command>, Refusal>;
}

/// An input that cannot apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The completion of something that isn't under way: it came late, twice, or was never asked for.
    #[error("{effect} is not under way: it has ended, or was never started")]
    Stale {
        /// What it claims to complete.
        effect: EffectId,
    },
    /// The input doesn't belong to the state.
    #[error("{input} cannot apply while {state}")]
    InvalidState {
        /// Which input.
        input: &'static str,
        /// The state.
        state: String,
    },
    /// A run that cannot be resumed: it is over.
    #[error("the run has finished: {reason}")]
    Finished {
        /// Why it ended.
        reason: EndReason,
    },
    /// A run that cannot be resumed with these limits, as one of them is reached already (PAOR-1).
    #[error("the run cannot go on, as it is at its limit: {reason}. Resume it with a higher limit")]
    AtLimit {
        /// The limit.
        reason: EndReason,
    },
    /// A decision that does not count (APPROVE-3).
    #[error(transparent)]
    Decision(#[from] crate::approval::DecisionError),
    /// A text that does not answer the run's question (PAOR-9).
    #[error(transparent)]
    Answer(#[from] crate::question::AnswerError),
    /// A step between phases that there is not (PAOR-1).
    #[error(transparent)]
    Transition(#[from] crate::phase::ImpossibleTransition),
}

/// What a machine has commanded and not yet got a result for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outstanding<W> {
    scope: Scope,
    last_step: u32,
    waiting: BTreeMap<u32, (u32, W)>,
}

impl<W> Outstanding<W> {
    pub(crate) fn new(scope: Scope) -> Self {
        Outstanding {
            scope,
            last_step: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// A new effect to wait for.
    pub(crate) fn start(&mut self, pending: W) -> EffectId {
        let effect = self.next_effect();
        self.put(effect, pending);
        effect
    }

    /// The one that is started next.
    pub(crate) fn next_effect(&self) -> EffectId {
        EffectId {
            scope: self.scope,
            step: self.last_step + 1,
            attempt: 0,
        }
    }

    /// The id of something that is not commanded after all.
    pub(crate) fn skip(&mut self) -> EffectId {
        let effect = self.next_effect();
        self.last_step = effect.step;
        effect
    }

    /// Waits under that id, which is the next one or is waited for already, for this and nothing else.
    pub(crate) fn put(&mut self, effect: EffectId, pending: W) {
        self.last_step = self.last_step.max(effect.step);
        self.waiting.insert(effect.step, (effect.attempt, pending));
    }

    /// What the effect was started for, if this very try of it is still waited for.
    pub(crate) fn get(&self, effect: EffectId) -> Result<&W, Refusal> {
        match self.waiting.get(&effect.step) {
            Some((attempt, pending)) if *attempt == effect.attempt && effect.scope == self.scope => {
                Ok(pending)
            }
            _ => Err(Refusal::Stale { effect }),
        }
    }

    /// As [`Self::get`], to change it.
    pub(crate) fn get_mut(&mut self, effect: EffectId) -> Result<&mut W, Refusal> {
        match self.waiting.get_mut(&effect.step) {
            Some((attempt, pending)) if *attempt == effect.attempt && effect.scope == self.scope => {
                Ok(pending)
            }
            _ => Err(Refusal::Stale { effect }),
        }
    }

    /// Ends the wait.
    pub(crate) fn finish(&mut self, effect: EffectId) -> Result<W, Refusal> {
        self.get(effect)?;
        self.waiting
            .remove(&effect.step)
            .map(|(_, pending)| pending)
            .ok_or(Refusal::Stale { effect })
    }

    /// What is waited for at that step, whichever try of it, with its id.
    pub(crate) fn at_step(&self, scope: Scope, step: u32) -> Option<(EffectId, &W)> {
        let (attempt, pending) = self.waiting.get(&step).filter(|_| scope == self.scope)?;
        let effect = EffectId {
            scope,
            step,
            attempt: *attempt,
        };
        Some((effect, pending))
    }

    /// All such things are tried once more: earlier tries of them are stale from now on.
    pub(crate) fn retry(&mut self, should_retry: impl Fn(&W) -> bool) {
        for (attempt, pending) in self.waiting.values_mut() {
            *attempt += u32::from(should_retry(pending));
        }
    }

    /// What is waited for, to change it.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut W> {
        self.waiting.values_mut().map(|(_, pending)| pending)
    }

    /// As [`Self::iter`], to change it.
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

    /// Nothing is waited for any more.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Moves all that is waited for out. Steps go on from where they were.
    pub(crate) fn take(&mut self) -> Self {
        Outstanding {
            scope: self.scope,
            last_step: self.last_step,
            waiting: std::mem::take(&mut self.waiting),
        }
    }

    /// In the order of their start.
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

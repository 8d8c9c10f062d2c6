//! Calls of a plan's own that a person decides about, and agents whose calls wait for one (APPROVE-1 to APPROVE-3, HOST-11).

use super::{Commands, Run};
use crate::approval::{Decision, DecisionFault};
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::run::{RunInput, RunTimer};
use crate::time::Timestamp;

impl Run {
    /// A call of an agent waits: where nothing else goes on, neither does the run.
    pub(super) fn approval_asked(
        &mut self,
        _now: Timestamp,
        effect: EffectId,
        _commands: &mut Commands,
    ) -> Result<(), Refusal> {
        Err(Refusal::Stale { effect })
    }

    pub(super) fn approval_settled(
        &mut self,
        _now: Timestamp,
        effect: EffectId,
        _commands: &mut Commands,
    ) -> Result<(), Refusal> {
        Err(Refusal::Stale { effect })
    }

    pub(super) fn decide(
        &mut self,
        _now: Timestamp,
        effect: EffectId,
        _decision: Decision,
        _commands: &mut Commands,
    ) -> Result<(), Refusal> {
        Err(DecisionFault::NotPending { effect }.into())
    }

    pub(super) fn approval_expired(
        &mut self,
        _now: Timestamp,
        step: u32,
        _commands: &mut Commands,
    ) -> Result<(), Refusal> {
        Err(self.misplaced(&RunInput::TimerFired {
            timer: RunTimer::Approval(step),
        }))
    }
}

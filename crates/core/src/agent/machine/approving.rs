//! Calls that a person decides about (APPROVE-1 to APPROVE-3).

use super::{Agent, Commands};
use crate::agent::{AgentInput, AgentTimer};
use crate::approval::{Decision, DecisionFault};
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::time::Timestamp;

impl Agent {
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
        _commands: &mut Commands,
    ) -> Result<(), Refusal> {
        Err(self.misplaced(&AgentInput::TimerFired {
            timer: AgentTimer::Approval,
        }))
    }
}

//! Agents that have others do something (PAOR-5).

use super::{Commands, Run};
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::time::Timestamp;

impl Run {
    pub(super) fn delegate(
        &mut self,
        _now: Timestamp,
        effect: EffectId,
        _agent: String,
        _task: String,
        _commands: &mut Commands,
    ) -> Result<(), Refusal> {
        Err(Refusal::Stale { effect })
    }
}

//! Guidance that cannot wait: what is under way is stopped, and the next plan is made (PAOR-8).

use super::{Commands, Run};
use crate::machine::Refusal;
use crate::run::RunInput;
use crate::time::Timestamp;

impl Run {
    pub(super) fn redirect(
        &mut self,
        _now: Timestamp,
        guidance: String,
        _commands: &mut Commands,
    ) -> Result<(), Refusal> {
        Err(self.misplaced(&RunInput::Redirected { guidance }))
    }
}

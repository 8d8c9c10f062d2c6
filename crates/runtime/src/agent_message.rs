//! Messages to an agent.

use dirigent_core::agent::AgentInput;
use dirigent_core::id::{AgentId, RunId};

use crate::ack::Ack;
use crate::error::RuntimeError;

/// A message from the user to one agent of a run.
pub(crate) struct AgentMessage {
    pub(crate) agent: AgentId,
    pub(crate) input: AgentInput,
    pub(crate) ack: Ack,
}

impl AgentMessage {
    /// Rejects the message, because the agent is not active.
    pub(crate) fn reject(self, run: RunId) {
        let error = self.input.undeliverable(self.agent);
        self.ack.rejected(RuntimeError::steering(run, error));
    }
}

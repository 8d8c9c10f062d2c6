//! Messages to an agent.

use dirigent_core::agent::AgentInput;
use dirigent_core::approval::{Decision, DecisionError};
use dirigent_core::id::{AgentId, EffectId, RunId};

use crate::ack::Ack;
use crate::error::RuntimeError;

/// A message to one agent of a run.
pub(crate) struct AgentMessage {
    pub(crate) agent: AgentId,
    pub(crate) body: AgentMessageBody,
    pub(crate) ack: Ack,
}

pub(crate) enum AgentMessageBody {
    Guidance(String),
    Decision(EffectId, Decision),
}

impl AgentMessage {
    /// Rejects the message, as the agent is not active.
    pub(crate) fn reject(self, run: RunId) {
        let error = self.body.undeliverable(run, self.agent);
        self.ack.rejected(error);
    }
}

impl AgentMessageBody {
    /// The error if the agent is not active: it has ended or never existed.
    pub(crate) fn undeliverable(&self, run: RunId, agent: AgentId) -> RuntimeError {
        match self {
            AgentMessageBody::Guidance(_) => RuntimeError::NoAgent { run, agent },
            AgentMessageBody::Decision(effect, _) => RuntimeError::Decision {
                run,
                fault: DecisionError::NotPending { effect: *effect },
            },
        }
    }
}

impl From<AgentMessageBody> for AgentInput {
    fn from(body: AgentMessageBody) -> Self {
        match body {
            AgentMessageBody::Guidance(guidance) => AgentInput::Guided { guidance },
            AgentMessageBody::Decision(effect, decision) => AgentInput::Decided { effect, decision },
        }
    }
}

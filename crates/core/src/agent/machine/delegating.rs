//! Calls by which the agent has another one do something (PAOR-5). They wait like any other call; only what carries them out is
//! another, and they are always safe to command again, as the run knows which agent it has started for which call.

use super::Agent;
use crate::agent::AgentCommand;
use crate::call::{ToolCall, ToolSet};
use crate::delegate::{DELEGATE, delegation};
use crate::id::EffectId;

impl Agent {
    /// What carries out a checked call.
    pub(super) fn call_command(&self, effect: EffectId, call: &ToolCall) -> AgentCommand {
        match self.delegation(call).and_then(|_| delegation(call)) {
            Some((agent, task)) => AgentCommand::Delegate { effect, agent, task },
            None => AgentCommand::RunTool {
                effect,
                call: call.clone(),
            },
        }
    }

    /// The set with the agent's own tool, where the call is of it.
    pub(super) fn delegation(&self, call: &ToolCall) -> Option<&ToolSet> {
        if call.tool != DELEGATE {
            return None;
        }
        self.context.delegation(&self.brief.as_ref()?.role)
    }
}

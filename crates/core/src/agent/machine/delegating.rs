//! Calls that delegate to another agent (PAOR-5). They wait like any other call, and are always safe to command again: the run knows which
//! agent it has started for which call.

use super::{Agent, Commands};
use crate::agent::{AgentCommand, AgentTimer};
use crate::call::ToolSet;
use crate::delegation::delegation;
use crate::id::EffectId;
use crate::message::ToolCall;
use crate::spec::DELEGATE;
use crate::time::Timestamp;

impl Agent {
    /// The command that runs a checked call.
    pub(super) fn call_command(&self, effect: EffectId, call: &ToolCall) -> AgentCommand {
        match self.delegation(call) {
            Some((agent, task)) => AgentCommand::Delegate { effect, agent, task },
            None => AgentCommand::RunTool {
                effect,
                call: call.clone(),
            },
        }
    }

    /// Ends a delegation. Its time does not count, as the delegate has a time limit of its own.
    pub(super) fn end_delegation(&mut self, now: Timestamp, commands: &mut Commands) {
        if let Some(since) = self.delegating_since.take() {
            self.deadline = self.deadline + (now - since);
            commands.push(AgentCommand::SetTimer {
                timer: AgentTimer::Deadline,
                at: self.deadline,
            });
        }
    }

    /// The tools among which a call's tool is looked up: the agent's own `delegate`, or the run's tools.
    pub(super) fn tools_for(&self, call: &ToolCall) -> &ToolSet {
        self.delegate_tool(call).unwrap_or(self.run_spec.tool_set())
    }

    /// The name of the other agent and its task; `None` if the call is no delegation.
    fn delegation(&self, call: &ToolCall) -> Option<(String, String)> {
        self.delegate_tool(call)?;
        delegation(call)
    }

    /// The agent's own `delegate`, if the call is for it.
    fn delegate_tool(&self, call: &ToolCall) -> Option<&ToolSet> {
        if call.tool != DELEGATE {
            return None;
        }
        self.offer().delegation.as_ref()
    }
}

//! Calls that delegate to another agent (PAOR-5). The agent waits for such a call as for any other call. A delegating call is always safe
//! to repeat, because the run knows which agent it has started for which call.

use super::{Agent, Commands};
use crate::agent::{AgentCommand, AgentTimer};
use crate::agent_spec::DELEGATE;
use crate::call::ToolSet;
use crate::delegation::delegation;
use crate::id::EffectId;
use crate::message::ToolCall;
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

    /// Ends a delegation. The time of the delegation does not count towards the agent's time limit, because the delegate has a separate
    /// time limit.
    pub(super) fn end_delegation(&mut self, now: Timestamp, commands: &mut Commands) {
        if let Some(since) = self.delegating_since.take() {
            self.deadline = self.deadline + (now - since);
            commands.push(AgentCommand::SetTimer {
                timer: AgentTimer::Deadline,
                at: self.deadline,
            });
        }
    }

    /// The tool set that validates a call: the agent's `delegate` tool for a delegation, otherwise the tools of the run.
    pub(super) fn tools_for(&self, call: &ToolCall) -> &ToolSet {
        self.delegate_tool(call).unwrap_or(self.run_spec.tool_set())
    }

    /// The name of the other agent and its task; `None` if the call is not a delegation.
    pub(super) fn delegation(&self, call: &ToolCall) -> Option<(String, String)> {
        self.delegate_tool(call)?;
        delegation(call)
    }

    /// The tool set that contains only the agent's `delegate` tool; `None` if the call is for another tool, or the agent may not delegate.
    fn delegate_tool(&self, call: &ToolCall) -> Option<&ToolSet> {
        if call.tool != DELEGATE {
            return None;
        }
        self.offer().delegation.as_ref()
    }
}

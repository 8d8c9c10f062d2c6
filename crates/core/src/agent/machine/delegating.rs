//! Calls that delegate to another agent (PAOR-5). The agent waits for such a call as for any other call. A delegating call is always safe
//! to repeat, because the run knows which agent it has started for which call.

use super::{Agent, Commands};
use crate::agent::{AgentCommand, AgentTimer};
use crate::agent_spec::DELEGATE;
use crate::call::ToolSet;
use crate::delegation::delegation;
use crate::id::EffectId;
use crate::loop_tools::LoopCall;
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

    /// Returns the tool set that validates a call: the machine's own tools (`delegate`, `ask_user`, `give_up`), the submission tool, or the tools
    /// of the run.
    pub(super) fn tools_for(&self, call: &ToolCall) -> &ToolSet {
        if self.is_submission(call) {
            return self.run_spec.submissions();
        }
        match self.is_handled_here(call) {
            true => &self.offer().of_machine,
            false => self.tool_set(),
        }
    }

    /// The name of the other agent and its task; `None` if the call is not a delegation.
    pub(super) fn delegation(&self, call: &ToolCall) -> Option<(String, String)> {
        (call.tool == DELEGATE && self.is_handled_here(call)).then(|| delegation(call))?
    }

    /// The parsed call of one of the tools in [`crate::loop_tools`]; `None` for a call of another tool.
    pub(super) fn loop_call(&self, call: &ToolCall) -> Option<LoopCall> {
        self.is_handled_here(call).then(|| LoopCall::read(call))?
    }

    /// Returns true if the call is for one of the agent's tools that this machine handles itself, such as `delegate`.
    fn is_handled_here(&self, call: &ToolCall) -> bool {
        self.offer().of_machine.get(&call.tool).is_some()
    }
}

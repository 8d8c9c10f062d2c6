//! Tools of services. The agent calls them through `call_tool`, and reads their descriptions with `describe_tool` (MCP-4).

use super::Agent;
use crate::loop_tools::{CALL_TOOL, description_result};
use crate::message::ToolCall;
use crate::name::{did_you_mean, nearest, quoted};
use crate::tool::{ToolResult, ToolSpec, code};

impl Agent {
    /// The tool of a service that the agent may call by this name; `None` if there is no such tool, or the agent has no `call_tool`.
    pub(super) fn callable_by_name(&self, name: &str) -> Option<&ToolSpec> {
        let may_call = self.offer().of_machine.get(CALL_TOOL).is_some();
        let tool = self.tool_set().get(name).filter(|_| may_call)?;
        tool.category.is_called_by_name().then_some(tool)
    }

    /// Converts a `call_tool` call to a call of the named tool. From then on, it is treated as if the model had called that tool directly.
    /// Refuses the call if no service has such a tool.
    pub(super) fn call_by_name(&mut self, call: &ToolCall, named: ToolCall) -> Option<ToolCall> {
        if self.callable_by_name(&named.tool).is_none() {
            let refused = self.unknown_tool(&named.tool);
            self.answer_call(call, &refused);
            return None;
        }
        // The call has already been counted.
        self.calls_of_turn = self.calls_of_turn.saturating_sub(1);
        self.conversation.set_called_by_name(&named);
        Some(named)
    }

    /// Answers a call of `describe_tool` (MCP-4).
    pub(super) fn describe_tool(&mut self, call: &ToolCall, name: &str) {
        let result = match self.callable_by_name(name) {
            Some(tool) => description_result(tool),
            None => self.unknown_tool(name),
        };
        self.answer_call(call, &result);
    }

    fn unknown_tool(&self, name: &str) -> ToolResult {
        if let Some(refused) = self.removed_tool(name) {
            return refused;
        }
        let tools = self.tool_set().specs();
        let of_services = tools.iter().filter(|tool| tool.category.is_called_by_name());
        let names: Vec<&str> = of_services.map(|tool| tool.name.as_str()).collect();
        // The model may have left out the service's name, so look for a tool with this name in every service.
        let is_inner = |full: &&&str| !name.is_empty() && full.ends_with(&format!("__{name}"));
        let inner = names.iter().find(is_inner).copied();
        let nearest = inner.or_else(|| nearest(name, names.iter().copied()));
        ToolResult::failure(format!(
            "no service has a tool {}{}",
            quoted(name),
            did_you_mean(nearest)
        ))
        .with_code(code::UNKNOWN_TOOL)
    }
}

//! Changes of services' tools while the agent works (MCP-2, MCP-4). Its declared tools stay as they are, so that its requests keep their
//! prefix; its next request says what has changed.

use std::sync::Arc;

use super::Agent;
use crate::brief::AgentRole;
use crate::call::ToolSet;
use crate::name::quoted;
use crate::prompt::{self, KnownTools};
use crate::tool::{ToolResult, code};
use crate::tools_change::ToolsChange;

impl Agent {
    /// The tools of the run as they are now.
    pub(super) fn tool_set(&self) -> &ToolSet {
        self.tool_changes.tools(self.run_spec.tool_set())
    }

    /// Takes over a change. The next request tells the model about it, if it was told of the service's tools or has some of them.
    pub(super) fn change_tools(&mut self, change: Arc<ToolsChange>) {
        self.tool_changes.add(self.run_spec.tool_set(), change.clone());
        let known = KnownTools {
            declared: &self.offer().names,
            by_name: self.was_told_of(&change.service),
        };
        self.tool_notices.extend(prompt::tools_changed(&change, known));
    }

    /// Returns true for a lead whose goal asks for the service, so that it was told of the service's tools.
    fn was_told_of(&self, service: &str) -> bool {
        let mut services = self.run_spec.services.iter();
        let is_told = services.any(|asked| asked.name == service && asked.problem.is_none());
        is_told && self.brief.role == AgentRole::Lead
    }

    /// Returns the message about all changes since the last request; `None` if there is nothing to say.
    pub(super) fn take_tool_notices(&mut self) -> Option<String> {
        let notices = std::mem::take(&mut self.tool_notices);
        (!notices.is_empty()).then(|| notices.join("\n\n"))
    }

    /// The result of a call of a tool that its service no longer has; `None` if the tool exists or never did.
    pub(super) fn removed_tool(&self, name: &str) -> Option<ToolResult> {
        let service = self.tool_changes.former_service(name)?;
        let error = format!(
            "the service {} no longer has the tool {}: use another one",
            quoted(service),
            quoted(name)
        );
        Some(ToolResult::failure(error).with_code(code::UNKNOWN_TOOL))
    }
}

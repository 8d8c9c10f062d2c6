//! The categories of tools.

use serde::{Deserialize, Serialize};

/// The category of a tool. Categories are internal: they determine the order of tools in prompts and requests (FLOW-3), so that tools for
/// the same purpose are next to each other, in the same order in every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCategory {
    /// Reads and changes files.
    Files,
    /// Searches text.
    Search,
    /// Knows the syntax of source files.
    Code,
    /// Runs commands.
    Commands,
    /// Reads the version history.
    Git,
    /// Uses databases.
    Data,
    /// Uses the network.
    Web,
    /// Reads earlier outputs of the run.
    Outputs,
    /// All other tools, such as those of embedders.
    #[default]
    Other,
    /// Belongs to a service of the Model Context Protocol. The prompt and the requests of the lead do not describe such a tool: the lead
    /// calls it through `call_tool` and reads its schema with `describe_tool` (MCP-4). A sub-agent whose spec lists the tool has it like
    /// any other tool.
    Service,
    /// Talks to other agents or the user.
    Agents,
    /// Ends the agent's work, or hands it over.
    Ending,
}

impl ToolCategory {
    /// Returns true if the tools of this category are called through `call_tool` ([`crate::loop_tools`]).
    pub fn is_called_by_name(self) -> bool {
        self == ToolCategory::Service
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_other(&self) -> bool {
        *self == ToolCategory::Other
    }
}

//! What a goal brings into its run besides its text.

use serde::{Deserialize, Serialize};

/// A service that a goal asks for, by its wording or by one of the service's trigger keywords. JSON: an object with these fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedService {
    /// The service's name, or the name in the goal if there is no such service or tool.
    pub name: String,
    /// The purpose of the service; empty if it is unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The names of the tools that the goal asks for. All of them are tools of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Why the service cannot be used now; `None` if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// True if an earlier turn of the conversation asked for the service and this goal does not. The lead knows the service's tools from
    /// that turn, so this turn's message does not list them again (MCP-4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_from_earlier_turn: bool,
}

/// A text file of the workspace that a goal includes. The lead reads it with the goal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoalFile {
    /// The path relative to the workspace.
    pub path: String,
    /// The first lines of the file, or all, without the last line break.
    pub content: String,
    /// The number of lines after `content` that are left out.
    pub omitted_lines: usize,
}

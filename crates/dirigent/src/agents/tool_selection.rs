//! The tools that an agent file selects, by Dirigent's names or by Claude Code's, which are mapped to Dirigent's tools.

use std::collections::BTreeSet;

use dirigent_core::agent_spec::DELEGATE;
use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::tool::Access;

use crate::known_tools::KnownTools;

/// The tools that a file selects.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolSelection {
    /// All tools that the agent may have: the file does not name tools.
    All,
    Named(BTreeSet<String>),
}

/// The kind of a Claude Code tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolKind {
    Read,
    Search,
    Edit,
    Run,
    Delegate,
}

impl ToolKind {
    fn from_claude_name(name: &str) -> Option<ToolKind> {
        match name {
            "Read" | "NotebookRead" | "LS" => Some(ToolKind::Read),
            "Grep" | "Glob" => Some(ToolKind::Search),
            "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => Some(ToolKind::Edit),
            "Bash" => Some(ToolKind::Run),
            "Task" | "Agent" => Some(ToolKind::Delegate),
            _ => None,
        }
    }

    fn tool(self) -> &'static str {
        match self {
            ToolKind::Read | ToolKind::Edit => "file_operations",
            ToolKind::Search => "search",
            ToolKind::Run => "execute_command",
            ToolKind::Delegate => DELEGATE,
        }
    }

    fn needs(self) -> Access {
        match self {
            ToolKind::Read | ToolKind::Search | ToolKind::Delegate => Access::ReadOnly,
            ToolKind::Run => Access::Execute,
            ToolKind::Edit => Access::ReadWrite,
        }
    }
}

/// Returns Dirigent's equivalent of a Claude Code tool.
pub(super) fn equivalent_tool(name: &str) -> Option<&'static str> {
    ToolKind::from_claude_name(name).map(ToolKind::tool)
}

/// Returns the lowest access with which an agent can call all of these tools.
pub(super) fn required_access<'a>(tools: impl IntoIterator<Item = &'a String>, known: &KnownTools) -> Access {
    let needed = tools.into_iter().filter_map(|tool| known.get(tool));
    needed.copied().max().unwrap_or(Access::ReadOnly)
}

/// The tools that a Claude Code file selects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClaudeToolSelection {
    pub(super) tools: ToolSelection,
    /// Tools that the agent must not have, even if it selects all.
    pub(super) excluded: BTreeSet<String>,
    pub(super) access: Access,
    /// Names of tools without an equivalent in Dirigent.
    pub(super) unknown: Vec<String>,
    /// Tools that the file allows for certain calls only, which Dirigent cannot express for a single agent.
    pub(super) per_call_only: Vec<String>,
}

impl ClaudeToolSelection {
    /// Maps the allowed names, if the file lists any, and the disallowed names. Both may contain names of Dirigent's tools.
    pub(super) fn new(allowed: Option<&[String]>, disallowed: &[String], known: &KnownTools) -> Self {
        let (mut unknown, mut per_call_only) = (Vec::new(), Vec::new());
        let forbidden: Vec<ToolKind> = disallowed
            .iter()
            .filter_map(|name| ToolKind::from_claude_name(strip_arguments(name)))
            .collect();
        let allowed = allowed.filter(|names| !names.iter().any(|name| name == "*"));
        let Some(names) = allowed else {
            let access = [ToolKind::Edit, ToolKind::Run]
                .into_iter()
                .filter(|kind| !forbidden.contains(kind))
                .map(ToolKind::needs)
                .max();
            return ClaudeToolSelection {
                tools: ToolSelection::All,
                excluded: excluded_tools(&forbidden, disallowed),
                access: access.unwrap_or(Access::ReadOnly),
                unknown,
                per_call_only,
            };
        };
        let (mut tools, mut access) = (BTreeSet::new(), Access::ReadOnly);
        for name in names {
            match ToolKind::from_claude_name(name) {
                Some(kind) if forbidden.contains(&kind) => {}
                Some(kind) => {
                    tools.insert(kind.tool().to_owned());
                    access = access.max(kind.needs());
                }
                None if known.contains_key(name) => {
                    tools.insert(name.clone());
                }
                None if ToolKind::from_claude_name(strip_arguments(name)).is_some() => {
                    per_call_only.push(name.clone())
                }
                None => unknown.push(name.clone()),
            }
        }
        access = access.max(required_access(&tools, known));
        if !tools.is_empty() {
            // Long outputs are shortened; this tool reads the rest.
            tools.insert(READ_OUTPUT.to_owned());
        }
        ClaudeToolSelection {
            tools: ToolSelection::Named(tools),
            excluded: excluded_tools(&forbidden, disallowed),
            access,
            unknown,
            per_call_only,
        }
    }
}

/// Removes the arguments from a name such as `Bash(git diff:*)`. So a tool that is disallowed for certain calls is disallowed for all
/// calls, because Dirigent cannot distinguish the calls of a single agent.
fn strip_arguments(name: &str) -> &str {
    name.split('(').next().unwrap_or_default().trim()
}

fn excluded_tools(forbidden: &[ToolKind], disallowed: &[String]) -> BTreeSet<String> {
    let kinds = forbidden.iter().filter_map(|kind| match kind {
        ToolKind::Run | ToolKind::Search | ToolKind::Delegate => Some(kind.tool().to_owned()),
        // `file_operations` both reads and edits. The agent's access decides whether it may edit.
        ToolKind::Read | ToolKind::Edit => None,
    });
    kinds.chain(disallowed.iter().cloned()).collect()
}

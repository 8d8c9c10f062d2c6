//! What an agent's file asks for: tools by our names, or the tools of Claude Code, which stand for tools of ours.

use std::collections::BTreeSet;

use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::spec::DELEGATE;
use dirigent_core::tool::Access;

use super::KnownTools;

/// The tools that a file names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolSelection {
    /// It does not say: all that it may have.
    All,
    Named(BTreeSet<String>),
}

/// What a tool of Claude Code stands for.
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

/// The tool of ours that a tool of Claude Code stands for.
pub(super) fn equivalent_tool(name: &str) -> Option<&'static str> {
    ToolKind::from_claude_name(name).map(ToolKind::tool)
}

/// What an agent must be allowed at the least to call all of these.
pub(super) fn required_access<'a>(tools: impl IntoIterator<Item = &'a String>, known: &KnownTools) -> Access {
    let needed = tools.into_iter().filter_map(|tool| known.get(tool));
    needed.copied().max().unwrap_or(Access::ReadOnly)
}

/// What a file written for Claude Code asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClaudeToolSelection {
    pub(super) tools: ToolSelection,
    /// Of these, not even if it asks for all.
    pub(super) excluded: BTreeSet<String>,
    pub(super) access: Access,
    /// Names that stand for nothing here.
    pub(super) unknown: Vec<String>,
    /// Tools that it allows for some calls alone, which can't be said of one agent here.
    pub(super) per_call_only: Vec<String>,
}

impl ClaudeToolSelection {
    /// From the names that it allows, if it says, and those that it does not. `known` are our own tools, which it may name too.
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
            // Long outputs are shortened, and this reads the rest.
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

/// A tool that is forbidden for some calls alone is forbidden, as nothing here would tell them apart.
fn strip_arguments(name: &str) -> &str {
    name.split('(').next().unwrap_or_default().trim()
}

fn excluded_tools(forbidden: &[ToolKind], disallowed: &[String]) -> BTreeSet<String> {
    let kinds = forbidden.iter().filter_map(|kind| match kind {
        ToolKind::Run | ToolKind::Search | ToolKind::Delegate => Some(kind.tool().to_owned()),
        // One tool does both: what may not be edited may still be read, by its access.
        ToolKind::Read | ToolKind::Edit => None,
    });
    kinds.chain(disallowed.iter().cloned()).collect()
}

/// The names of a text such as `Read, Bash(git diff:*, git log:*), Grep`.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                names.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(name) = names.last_mut() {
            name.push(c);
        }
    }
    let names = names
        .iter()
        .map(|name| name.trim().trim_matches(['"', '\'', '[', ']']).trim());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

//! What an agent's file asks for: tools by our names, or the tools of Claude Code, which stand for tools of ours.

use std::collections::BTreeSet;

use dirigent_core::delegate::DELEGATE;
use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::tool::Access;

use super::KnownTools;

/// The tools that a file names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It does not say: all that it may have.
    All,
    Named(BTreeSet<String>),
}

/// What a tool of Claude Code stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ability {
    Read,
    Search,
    Edit,
    Run,
    Delegate,
}

impl Ability {
    fn of(name: &str) -> Option<Ability> {
        match name {
            "Read" | "NotebookRead" | "LS" => Some(Ability::Read),
            "Grep" | "Glob" => Some(Ability::Search),
            "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => Some(Ability::Edit),
            "Bash" => Some(Ability::Run),
            "Task" | "Agent" => Some(Ability::Delegate),
            _ => None,
        }
    }

    fn tool(self) -> &'static str {
        match self {
            Ability::Read | Ability::Edit => "file_operations",
            Ability::Search => "search",
            Ability::Run => "execute_command",
            Ability::Delegate => DELEGATE,
        }
    }

    fn needs(self) -> Access {
        match self {
            Ability::Read | Ability::Search | Ability::Delegate => Access::ReadOnly,
            Ability::Run => Access::Execute,
            Ability::Edit => Access::ReadWrite,
        }
    }
}

/// The tool of ours that a tool of Claude Code stands for.
pub(super) fn stands_for(name: &str) -> Option<&'static str> {
    Ability::of(name).map(Ability::tool)
}

/// What an agent must be allowed at the least to call all of these.
pub(super) fn needed_by<'a>(tools: impl IntoIterator<Item = &'a String>, known: &KnownTools) -> Access {
    let needed = tools.into_iter().filter_map(|tool| known.get(tool));
    needed.copied().max().unwrap_or(Access::ReadOnly)
}

/// What a file written for Claude Code asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) tools: Wanted,
    /// Of these, not even if it asks for all.
    pub(super) without: BTreeSet<String>,
    pub(super) access: Access,
    /// Names that stand for nothing here.
    pub(super) unknown: Vec<String>,
    /// Tools that it allows for some calls alone, which can't be said of one agent here.
    pub(super) partial: Vec<String>,
}

impl Asked {
    /// From the names that it allows, if it says, and those that it does not. `known` are our own tools, which it may name too.
    pub(super) fn new(allowed: Option<&[String]>, disallowed: &[String], known: &KnownTools) -> Self {
        let (mut unknown, mut partial) = (Vec::new(), Vec::new());
        let forbidden: Vec<Ability> = disallowed
            .iter()
            .filter_map(|name| Ability::of(bare(name)))
            .collect();
        let allowed = allowed.filter(|names| !names.iter().any(|name| name == "*"));
        let Some(names) = allowed else {
            let access = [Ability::Edit, Ability::Run]
                .into_iter()
                .filter(|ability| !forbidden.contains(ability))
                .map(Ability::needs)
                .max();
            return Asked {
                tools: Wanted::All,
                without: without(&forbidden, disallowed),
                access: access.unwrap_or(Access::ReadOnly),
                unknown,
                partial,
            };
        };
        let (mut tools, mut access) = (BTreeSet::new(), Access::ReadOnly);
        for name in names {
            match Ability::of(name) {
                Some(ability) if forbidden.contains(&ability) => {}
                Some(ability) => {
                    tools.insert(ability.tool().to_owned());
                    access = access.max(ability.needs());
                }
                None if known.contains_key(name) => {
                    tools.insert(name.clone());
                }
                None if Ability::of(bare(name)).is_some() => partial.push(name.clone()),
                None => unknown.push(name.clone()),
            }
        }
        access = access.max(needed_by(&tools, known));
        if !tools.is_empty() {
            // Long outputs are shortened, and this reads the rest.
            tools.insert(READ_OUTPUT.to_owned());
        }
        Asked {
            tools: Wanted::Named(tools),
            without: without(&forbidden, disallowed),
            access,
            unknown,
            partial,
        }
    }
}

/// A tool that is forbidden for some calls alone is forbidden, as nothing here would tell them apart.
fn bare(name: &str) -> &str {
    name.split('(').next().unwrap_or_default().trim()
}

fn without(forbidden: &[Ability], disallowed: &[String]) -> BTreeSet<String> {
    let abilities = forbidden.iter().filter_map(|ability| match ability {
        Ability::Run | Ability::Search | Ability::Delegate => Some(ability.tool().to_owned()),
        // One tool does both: what may not be edited may still be read, by its access.
        Ability::Read | Ability::Edit => None,
    });
    abilities.chain(disallowed.iter().cloned()).collect()
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

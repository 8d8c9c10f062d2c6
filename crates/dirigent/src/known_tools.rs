//! The tools that agents and rules may name.

use std::collections::BTreeMap;

use dirigent_core::agent_spec::DELEGATE;
use dirigent_core::loop_tools::is_reserved;
use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::tool::{Access, ToolSpec};

use crate::DirigentError;

/// Built-in tools that exist only if they are configured. Any agent may list them; it gets those that exist.
pub(crate) const OPTIONAL_TOOLS: [&str; 1] = ["execute_sql"];

/// All tools that an agent may list, each with the access that it needs.
pub(crate) type KnownTools = BTreeMap<String, Access>;

/// Returns the tools of the registry, and the tools that every run has in addition.
pub(crate) fn known_tools(registry: &[ToolSpec]) -> KnownTools {
    let always = [DELEGATE, READ_OUTPUT].map(|name| (name.to_owned(), Access::ReadOnly));
    let own = registry.iter().map(|tool| (tool.name.clone(), tool.access));
    always.into_iter().chain(own).collect()
}

/// Checks that no tool has the name of a tool that every agent has.
pub(crate) fn check_tool_names(tools: &[ToolSpec]) -> Result<(), DirigentError> {
    match tools.iter().find(|tool| is_reserved(&tool.name)) {
        Some(tool) => Err(DirigentError::ReservedTool {
            name: tool.name.clone(),
        }),
        None => Ok(()),
    }
}

/// Returns the tools among `tools` that need more than `access`, each with the access that it needs.
pub(crate) fn tools_beyond_access<'a>(
    access: Access,
    tools: impl IntoIterator<Item = &'a String>,
    known: &KnownTools,
) -> impl Iterator<Item = (&'a str, Access)> {
    tools
        .into_iter()
        .filter_map(move |tool| Some((tool.as_str(), *known.get(tool)?)))
        .filter(move |(_, needs)| *needs > access)
}

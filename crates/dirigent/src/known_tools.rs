//! The tools that agents and rules may name.

use std::collections::BTreeMap;

use dirigent_core::agent_spec::DELEGATE;
use dirigent_core::loop_tools::is_reserved;
use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::tool::{Access, ToolSpec};
use dirigent_mcp::{ServiceName, service_of, tool_prefix};

use crate::DirigentError;

/// Built-in tools that exist only if they are configured. Any agent may list them; it gets those that exist.
pub(crate) const OPTIONAL_TOOLS: [&str; 1] = ["execute_sql"];

/// All tools that an agent may list, each with the access that it needs. The tools of an MCP service are represented by the pattern
/// `mcp__SERVICE__*`, because a service lists its tools only while it is running (MCP-2).
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownTools(BTreeMap<String, Access>);

impl KnownTools {
    /// Returns the access that a tool or pattern needs; `None` if there is no such tool.
    pub(crate) fn get(&self, tool: &str) -> Option<&Access> {
        let of_service = || self.0.get(&service_pattern(tool)?);
        self.0.get(tool).or_else(of_service)
    }

    /// Returns true if there is such a tool or pattern.
    pub(crate) fn contains_key(&self, tool: &str) -> bool {
        self.get(tool).is_some()
    }

    /// Returns the names and patterns.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> + Clone {
        self.0.keys()
    }
}

impl FromIterator<(String, Access)> for KnownTools {
    fn from_iter<I: IntoIterator<Item = (String, Access)>>(tools: I) -> Self {
        KnownTools(tools.into_iter().collect())
    }
}

impl Extend<(String, Access)> for KnownTools {
    fn extend<I: IntoIterator<Item = (String, Access)>>(&mut self, tools: I) {
        self.0.extend(tools);
    }
}

/// Returns the tools of the registry, the tools that every run has in addition, and those of the services.
pub(crate) fn known_tools(registry: &[ToolSpec], services: &[(ServiceName, Access)]) -> KnownTools {
    let always = [DELEGATE, READ_OUTPUT].map(|name| (name.to_owned(), Access::ReadOnly));
    let own = registry.iter().map(|tool| (tool.name.clone(), tool.access));
    let of_services = services
        .iter()
        .map(|(service, access)| (format!("{}*", tool_prefix(service)), *access));
    always.into_iter().chain(own).chain(of_services).collect()
}

/// Returns the pattern of all tools of the service that a tool belongs to; `None` if it belongs to none.
fn service_pattern(tool: &str) -> Option<String> {
    Some(format!("{}*", tool_prefix(&service_of(tool)?)))
}

/// Returns true if `named`, which is a tool or the pattern of a service's tools, matches the tool.
pub(crate) fn stands_for(named: &str, tool: &str) -> bool {
    match named.strip_suffix('*') {
        Some(prefix) if service_of(named).is_some() => tool.starts_with(prefix),
        Some(_) | None => named == tool,
    }
}

/// Checks that no tool has the same name as a tool that every agent has.
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

//! The registry of all built-in tools, and their settings.

use crate::apply_patch::apply_patch;
use crate::execute_command::execute_command;
use crate::execute_sql::{Connections, execute_sql};
use crate::file_operations::file_operations;
use crate::git::git;
use crate::http_request::{HttpRules, http_request};
use crate::registry::ToolRegistry;
use crate::rename_symbol::rename_symbol;
use crate::sandbox::Sandbox;
use crate::search::search;
use crate::symbols::{find_definition, list_symbols};

/// The user's settings for the built-in tools. By default, commands are confined, no database is configured, and HTTP
/// requests can reach only the public network.
#[derive(Clone, Debug, Default)]
pub struct ToolSettings {
    /// The sandbox of commands: what they may read, write and connect to.
    pub sandbox: Sandbox,
    /// The databases of `execute_sql`.
    pub connections: Connections,
    /// The hosts that `http_request` may reach.
    pub http: HttpRules,
}

/// Returns all built-in tools. `execute_sql` is included only if a database is configured. Agents may call
/// the tools concurrently, because no call overwrites a change that another call makes in the meantime
/// (PAOR-5).
pub fn built_in(settings: &ToolSettings) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.insert(apply_patch());
    registry.insert(execute_command(&settings.sandbox));
    if !settings.connections.is_empty() {
        registry.insert(execute_sql(&settings.connections));
    }
    registry.insert(file_operations());
    registry.insert(find_definition());
    registry.insert(git(&settings.sandbox));
    registry.insert(http_request(&settings.http));
    registry.insert(list_symbols());
    registry.insert(rename_symbol());
    registry.insert(search());
    registry
}

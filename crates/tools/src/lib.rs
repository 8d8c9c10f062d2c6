//! Tools for Dirigent's agents: the [`Tool`] trait, the [`ToolRegistry`], and the built-in tools.
//!
//! A tool executes one call and reports its result. It never decides what happens next. Anything that goes wrong inside
//! it becomes a failed [`ToolResult`](dirigent_core::tool::ToolResult), never a panic or a Rust error.
#![warn(missing_docs)]

mod apply_patch;
mod blocking;
mod built_in;
mod content_store;
pub mod diff;
mod excerpt;
mod execute_command;
mod execute_sql;
mod file_operations;
mod git;
mod glob;
mod http_request;
mod registry;
mod removal;
mod rename_symbol;
mod sandbox;
mod search;
mod seen;
mod symbols;
mod syntax;
pub mod text;
mod tool;
mod transaction;
mod truncate;
mod typed;
pub mod workspace;

pub use apply_patch::apply_patch;
pub use built_in::{ToolSettings, built_in};
pub use content_store::{ContentStore, RunChanges};
pub use execute_command::{execute_command, short_environment};
pub use execute_sql::{Connection, ConnectionCheck, Connections, Database, execute_sql};
pub use file_operations::file_operations;
pub use git::{Repository, RepositoryError, WorktreeChanges, git, repository_summary};
pub use http_request::{HttpRules, disallowed_reason, http_request};
pub use registry::{ToolEntry, ToolRegistry, ToolSource};
pub use rename_symbol::rename_symbol;
pub use sandbox::{Confinement, Sandbox};
pub use search::search;
pub use symbols::{find_definition, list_symbols};
pub use tool::{AskUser, Tool, ToolContext};
pub use typed::{IntoToolResult, TypedTool, typed};

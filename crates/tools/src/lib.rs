//! Tools for Dirigent's agents: the [`Tool`] trait, the [`ToolRegistry`], and the built-in tools.
//!
//! A tool does what it is asked and says what came of it. It never decides what happens after a call, and what goes
//! wrong in it is a failed [`ToolResult`], never a panic or an error of ours.
#![warn(missing_docs)]

mod apply_patch;
mod blocking;
mod execute_command;
mod execute_sql;
mod file_operations;
mod git;
mod http_request;
mod registry;
mod rename_symbol;
mod sandbox;
mod search;
mod symbols;
mod syntax;
pub mod text;
mod transaction;
mod typed;
pub mod workspace;

use std::fmt;
use std::sync::Arc;

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::tool::{Access, FileVersion, SeenFiles, ToolResult, ToolSpec};
use dirigent_core::undo::UndoPlan;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use apply_patch::apply_patch;
pub use execute_command::execute_command;
pub use execute_sql::{Connection, ConnectionCheck, Connections, Database, execute_sql};
pub use file_operations::file_operations;
pub use git::git;
pub use http_request::{HttpRules, http_request};
pub use registry::ToolRegistry;
pub use rename_symbol::rename_symbol;
pub use sandbox::{Confinement, Sandbox};
pub use search::search;
pub use symbols::{find_definition, list_symbols};
pub use typed::{IntoToolResult, TypedTool, typed};

/// Something that an agent can call.
pub trait Tool: Send + Sync + 'static {
    /// What models and machines know of it.
    fn spec(&self) -> ToolSpec;

    /// Carries out one call. `parameters` were validated against the schema in [`Tool::spec`]. A call is cancelled by
    /// its token and then by dropping the future: neither may leave a process, a thread or half a file behind.
    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult>;
}

/// What a call may know of where it runs.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The folder that the call must stay in: absolute, existing.
    pub workspace: std::path::PathBuf,
    /// What it may do to the workspace.
    pub access: Access,
    /// The run it belongs to.
    pub run: RunId,
    /// Its handle in the journal.
    pub effect: EffectId,
    /// What the calling agent last saw of files: what has changed since, a tool leaves as it is and shows (PAOR-5). None for a call
    /// of a plan, which nobody has looked for.
    pub seen: Option<Arc<SeenFiles>>,
    /// Where the content of files is kept before they are changed, so that the changes can be undone; none where nothing is kept.
    pub content_store: Option<Arc<dyn ContentStore>>,
    /// Cancelled when nobody waits for the result any more.
    pub cancel: CancellationToken,
}

/// Where the content of files is kept (content-addressed) before they are changed.
pub trait ContentStore: fmt::Debug + Send + Sync + 'static {
    /// Keeps what is in the file at `path` (relative to the workspace, with `/`), by the digest of its version. When it returns, that is on the
    /// disk. It blocks.
    ///
    /// # Errors
    /// In words; the file must not be changed then.
    fn record(&self, path: &str, version: &FileVersion, bytes: &[u8]) -> Result<(), String>;

    /// A content that is kept, by its digest; none where it is not. It blocks.
    ///
    /// # Errors
    /// In words.
    fn load(&self, digest: &str) -> Result<Option<Vec<u8>>, String>;

    /// What the finished calls of the run have changed so far. It blocks.
    ///
    /// # Errors
    /// In words, also where there is no run.
    fn run_changes(&self) -> Result<RunChanges, String>;
}

/// What a run has changed so far.
#[derive(Clone, Debug, Default)]
pub struct RunChanges {
    /// What undoes it.
    pub undoing: UndoPlan,
    /// Files as calls found them that may have changed them and were cut off before they could tell.
    pub unreported: Vec<(String, FileVersion)>,
}

/// What the user's configuration says of the tools that come with Dirigent. By default commands are confined, no database is known, and only
/// the public network can be asked.
#[derive(Clone, Debug, Default)]
pub struct ToolSettings {
    /// What commands may reach.
    pub sandbox: Sandbox,
    /// The databases of `execute_sql`.
    pub connections: Connections,
    /// What `http_request` may reach.
    pub http: HttpRules,
}

/// All the tools that come with Dirigent. However many agents call them at once, none loses what another has written (PAOR-5).
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

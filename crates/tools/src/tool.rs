//! The interface between tools and the runtime that calls them.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::question::Question;
use dirigent_core::spec::ServiceEndpoints;
use dirigent_core::tool::{Access, SeenFiles, ToolResult, ToolSpec};
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::content_store::ContentStore;

/// A function that agents can call.
pub trait Tool: Send + Sync + 'static {
    /// Returns the tool's spec, for models and for the core's state machines.
    fn spec(&self) -> ToolSpec;

    /// Executes one call. `parameters` are already valid against the schema in [`Tool::spec`]. The runtime cancels a call through the
    /// context's token, and later by dropping the future. A cancelled call must not leave a process, a thread or a half-written file
    /// behind.
    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult>;
}

/// Asks the user of a run, on behalf of a call of one of its tools.
pub trait AskUser: Debug + Send + Sync + 'static {
    /// Asks a question, and waits for the answer: one of the choices or other text. `None` if the user does
    /// not answer: no user is present, the question expired, the user gave guidance instead, or the call is
    /// already waiting for the answer to another question. The wait does not count towards the time limit of
    /// the call (LOOP-5).
    ///
    /// The question and its answer are journaled, so a tool must not ask for secrets.
    fn ask(&self, question: Question) -> BoxFuture<'static, Option<String>>;
}

/// The context of one call: the workspace, the calling agent's access and knowledge, and cancellation.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The folder that the call must stay in: an absolute path to an existing folder.
    pub workspace: PathBuf,
    /// The calling agent's access to the workspace.
    pub access: Access,
    /// The run that the call belongs to.
    pub run: RunId,
    /// The call's id in the journal.
    pub effect: EffectId,
    /// The versions of files that the calling agent has seen. If a file differs from the version that the agent has seen, a tool does not
    /// change the file, and returns the file's current content instead (PAOR-5). `None` for the calls of a plan, because no agent has read
    /// files for them.
    pub seen: Option<Arc<SeenFiles>>,
    /// Records the content of files before they are changed, for undo. `None` if nothing is recorded.
    pub content_store: Option<Arc<dyn ContentStore>>,
    /// The time at which the call is stopped without a result, because the time limit of the agent or of the
    /// call has expired. Extended by the time for which the call waits for the user. A tool with partial
    /// output ends earlier, as a failure with the code `timed_out`, so that the output is not lost. `None` if
    /// there is no limit.
    pub deadline: Option<Instant>,
    /// Asks the user. `None` if nobody can be asked, as for the calls of a plan.
    pub user: Option<Arc<dyn AskUser>>,
    /// The digest of the program or the address of each MCP service that the run may use, by the service's name. A call never goes to
    /// another program or address.
    pub service_endpoints: ServiceEndpoints,
    /// Cancelled when the result is no longer needed.
    pub cancel: CancellationToken,
}

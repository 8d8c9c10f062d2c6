//! What others see of a service: its state, its tools, and what happens to it.

use std::sync::Arc;

use dirigent_core::id::{EffectId, RunId};

use crate::config::ServiceName;
use crate::connection::Connection;
use crate::tool_list::ToolList;

/// The state of a service (MCP-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// It doesn't run.
    Stopped(WhyStopped),
    /// It is being started, or waits for its next start after it has ended unexpectedly.
    Starting,
    /// It is ready for calls.
    Running,
    /// It cannot be started, or has ended too often.
    Error {
        /// What went wrong, and what to do.
        reason: String,
        /// The last lines of its standard error.
        stderr: Vec<String>,
    },
}

/// Why a service doesn't run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyStopped {
    /// Nobody has needed it yet. It starts with the first call.
    NotNeeded,
    /// The user stopped it. It starts only when the user starts it.
    ByUser,
}

/// What is known about a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceInfo {
    /// The service.
    pub name: ServiceName,
    /// What it is for.
    pub description: String,
    /// False if it is configured but switched off.
    pub enabled: bool,
    /// Its state.
    pub state: ServiceState,
    /// The names of its tools, as agents know them. Empty until it has run once.
    pub tools: Vec<String>,
    /// The tools that it lists but that cannot be called.
    pub unavailable: Vec<UnavailableTool>,
}

/// A tool that a service lists but that cannot be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnavailableTool {
    /// The name that the service uses.
    pub tool: String,
    /// Why it cannot be called.
    pub reason: String,
}

/// Something that happened to a service.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServiceEvent {
    /// The service has another state.
    State {
        /// The service.
        service: ServiceName,
        /// The new state.
        state: ServiceState,
    },
    /// The service's tools are not those that were known. Not sent for the first list.
    ToolsChanged {
        /// The service.
        service: ServiceName,
        /// The names of new tools.
        added: Vec<String>,
        /// The names of tools that are gone.
        removed: Vec<String>,
        /// The names of tools with another description, other parameters or other annotations. They may do something else than before.
        changed: Vec<String>,
    },
    /// A tool of the service cannot be called.
    ToolUnavailable {
        /// The service.
        service: ServiceName,
        /// The tool.
        tool: UnavailableTool,
    },
    /// A call makes progress.
    Progress {
        /// The service.
        service: ServiceName,
        /// The name of the tool.
        tool: String,
        /// The run that the call belongs to.
        run: RunId,
        /// The call's id in the run's journal.
        effect: EffectId,
        /// How far the call is.
        progress: f64,
        /// The value of `progress` at the end, if the service knows it.
        total: Option<f64>,
        /// The service's words about it.
        message: Option<String>,
    },
}

/// The present state of a service, shared between its actor and its users.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) state: ServiceState,
    /// The connection; `None` unless the service is running.
    pub(crate) connection: Option<Arc<Connection>>,
    /// The tools as the service last listed them.
    pub(crate) tools: Arc<ToolList>,
}

impl Status {
    pub(crate) fn new() -> Self {
        Status {
            state: ServiceState::Stopped(WhyStopped::NotNeeded),
            connection: None,
            tools: Arc::new(ToolList::default()),
        }
    }
}

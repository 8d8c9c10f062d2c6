//! The public information about a service: its state, its tools, and its events.

use std::sync::Arc;

use dirigent_core::id::{EffectId, RunId};
use serde::{Deserialize, Serialize};

use crate::config::ServiceName;
use crate::connection::Connection;
use crate::tool_list::ToolList;

/// The state of a service (MCP-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// The service is not running.
    Stopped(WhyStopped),
    /// The service is being started, or is waiting to be restarted after it ended unexpectedly.
    Starting,
    /// The service is ready for calls.
    Running,
    /// The service cannot be started, or has ended too often.
    Error {
        /// The error, and what to do.
        reason: String,
        /// The last lines of its standard error.
        stderr: Vec<String>,
    },
}

/// Why a service is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyStopped {
    /// The service has not been needed yet. Its first call starts it.
    NotNeeded,
    /// The user stopped the service. Only the user can start it again.
    ByUser,
    /// The service was removed, or replaced by one with other settings. It is never started again.
    Removed,
}

/// Information about a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceInfo {
    /// The service.
    pub name: ServiceName,
    /// The purpose of the service.
    pub description: String,
    /// Words that refer to the service without its name (MCP-3).
    pub trigger_keywords: Vec<String>,
    /// False if the service is configured but disabled.
    pub enabled: bool,
    /// The service's state.
    pub state: ServiceState,
    /// The names under which agents call the service's tools. Empty until the service has run once.
    pub tools: Vec<String>,
    /// The tools that the service lists but that cannot be called.
    pub unavailable: Vec<UnavailableTool>,
}

/// A tool that a service lists but that cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnavailableTool {
    /// The name that the service uses.
    pub tool: String,
    /// Why the tool cannot be called.
    pub reason: String,
}

/// An event of a service.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServiceEvent {
    /// The service's state has changed.
    State {
        /// The service.
        service: ServiceName,
        /// The new state.
        state: ServiceState,
    },
    /// The service's tools have changed. Not sent for the first list.
    ToolsChanged {
        /// The service.
        service: ServiceName,
        /// The names of new tools.
        added: Vec<String>,
        /// The names of tools that no longer exist.
        removed: Vec<String>,
        /// The names of tools whose description, parameters or annotations have changed. Such a tool may now do something else.
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
        /// The progress of the call.
        progress: f64,
        /// The value of `progress` at the end of the call, if the service knows the value.
        total: Option<f64>,
        /// The service's message about the progress.
        message: Option<String>,
    },
}

/// The current state of a service, shared between its actor and its users.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) state: ServiceState,
    /// The connection; `None` unless the service is running.
    pub(crate) connection: Option<Arc<Connection>>,
    /// The tools as the service last listed them.
    pub(crate) tools: Arc<ToolList>,
}

impl Status {
    /// Creates the status of a service that has not run yet. `known` contains the tools that it listed in an earlier process.
    pub(crate) fn new(known: ToolList) -> Self {
        Status {
            state: ServiceState::Stopped(WhyStopped::NotNeeded),
            connection: None,
            tools: Arc::new(known),
        }
    }
}

//! A service: its configuration, its current state, and its actor.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dirigent_core::tool::ToolSpec;
use ractor::ActorRef;
use tokio::sync::{broadcast, oneshot, watch};
use tokio::time::Instant;

use crate::client::Roots;
use crate::config::ServiceConfig;
use crate::connection::Connection;
use crate::error::McpError;
use crate::list_pace::ListPace;
use crate::restart::Supervision;
use crate::service_actor::ServiceMessage;
use crate::status::{ServiceEvent, ServiceInfo, ServiceState, Status, WhyStopped};
use crate::tool_list::ToolList;

/// A service, shared by its actor, its tools and the supervisor.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) config: ServiceConfig,
    pub(crate) supervision: Supervision,
    pub(crate) roots: Arc<Roots>,
    pub(crate) events: broadcast::Sender<ServiceEvent>,
    status: watch::Sender<Status>,
    /// Shared by all connections, so that a service cannot change its tools faster by restarting.
    list_pace: Mutex<ListPace>,
    /// The actor; `None` before the actor starts and after the services are shut down.
    actor: Mutex<Option<ActorRef<ServiceMessage>>>,
}

/// Who requested the start of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartedBy {
    /// The user, who may start a service that was stopped or has failed.
    User,
    /// A call, which may start only a service that was not needed before.
    Need,
}

impl Service {
    pub(crate) fn new(
        config: ServiceConfig,
        supervision: Supervision,
        events: broadcast::Sender<ServiceEvent>,
        known: ToolList,
    ) -> Self {
        Service {
            config,
            supervision,
            roots: Arc::new(Roots::new()),
            events,
            status: watch::Sender::new(Status::new(known)),
            list_pace: Mutex::default(),
            actor: Mutex::new(None),
        }
    }

    pub(crate) fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    pub(crate) fn info(&self) -> ServiceInfo {
        let status = self.status();
        ServiceInfo {
            name: self.config.name.clone(),
            description: self.config.description().to_owned(),
            trigger_keywords: self.config.trigger_keywords.clone(),
            enabled: self.config.enabled,
            tools: status.tools.tools.keys().cloned().collect(),
            unavailable: status.tools.unavailable.clone(),
            state: status.state,
        }
    }

    /// Returns true if agents may have the service's tools: it is enabled, and it is running or would be started when needed (MCP-2).
    pub(crate) fn offers_tools(&self) -> bool {
        self.config.enabled
            && match self.status.borrow().state {
                ServiceState::Stopped(WhyStopped::NotNeeded)
                | ServiceState::Starting
                | ServiceState::Running => true,
                ServiceState::Stopped(WhyStopped::ByUser | WhyStopped::Removed)
                | ServiceState::Error { .. } => false,
            }
    }

    /// Returns true once the service has listed its tools.
    pub(crate) fn knows_tools(&self) -> bool {
        *self.status.borrow().tools != ToolList::default()
    }

    /// Returns the specs of the tools that the service last listed, ordered by name.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        let tools = self.status().tools;
        tools
            .tools
            .values()
            .map(|tool| ToolSpec::clone(&tool.spec))
            .collect()
    }

    /// Returns the last lines of the program's standard error. Empty unless the service is running or has failed.
    pub(crate) fn last_messages(&self) -> Vec<String> {
        let status = self.status();
        match (status.connection, status.state) {
            (Some(connection), _) => connection.stderr.lines(),
            (None, ServiceState::Error { stderr, .. }) => stderr,
            (None, ServiceState::Stopped(_) | ServiceState::Starting | ServiceState::Running) => Vec::new(),
        }
    }

    /// Ends the actor.
    pub(crate) fn end_actor(&self) {
        let actor = self.actor.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(actor) = actor {
            actor.stop(None);
        }
    }

    /// Sets the actor that runs the service from now on.
    pub(crate) fn attach(&self, actor: Option<ActorRef<ServiceMessage>>) {
        *self.actor.lock().unwrap_or_else(PoisonError::into_inner) = actor;
    }

    /// Sends a message to the actor; returns false if there is none.
    pub(crate) fn send(&self, message: ServiceMessage) -> bool {
        let actor = self.actor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        actor.is_some_and(|actor| actor.send_message(message).is_ok())
    }

    /// Sets the state, and the connection if the service is running.
    pub(crate) fn set_state(&self, state: ServiceState, connection: Option<Arc<Connection>>) {
        let mut is_new = false;
        self.status.send_modify(|status| {
            is_new = status.state != state;
            status.state = state.clone();
            status.connection = connection;
        });
        if is_new {
            let service = self.config.name.clone();
            // Fails only if there is no receiver.
            let _ = self.events.send(ServiceEvent::State { service, state });
        }
    }

    /// Returns the pause before the changed tools are listed the next time.
    pub(crate) fn pause_after_list(&self) -> Duration {
        let mut pace = self.list_pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.pause_after(Instant::now())
    }

    /// Sets the tools, and sends events about the differences.
    pub(crate) fn set_tools(&self, tools: ToolList) {
        let (before, tools) = (self.status().tools, Arc::new(tools));
        // Before the events, so that who sees an event also sees the tools.
        self.status.send_modify(|status| status.tools = tools.clone());
        let service = &self.config.name;
        for tool in tools
            .unavailable
            .iter()
            .filter(|tool| !before.unavailable.contains(tool))
        {
            tracing::warn!(%service, tool = tool.tool, reason = tool.reason, "a tool of a service cannot be called");
            let _ = self.events.send(ServiceEvent::ToolUnavailable {
                service: service.clone(),
                tool: tool.clone(),
            });
        }
        let changes = before.changes(&tools);
        if !changes.changed.is_empty() {
            let tools = changes.changed.join(", ");
            tracing::warn!(%service, tools, "the descriptions or parameters of a service's tools have changed: check what the tools do now");
        }
        let is_first = *before == ToolList::default();
        if !is_first && !changes.is_empty() {
            let _ = self.events.send(ServiceEvent::ToolsChanged {
                service: service.clone(),
                added: changes.added,
                removed: changes.removed,
                changed: changes.changed,
            });
        }
    }

    /// Starts the service unless it is already running, and waits until it is running or has failed.
    pub(crate) async fn running(
        &self,
        by: StartedBy,
        workspace: Option<&Path>,
    ) -> Result<Arc<Connection>, McpError> {
        let name = || self.config.name.clone();
        if !self.config.enabled {
            return Err(McpError::Disabled { name: name() });
        }
        if let Some(workspace) = workspace {
            self.add_root(workspace).await;
        }
        let mut status = self.status.subscribe();
        // Its actor has ended.
        if status.borrow().state == ServiceState::Stopped(WhyStopped::Removed) {
            return Err(McpError::Removed { name: name() });
        }
        if let Some(connection) = status.borrow_and_update().connection.clone() {
            return Ok(connection);
        }
        let (accepted, wait) = oneshot::channel();
        if !self.send(ServiceMessage::Start { by, accepted }) || wait.await.is_err() {
            return Err(McpError::ShutDown);
        }
        loop {
            let Status {
                state, connection, ..
            } = status.borrow_and_update().clone();
            match (state, connection) {
                (_, Some(connection)) => return Ok(connection),
                (ServiceState::Error { reason, stderr }, None) => {
                    return Err(McpError::Failed {
                        name: name(),
                        reason,
                        stderr,
                    });
                }
                (ServiceState::Stopped(WhyStopped::Removed), None) => {
                    return Err(McpError::Removed { name: name() });
                }
                (ServiceState::Stopped(WhyStopped::ByUser | WhyStopped::NotNeeded), None) => {
                    return Err(McpError::Stopped { name: name() });
                }
                (ServiceState::Starting | ServiceState::Running, None) => {}
            }
            if status.changed().await.is_err() {
                return Err(McpError::ShutDown);
            }
        }
    }

    /// Adds a workspace to the service's roots. Notifies a running service, and gives it time to request them.
    async fn add_root(&self, workspace: &Path) {
        /// The time that a service has to request its roots after it was notified that they have changed.
        const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);
        /// The time that a service needs to apply the roots that it has requested.
        const SETTLE: std::time::Duration = std::time::Duration::from_millis(100);
        let mut asked = self.roots.asked();
        let before = *asked.borrow_and_update();
        if !self.roots.add(workspace) {
            return;
        }
        let connection = self.status().connection;
        let Some(connection) = connection else { return };
        // A service that has never requested its roots does not use them.
        if before > 0 {
            let told = async {
                let told = connection.peer.notify_roots_list_changed().await;
                if told.is_ok() {
                    let _ = asked.wait_for(|asked| *asked > before).await;
                    // The service has the answer now, but may still inspect the folders before it uses them.
                    tokio::time::sleep(SETTLE).await;
                }
            };
            let _ = tokio::time::timeout(PATIENCE, told).await;
        }
    }

    /// Stops the service. The returned future waits until its processes have ended.
    pub(crate) fn stop(&self, why: WhyStopped) -> impl Future<Output = ()> + Send + use<> {
        let (done, wait) = oneshot::channel();
        let is_sent = self.send(ServiceMessage::Stop { why, done });
        async move {
            if is_sent {
                // Fails only if the actor, and so the connection, has ended.
                let _ = wait.await;
            }
        }
    }
}

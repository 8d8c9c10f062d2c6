//! All services, and the supervisor of their actors.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use dirigent_core::tool::ToolSpec;
use dirigent_tools::{ToolEntry, ToolSource};
use futures::future::join_all;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::broadcast;

use crate::config::{ServiceConfig, ServiceName};
use crate::error::McpError;
use crate::names::service_of;
use crate::restart::Supervision;
use crate::service::{Service, StartedBy};
use crate::service_actor::ServiceActor;
use crate::status::{ServiceEvent, ServiceInfo, ServiceState};
use crate::tool::McpTool;

/// The number of events by which a slow watcher may be behind before it misses events.
const EVENT_BUFFER: usize = 256;

/// The configured services. Clones are handles of the same services. When the last clone is dropped, all services are stopped.
///
/// No service runs until it is needed: the first call of one of its tools, or [`McpServices::start`].
#[derive(Clone)]
pub struct McpServices {
    inner: Arc<Inner>,
}

struct Inner {
    services: Arc<BTreeMap<ServiceName, Arc<Service>>>,
    events: broadcast::Sender<ServiceEvent>,
    supervisor: ActorRef<SupervisorMessage>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.services.values().for_each(|service| service.attach(None));
        // The end of the supervisor ends its children and their connections.
        self.supervisor.stop(None);
    }
}

impl McpServices {
    /// Starts the actors of these services in the current tokio runtime. Starts none of the services themselves.
    ///
    /// # Errors
    /// [`McpError::Twice`]; [`McpError::ShutDown`] if no actor can be started.
    pub async fn start_up(configs: Vec<ServiceConfig>, supervision: Supervision) -> Result<Self, McpError> {
        let (events, _) = broadcast::channel(EVENT_BUFFER);
        let mut services = BTreeMap::new();
        for config in configs {
            let name = config.name.clone();
            let service = Arc::new(Service::new(config, supervision, events.clone()));
            if services.insert(name.clone(), service).is_some() {
                return Err(McpError::Twice { name });
            }
        }
        let services = Arc::new(services);
        let supervisor = Actor::spawn(None, Supervisor, services.clone()).await;
        let (supervisor, _) = supervisor.map_err(|_| McpError::ShutDown)?;
        Ok(McpServices {
            inner: Arc::new(Inner {
                services,
                events,
                supervisor,
            }),
        })
    }

    /// Returns information about each service, by name.
    pub fn list(&self) -> Vec<ServiceInfo> {
        let services = self.inner.services.values();
        services.map(|service| service.info()).collect()
    }

    /// Returns information about a service.
    ///
    /// # Errors
    /// [`McpError::UnknownService`].
    pub fn service(&self, name: &str) -> Result<ServiceInfo, McpError> {
        Ok(self.find(name)?.info())
    }

    /// Starts a service, even if the user stopped it or it has failed, and waits until it is running.
    ///
    /// # Errors
    /// [`McpError::UnknownService`], [`McpError::Disabled`], [`McpError::Failed`], [`McpError::ShutDown`]; [`McpError::Stopped`] if it is
    /// stopped in the meantime.
    pub async fn start(&self, name: &str) -> Result<ServiceInfo, McpError> {
        let service = self.find(name)?;
        service.running(StartedBy::User, None).await?;
        Ok(service.info())
    }

    /// Returns the tools of a service, ordered by name. Starts the service if it has not listed them yet.
    ///
    /// # Errors
    /// The errors of [`McpServices::start`]; [`McpError::Stopped`] and [`McpError::Failed`] also for a service that the user has stopped or
    /// that has failed before.
    pub async fn learn_tools(&self, name: &ServiceName) -> Result<Vec<ToolSpec>, McpError> {
        let service = self.find(name.as_str())?;
        if !service.offers_tools() || !service.knows_tools() {
            service.running(StartedBy::Need, None).await?;
        }
        Ok(service.specs())
    }

    /// Returns true if no service is configured.
    pub fn is_empty(&self) -> bool {
        self.inner.services.is_empty()
    }

    /// Stops a service, and waits until its processes have ended. It isn't started again before [`McpServices::start`].
    ///
    /// # Errors
    /// [`McpError::UnknownService`].
    pub async fn stop(&self, name: &str) -> Result<(), McpError> {
        self.find(name)?.stop().await;
        Ok(())
    }

    /// Stops all services, and waits until their processes have ended.
    pub async fn shutdown(&self) {
        join_all(self.inner.services.values().map(|service| service.stop())).await;
    }

    /// Returns the events from now on. A watcher that is too slow misses the oldest events.
    pub fn watch(&self) -> broadcast::Receiver<ServiceEvent> {
        self.inner.events.subscribe()
    }

    fn find(&self, name: &str) -> Result<&Arc<Service>, McpError> {
        let known = ServiceName::new(name).ok();
        let service = known.and_then(|name| self.inner.services.get(&name));
        service.ok_or_else(|| McpError::UnknownService {
            name: name.to_owned(),
            known: self.inner.services.keys().map(ToString::to_string).collect(),
        })
    }
}

impl ToolSource for McpServices {
    /// Returns the tools of the services that run or that would be started on need (MCP-2).
    fn specs(&self) -> Vec<ToolSpec> {
        let services = self
            .inner
            .services
            .values()
            .filter(|service| service.offers_tools());
        let mut specs: Vec<ToolSpec> = services.flat_map(|service| service.specs()).collect();
        specs.sort_by(|one, other| one.name.cmp(&other.name));
        specs
    }

    /// Returns the tool whatever the state of its service is, so that a call of a stopped service says so. As long as a service has not said
    /// which tools it has, it may have any: the call starts it.
    fn get(&self, name: &str) -> Option<ToolEntry> {
        let service = self.inner.services.get(&service_of(name)?)?;
        Some(ToolEntry::new(McpTool::find(service, name)?))
    }
}

impl fmt::Debug for McpServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.inner.services.keys()).finish()
    }
}

/// The supervisor of the services' actors. It replaces an actor that crashes. The crash also ends the service's processes.
struct Supervisor;

/// A message to the supervisor. The supervisor accepts no messages, because it only supervises.
enum SupervisorMessage {}

type Supervised = HashMap<ActorId, Arc<Service>>;

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = Supervised;
    type Arguments = Arc<BTreeMap<ServiceName, Arc<Service>>>;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMessage>,
        services: Self::Arguments,
    ) -> Result<Supervised, ActorProcessingErr> {
        let mut supervised = Supervised::new();
        for service in services.values() {
            supervise(&myself, service.clone(), &mut supervised).await?;
        }
        Ok(supervised)
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        supervised: &mut Supervised,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(actor, error) => {
                if let Some(service) = supervised.remove(&actor.get_id()) {
                    tracing::error!(service = %service.config.name, %error, "the actor of a service crashed");
                    service.set_state(
                        ServiceState::Error {
                            reason: format!("Dirigent failed while it ran the service: {error}"),
                            stderr: Vec::new(),
                        },
                        None,
                    );
                    supervise(&myself, service, supervised).await?;
                }
            }
            SupervisionEvent::ActorTerminated(actor, _, _) => {
                supervised.remove(&actor.get_id());
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

async fn supervise(
    myself: &ActorRef<SupervisorMessage>,
    service: Arc<Service>,
    supervised: &mut Supervised,
) -> Result<(), ActorProcessingErr> {
    let (actor, _) = Actor::spawn_linked(None, ServiceActor, service.clone(), myself.get_cell()).await?;
    service.attach(Some(actor.clone()));
    supervised.insert(actor.get_id(), service);
    Ok(())
}

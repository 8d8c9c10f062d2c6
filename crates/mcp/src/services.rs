//! All services, and the supervisor of their actors.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use dirigent_core::tool::ToolSpec;
use dirigent_tools::{ToolEntry, ToolSource};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{broadcast, oneshot};

use crate::config::{ServiceConfig, ServiceName};
use crate::error::McpError;
use crate::names::service_of;
use crate::restart::Supervision;
use crate::service::{Service, StartedBy};
use crate::service_actor::ServiceActor;
use crate::status::{ServiceEvent, ServiceInfo, ServiceState, WhyStopped};
use crate::tool::McpTool;
use crate::tool_list::ToolList;

/// The number of events that a slow receiver may lag behind before it misses events.
const EVENT_BUFFER: usize = 256;

/// A set of services. Clones are handles of the same services. When the last clone is dropped, all services are stopped.
///
/// A service is started by the first call of one of its tools, or by [`McpServices::start`].
#[derive(Clone)]
pub struct McpServices {
    inner: Arc<Inner>,
}

struct Inner {
    services: RwLock<ServiceMap>,
    events: broadcast::Sender<ServiceEvent>,
    supervision: Supervision,
    supervisor: ActorRef<SupervisorMessage>,
}

type ServiceMap = BTreeMap<ServiceName, Arc<Service>>;

impl Inner {
    fn read(&self) -> RwLockReadGuard<'_, ServiceMap> {
        self.services.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ServiceMap> {
        self.services.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.read().values().for_each(|service| service.attach(None));
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
        let supervisor = Actor::spawn(None, Supervisor, ()).await;
        let (supervisor, _) = supervisor.map_err(|_| McpError::ShutDown)?;
        let services = McpServices {
            inner: Arc::new(Inner {
                services: RwLock::default(),
                events,
                supervision,
                supervisor,
            }),
        };
        for config in configs {
            services.add(config, ToolList::default()).await?;
        }
        Ok(services)
    }

    /// Adds a service and starts its actor, but not the service itself. `known` contains the tools that the service listed in an earlier
    /// process, so that it need not be started to learn them.
    ///
    /// # Errors
    /// [`McpError::Twice`]; [`McpError::ShutDown`].
    pub async fn add(&self, config: ServiceConfig, known: ToolList) -> Result<(), McpError> {
        let name = config.name.clone();
        if self.inner.read().contains_key(&name) {
            return Err(McpError::Twice { name });
        }
        let (supervision, events) = (self.inner.supervision, self.inner.events.clone());
        let service = Arc::new(Service::new(config, supervision, events, known));
        let (supervised, wait) = oneshot::channel();
        let message = SupervisorMessage {
            service: service.clone(),
            supervised,
        };
        let sent = self.inner.supervisor.send_message(message);
        if sent.is_err() || wait.await.is_err() {
            return Err(McpError::ShutDown);
        }
        // Another task may have added a service with this name in the meantime.
        let mut services = self.inner.write();
        if services.contains_key(&name) {
            service.end_actor();
            return Err(McpError::Twice { name });
        }
        services.insert(name, service);
        Ok(())
    }

    /// Stops a service, waits until its processes have ended, and removes it. Calls of its tools fail from now on.
    ///
    /// # Errors
    /// [`McpError::UnknownService`].
    pub async fn remove(&self, name: &str) -> Result<(), McpError> {
        self.begin_remove(name)?.await;
        Ok(())
    }

    /// Forgets a service at once, and stops it. The returned future waits until its processes have ended.
    ///
    /// # Errors
    /// [`McpError::UnknownService`].
    pub fn begin_remove(&self, name: &str) -> Result<BoxFuture<'static, ()>, McpError> {
        let service = self.find(name)?;
        self.inner.write().remove(&service.config.name);
        let ended = service.stop(WhyStopped::Removed);
        Ok(async move {
            ended.await;
            service.end_actor();
        }
        .boxed())
    }

    /// Returns information about each service, ordered by name.
    pub fn list(&self) -> Vec<ServiceInfo> {
        let services = self.inner.read();
        services.values().map(|service| service.info()).collect()
    }

    /// Returns the tools that a service last listed, in this process or before ([`McpServices::add`]).
    ///
    /// # Errors
    /// [`McpError::UnknownService`].
    pub fn tools(&self, name: &str) -> Result<ToolList, McpError> {
        Ok(ToolList::clone(&self.find(name)?.status().tools))
    }

    /// Returns the last lines of a program's standard error. Empty for a server behind a URL, and unless the service is running or has
    /// failed.
    ///
    /// # Errors
    /// [`McpError::UnknownService`].
    pub fn last_messages(&self, name: &str) -> Result<Vec<String>, McpError> {
        Ok(self.find(name)?.last_messages())
    }

    /// Returns the digest of a service's program or address ([`ServiceConfig::endpoint_digest`]).
    ///
    /// # Errors
    /// [`McpError::UnknownService`].
    pub fn endpoint_digest(&self, name: &str) -> Result<String, McpError> {
        Ok(self.find(name)?.config.endpoint_digest())
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

    /// Starts a service that is needed, and returns its tools as it lists them now, ordered by name.
    ///
    /// # Errors
    /// The errors of [`McpServices::learn_tools`].
    pub async fn running_tools(&self, name: &ServiceName) -> Result<Vec<ToolSpec>, McpError> {
        let service = self.find(name.as_str())?;
        service.running(StartedBy::Need, None).await?;
        Ok(service.specs())
    }

    /// Returns true if there is no service.
    pub fn is_empty(&self) -> bool {
        self.inner.read().is_empty()
    }

    /// Stops a service, and waits until its processes have ended. It is not started again until [`McpServices::start`] is called.
    ///
    /// # Errors
    /// [`McpError::UnknownService`].
    pub async fn stop(&self, name: &str) -> Result<(), McpError> {
        self.begin_stop(name)?.await;
        Ok(())
    }

    /// Stops a service like [`McpServices::stop`]. Its state changes soon; the returned future waits until its processes have ended.
    ///
    /// # Errors
    /// [`McpError::UnknownService`].
    pub fn begin_stop(&self, name: &str) -> Result<BoxFuture<'static, ()>, McpError> {
        Ok(self.find(name)?.stop(WhyStopped::ByUser).boxed())
    }

    /// Stops all services, and waits until their processes have ended.
    pub async fn shutdown(&self) {
        let services: Vec<Arc<Service>> = self.inner.read().values().cloned().collect();
        join_all(services.iter().map(|service| service.stop(WhyStopped::ByUser))).await;
    }

    /// Returns a receiver of all events from now on. A receiver that is too slow misses the oldest events.
    pub fn watch(&self) -> broadcast::Receiver<ServiceEvent> {
        self.inner.events.subscribe()
    }

    fn find(&self, name: &str) -> Result<Arc<Service>, McpError> {
        let services = self.inner.read();
        let service = ServiceName::new(name).ok().and_then(|name| services.get(&name));
        service.cloned().ok_or_else(|| McpError::UnknownService {
            name: name.to_owned(),
            known: services.keys().map(ToString::to_string).collect(),
        })
    }
}

impl ToolSource for McpServices {
    /// Returns the tools of the services that are running or would be started when needed (MCP-2).
    fn specs(&self) -> Vec<ToolSpec> {
        let services = self.inner.read();
        let offered = services.values().filter(|service| service.offers_tools());
        let mut specs: Vec<ToolSpec> = offered.flat_map(|service| service.specs()).collect();
        specs.sort_by(|one, other| one.name.cmp(&other.name));
        specs
    }

    /// Returns the tool regardless of its service's state, so that a call of a stopped service gets an error that says so. While a
    /// service has not listed its tools yet, every tool name is accepted, because the call starts the service.
    fn get(&self, name: &str) -> Option<ToolEntry> {
        let service = self.inner.read().get(&service_of(name)?)?.clone();
        Some(ToolEntry::new(McpTool::find(&service, name)?))
    }
}

impl fmt::Debug for McpServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.inner.read().keys()).finish()
    }
}

/// The supervisor of the services' actors. It replaces an actor that crashes. A crash also ends the service's processes.
struct Supervisor;

/// A request to the supervisor to start and supervise the actor of another service.
struct SupervisorMessage {
    service: Arc<Service>,
    /// Sent once the service has an actor.
    supervised: oneshot::Sender<()>,
}

type Supervised = HashMap<ActorId, Arc<Service>>;

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = Supervised;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<SupervisorMessage>,
        (): (),
    ) -> Result<Supervised, ActorProcessingErr> {
        Ok(Supervised::new())
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        supervised: &mut Supervised,
    ) -> Result<(), ActorProcessingErr> {
        supervise(&myself, message.service, supervised).await?;
        // The caller may have stopped waiting.
        let _ = message.supervised.send(());
        Ok(())
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

//! The root of the actors: it starts and resumes runs, and rebuilds a supervisor that broke down from its journal.

use std::collections::HashMap;
use std::sync::Arc;

use dashmap::DashMap;
use dirigent_core::id::RunId;
use dirigent_core::spec::RunSpec;
use dirigent_model::ChatModel;
use dirigent_store::{Journal, RunClaim};
use dirigent_tools::ToolRegistry;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::clock::Clock;
use crate::deltas::Listeners;
use crate::error::RuntimeError;
use crate::forking::ReplayedRun;
use crate::handle::{Events, RunHandle};
use crate::inbox_forwarder::InboxForwarder;
use crate::read_output::ReadOutput;
use crate::run_mailbox::{MailboxState, RunMailbox};
use crate::supervisor::{
    Outcome, Recovery, RunSupervisor, StartMode, SupervisorArguments, SupervisorState, wait_for_all,
};

/// How often a run's supervisor is rebuilt before the run is given up.
const MAX_RESTARTS: u32 = 3;

/// What runs are carried out with.
pub struct Services {
    pub(crate) journal: Journal,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) tools: ToolRegistry,
    pub(crate) clock: Clock,
}

impl Services {
    /// Those services; the tool `read_output`, which reads the journal, is added to the tools.
    pub fn new(journal: Journal, model: Arc<dyn ChatModel>, mut tools: ToolRegistry) -> Self {
        tools.insert(ReadOutput::new(journal.clone()));
        Services {
            journal,
            model,
            tools,
            clock: Clock::start(),
        }
    }

    /// The tools that runs can use.
    pub fn tools(&self) -> &ToolRegistry {
        &self.tools
    }
}

/// Whether somebody can answer a run's questions and decide about its calls now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserPresence {
    /// A question waits for [`RunHandle::answer`], a call for [`RunHandle::decide`].
    Present,
    /// A question stops the run, as do calls that wait for an approval once nothing else goes on. What was said to the run by then, by
    /// other processes too, is heard first. It can be resumed with the answer (PAOR-9).
    #[default]
    Absent,
}

/// Starts, resumes and finds runs. Clones are the same orchestrator; when the last is dropped, its runs stop where they
/// are, to be resumed another time.
#[derive(Clone)]
pub struct Orchestrator {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    services: Arc<Services>,
    pub(crate) runs: Arc<DashMap<RunId, RunHandle>>,
    pub(crate) actor: ActorRef<OrchestratorMsg>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.actor.stop(None);
    }
}

impl Orchestrator {
    /// An orchestrator in the present tokio runtime.
    ///
    /// # Errors
    /// [`RuntimeError::Stopped`] if its actor cannot be started.
    pub async fn start_up(services: Services) -> Result<Self, RuntimeError> {
        let runs = Arc::<DashMap<RunId, RunHandle>>::default();
        let (actor, _) =
            Actor::spawn(None, OrchestratorActor, ())
                .await
                .map_err(|error| RuntimeError::Stopped {
                    reason: error.to_string(),
                })?;
        Ok(Orchestrator {
            inner: Arc::new(Inner {
                services: Arc::new(services),
                runs,
                actor,
            }),
        })
    }

    /// What its runs are carried out with.
    pub fn services(&self) -> &Services {
        &self.inner.services
    }

    /// Starts a run.
    ///
    /// # Errors
    /// [`RuntimeError::Journal`] where the run cannot be journaled: nothing has happened then.
    pub async fn start(&self, spec: RunSpec, user: UserPresence) -> Result<RunHandle, RuntimeError> {
        let run = RunId(Uuid::now_v7());
        let (journal, at) = (
            self.inner.services.journal.clone(),
            self.inner.services.clock.now(),
        );
        let (goal, workspace) = (spec.goal.clone(), spec.workspace.clone());
        let claim = blocking(move || Ok(journal.create(run, &goal, &workspace, at)?)).await?;
        let begin = StartMode::New(Arc::new(spec));
        let mailbox = RunMailbox::new(user, MailboxState::Open);
        self.launch(run, claim, begin, mailbox).await
    }

    /// A run that is under way here.
    pub fn run(&self, run: RunId) -> Option<RunHandle> {
        self.inner.runs.get(&run).map(|handle| handle.clone())
    }

    /// The events of any run of the journal, from its beginning; of one that another process owns those that there are now.
    pub fn events(&self, run: RunId) -> Events {
        Events::new(self.inner.services.journal.tail(run, 0))
    }

    /// The events of a run, from its beginning, as they come, whichever process carries it out: they end with the run, or when nobody
    /// carries it out any more.
    pub fn follow(&self, run: RunId) -> Events {
        Events::new(self.inner.services.journal.follow(run, 0))
    }

    pub(crate) async fn launch(
        &self,
        run: RunId,
        claim: RunClaim,
        begin: StartMode,
        mailbox: RunMailbox,
    ) -> Result<RunHandle, RuntimeError> {
        let (outcome, ended) = watch::channel(Outcome::None);
        let claim = Arc::new(claim);
        let arguments = SupervisorArguments {
            run,
            services: self.inner.services.clone(),
            claim: Arc::downgrade(&claim),
            mailbox: Arc::new(mailbox),
            cancel: CancellationToken::new(),
            tasks: TaskTracker::new(),
            listeners: Listeners::default(),
        };
        let handle = RunHandle {
            run,
            journal: self.inner.services.journal.clone(),
            mailbox: arguments.mailbox.clone(),
            outcome: ended,
            listeners: arguments.listeners.clone(),
        };
        let forwarder = InboxForwarder {
            run,
            journal: handle.journal.clone(),
            claim: arguments.claim.clone(),
            mailbox: handle.mailbox.clone(),
            outcome: handle.outcome.clone(),
        };
        tokio::spawn(forwarder.run());
        let runs = &self.inner.runs;
        runs.insert(run, handle.clone());
        let (started, wait) = oneshot::channel();
        let owned = OwnedRun {
            arguments,
            claim,
            outcome,
            runs: self.inner.runs.clone(),
            restarts: 0,
        };
        let _ = self.inner.actor.send_message(OrchestratorMsg::Launch {
            owned,
            begin,
            started: Some(started),
        });
        match wait.await {
            Ok(()) => Ok(handle),
            Err(_) => {
                // The run is free again, and may have been resumed since.
                runs.remove_if(&run, |_, found| Arc::ptr_eq(&found.mailbox, &handle.mailbox));
                Err(RuntimeError::Stopped {
                    reason: "its actor has ended".to_owned(),
                })
            }
        }
    }
}

/// Runs what waits for the disk off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> Result<T, RuntimeError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(RuntimeError::Stopped {
            reason: error.to_string(),
        }),
    }
}

struct OrchestratorActor;

pub(crate) enum OrchestratorMsg {
    /// Starts the supervisor of a run, the first or the next one.
    Launch {
        owned: OwnedRun,
        begin: StartMode,
        started: Option<oneshot::Sender<()>>,
    },
}

/// A run that is carried out here. Dropping it gives the run free, and whoever waits for it is told that it stopped.
pub(crate) struct OwnedRun {
    arguments: SupervisorArguments,
    claim: Arc<RunClaim>,
    outcome: watch::Sender<Outcome>,
    runs: Arc<DashMap<RunId, RunHandle>>,
    restarts: u32,
}

impl OwnedRun {
    /// Tells those who wait once the run is free: they may resume it at once.
    fn end(self, outcome: Outcome) {
        let run = self.arguments.run;
        let OwnedRun {
            arguments,
            claim,
            outcome: waiting,
            runs,
            restarts: _,
        } = self;
        runs.remove(&run);
        drop(claim);
        arguments.mailbox.reject_all(run);
        // The guarantee of a terminal event, whatever ended the supervisor.
        waiting.send_replace(Some(outcome.unwrap_or(Err(RuntimeError::NotRunning { run }))));
    }
}

type Supervised = HashMap<ActorId, OwnedRun>;

impl Actor for OrchestratorActor {
    type Msg = OrchestratorMsg;
    type State = Supervised;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<OrchestratorMsg>,
        (): (),
    ) -> Result<Supervised, ActorProcessingErr> {
        Ok(HashMap::new())
    }

    async fn handle(
        &self,
        myself: ActorRef<OrchestratorMsg>,
        message: OrchestratorMsg,
        supervised: &mut Supervised,
    ) -> Result<(), ActorProcessingErr> {
        let OrchestratorMsg::Launch {
            owned,
            begin,
            started,
        } = message;
        let arguments = (owned.arguments.clone(), begin);
        match Actor::spawn_linked(None, RunSupervisor, arguments, myself.get_cell()).await {
            Ok((actor, _)) => {
                owned.arguments.mailbox.attach(actor.clone());
                supervised.insert(actor.get_id(), owned);
                if let Some(started) = started {
                    // Whoever started the run need not wait for that.
                    let _ = started.send(());
                }
            }
            Err(error) => {
                let reason = error.to_string();
                owned.end(Some(Err(RuntimeError::Stopped { reason })));
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<OrchestratorMsg>,
        event: SupervisionEvent,
        supervised: &mut Supervised,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(actor, error) => {
                if let Some(owned) = supervised.remove(&actor.get_id()) {
                    rebuild(&myself, owned, error.to_string());
                }
            }
            SupervisionEvent::ActorTerminated(actor, state, _) => {
                if let Some(owned) = supervised.remove(&actor.get_id()) {
                    let ended = state.and_then(|mut state| state.take::<SupervisorState>().ok());
                    owned.end(ended.and_then(|state| state.outcome));
                }
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

/// A supervisor's own state died with it; the run's is in the journal.
fn rebuild(myself: &ActorRef<OrchestratorMsg>, mut owned: OwnedRun, message: String) {
    let run = owned.arguments.run;
    owned.restarts += 1;
    let times = owned.restarts;
    tracing::error!(%run, times, message, "a run's supervisor broke down");
    let myself = myself.clone();
    tokio::spawn(async move {
        // Its agents and tasks end first, and what they appended is stored, so that nothing comes after what is read.
        owned.arguments.cancel.cancel();
        wait_for_all(&owned.arguments).await;
        if times > MAX_RESTARTS {
            let error = RuntimeError::SupervisorCrashed { run, times, message };
            return owned.end(Some(Err(error)));
        }
        let journal = owned.arguments.services.journal.clone();
        let read = blocking(move || {
            journal.flush()?;
            ReplayedRun::read(&journal, run)
        });
        match read.await {
            Ok(replayed) => {
                owned.arguments.cancel = CancellationToken::new();
                owned.arguments.tasks = TaskTracker::new();
                let _ = myself.send_message(OrchestratorMsg::Launch {
                    owned,
                    begin: StartMode::Resume {
                        recovery: Recovery::StayEnded,
                        limits: None,
                        replayed: Box::new(replayed),
                        first_message: None,
                    },
                    started: None,
                });
            }
            Err(error) => owned.end(Some(Err(error))),
        }
    });
}

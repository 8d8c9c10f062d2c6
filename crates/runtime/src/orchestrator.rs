//! The root of the actors: it starts and resumes runs, and rebuilds a supervisor that broke down from its journal.

use std::collections::HashMap;
use std::sync::Arc;

use dashmap::DashMap;
use dirigent_core::id::RunId;
use dirigent_core::spec::RunSpec;
use dirigent_model::ChatModel;
use dirigent_store::{Journal, RunClaim, StoreError};
use dirigent_tools::ToolRegistry;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::clock::Clock;
use crate::error::RuntimeError;
use crate::handle::{Door, Events, RunHandle, read_entries, replay};
use crate::read_output::ReadOutput;
use crate::supervisor::{Begin, Outcome, RunSupervisor, SupervisorArguments, wait_for_all};

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

/// Whether somebody can answer a run's questions now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPresence {
    /// A question waits for [`RunHandle::answer`].
    Present,
    /// A question stops the run; it can be resumed with the answer (PAOR-9).
    Absent,
}

/// Starts, resumes and finds runs. Clones are the same orchestrator; when the last is dropped, its runs stop where they
/// are, to be resumed another time.
#[derive(Clone)]
pub struct Orchestrator {
    inner: Arc<Inner>,
}

struct Inner {
    services: Arc<Services>,
    runs: Arc<DashMap<RunId, RunHandle>>,
    actor: ActorRef<OrchestratorMsg>,
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
        let (actor, _) = Actor::spawn(None, OrchestratorActor, runs.clone())
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
        let claim = blocking(move || journal.create(run, &goal, &workspace, at)).await?;
        self.launch(run, claim, user, Begin::New(Arc::new(spec))).await
    }

    /// Goes on with a run where its journal ends (HOST-2). `answer` is the user's answer to its question, if it stopped
    /// with one.
    ///
    /// # Errors
    /// [`RuntimeError::Ended`] for a run that is over, [`RuntimeError::NoQuestion`] for an answer that nobody asked for,
    /// [`RuntimeError::Journal`] for one that another process carries out or whose journal cannot be read.
    pub async fn resume(
        &self,
        run: RunId,
        user: UserPresence,
        answer: Option<String>,
    ) -> Result<RunHandle, RuntimeError> {
        let journal = self.inner.services.journal.clone();
        let (claim, entries) = blocking(move || {
            let claim = journal.claim(run)?;
            Ok((claim, read_entries(&journal, run)?))
        })
        .await?;
        let (view, _) = replay(run, entries.clone())?;
        if view.run().phase().is_terminal() && self.inner.services.journal.run(run)?.ended_at.is_some() {
            return Err(RuntimeError::Ended { run });
        }
        if answer.is_some() && view.run().question().is_none() {
            return Err(RuntimeError::NoQuestion { run });
        }
        self.launch(
            run,
            claim,
            user,
            Begin::Resume {
                entries: Arc::new(entries),
                answer,
            },
        )
        .await
    }

    /// A run that is under way here.
    pub fn run(&self, run: RunId) -> Option<RunHandle> {
        self.inner.runs.get(&run).map(|handle| handle.clone())
    }

    /// The events of any run of the journal, from its beginning.
    pub fn events(&self, run: RunId) -> Events {
        Events::new(&self.inner.services.journal, run)
    }

    async fn launch(
        &self,
        run: RunId,
        claim: RunClaim,
        user: UserPresence,
        begin: Begin,
    ) -> Result<RunHandle, RuntimeError> {
        let (outcome, ended) = watch::channel(Outcome::None);
        let door = Arc::new(Door::shut());
        let arguments = SupervisorArguments {
            run,
            services: self.inner.services.clone(),
            claim: Arc::new(claim),
            user,
            begin,
            outcome,
            cancel: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let handle = RunHandle {
            run,
            journal: self.inner.services.journal.clone(),
            door: door.clone(),
            outcome: ended,
        };
        self.inner.runs.insert(run, handle.clone());
        let (started, wait) = oneshot::channel();
        let launch = Launch {
            arguments,
            door,
            restarts: 0,
            started: Some(started),
        };
        let stopped = || RuntimeError::Stopped {
            reason: "its actor has ended".to_owned(),
        };
        self.inner
            .actor
            .send_message(OrchestratorMsg::Launch(Box::new(launch)))
            .map_err(|_| stopped())?;
        wait.await.map_err(|_| stopped())?;
        Ok(handle)
    }
}

/// Runs what waits for the disk off the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, RuntimeError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(RuntimeError::Stopped {
            reason: error.to_string(),
        }),
    }
}

struct OrchestratorActor;

enum OrchestratorMsg {
    Launch(Box<Launch>),
}

struct Launch {
    arguments: SupervisorArguments,
    door: Arc<Door>,
    restarts: u32,
    started: Option<oneshot::Sender<()>>,
}

struct OrchestratorState {
    runs: Arc<DashMap<RunId, RunHandle>>,
    supervisors: HashMap<ActorId, Launch>,
}

impl Actor for OrchestratorActor {
    type Msg = OrchestratorMsg;
    type State = OrchestratorState;
    type Arguments = Arc<DashMap<RunId, RunHandle>>;

    async fn pre_start(
        &self,
        _myself: ActorRef<OrchestratorMsg>,
        runs: Arc<DashMap<RunId, RunHandle>>,
    ) -> Result<OrchestratorState, ActorProcessingErr> {
        Ok(OrchestratorState {
            runs,
            supervisors: HashMap::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<OrchestratorMsg>,
        message: OrchestratorMsg,
        state: &mut OrchestratorState,
    ) -> Result<(), ActorProcessingErr> {
        let OrchestratorMsg::Launch(mut launch) = message;
        let arguments = launch.arguments.clone();
        match Actor::spawn_linked(None, RunSupervisor, arguments, myself.get_cell()).await {
            Ok((actor, _)) => {
                launch.door.open(actor.clone());
                if let Some(started) = launch.started.take() {
                    let _ = started.send(());
                }
                state.supervisors.insert(actor.get_id(), *launch);
            }
            Err(error) => {
                let reason = error.to_string();
                launch
                    .arguments
                    .outcome
                    .send_replace(Some(Err(RuntimeError::Stopped { reason })));
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<OrchestratorMsg>,
        event: SupervisionEvent,
        state: &mut OrchestratorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(who, error) => {
                if let Some(launch) = state.supervisors.remove(&who.get_id()) {
                    state.rebuild(&myself, launch, error.to_string());
                }
            }
            SupervisionEvent::ActorTerminated(who, _, _) => {
                if let Some(launch) = state.supervisors.remove(&who.get_id()) {
                    let run = launch.arguments.run;
                    state.runs.remove(&run);
                    // The guarantee of a terminal event, whatever ended the supervisor.
                    launch.arguments.outcome.send_if_modified(|outcome| {
                        let untold = outcome.is_none();
                        if untold {
                            *outcome = Some(Err(RuntimeError::NotRunning { run }));
                        }
                        untold
                    });
                }
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl OrchestratorState {
    /// A supervisor's own state died with it; the run's is in the journal.
    fn rebuild(&self, myself: &ActorRef<OrchestratorMsg>, launch: Launch, message: String) {
        let run = launch.arguments.run;
        let restarts = launch.restarts + 1;
        launch.door.close();
        tracing::error!(%run, restarts, message, "a run's supervisor broke down");
        if restarts > MAX_RESTARTS {
            self.runs.remove(&run);
            let error = RuntimeError::BrokenDown {
                run,
                times: restarts,
                message,
            };
            launch.arguments.outcome.send_replace(Some(Err(error)));
            return;
        }
        let (myself, runs) = (myself.clone(), self.runs.clone());
        tokio::spawn(async move {
            let Launch {
                mut arguments, door, ..
            } = launch;
            // Its agents and tasks end first, and what they appended is stored, so that nothing comes after what is read.
            arguments.cancel.cancel();
            wait_for_all(&arguments).await;
            let journal = arguments.services.journal.clone();
            let read = blocking(move || {
                journal.flush()?;
                read_entries(&journal, run)
            });
            match read.await {
                Ok(entries) => {
                    arguments.begin = Begin::Resume {
                        entries: Arc::new(entries),
                        answer: None,
                    };
                    arguments.cancel = CancellationToken::new();
                    arguments.tasks = TaskTracker::new();
                    let launch = Launch {
                        arguments,
                        door,
                        restarts,
                        started: None,
                    };
                    let _ = myself.send_message(OrchestratorMsg::Launch(Box::new(launch)));
                }
                Err(error) => {
                    runs.remove(&run);
                    arguments.outcome.send_replace(Some(Err(error)));
                }
            }
        });
    }
}

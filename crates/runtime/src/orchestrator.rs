//! The root actor: starts and resumes runs, and rebuilds a crashed supervisor from the run's journal entries.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;
use dirigent_core::id::RunId;
use dirigent_core::spec::RunSpec;
use futures::future::join_all;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::blocking::blocking;
use crate::deltas::Listeners;
use crate::error::RuntimeError;
use crate::events::{Events, Feeds};
use crate::handle::RunHandle;
use crate::inbox_forwarder::InboxForwarder;
use crate::outcome::Outcome;
use crate::replayed_run::ReplayedRun;
use crate::run_log::{NewRun, RunClaim, TurnNumber};
use crate::run_mailbox::{MailboxState, RunMailbox};
use crate::services::{RunServices, Services};
use crate::spans;
use crate::supervisor::{
    Recovery, ResumedRun, RunSupervisor, StartMode, SupervisorArguments, SupervisorState, wait_for_all,
};
use crate::user_presence::UserPresence;

/// The maximum number of times that a run's crashed supervisor is rebuilt. After the next crash, the run stops.
const MAX_RESTARTS: u32 = 3;

/// Starts, resumes and finds runs. Clones are handles of the same orchestrator. When the last clone is dropped, the runs stop at their last
/// journal entry and can be resumed later.
#[derive(Clone)]
pub struct Orchestrator {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    services: Arc<Services>,
    pub(crate) runs: Arc<DashMap<RunId, RunHandle>>,
    pub(crate) feeds: Feeds,
    pub(crate) actor: ActorRef<OrchestratorMsg>,
    is_shut_down: AtomicBool,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.actor.stop(None);
    }
}

impl Orchestrator {
    /// Starts an orchestrator in the current tokio runtime.
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
                feeds: Feeds::new(services.journal.clone()),
                services: Arc::new(services),
                runs,
                actor,
                is_shut_down: AtomicBool::new(false),
            }),
        })
    }

    /// Returns the services that this orchestrator's runs use.
    pub fn services(&self) -> &Services {
        &self.inner.services
    }

    /// Starts a run.
    ///
    /// # Errors
    /// [`RuntimeError::Journal`] if the run cannot be journaled; in this case nothing was started.
    pub async fn start(&self, spec: RunSpec, user: UserPresence) -> Result<RunHandle, RuntimeError> {
        self.start_with(spec, user, RunServices::default()).await
    }

    /// Starts a run with a model or tools of its own, instead of those of the orchestrator. The run's spec must name the tools.
    ///
    /// # Errors
    /// The errors of [`Self::start`].
    pub async fn start_with(
        &self,
        spec: RunSpec,
        user: UserPresence,
        own: RunServices,
    ) -> Result<RunHandle, RuntimeError> {
        self.start_as(Self::new_run_id(), spec, user, own, Vec::new())
            .await
    }

    /// Returns an id for a new run.
    pub fn new_run_id() -> RunId {
        RunId(Uuid::now_v7())
    }

    /// Starts a run with a new id, for a caller that must know the id before the run exists. The run is informed of the runs that share its
    /// workspace.
    ///
    /// # Errors
    /// The errors of [`Self::start`]; a run with this id exists.
    pub async fn start_as(
        &self,
        run: RunId,
        spec: RunSpec,
        user: UserPresence,
        own: RunServices,
        shares_with: Vec<RunId>,
    ) -> Result<RunHandle, RuntimeError> {
        self.ensure_running()?;
        let (journal, at) = (
            self.inner.services.journal.clone(),
            self.inner.services.clock.now(),
        );
        let new = NewRun {
            turn: spec.turn.as_ref().map(|turn| TurnNumber {
                conversation: turn.conversation,
                number: turn.number,
            }),
            ..NewRun::new(&spec.goal, &spec.workspace, at)
        };
        let claim = blocking(move || Ok(journal.create(run, new)?)).await?;
        let mode = StartMode::New(Arc::new(spec));
        let mailbox = RunMailbox::new(user, MailboxState::Open).sharing_with(shares_with);
        self.launch(run, claim, mode, mailbox, own).await
    }

    /// Finds an active run of this process.
    pub fn run(&self, run: RunId) -> Option<RunHandle> {
        self.inner.runs.get(&run).map(|handle| handle.clone())
    }

    /// Returns the events of a run after journal entry `after` (0: from the first), whichever process owns the run. They end with the run, or
    /// once no process owns it.
    pub fn events(&self, run: RunId, after: u64) -> Events {
        self.inner.feeds.watch(run, after)
    }

    /// Stops all active runs of this process at their last journal entry, so that they can be resumed, and waits until their work has ended
    /// and everything is stored. Runs that are started or resumed afterwards fail.
    ///
    /// # Errors
    /// [`RuntimeError::Journal`] if the run log cannot store what was appended.
    pub async fn shutdown(&self) -> Result<(), RuntimeError> {
        self.inner.is_shut_down.store(true, Ordering::SeqCst);
        let (done, wait) = oneshot::channel();
        let _ = self.inner.actor.send_message(OrchestratorMsg::ShutDown { done });
        // Fails only if the actor has ended, in which case no run is active.
        let _ = wait.await;
        let journal = self.inner.services.journal.clone();
        blocking(move || Ok(journal.flush()?)).await
    }

    /// Returns an error once the orchestrator is shut down.
    pub(crate) fn ensure_running(&self) -> Result<(), RuntimeError> {
        if self.inner.is_shut_down.load(Ordering::SeqCst) {
            return Err(shut_down());
        }
        Ok(())
    }

    /// Starts the supervisor of a claimed run.
    pub(crate) async fn launch(
        &self,
        run: RunId,
        claim: Arc<dyn RunClaim>,
        mode: StartMode,
        mailbox: RunMailbox,
        own: RunServices,
    ) -> Result<RunHandle, RuntimeError> {
        let (outcome, outcome_receiver) = watch::channel(Outcome::None);
        let arguments = SupervisorArguments {
            run,
            services: self.inner.services.for_run(own),
            claim: Arc::downgrade(&claim),
            mailbox: Arc::new(mailbox),
            cancel: CancellationToken::new(),
            tasks: TaskTracker::new(),
            listeners: Listeners::default(),
            span: spans::run(run),
        };
        let handle = RunHandle {
            run,
            feeds: self.inner.feeds.clone(),
            mailbox: arguments.mailbox.clone(),
            outcome: outcome_receiver,
            listeners: arguments.listeners.clone(),
        };
        let forwarder = InboxForwarder {
            run,
            journal: self.inner.services.journal.clone(),
            claim: arguments.claim.clone(),
            mailbox: handle.mailbox.clone(),
            outcome: handle.outcome.clone(),
        };
        tokio::spawn(forwarder.run());
        self.inner.feeds.renew(run);
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
            mode,
            started: Some(started),
        });
        match wait.await {
            Ok(()) => Ok(handle),
            Err(_) => {
                // The run was released. If it has been resumed in the meantime, the handle of the resumed run stays.
                runs.remove_if(&run, |_, found| Arc::ptr_eq(&found.mailbox, &handle.mailbox));
                self.ensure_running()?;
                Err(RuntimeError::Stopped {
                    reason: "its actor has ended".to_owned(),
                })
            }
        }
    }
}

struct OrchestratorActor;

pub(crate) enum OrchestratorMsg {
    /// Starts a run's supervisor, either the first one or the replacement of a crashed one.
    Launch {
        owned: OwnedRun,
        mode: StartMode,
        started: Option<oneshot::Sender<()>>,
    },
    /// Stops all runs. `done` is sent once they are released.
    ShutDown { done: oneshot::Sender<()> },
    /// Releases runs whose supervisors and tasks have ended, because of a shutdown.
    Release {
        runs: HashMap<ActorId, OwnedRun>,
        done: oneshot::Sender<()>,
    },
}

/// A run that this process owns. Dropping it releases the run, and tells all waiters for its outcome that the run stopped.
pub(crate) struct OwnedRun {
    arguments: SupervisorArguments,
    claim: Arc<dyn RunClaim>,
    outcome: watch::Sender<Outcome>,
    runs: Arc<DashMap<RunId, RunHandle>>,
    restarts: u32,
}

impl OwnedRun {
    /// Releases the run, and only then reports its outcome, because a waiter for the outcome may resume the run at once.
    fn end(self, outcome: Outcome) {
        let run = self.arguments.run;
        let OwnedRun {
            arguments,
            claim,
            outcome: sender,
            runs,
            restarts: _,
        } = self;
        runs.remove(&run);
        drop(claim);
        arguments.mailbox.reject_all(run);
        // Waiters get an outcome even if the supervisor ended without setting one.
        sender.send_replace(Some(outcome.unwrap_or(Err(RuntimeError::NotRunning { run }))));
    }
}

#[derive(Default)]
struct Supervised {
    runs: HashMap<ActorId, OwnedRun>,
    is_shut_down: bool,
    /// The outcomes of runs that ended while they were being shut down.
    outcomes: HashMap<ActorId, Outcome>,
}

impl Actor for OrchestratorActor {
    type Msg = OrchestratorMsg;
    type State = Supervised;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<OrchestratorMsg>,
        (): (),
    ) -> Result<Supervised, ActorProcessingErr> {
        Ok(Supervised::default())
    }

    async fn handle(
        &self,
        myself: ActorRef<OrchestratorMsg>,
        message: OrchestratorMsg,
        supervised: &mut Supervised,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            OrchestratorMsg::Launch { owned, .. } if supervised.is_shut_down => {
                owned.end(Some(Err(shut_down())));
            }
            OrchestratorMsg::Launch { owned, mode, started } => {
                let arguments = (owned.arguments.clone(), mode);
                match Actor::spawn_linked(None, RunSupervisor, arguments, myself.get_cell()).await {
                    Ok((actor, _)) => {
                        owned.arguments.mailbox.attach(actor.get_derived());
                        supervised.runs.insert(actor.get_id(), owned);
                        if let Some(started) = started {
                            // The caller may have stopped waiting.
                            let _ = started.send(());
                        }
                    }
                    Err(error) => {
                        let reason = error.to_string();
                        owned.end(Some(Err(RuntimeError::Stopped { reason })));
                    }
                }
            }
            OrchestratorMsg::ShutDown { done } => {
                supervised.is_shut_down = true;
                tokio::spawn(stop_all(myself, std::mem::take(&mut supervised.runs), done));
            }
            OrchestratorMsg::Release { runs, done } => {
                for (actor, owned) in runs {
                    let outcome = supervised.outcomes.remove(&actor).flatten();
                    owned.end(outcome.or_else(|| Some(Err(shut_down()))));
                }
                // The caller may have stopped waiting.
                let _ = done.send(());
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
                if let Some(owned) = supervised.runs.remove(&actor.get_id()) {
                    rebuild(&myself, owned, error.to_string());
                }
            }
            SupervisionEvent::ActorTerminated(actor, state, _) => {
                let ended = state.and_then(|mut state| state.take::<SupervisorState>().ok());
                let outcome = ended.and_then(|state| state.outcome);
                match supervised.runs.remove(&actor.get_id()) {
                    Some(owned) => owned.end(outcome),
                    None if supervised.is_shut_down => {
                        supervised.outcomes.insert(actor.get_id(), outcome);
                    }
                    None => {}
                }
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

/// Stops the supervisors of all runs, and then the work of the runs. Finally, the runs are released.
async fn stop_all(
    orchestrator: ActorRef<OrchestratorMsg>,
    runs: HashMap<ActorId, OwnedRun>,
    done: oneshot::Sender<()>,
) {
    // The supervisors stop first, so that they journal nothing about the work that is dropped next.
    orchestrator.stop_children_and_wait(None, None).await;
    for owned in runs.values() {
        owned.arguments.cancel.cancel();
    }
    join_all(runs.values().map(|owned| wait_for_all(&owned.arguments))).await;
    let _ = orchestrator.send_message(OrchestratorMsg::Release { runs, done });
}

fn shut_down() -> RuntimeError {
    RuntimeError::Stopped {
        reason: "it was shut down".to_owned(),
    }
}

/// Replaces a crashed supervisor. The new supervisor rebuilds the run's state from the journal.
fn rebuild(myself: &ActorRef<OrchestratorMsg>, mut owned: OwnedRun, message: String) {
    let run = owned.arguments.run;
    owned.restarts += 1;
    let times = owned.restarts;
    tracing::error!(%run, times, message, "a run's supervisor crashed");
    let myself = myself.clone();
    tokio::spawn(async move {
        // The run's agents and tasks must end before its entries are read, so that they add no entries afterwards.
        owned.arguments.cancel.cancel();
        wait_for_all(&owned.arguments).await;
        if times > MAX_RESTARTS {
            let error = RuntimeError::SupervisorCrashed { run, times, message };
            return owned.end(Some(Err(error)));
        }
        let journal = owned.arguments.services.journal.clone();
        let read = blocking(move || {
            journal.flush()?;
            ReplayedRun::read(&*journal, run)
        });
        match read.await {
            Ok(replayed) => {
                owned.arguments.cancel = CancellationToken::new();
                owned.arguments.tasks = TaskTracker::new();
                let _ = myself.send_message(OrchestratorMsg::Launch {
                    owned,
                    mode: StartMode::Resume(Box::new(ResumedRun {
                        recovery: Recovery::StayEnded,
                        limits: None,
                        replayed,
                        first_messages: Vec::new(),
                    })),
                    started: None,
                });
            }
            Err(error) => owned.end(Some(Err(error))),
        }
    });
}

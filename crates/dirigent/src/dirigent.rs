//! The orchestrator of runs, as programs use it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::agent_spec::AgentSpec;
use dirigent_core::id::RunId;
use dirigent_core::limits::RunLimits;
use dirigent_core::prompt::{OutputHandle, SharedProject};
use dirigent_core::recording::Recording;
use dirigent_core::spec::{PreparatoryRequest, RunSpec, Worktree};
use dirigent_core::steering::Steering;
use dirigent_core::usage::UsageReport;
use dirigent_core::view::{Event, RunView};
use dirigent_mcp::McpServices;
use dirigent_runtime::{
    Events, Orchestrator, OutputText, PendingMessage, Resume, RunHandle, RunServices, SteerOutcome,
    UserPresence, WhenShared, check_message, output_text, pending_messages, read_run, read_run_until,
    record_run,
};
use dirigent_store::{Journal, MessageId, MessageState, RunFilter, RunPage, RunRecord};
use dirigent_tools::{Confinement, repository_summary};

use crate::agents::{Agents, RunSpecFactory};
use crate::blocking::{blocking, with_journal};
use crate::builder::Builder;
use crate::completions::CompletionSource;
use crate::config::ConfiguredModels;
use crate::goal::{ProjectInstructions, RunLocation};
use crate::service_tools::{recorded_service_tools, recorded_services};
use crate::services::ServiceRegistry;
use crate::sharing::{StartPermit, announce};
use crate::start_queue::StartQueue;
use crate::time::now;
use crate::tools_watch::KnownTools;
use crate::undo::{RunDiff, Undo};
use crate::worktree::users_folder;
use crate::{DirigentError, Goal};

/// An orchestrator of runs. Clones share it. When the last clone is dropped, its runs stop and can be resumed later.
///
/// No method blocks its thread on disk access: such work runs on tokio's blocking threads, and completes even if the caller stops
/// waiting. A tokio runtime with timers and IO (`enable_all`) must be running. While it shuts down, methods return
/// [`dirigent_runtime::RuntimeError::Stopped`].
#[derive(Clone)]
pub struct Dirigent {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) journal: Journal,
    pub(crate) run_spec_factory: Arc<RunSpecFactory>,
    /// The models of the configuration; `None` if the program sets its own model.
    pub(crate) configured: Option<ConfiguredModels>,
    /// The models that OpenAI clients can ask.
    pub(crate) completions: CompletionSource,
    /// Whether git is sandboxed, as commands are.
    pub(crate) confinement: Confinement,
    /// The MCP services of this process.
    pub(crate) mcp: McpServices,
    /// Where the services are configured.
    pub(crate) services: Arc<ServiceRegistry>,
    /// The queue of runs that are waiting for permission to start.
    pub(crate) starts: StartQueue,
}

impl Dirigent {
    /// Returns a builder with the offline model, the built-in tools and the shipped agents.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Starts a run. With [`WhenShared::Wait`](crate::WhenShared::Wait), returns once the run may begin; until then nothing of the run is
    /// journaled, and the run is not started if the caller stops waiting.
    ///
    /// # Errors
    /// [`DirigentError::EmptyGoal`], [`DirigentError::Workspace`], [`DirigentError::WorkspaceShared`], [`DirigentError::StartsBlocked`], [`DirigentError::StartCancelled`],
    /// [`DirigentError::Repository`], [`DirigentError::Agent`] for a sub-agent of the goal, an error in the
    /// configuration, or an error of the journal. In these cases, no run is started.
    pub async fn start(&self, goal: Goal) -> Result<RunHandle, DirigentError> {
        let run = Orchestrator::new_run_id();
        let checking = goal.clone();
        let (text, workspace) = blocking(move || {
            Ok::<_, DirigentError>((checking.checked_text()?, checking.checked_workspace()?))
        })
        .await?;
        match goal.location {
            RunLocation::Workspace => self.start_in(run, goal, text, workspace, None).await,
            RunLocation::NewWorktree => {
                let made = self.make_worktree(run, workspace).await?;
                let (workspace, worktree) = (made.workspace.clone(), made.worktree.clone());
                let started = self.start_in(run, goal, text, workspace, Some(worktree)).await;
                if started.is_err() {
                    made.discard().await;
                }
                started
            }
        }
    }

    /// Starts a run in its workspace.
    async fn start_in(
        &self,
        run: RunId,
        goal: Goal,
        text: String,
        workspace: String,
        worktree: Option<Worktree>,
    ) -> Result<RunHandle, DirigentError> {
        let (user, own, when) = (goal.user, goal.own.services.clone(), goal.when_shared);
        if goal.turn.as_ref().is_some_and(|turn| turn.answer.is_some()) {
            return self.start_answered(run, goal, text, workspace).await;
        }
        let users_folder = worktree.as_ref().map_or(&workspace, |worktree| &worktree.origin);
        let learning = self.with_service_tools(goal, &workspace, users_folder);
        let goal = self.starts.unless_cancelled(learning).await?;
        let finding = self.find_call_forms(&goal, &workspace);
        let probes = self.starts.unless_cancelled(finding).await?;
        let (run_spec_factory, folder) = (self.run_spec_factory.clone(), workspace.clone());
        let instructions = goal.instructions;
        let users_folder = users_folder.clone();
        let stored = self.stored_settings(&goal, &users_folder).await?;
        let (rules, conversation, endpoints) = (
            stored.rules.clone(),
            goal.turn.as_ref().map(|turn| turn.conversation),
            goal.own.service_endpoints.clone(),
        );
        let spec = blocking(move || {
            let of_goal = run_spec_factory.for_goal(&goal)?;
            let run_spec_factory = of_goal.as_ref().unwrap_or(&run_spec_factory);
            run_spec_factory.spec(&goal, text, workspace, &stored)
        });
        let mut spec = RunSpec {
            worktree: worktree.map(Box::new),
            probes,
            ..spec.await?
        };
        prepare_models(self.configured.as_ref(), spec.setup.agents.iter())?;
        let StartPermit { lock, others } = self.acquire_start_permit(&folder, None, when).await?;
        // Other runs may have changed the folder until now.
        spec.project = Some(self.read_project(instructions, &spec).await?);
        let (told, known_tools) = (others.clone(), KnownTools::new(&spec, &spec.setup.tools));
        let handle = self.orchestrator.start_as(run, spec, user, own, told).await?;
        drop(lock);
        known_tools.watch(self.mcp.clone(), handle.clone());
        self.send_later_rules(&handle, &rules, &users_folder, conversation, endpoints)
            .await;
        announce(&self.orchestrator, others, handle.id());
        Ok(handle)
    }

    /// Starts a run that ends immediately with the answer of its turn. The run needs no model and does not access its folder.
    async fn start_answered(
        &self,
        run: RunId,
        goal: Goal,
        text: String,
        workspace: String,
    ) -> Result<RunHandle, DirigentError> {
        let (run_spec_factory, user) = (self.run_spec_factory.clone(), goal.user);
        let stored = self.stored_settings(&goal, &workspace).await?;
        let spec = blocking(move || run_spec_factory.spec(&goal, text, workspace, &stored)).await?;
        let handle = self
            .orchestrator
            .start_as(run, spec, user, RunServices::default(), Vec::new());
        Ok(handle.await?)
    }

    /// Reads the information about the project for the agents of a run (LEAD-4).
    async fn read_project(
        &self,
        instructions: ProjectInstructions,
        spec: &RunSpec,
    ) -> Result<SharedProject, DirigentError> {
        let git = repository_summary(Path::new(&spec.workspace), self.confinement).await;
        let run_spec_factory = self.run_spec_factory.clone();
        let (workspace, setup) = (spec.workspace.clone(), spec.setup.clone());
        let read = move || {
            Ok::<_, DirigentError>(run_spec_factory.project(instructions, &workspace, &setup.tools, git))
        };
        blocking(read).await.map(SharedProject::from)
    }

    /// Returns a recording of a run in the journal up to its latest entry (HOST-9); [`crate::write_recording`] writes it to a file.
    ///
    /// # Errors
    /// An unknown run, or a run that never began.
    pub async fn recording(&self, run: RunId) -> Result<Recording, DirigentError> {
        self.reading(move |journal| record_run(journal, run)).await
    }

    /// Replays a recording with the agents, prompts and tools of this orchestrator and journals it as a new run, which has reached the
    /// end of the recording when this function returns (HOST-9). No model is asked, no tool runs, and the workspace need not exist. This
    /// makes a recorded run usable as a test:
    ///
    /// ```
    /// use dirigent::{Dirigent, Goal};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), dirigent::DirigentError> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (journal, file) = (folder.path().join("journal.db"), folder.path().join("count.jsonl"));
    /// # std::fs::write(folder.path().join("notes.txt"), "one\ntwo\n").unwrap();
    /// # let recorded = Dirigent::builder().journal(&journal).build().await?;
    /// # let run = recorded.start(Goal::new("Count the lines in notes.txt").workspace(folder.path())).await?;
    /// # run.outcome().await?;
    /// # dirigent::write_recording(&file, recorded.recording(run.id()).await?).await?;
    /// let recording = dirigent::read_recording(&file).await?;
    /// let dirigent = Dirigent::builder().journal(&journal).build().await?;
    /// let run = dirigent.replay(&recording, Goal::from_recording(&recording)).await?;
    /// assert!(run.outcome().await?.is_achieved());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`dirigent_runtime::RuntimeError::ReplayMismatch`] with the first difference, in which case nothing is journaled, or an error of the journal.
    pub async fn replay(&self, recording: &Recording, goal: Goal) -> Result<RunHandle, DirigentError> {
        // The path of the workspace is compared with the recorded path; the folder is not opened.
        let workspace = goal.workspace.to_string_lossy().into_owned();
        let (run_spec_factory, text, recorded) = (
            self.run_spec_factory.clone(),
            goal.checked_text()?,
            recording.spec().setup.clone(),
        );
        let mut goal = goal;
        goal.own.service_tools = recorded_service_tools(&recorded.tools);
        goal.own.service_access = recorded_services(&recorded.tools);
        let present = blocking(move || {
            let of_goal = run_spec_factory.for_goal(&goal)?;
            let run_spec_factory = of_goal.as_ref().unwrap_or(&run_spec_factory);
            run_spec_factory.spec_for_replay(&recorded, &goal, text, workspace)
        })
        .await?;
        Ok(self.orchestrator.replay(recording.clone(), present).await?)
    }

    /// Resumes a run at the end of its journal (HOST-2). Its agents ask the models that it was started with, by their references in the
    /// configuration. A run that stopped with a question continues with the answer. A run that failed at a limit, or because no model
    /// could be reached, plans again with the limits in `resume` (PAOR-1). If its [`Goal`] had its own model or tools, they must be given
    /// again, with [`Resume::model`] and [`Resume::tool`].
    ///
    /// # Errors
    /// The run has ended, another process owns it, [`DirigentError::StartsBlocked`], `resume` has an answer but the run asked no question, the run would reach a limit at once,
    /// or one of its models is no longer configured. In these cases, the run is unchanged.
    pub async fn resume(&self, run: RunId, resume: Resume) -> Result<RunHandle, DirigentError> {
        if !resume.has_model() {
            self.prepare_run_models(run).await?;
        }
        let record = self.record(run).await?;
        let StartPermit { lock, others } = self
            .acquire_start_permit(&record.workspace, Some(run), resume.shared())
            .await?;
        self.check_worktree(run, &record).await?;
        self.load_services_of(&record).await?;
        let rules = self.approval_rules().of_run(run).await?;
        let allowed = rules.into_iter().map(|rule| rule.calls).collect();
        let resume = resume.shares_with(others.clone()).allow(allowed);
        let known_tools = self.known_tools_of(run).await?;
        let handle = self.orchestrator.resume_locked(run, resume, lock).await?;
        known_tools.watch(self.mcp.clone(), handle.clone());
        announce(&self.orchestrator, others, run);
        Ok(handle)
    }

    /// Lists the agents of runs with their sources, and the refused agent files. If `workspace` is given, its project's agent files are
    /// included.
    ///
    /// # Errors
    /// An error of the journal, in which services and trusted files are stored.
    pub async fn agents(&self, workspace: Option<&Path>) -> Result<Agents, DirigentError> {
        let services = self.load_services(workspace).await?.access();
        let (run_spec_factory, workspace) = (self.run_spec_factory.clone(), workspace.map(Path::to_owned));
        blocking(move || {
            let with_services = run_spec_factory.for_services(services)?;
            let factory = with_services.as_ref().unwrap_or(&run_spec_factory);
            Ok::<_, DirigentError>(factory.list_agents(workspace.as_deref()))
        })
        .await
    }

    /// Finds out how the models of a goal call tools, if the configuration does not specify it (CALL-4). Returns the requests that were
    /// made.
    async fn find_call_forms(
        &self,
        goal: &Goal,
        workspace: &str,
    ) -> Result<Vec<PreparatoryRequest>, DirigentError> {
        let Some(configured) = &self.configured else {
            return Ok(Vec::new());
        };
        if goal.own.services.model.is_some() {
            return Ok(Vec::new());
        }
        let (run_spec_factory, folder) = (self.run_spec_factory.clone(), PathBuf::from(workspace));
        let own = goal.own.clone();
        let models = blocking(move || {
            let of_goal = run_spec_factory.for_models_of(&own)?;
            let factory = of_goal.as_ref().unwrap_or(&run_spec_factory);
            factory.models_in(&folder)
        });
        let models = models.await?;
        let forms = self.run_spec_factory.call_forms();
        forms.find(configured, &self.journal, models).await
    }

    /// Sets up the models that a run was started with. Ignores other errors of the run, because resuming the run reports them.
    async fn prepare_run_models(&self, run: RunId) -> Result<(), DirigentError> {
        let Some(configured) = self.configured.clone() else {
            return Ok(());
        };
        let Ok((view, _)) = self.read(run).await else {
            return Ok(());
        };
        let spec = view.run().spec();
        for agent in spec.setup.all_agents() {
            if let Some(model) = &agent.model {
                configured.check_unchanged(model, agent.asks.as_deref())?;
                configured.prepare(model)?;
            }
        }
        Ok(())
    }

    /// Starts a new run that shares the first `at` journal entries of another run and continues from there, with the guidance if it is given
    /// (HOST-9). Without `at`, it shares all entries before the run's end. If the run ended because an agent failed, it shares the entries before
    /// that failure, so after an outage the fork asks the model again. The original run is unchanged.
    ///
    /// If the run is waiting for an answer, the guidance serves as the answer. Decisions about calls of the original run do not apply to
    /// the fork: a call that is waiting for approval or has not ended needs approval again in the fork (APPROVE-3).
    ///
    /// Calls that the user had always allowed in the original run by then need no approval in the fork either.
    ///
    /// Only the journal is shared: the files of the workspace are not reverted, and both runs work in the same folder. The fork asks the
    /// models of this orchestrator and uses its tools, even if the original run had its own model or tools ([`Goal::model`]).
    ///
    /// # Errors
    /// [`dirigent_runtime::RuntimeError::CannotFork`] if there is no such entry or the run had already ended at it;
    /// [`DirigentError::Workspace`] if its workspace or its worktree no longer exists; [`DirigentError::StartsBlocked`]; or one of the run's
    /// models is no longer configured. In these cases, no run is started.
    pub async fn fork(
        &self,
        run: RunId,
        at: Option<u64>,
        guidance: Option<String>,
        user: UserPresence,
    ) -> Result<RunHandle, DirigentError> {
        self.prepare_run_models(run).await?;
        let record = self.record(run).await?;
        let StartPermit { lock, others } = self
            .acquire_start_permit(&record.workspace, None, WhenShared::GoOn)
            .await?;
        self.check_workspace(&record).await?;
        let users_folder = self
            .reading(move |journal| users_folder(journal, &record))
            .await?;
        let endpoints = self.load_services_for(run, &users_folder).await?;
        let rules = self.starting_rules(&users_folder, None, endpoints).await?;
        let allowed = rules.into_iter().map(|rule| rule.calls).collect();
        let handle = self.orchestrator.fork(run, at, guidance, allowed, user).await?;
        drop(lock);
        match self.known_tools_of(handle.id()).await {
            Ok(known_tools) => known_tools.watch(self.mcp.clone(), handle.clone()),
            // The fork has started.
            Err(error) => {
                tracing::warn!(run = %handle.id(), %error, "a fork is not told how the tools of its services change");
            }
        }
        if !others.is_empty() {
            let runs = others.clone();
            // Fails only if the fork has ended already.
            let _ = handle.steer(Steering::ShareWorkspace { runs }).await;
        }
        announce(&self.orchestrator, others, handle.id());
        Ok(handle)
    }

    /// Sends guidance, a decision about a call, an answer or a cancellation to any run of the journal. A run of this process receives the message
    /// directly, a run of another process through the journal. A message for a run without an owner waits in the journal until the run is resumed
    /// ([`Self::pending_messages`]), but a cancellation takes effect at once. Each message is applied exactly once.
    ///
    /// # Errors
    /// The reason why the run does not accept the message, as for [`RunHandle::steer`]. A rejection by another process is always
    /// [`dirigent_runtime::RuntimeError::MessageRejected`]. A message for a run without an owner is also rejected if the run would not
    /// accept it after the messages that are already waiting.
    pub async fn steer(&self, run: RunId, steering: Steering) -> Result<SteerOutcome, DirigentError> {
        Ok(self.orchestrator.steer(run, steering).await?)
    }

    /// Checks that a run would accept a message, without sending it: a decision with edited parameters, for example. Whether the message is accepted
    /// later depends on what happens until then.
    ///
    /// # Errors
    /// As [`Dirigent::steer`].
    pub async fn check_message(&self, run: RunId, steering: Steering) -> Result<(), DirigentError> {
        self.reading(move |journal| check_message(journal, run, now(), steering))
            .await
    }

    /// Returns the messages that are waiting in the journal until the run is resumed, in the order in which they were sent.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn pending_messages(&self, run: RunId) -> Result<Vec<PendingMessage>, DirigentError> {
        self.reading(move |journal| pending_messages(journal, run)).await
    }

    /// Returns the state of a message that was sent through the journal.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn message(&self, message: MessageId) -> Result<MessageState, DirigentError> {
        self.reading(move |journal| journal.message(message)).await
    }

    /// Returns a run that this process owns.
    pub fn run(&self, run: RunId) -> Option<RunHandle> {
        self.orchestrator.run(run)
    }

    /// Returns the events of a run after journal entry `after` (0 for all events), as they occur, whichever process owns the run. The
    /// stream ends with the run, or when no process owns the run any more; for an unknown run, it is empty. All watchers of a run share
    /// one reader of its entries.
    pub fn events(&self, run: RunId, after: u64) -> Events {
        self.orchestrator.events(run, after)
    }

    /// Returns a page of the runs of the journal that the filter selects, newest first.
    ///
    /// ```
    /// use dirigent::{Dirigent, RunFilter, RunState};
    ///
    /// # async fn list(dirigent: &Dirigent) -> Result<(), dirigent::DirigentError> {
    /// let failed = RunFilter::new().state(RunState::Failed).limit(50);
    /// let mut page = dirigent.runs(failed.clone()).await?;
    /// while let Some(last) = page.next {
    ///     page = dirigent.runs(failed.clone().after(last)).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The page begins after an unknown run, or an error of the journal.
    pub async fn runs(&self, filter: RunFilter) -> Result<RunPage, DirigentError> {
        self.reading(move |journal| journal.run_page(&filter)).await
    }

    /// Returns the limits of runs whose goals set none.
    pub fn default_limits(&self) -> RunLimits {
        self.run_spec_factory.limits.clone()
    }

    /// Finds a run by its full id, by at least four digits at the beginning or end of its id, or by `last`.
    ///
    /// # Errors
    /// No run or several runs match.
    pub async fn find(&self, text: &str) -> Result<RunId, DirigentError> {
        let text = text.to_owned();
        self.reading(move |journal| journal.find(&text)).await
    }

    /// Returns the journal's record of a run, without reading its entries.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn record(&self, run: RunId) -> Result<RunRecord, DirigentError> {
        self.reading(move |journal| journal.run(run)).await
    }

    /// Plans how to undo all file changes of a run, or those after its journal entry `after`. For a fork without `after`, only the
    /// changes made after it was forked are undone. Nothing is changed before [`Undo::apply`].
    ///
    /// # Errors
    /// [`DirigentError::RunActive`] while a process owns the run, [`DirigentError::Workspace`] if its workspace no longer exists, or an unknown run
    /// or entry.
    pub async fn undo(&self, run: RunId, after: Option<u64>) -> Result<Undo, DirigentError> {
        self.reading(move |journal| Undo::load(journal, run, after)).await
    }

    /// Returns all file changes of a run, or those after its journal entry `after`, in a format that `git apply` accepts. The diff
    /// compares the content before the first change with the content after the last.
    ///
    /// # Errors
    /// An unknown run or entry.
    pub async fn diff(&self, run: RunId, after: Option<u64>) -> Result<RunDiff, DirigentError> {
        self.reading(move |journal| RunDiff::load(journal, run, after))
            .await
    }

    /// Like [`Dirigent::diff`], but for a run that is being watched, including a replayed run, which is not in any journal. Does not
    /// report the changes that interrupted calls may have made.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn diff_of(&self, view: RunView) -> Result<RunDiff, DirigentError> {
        self.reading(move |journal| RunDiff::from_view(journal, &view))
            .await
    }

    /// Returns the current state of a run in the journal, with its events.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn read(&self, run: RunId) -> Result<(RunView, Vec<Event>), DirigentError> {
        self.reading(move |journal| read_run(journal, run)).await
    }

    /// Returns what a run itself has used. A fork has not used what it shares with its source.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn usage(&self, run: RunId) -> Result<UsageReport, DirigentError> {
        self.reading(move |journal| {
            let (view, _) = read_run(journal, run)?;
            let whole = view.usage_report();
            match journal.run(run)?.forked_from {
                Some(point) if point.seq > 0 => {
                    let shared = read_run_until(journal, run, point.seq)?;
                    Ok(whole.since(&shared.usage_report()))
                }
                Some(_) | None => Ok::<_, DirigentError>(whole),
            }
        })
        .await
    }

    /// Returns an output of a run by its handle, as agents read it with the tool `read_output`; `None` if the run has no such output.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn output(
        &self,
        run: RunId,
        handle: OutputHandle,
    ) -> Result<Option<OutputText>, DirigentError> {
        self.reading(move |journal| output_text(journal, run, handle))
            .await
    }

    /// The path of the journal's file, with links resolved.
    pub fn journal_path(&self) -> &Path {
        self.journal.path()
    }

    /// Stops all MCP services, and all runs of this process at their last journal entry, so that they can be resumed. Waits until their
    /// work has ended and everything is stored, but at most one second for calls that ignore their cancellation. Waiters for these runs
    /// get an error. Runs that are started, resumed or steered afterwards fail; the journal can still be read.
    ///
    /// # Errors
    /// The journal cannot store what the runs have done.
    pub async fn shutdown(&self) -> Result<(), DirigentError> {
        let result = self.orchestrator.shutdown().await;
        self.end_services().await;
        Ok(result?)
    }

    /// Reads or writes the journal without blocking the async runtime.
    pub(crate) async fn reading<T, E>(
        &self,
        work: impl FnOnce(&Journal) -> Result<T, E> + Send + 'static,
    ) -> Result<T, DirigentError>
    where
        T: Send + 'static,
        E: Send + 'static,
        DirigentError: From<E>,
    {
        with_journal(&self.journal, |journal| Ok(work(journal)?)).await
    }
}

/// Sets up the models of the agents before a run starts.
pub(crate) fn prepare_models<'a>(
    configured: Option<&ConfiguredModels>,
    agents: impl IntoIterator<Item = &'a AgentSpec>,
) -> Result<(), DirigentError> {
    let Some(configured) = configured else {
        return Ok(());
    };
    for model in agents.into_iter().filter_map(|agent| agent.model.as_deref()) {
        configured.prepare(model)?;
    }
    Ok(())
}

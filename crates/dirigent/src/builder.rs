//! The orchestrator and its builder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::agent_spec::{AgentSpec, ModelProfile};
use dirigent_core::id::RunId;
use dirigent_core::policy::Policy;
use dirigent_core::recording::Recording;
use dirigent_core::steering::Steering;
use dirigent_core::tool::ToolSpec;
use dirigent_core::view::{Event, RunView};
use dirigent_model::ChatModel;
use dirigent_offline::OfflineModel;
use dirigent_runtime::{
    Events, Orchestrator, PendingMessage, Resume, RunHandle, Services, SteerOutcome, UserPresence,
    pending_messages, read_run, record_run,
};
use dirigent_store::{Journal, JournalOptions, MessageId, MessageState, RunRecord};
use dirigent_tools::{Tool, ToolRegistry, ToolSettings, ToolSource as _};

use crate::agents::{AgentDefinition, AgentRegistry, Agents, ModelResolver, RunSpecFactory, shipped_agents};
use crate::config::{Config, ConfiguredModels};
use crate::known_tools::known_tools;
use crate::undo::{RunDiff, Undo};
use crate::{DirigentError, Goal, default_journal};

/// Builds a [`Dirigent`].
pub struct Builder {
    journal: Option<PathBuf>,
    journal_options: JournalOptions,
    config: Option<Config>,
    model: Option<Arc<dyn ChatModel>>,
    profile: ModelProfile,
    /// The tools that the program adds.
    tools: ToolRegistry,
    tool_settings: Option<ToolSettings>,
    /// The sub-agents that the program adds.
    agents: Vec<AgentDefinition>,
    policy: Policy,
}

impl Builder {
    /// Sets the journal's file, which is created if it does not exist. The default is [`default_journal`].
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(path.into());
        self
    }

    /// Requires the journal to exist, so that a mistyped path is an error instead of an empty journal.
    pub fn existing_journal(mut self) -> Self {
        self.journal_options = self.journal_options.existing();
        self
    }

    /// Opens the journal for reading only: nothing is written, and no run can be started, resumed or steered. A missing journal is an error.
    pub fn read_only_journal(mut self) -> Self {
        self.journal_options = self.journal_options.read_only();
        self
    }

    /// Sets the configuration: models, limits, rules and what the built-in tools may access.
    pub fn config(mut self, config: &Config) -> Self {
        self.config = Some(config.clone());
        self
    }

    /// Sets one model for all agents. The default is the models of the configuration or, without a configuration, the [`OfflineModel`]. If
    /// a configuration is set too, requests to this model contain references of the configured models, and prompts are made for those
    /// models; a typical model in this case is a wrapper of [`Config::models`].
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// Sets the profile of the model set with [`Builder::model`]: how it calls tools, its context window and its price. The models of a configuration
    /// have their own profiles.
    pub fn profile(mut self, profile: ModelProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Adds a tool, which replaces a built-in tool of the same name. Plans may call it, and so may agents that list it and have the access that it
    /// needs.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.insert(tool);
        self
    }

    /// Sets what the built-in tools may access: the sandbox of commands, the databases, and the hosts outside the public network. The
    /// default is the settings of the configuration or, without a configuration, [`ToolSettings::default`]. [`Builder::policy`] sets which
    /// calls need approval.
    pub fn tool_settings(mut self, settings: ToolSettings) -> Self {
        self.tool_settings = Some(settings);
        self
    }

    /// Adds a sub-agent, which replaces a sub-agent of the same name.
    pub fn agent(mut self, agent: AgentDefinition) -> Self {
        self.agents.retain(|other| other.name() != agent.name());
        self.agents.push(agent);
        self
    }

    /// Adds rules to the configuration's rules: which calls run without approval, which need approval, and which are refused (APPROVE-1).
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Checks that the agents, the rules and the models of the configuration are consistent, without opening the journal. Reads the disk.
    ///
    /// # Errors
    /// A role of an unknown agent, a rule about an unknown tool, or a model that is not configured. A missing API key is reported only by
    /// [`Builder::build`].
    pub fn check(&self) -> Result<(), DirigentError> {
        self.checked_registry(&self.tools_without_connections().specs())
            .map(drop)
    }

    /// Opens the journal and starts the orchestrator in the current tokio runtime.
    ///
    /// # Errors
    /// An error in the journal, an agent's definition or the configuration.
    pub async fn build(self) -> Result<Dirigent, DirigentError> {
        let tools = self.all_tools(&self.settings()?);
        let registry = self.checked_registry(&tools.specs())?;
        let configured = match (&self.config, &self.model) {
            (Some(config), None) => Some(config.models()?),
            (Some(_) | None, _) => None,
        };
        let path = self.journal.clone().map_or_else(default_journal, Ok)?;
        let options = self.journal_options.clone();
        let journal = blocking(move || options.open(&path)).await?;
        let model = match (&configured, &self.model) {
            (_, Some(model)) => model.clone(),
            (Some(configured), None) => Arc::new(configured.clone()),
            (None, None) => Arc::new(OfflineModel),
        };
        let services = Services::new(journal.clone(), model, tools);
        let tools = services.tool_specs();
        let run_spec_factory = RunSpecFactory::new(self.models(), registry, tools, self.all_rules());
        prepare(
            configured.as_ref(),
            run_spec_factory.default_setup()?.all_agents(),
        )?;
        let orchestrator = Orchestrator::start_up(services).await?;
        Ok(Dirigent {
            orchestrator,
            journal,
            run_spec_factory: Arc::new(run_spec_factory),
            configured,
        })
    }

    /// Lists the agents of runs with their sources, and the refused agent files. If `workspace` is given, its project's agent files are
    /// included. Reads the disk.
    ///
    /// # Errors
    /// The errors of [`Builder::check`].
    pub fn agents(&self, workspace: Option<&Path>) -> Result<Agents, DirigentError> {
        let specs = self.tools_without_connections().specs();
        let registry = self.checked_registry(&specs)?;
        let registry = match (workspace, &self.config) {
            (Some(workspace), Some(config)) => {
                registry.with_project_agents(workspace, config, &known_tools(&specs))
            }
            (Some(_) | None, _) => registry,
        };
        Ok(self.models().list_agents(registry))
    }

    fn models(&self) -> ModelResolver {
        ModelResolver {
            config: self.config.clone(),
            profile: match self.model {
                Some(_) => self.profile,
                // The offline model parses results as JSON, so they must not be cut.
                None => ModelProfile {
                    max_result: None,
                    ..self.profile
                },
            },
        }
    }

    fn settings(&self) -> Result<ToolSettings, DirigentError> {
        match (&self.tool_settings, &self.config) {
            (Some(settings), _) => Ok(settings.clone()),
            (None, Some(config)) => Ok(config.tool_settings()?),
            (None, None) => Ok(ToolSettings::default()),
        }
    }

    /// Returns the built-in tools with these settings, and the program's tools.
    fn all_tools(&self, settings: &ToolSettings) -> ToolRegistry {
        let mut tools = dirigent_tools::built_in(settings);
        tools.extend(self.tools.clone());
        tools
    }

    /// Returns all tools, with database connections that have no address, so that the variables with the addresses need not be set. The
    /// tools can be described, but not called.
    fn tools_without_connections(&self) -> ToolRegistry {
        let of_config = self.config.as_ref().map(Config::tool_settings_without_secrets);
        let settings = self.tool_settings.clone().or(of_config);
        self.all_tools(&settings.unwrap_or_default())
    }

    /// Returns the sub-agents of every run, after checking them against the configuration. Reads the disk.
    fn checked_registry(&self, tools: &[ToolSpec]) -> Result<AgentRegistry, DirigentError> {
        let known = &known_tools(tools);
        for agent in &self.agents {
            if ["lead", "reflector"].contains(&agent.name()) {
                return Err(DirigentError::Agent {
                    name: agent.name().to_owned(),
                    reason: "this is the name of a built-in agent: give the sub-agent another name"
                        .to_owned(),
                });
            }
            if let Some((tool, needs)) = agent.first_tool_beyond_access(known) {
                return Err(DirigentError::Agent {
                    name: agent.name().to_owned(),
                    reason: format!(
                        "its tool `{tool}` needs {needs} access, but the agent does not have it: give the agent this access, or declare the \
                         tool with `.access(Access::ReadOnly)` if it changes nothing"
                    ),
                });
            }
        }
        let mut registry = AgentRegistry::new(shipped_agents(), &self.agents, known);
        if let Some(config) = &self.config {
            registry = registry.with_user_agents(config, known);
            config.check_agents(registry.names())?;
            config.check_rules(known, tools)?;
        }
        self.models().check(&registry)?;
        Ok(registry)
    }

    /// Returns the rules of the configuration and of the program.
    fn all_rules(&self) -> Policy {
        let configured = self.config.as_ref().map(Config::policy).unwrap_or_default();
        Policy {
            rules: configured
                .rules
                .into_iter()
                .chain(self.policy.rules.clone())
                .collect(),
        }
    }
}

/// An orchestrator of runs. Clones share it. When the last clone is dropped, its runs stop and can be resumed later.
#[derive(Clone)]
pub struct Dirigent {
    orchestrator: Orchestrator,
    pub(crate) journal: Journal,
    run_spec_factory: Arc<RunSpecFactory>,
    /// The models of the configuration; `None` if the program sets its own model.
    configured: Option<ConfiguredModels>,
}

impl Dirigent {
    /// Returns a builder with the offline model, the built-in tools and the shipped agents.
    pub fn builder() -> Builder {
        Builder {
            journal: None,
            journal_options: JournalOptions::default(),
            config: None,
            model: None,
            profile: ModelProfile::default(),
            tools: ToolRegistry::new(),
            tool_settings: None,
            agents: Vec::new(),
            policy: Policy::default(),
        }
    }

    /// Starts a run.
    ///
    /// # Errors
    /// [`DirigentError::EmptyGoal`], [`DirigentError::Workspace`], an error in the configuration, or an error of the journal. In these
    /// cases, no run is started.
    pub async fn start(&self, goal: Goal) -> Result<RunHandle, DirigentError> {
        let (text, workspace) = (goal.checked_text()?, goal.checked_workspace()?);
        let run_spec_factory = self.run_spec_factory.clone();
        let spec =
            blocking(move || run_spec_factory.spec(text, workspace, goal.limits, &goal.agent_limits)).await?;
        prepare(self.configured.as_ref(), spec.setup.agents.iter())?;
        Ok(self.orchestrator.start(spec, goal.user).await?)
    }

    /// Returns a recording of a run in the journal up to its latest entry (HOST-9); [`crate::write_recording`] writes it to a file. Reads the disk.
    ///
    /// # Errors
    /// An unknown run, or a run that never began.
    pub fn recording(&self, run: RunId) -> Result<Recording, DirigentError> {
        Ok(record_run(&self.journal, run)?)
    }

    /// Replays a recording with the agents, prompts and tools of this orchestrator and journals it as a new run, which has reached the end of the
    /// recording when this function returns (HOST-9). No model is asked, no tool runs, and the workspace need not exist. So a recorded run can serve
    /// as a test:
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
    /// # dirigent::write_recording(&file, &recorded.recording(run.id())?)?;
    /// let recording = dirigent::read_recording(&file)?;
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
        let present =
            blocking(move || run_spec_factory.spec_for_replay(&recorded, text, workspace, goal.limits))
                .await?;
        Ok(self.orchestrator.replay(recording.clone(), present).await?)
    }

    /// Resumes a run at the end of its journal (HOST-2). Its agents ask the models that it was started with, by their references in the
    /// configuration. A run that stopped with a question continues with the answer. A run that failed at a limit, or because no model could
    /// be reached, plans again with the limits in `resume` (PAOR-1).
    ///
    /// # Errors
    /// The run has ended, another process owns it, `resume` has an answer but the run asked no question, the run would reach a limit at once,
    /// or one of its models is no longer configured. In these cases, the run is unchanged.
    pub async fn resume(&self, run: RunId, resume: Resume) -> Result<RunHandle, DirigentError> {
        self.prepare_run_models(run).await?;
        Ok(self.orchestrator.resume(run, resume).await?)
    }

    /// Lists the agents of runs with their sources, and the refused agent files. If `workspace` is given, its project's agent files are
    /// included. Reads the disk.
    pub fn agents(&self, workspace: Option<&Path>) -> Agents {
        self.run_spec_factory.list_agents(workspace)
    }

    /// Sets up the models that a run was started with. Ignores other errors of the run, because resuming the run reports them.
    async fn prepare_run_models(&self, run: RunId) -> Result<(), DirigentError> {
        let Some(configured) = self.configured.clone() else {
            return Ok(());
        };
        let journal = self.journal.clone();
        let read = tokio::task::spawn_blocking(move || read_run(&journal, run));
        let Ok(Ok((view, _))) = read.await else {
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
    /// the fork: a call that waits or has not ended needs approval again in the fork (APPROVE-3).
    ///
    /// Only the journal is shared: the files of the workspace are not reverted, and both runs work in the same folder.
    ///
    /// # Errors
    /// [`dirigent_runtime::RuntimeError::CannotFork`] if there is no such entry or the run had already ended at it; or one of the run's
    /// models is no longer configured. In these cases, no run is started.
    pub async fn fork(
        &self,
        run: RunId,
        at: Option<u64>,
        guidance: Option<String>,
        user: UserPresence,
    ) -> Result<RunHandle, DirigentError> {
        self.prepare_run_models(run).await?;
        Ok(self.orchestrator.fork(run, at, guidance, user).await?)
    }

    /// Sends guidance, a decision about a call, an answer or a cancellation to any run of the journal. A run of this process receives the message
    /// directly, a run of another process through the journal. A message for a run without an owner waits in the journal until the run is resumed
    /// ([`Self::pending_messages`]), but a cancellation takes effect at once. Each message is applied exactly once.
    ///
    /// # Errors
    /// The reason why the run does not accept the message, as for [`RunHandle::steer`]. A rejection by another process is always
    /// [`dirigent_runtime::RuntimeError::MessageRejected`]. A message for a run without an owner is also rejected if the run would not
    /// accept it after the messages that already wait.
    pub async fn steer(&self, run: RunId, steering: Steering) -> Result<SteerOutcome, DirigentError> {
        Ok(self.orchestrator.steer(run, steering).await?)
    }

    /// Returns the messages that wait in the journal until the run is resumed, in the order in which they were sent. Reads the disk.
    ///
    /// # Errors
    /// An error of the journal.
    pub fn pending_messages(&self, run: RunId) -> Result<Vec<PendingMessage>, DirigentError> {
        Ok(pending_messages(&self.journal, run)?)
    }

    /// Returns the state of a message that was sent through the journal. Reads the disk.
    ///
    /// # Errors
    /// An error of the journal.
    pub fn message(&self, message: MessageId) -> Result<MessageState, DirigentError> {
        Ok(self.journal.message(message)?)
    }

    /// Returns a run that this process owns.
    pub fn run(&self, run: RunId) -> Option<RunHandle> {
        self.orchestrator.run(run)
    }

    /// Returns the events of a run after journal entry `after` (0: from the first), as they occur, whichever process owns the run. They end
    /// with the run, or when no process owns it any more. All watchers of a run share one reader of its entries.
    pub fn events(&self, run: RunId, after: u64) -> Events {
        self.orchestrator.events(run, after)
    }

    /// Returns all runs of the journal, newest first. Reads the disk.
    ///
    /// # Errors
    /// An error of the journal.
    pub fn runs(&self) -> Result<Vec<RunRecord>, DirigentError> {
        Ok(self.journal.runs()?)
    }

    /// Finds a run by its full id, by at least four digits at the beginning or end of its id, or by `last`. Reads the disk.
    ///
    /// # Errors
    /// No run or several runs match.
    pub fn find(&self, text: &str) -> Result<RunId, DirigentError> {
        Ok(self.journal.find(text)?)
    }

    /// Returns the journal's record of a run, without reading its entries. Reads the disk.
    ///
    /// # Errors
    /// An unknown run.
    pub fn record(&self, run: RunId) -> Result<RunRecord, DirigentError> {
        Ok(self.journal.run(run)?)
    }

    /// Plans how to undo all changes of a run in files, or the changes after its journal entry `to`. For a fork without `to`, only the
    /// changes after the shared entries are undone. Nothing is changed before [`Undo::apply`]. Reads the disk.
    ///
    /// # Errors
    /// [`DirigentError::RunActive`] while a process owns the run, [`DirigentError::Workspace`] if its workspace no longer exists, or an unknown run
    /// or entry.
    pub fn undo(&self, run: RunId, to: Option<u64>) -> Result<Undo, DirigentError> {
        Undo::load(&self.journal, run, to)
    }

    /// Returns the changes of a run in files, or its changes after its journal entry `to`, in a format that `git apply` accepts. It compares the
    /// content before the first change with the content after the last. Reads the disk.
    ///
    /// # Errors
    /// An unknown run or entry.
    pub fn diff(&self, run: RunId, to: Option<u64>) -> Result<RunDiff, DirigentError> {
        RunDiff::load(&self.journal, run, to)
    }

    /// Returns the current state of a run in the journal, with its events. Reads the disk.
    ///
    /// # Errors
    /// An error of the journal.
    pub fn read(&self, run: RunId) -> Result<(RunView, Vec<Event>), DirigentError> {
        Ok(read_run(&self.journal, run)?)
    }
}

/// Sets up the models of the agents before a run starts.
fn prepare<'a>(
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

/// Runs blocking work on a separate thread, so that it does not delay the actors.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

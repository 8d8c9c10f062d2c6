//! Building an orchestrator, and what can be done with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::id::RunId;
use dirigent_core::policy::Policy;
use dirigent_core::recording::Recording;
use dirigent_core::spec::{AgentSpec, ModelProfile};
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
use dirigent_tools::{Tool, ToolRegistry, ToolSettings};

use crate::agents::{
    AgentDefinition, AgentRegistry, Agents, ModelResolver, RunSpecFactory, known_tools, shipped_agents,
};
use crate::config::{Config, ConfiguredModels};
use crate::undo::{RunDiff, Undo};
use crate::{DirigentError, Goal, default_journal};

/// Builds a [`Dirigent`].
pub struct Builder {
    journal: Option<PathBuf>,
    journal_options: JournalOptions,
    config: Option<Config>,
    model: Option<Arc<dyn ChatModel>>,
    profile: ModelProfile,
    /// The program's own.
    tools: ToolRegistry,
    tool_settings: Option<ToolSettings>,
    /// The program's own.
    agents: Vec<AgentDefinition>,
    policy: Policy,
}

impl Builder {
    /// The journal's file; it is created if it is not there. [`default_journal`] if not said.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(path.into());
        self
    }

    /// Refuses a journal that is not there, so that a mistyped path is an error and no empty journal.
    pub fn existing_journal(mut self) -> Self {
        self.journal_options = self.journal_options.existing();
        self
    }

    /// The models, who asks which, what bounds runs whose goal doesn't say, and what the built-in tools may reach.
    pub fn config(mut self, config: &Config) -> Self {
        self.config = Some(config.clone());
        self
    }

    /// The model that every agent asks; those of the configuration if not said, or else [`OfflineModel`]. With a configuration its
    /// requests still bear the configuration's names, and agents are prompted as suits the models of these names: give one that
    /// stands in for them, such as [`Config::models`] with something around it.
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// What is known of your own model: how it calls tools, how much it can read, what it costs. A configuration's models have
    /// theirs.
    pub fn profile(mut self, profile: ModelProfile) -> Self {
        self.profile = profile;
        self
    }

    /// One more tool; it replaces a built-in one of its name. Plans may call it; an agent may if it names it
    /// and is allowed what it needs.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.insert(tool);
        self
    }

    /// What the built-in tools may reach: what confines commands, which databases there are, which hosts beside the public network; what the
    /// configuration says if not said, or else [`ToolSettings::default`]. What must be asked before a call is another matter:
    /// [`Builder::policy`].
    pub fn tool_settings(mut self, settings: ToolSettings) -> Self {
        self.tool_settings = Some(settings);
        self
    }

    /// One more sub-agent; it replaces the one of its name.
    pub fn agent(mut self, agent: AgentDefinition) -> Self {
        self.agents.retain(|other| other.name() != agent.name());
        self.agents.push(agent);
        self
    }

    /// What may be called without asking, what a person must approve, and what is never done (APPROVE-1), beside the rules of the
    /// configuration.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Looks whether the agents, the rules and the models of the configuration fit together. Opens and starts nothing. Reads the disk.
    ///
    /// # Errors
    /// A role of an agent that there is not, a rule about a tool that there is not, a model that is not configured. A key that is not set
    /// is found when building.
    pub fn check(&self) -> Result<(), DirigentError> {
        self.checked_registry(&self.tools_without_connections().specs())
            .map(drop)
    }

    /// Opens the journal and starts the orchestrator in the present tokio runtime.
    ///
    /// # Errors
    /// What is wrong with the journal, an agent's definition or the configuration.
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
        let tools = services.tools().specs();
        let run_spec_factory = RunSpecFactory::new(self.models(), registry, tools, self.all_rules())?;
        prepare(configured.as_ref(), run_spec_factory.agents())?;
        let orchestrator = Orchestrator::start_up(services).await?;
        Ok(Dirigent {
            orchestrator,
            journal,
            run_spec_factory: Arc::new(run_spec_factory),
            configured,
        })
    }

    /// The sub-agents that runs have, with where each comes from, and the files that are refused; those of the project in `workspace`
    /// included, if one is given. Reads the disk.
    ///
    /// # Errors
    /// As [`Builder::check`].
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
                // It reads JSON, not what is left of it.
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

    /// The built-in tools with those settings, and the program's.
    fn all_tools(&self, settings: &ToolSettings) -> ToolRegistry {
        let mut tools = dirigent_tools::built_in(settings);
        tools.extend(self.tools.clone());
        tools
    }

    /// The same before all is set that the configuration names: enough to tell of them, not to call them.
    fn tools_without_connections(&self) -> ToolRegistry {
        let of_config = self.config.as_ref().map(Config::tool_settings_without_secrets);
        let settings = self.tool_settings.clone().or(of_config);
        self.all_tools(&settings.unwrap_or_default())
    }

    /// The sub-agents of every run, where agents and configuration fit together. Reads the disk.
    fn checked_registry(&self, tools: &[ToolSpec]) -> Result<AgentRegistry, DirigentError> {
        let known = &known_tools(tools);
        for agent in &self.agents {
            if ["planner", "reflector"].contains(&agent.name()) {
                return Err(DirigentError::Agent {
                    name: agent.name().to_owned(),
                    reason: "this is the name of one that every run has: give the sub-agent another"
                        .to_owned(),
                });
            }
            if let Some((tool, needs)) = agent.first_tool_beyond_access(known) {
                return Err(DirigentError::Agent {
                    name: agent.name().to_owned(),
                    reason: format!(
                        "its tool `{tool}` needs {needs} access, which it does not have: give the agent that access, or the tool less, such \
                         as `.access(Access::ReadOnly)` if it changes nothing"
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

    /// The configuration's rules and the program's.
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

/// An orchestrator. Clones are the same one; when the last is dropped, its runs stop where they are, to be resumed
/// another time.
#[derive(Clone)]
pub struct Dirigent {
    orchestrator: Orchestrator,
    journal: Journal,
    run_spec_factory: Arc<RunSpecFactory>,
    /// The models of the configuration, where they are what is asked.
    configured: Option<ConfiguredModels>,
}

impl Dirigent {
    /// The default: the offline model, the built-in tools and agents.
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
    /// [`DirigentError::EmptyGoal`], [`DirigentError::Workspace`], or what is wrong with the journal. Nothing has happened
    /// then.
    pub async fn start(&self, goal: Goal) -> Result<RunHandle, DirigentError> {
        let (text, workspace) = (goal.checked_text()?, goal.checked_workspace()?);
        let run_spec_factory = self.run_spec_factory.clone();
        let spec =
            blocking(move || run_spec_factory.spec(text, workspace, goal.limits, &goal.agent_limits)).await?;
        prepare(self.configured.as_ref(), spec.agents.iter())?;
        Ok(self.orchestrator.start(spec, goal.user).await?)
    }

    /// A recording of any run of the journal, as far as it has got (HOST-9); [`crate::write_recording`] keeps it in a file.
    /// Reads the disk.
    ///
    /// # Errors
    /// No such run, or one that never began.
    pub fn recording(&self, run: RunId) -> Result<Recording, DirigentError> {
        Ok(record_run(&self.journal, run)?)
    }

    /// Replays a recording with the agents, prompts and tools of this orchestrator, and journals it as a new run, which has come
    /// to where the recording ends when this returns (HOST-9). No model is asked, no tool runs, and the workspace need not exist. So a recorded run is a
    /// test:
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
    /// [`dirigent_runtime::RuntimeError::ReplayMismatch`] with the first difference; nothing is journaled then. What is wrong with
    /// the journal.
    pub async fn replay(&self, recording: &Recording, goal: Goal) -> Result<RunHandle, DirigentError> {
        // It is compared, not opened.
        let workspace = goal.workspace.to_string_lossy().into_owned();
        let (run_spec_factory, text, recorded) = (
            self.run_spec_factory.clone(),
            goal.checked_text()?,
            recording.spec().clone(),
        );
        let present =
            blocking(move || run_spec_factory.spec_for_replay(&recorded, text, workspace, goal.limits))
                .await?;
        Ok(self.orchestrator.replay(recording.clone(), present).await?)
    }

    /// Goes on with a run where its journal ends (HOST-2). Its agents ask the models that it was started with, by their names in the
    /// configuration. A run that stopped with a question goes on with the answer; one that failed at a limit, or because no model could
    /// be reached, plans again under the limits that are given (PAOR-1).
    ///
    /// # Errors
    /// A run that is over, held by another process, or that asked nothing where there is an answer; one that would be at a limit at once;
    /// a model of its that is no longer configured. Nothing has happened then.
    pub async fn resume(&self, run: RunId, resume: Resume) -> Result<RunHandle, DirigentError> {
        self.prepare_run_models(run).await?;
        Ok(self.orchestrator.resume(run, resume).await?)
    }

    /// The sub-agents that runs have, with where each comes from, and the files that are refused; those of the project in `workspace`
    /// included, if one is given. Reads the disk.
    pub fn agents(&self, workspace: Option<&Path>) -> Agents {
        self.run_spec_factory.list_agents(workspace)
    }

    /// Sets up the models that a run was started with. What else is wrong with it is told when it is resumed.
    async fn prepare_run_models(&self, run: RunId) -> Result<(), DirigentError> {
        let Some(configured) = self.configured.clone() else {
            return Ok(());
        };
        let journal = self.journal.clone();
        let read = tokio::task::spawn_blocking(move || read_run(&journal, run));
        let Ok(Ok((view, _))) = read.await else {
            return Ok(());
        };
        let Some(spec) = view.run().spec() else {
            return Ok(());
        };
        let agents = [&spec.planner, &spec.reflector].into_iter().chain(&spec.agents);
        for agent in agents {
            if let Some(model) = &agent.model {
                configured.check_unchanged(model, agent.asks.as_deref())?;
                configured.prepare(model)?;
            }
        }
        Ok(())
    }

    /// Starts a new run that shares the first `at` entries of another's journal, and goes on from there with the guidance, if there is any
    /// (HOST-9). Where `at` is not said it shares all up to the run's end or, where that ended as an agent failed, up to what the agent
    /// ended with: after an outage the fork asks again. The run itself stays as it is.
    ///
    /// Guidance for a run that stands at a question takes the place of the answer. What people decided about the run's calls does not
    /// count for the fork's that wait or have not ended: they are asked about anew (APPROVE-3).
    ///
    /// Only what the journal has is shared: the files of the workspace are not wound back, and both runs work in the same folder.
    ///
    /// # Errors
    /// [`dirigent_runtime::RuntimeError::CannotFork`] where there is no such entry or the run is over after it; a model of its that is no
    /// longer configured. Nothing has happened then.
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

    /// Says something to any run of the journal: guidance, a decision about a call, an answer, or that it is to end. Where this process
    /// carries the run out it goes to the run, else by the journal to the process that does; what is said to a run that nobody carries
    /// out waits until it goes on, even if this process ends ([`Self::pending_messages`]); but its end, which comes at once. It is taken exactly
    /// once.
    ///
    /// # Errors
    /// Why it does not count, as [`RunHandle::steer`] says it; where another process carries the run out, in
    /// [`dirigent_runtime::RuntimeError::MessageRejected`]. Where nobody does, what would not count after all that waits is refused, too.
    pub async fn steer(&self, run: RunId, steering: Steering) -> Result<SteerOutcome, DirigentError> {
        Ok(self.orchestrator.steer(run, steering).await?)
    }

    /// What was said to a run and waits, in that order: of a run that nobody carries out, until it goes on. Reads the disk.
    ///
    /// # Errors
    /// What is wrong with the journal.
    pub fn pending_messages(&self, run: RunId) -> Result<Vec<PendingMessage>, DirigentError> {
        Ok(pending_messages(&self.journal, run)?)
    }

    /// What has become of something that was kept. Reads the disk.
    ///
    /// # Errors
    /// What is wrong with the journal.
    pub fn message(&self, message: MessageId) -> Result<MessageState, DirigentError> {
        Ok(self.journal.message(message)?)
    }

    /// A run that is under way here.
    pub fn run(&self, run: RunId) -> Option<RunHandle> {
        self.orchestrator.run(run)
    }

    /// The events of any run of the journal, from its beginning; of one that another process owns those that there are now.
    pub fn events(&self, run: RunId) -> Events {
        self.orchestrator.events(run)
    }

    /// The events of a run, from its beginning, as they come, whichever process carries it out: they end with the run, or when nobody
    /// carries it out any more.
    pub fn follow(&self, run: RunId) -> Events {
        self.orchestrator.follow(run)
    }

    /// All runs of the journal, newest first. Reads the disk.
    ///
    /// # Errors
    /// What is wrong with the journal.
    pub fn runs(&self) -> Result<Vec<RunRecord>, DirigentError> {
        Ok(self.journal.runs()?)
    }

    /// The run that a text means: a whole id, four digits or more of its beginning or end, or `last`. Reads the disk.
    ///
    /// # Errors
    /// None or several such runs.
    pub fn find(&self, text: &str) -> Result<RunId, DirigentError> {
        Ok(self.journal.find(text)?)
    }

    /// What the journal knows of a run without reading its entries. Reads the disk.
    ///
    /// # Errors
    /// No such run.
    pub fn record(&self, run: RunId) -> Result<RunRecord, DirigentError> {
        Ok(self.journal.run(run)?)
    }

    /// What undoing a run would do: all that it changed in files, or what it changed after its entry `to`, as `show --steps` numbers them. Of
    /// a fork without `to`, what it changed itself, after the past that it shares. Nothing is changed before [`Undo::apply`]. Reads
    /// the disk.
    ///
    /// # Errors
    /// [`DirigentError::RunActive`] while a process carries the run out; [`DirigentError::Workspace`] where its folder is gone; no such run or
    /// entry.
    pub fn undo(&self, run: RunId, to: Option<u64>) -> Result<Undo, DirigentError> {
        Undo::load(&self.journal, run, to)
    }

    /// What a run changed in files, or what it changed after its entry `to`: before the first change against after the last, in
    /// a form that `git apply` takes. Reads the disk.
    ///
    /// # Errors
    /// No such run or entry.
    pub fn diff(&self, run: RunId, to: Option<u64>) -> Result<RunDiff, DirigentError> {
        RunDiff::load(&self.journal, run, to)
    }

    /// A run as its journal has it now, with its events. Reads the disk.
    ///
    /// # Errors
    /// What is wrong with the journal.
    pub fn read(&self, run: RunId) -> Result<(RunView, Vec<Event>), DirigentError> {
        Ok(read_run(&self.journal, run)?)
    }
}

/// Sets up the models that these agents ask, so that nothing of the configuration is in the way of a run.
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

/// Reads the disk out of the way of the actors.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

//! Building an orchestrator, and what can be done with it.

use std::path::PathBuf;
use std::sync::Arc;

use dirigent_core::id::RunId;
use dirigent_core::limits::{AgentLimits, RunLimits};
use dirigent_core::policy::Policy;
use dirigent_core::recording::Recording;
use dirigent_core::spec::{AgentSpec, AnswerForm, ModelProfile, RunSpec};
use dirigent_core::steering::Steering;
use dirigent_core::time::Millis;
use dirigent_core::tool::ToolSpec;
use dirigent_core::view::{Event, RunView};
use dirigent_model::{ChatModel, OfflineModel};
use dirigent_runtime::{
    Events, Orchestrator, RunHandle, Services, Steered, UserPresence, read_run, record_run,
};
use dirigent_store::{Journal, RunRecord};
use dirigent_tools::{Tool, ToolRegistry};

use crate::agents::{self, AgentDefinition};
use crate::config::{Config, ConfiguredModels};
use crate::{DirigentError, Goal, default_journal};

/// Builds a [`Dirigent`].
pub struct Builder {
    journal: Option<PathBuf>,
    config: Option<Config>,
    model: Option<Arc<dyn ChatModel>>,
    profile: ModelProfile,
    tools: ToolRegistry,
    agents: Vec<AgentDefinition>,
}

impl Builder {
    /// The journal's file; it is created if it is not there. [`default_journal`] if not said.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(path.into());
        self
    }

    /// The models, who asks which, and what bounds runs whose goal doesn't say.
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

    /// One more tool; it replaces a built-in one of its name. Plans may call it; an agent may if it names it.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.insert(tool);
        self
    }

    /// One more sub-agent; it replaces the one of its name.
    pub fn agent(mut self, agent: AgentDefinition) -> Self {
        self.agents.retain(|other| other.name() != agent.name());
        self.agents.push(agent);
        self
    }

    /// Looks whether the agents and the models of the configuration fit together. Opens and starts nothing.
    ///
    /// # Errors
    /// A role of an agent that there is not, a model that is not configured. A key that is not set is found when building.
    pub fn check(&self) -> Result<(), DirigentError> {
        if let Some(config) = &self.config {
            config.check_roles(self.agents.iter().map(AgentDefinition::name))?;
        }
        for agent in &self.agents {
            if ["planner", "reflector"].contains(&agent.name()) {
                return Err(DirigentError::Agent {
                    name: agent.name().to_owned(),
                    reason: "this is the name of one that every run has: give the sub-agent another"
                        .to_owned(),
                });
            }
            let _ = self.model_of(agent)?;
        }
        Ok(())
    }

    /// Opens the journal and starts the orchestrator in the present tokio runtime.
    ///
    /// # Errors
    /// What is wrong with the journal, an agent's definition or the configuration.
    pub async fn build(self) -> Result<Dirigent, DirigentError> {
        self.check()?;
        let configured = match (&self.config, &self.model) {
            (Some(config), None) => Some(config.models()?),
            (Some(_) | None, _) => None,
        };
        let path = self.journal.clone().map_or_else(default_journal, Ok)?;
        let journal = match tokio::task::spawn_blocking(move || Journal::open(&path)).await {
            Ok(journal) => journal?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        let model = match (&configured, &self.model) {
            (_, Some(model)) => model.clone(),
            (Some(configured), None) => Arc::new(configured.clone()),
            (None, None) => Arc::new(OfflineModel),
        };
        let services = Services::new(journal.clone(), model, self.tools.clone());
        let crew = self.crew(services.tools().specs())?;
        for agent in crew.all() {
            if let (Some(configured), Some(model)) = (&configured, &agent.model) {
                configured.prepare(model)?;
            }
        }
        let orchestrator = Orchestrator::start_up(services).await?;
        Ok(Dirigent {
            orchestrator,
            journal,
            crew: Arc::new(crew),
            configured,
        })
    }

    /// All agents with their models, and the tools.
    fn crew(&self, tools: Vec<ToolSpec>) -> Result<Crew, DirigentError> {
        let limits = self.config.as_ref().map(Config::limits).unwrap_or_default();
        Crew::new(&self.agents, tools, limits, |agent| self.model_of(agent))
    }

    /// The model that an agent asks, and what is known of it.
    fn model_of(&self, agent: &AgentDefinition) -> Result<AgentModel, DirigentError> {
        let Some(config) = &self.config else {
            return Ok(AgentModel {
                name: agent.own_model().map(str::to_owned),
                asks: None,
                profile: self.profile,
                timeout: None,
            });
        };
        let of_all = match agent.answer() {
            AnswerForm::Text => config.role("agents"),
            AnswerForm::Plan | AnswerForm::Reflection => None,
        };
        let model = config
            .role(agent.name())
            .or(agent.own_model())
            .or(of_all)
            .unwrap_or(config.default_model());
        Ok(AgentModel {
            name: Some(model.to_owned()),
            asks: Some(config.model(model)?.to_string()),
            profile: config.profile(model)?,
            timeout: config.agent_timeout(),
        })
    }
}

/// The model that an agent asks.
#[derive(Default)]
struct AgentModel {
    name: Option<String>,
    /// What the name stands for.
    asks: Option<String>,
    profile: ModelProfile,
    /// How long the agent may take, where its definition says nothing else.
    timeout: Option<Millis>,
}

/// What every run is started with.
struct Crew {
    definitions: Vec<AgentDefinition>,
    planner: AgentSpec,
    reflector: AgentSpec,
    agents: Vec<AgentSpec>,
    limits: RunLimits,
    tools: Vec<ToolSpec>,
}

impl Crew {
    /// Those sub-agents, the planner and the reflector, each prompted as suits its model.
    fn new(
        definitions: &[AgentDefinition],
        tools: Vec<ToolSpec>,
        limits: RunLimits,
        model_of: impl Fn(&AgentDefinition) -> Result<AgentModel, DirigentError>,
    ) -> Result<Self, DirigentError> {
        let outlines: Vec<AgentSpec> = definitions.iter().map(AgentDefinition::outline).collect();
        let spec = |agent: &AgentDefinition| {
            let model = model_of(agent)?;
            let mut spec = agent.spec(&tools, &outlines, model.name, model.profile)?;
            spec.asks = model.asks;
            if let Some(timeout) = model.timeout
                && spec.limits.timeout == AgentLimits::default().timeout
            {
                spec.limits.timeout = timeout;
            }
            Ok::<_, DirigentError>(spec)
        };
        Ok(Crew {
            planner: spec(&agents::planner())?,
            reflector: spec(&agents::reflector())?,
            agents: definitions.iter().map(spec).collect::<Result<_, _>>()?,
            definitions: definitions.to_vec(),
            limits,
            tools,
        })
    }

    /// The same with the models of a recorded run: what they were is part of the recording, as is how they were prompted to call tools.
    fn with_models_of(&self, recorded: &RunSpec) -> Result<Self, DirigentError> {
        let recorded: Vec<&AgentSpec> = [&recorded.planner, &recorded.reflector]
            .into_iter()
            .chain(&recorded.agents)
            .collect();
        let model_of = |agent: &AgentDefinition| {
            let of_that_name = recorded.iter().find(|other| other.name == agent.name());
            Ok(of_that_name.map_or_else(AgentModel::default, |other| AgentModel {
                name: other.model.clone(),
                asks: other.asks.clone(),
                profile: other.profile,
                timeout: Some(other.limits.timeout),
            }))
        };
        Crew::new(
            &self.definitions,
            self.tools.clone(),
            self.limits.clone(),
            model_of,
        )
    }

    fn all(&self) -> impl Iterator<Item = &AgentSpec> {
        [&self.planner, &self.reflector].into_iter().chain(&self.agents)
    }

    fn spec(&self, goal: String, workspace: String, limits: Option<RunLimits>) -> RunSpec {
        RunSpec {
            goal,
            workspace,
            limits: limits.unwrap_or_else(|| self.limits.clone()),
            planner: self.planner.clone(),
            reflector: self.reflector.clone(),
            agents: self.agents.clone(),
            tools: self.tools.clone(),
            policy: Policy::default(),
        }
    }
}

/// An orchestrator. Clones are the same one; when the last is dropped, its runs stop where they are, to be resumed
/// another time.
#[derive(Clone)]
pub struct Dirigent {
    orchestrator: Orchestrator,
    journal: Journal,
    crew: Arc<Crew>,
    /// The models of the configuration, where they are what is asked.
    configured: Option<ConfiguredModels>,
}

impl Dirigent {
    /// The default: the offline model, the built-in tools and agents.
    pub fn builder() -> Builder {
        Builder {
            journal: None,
            config: None,
            model: None,
            profile: ModelProfile::default(),
            tools: dirigent_tools::built_in(),
            agents: agents::built_in(),
        }
    }

    /// Starts a run.
    ///
    /// # Errors
    /// [`DirigentError::EmptyGoal`], [`DirigentError::Workspace`], or what is wrong with the journal. Nothing has happened
    /// then.
    pub async fn start(&self, goal: Goal) -> Result<RunHandle, DirigentError> {
        let (text, workspace) = (goal.checked_text()?, goal.checked_workspace()?);
        let spec = self.crew.spec(text, workspace, goal.limits);
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
    /// let run = dirigent.replay(&recording, Goal::of(&recording)).await?;
    /// assert!(run.outcome().await?.is_achieved());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`dirigent_runtime::RuntimeError::Different`] with the first difference; nothing is journaled then. What is wrong with
    /// the journal.
    pub async fn replay(&self, recording: &Recording, goal: Goal) -> Result<RunHandle, DirigentError> {
        // It is compared, not opened.
        let workspace = goal.workspace.to_string_lossy().into_owned();
        let crew = self.crew.with_models_of(recording.spec())?;
        let present = crew.spec(goal.checked_text()?, workspace, goal.limits);
        Ok(self.orchestrator.replay(recording.clone(), present).await?)
    }

    /// Goes on with a run where its journal ends (HOST-2), with the answer to its question if it stopped with one. Its agents ask the
    /// models that it was started with, by their names in the configuration.
    ///
    /// # Errors
    /// A run that is over, held by another process, or that asked nothing where there is an answer; a model of its that is no longer
    /// configured. Nothing has happened then.
    pub async fn resume(
        &self,
        run: RunId,
        user: UserPresence,
        answer: Option<String>,
    ) -> Result<RunHandle, DirigentError> {
        self.prepare_models_of(run).await?;
        Ok(self.orchestrator.resume(run, user, answer).await?)
    }

    /// Sets up the models that a run was started with. What else is wrong with it is told when it is resumed.
    async fn prepare_models_of(&self, run: RunId) -> Result<(), DirigentError> {
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
                configured.check_same(model, agent.asks.as_deref())?;
                configured.prepare(model)?;
            }
        }
        Ok(())
    }

    /// Starts a new run that shares the first `at` entries of another's journal, up to its end where that is not said, and goes on from
    /// there with the guidance, if there is any (HOST-9). The run itself stays as it is.
    ///
    /// Only what the journal has is shared: the files of the workspace are not wound back, and both runs work in the same folder.
    ///
    /// # Errors
    /// [`dirigent_runtime::RuntimeError::NoFork`] where there is no such entry or the run is over after it; a model of its that is no
    /// longer configured. Nothing has happened then.
    pub async fn fork(
        &self,
        run: RunId,
        at: Option<u64>,
        guidance: Option<String>,
        user: UserPresence,
    ) -> Result<RunHandle, DirigentError> {
        self.prepare_models_of(run).await?;
        Ok(self.orchestrator.fork(run, at, guidance, user).await?)
    }

    /// Says something to any run of the journal: guidance, a decision about a call, an answer, or that it is to end. Where this process
    /// carries the run out it goes to the run, else by the journal to the process that does; what is said to a run that nobody carries
    /// out waits until it goes on, even if this process ends. It is taken exactly once.
    ///
    /// # Errors
    /// Why it does not count, as [`RunHandle::steer`] says it; where another process carries the run out, in
    /// [`dirigent_runtime::RuntimeError::Refused`].
    pub async fn steer(&self, run: RunId, steering: Steering) -> Result<Steered, DirigentError> {
        Ok(self.orchestrator.steer(run, steering).await?)
    }

    /// A run that is under way here.
    pub fn run(&self, run: RunId) -> Option<RunHandle> {
        self.orchestrator.run(run)
    }

    /// The events of any run of the journal, from its beginning; of one that another process carries out those that there are now.
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

    /// A run as its journal has it now, with its events. Reads the disk.
    ///
    /// # Errors
    /// What is wrong with the journal.
    pub fn read(&self, run: RunId) -> Result<(RunView, Vec<Event>), DirigentError> {
        Ok(read_run(&self.journal, run)?)
    }
}

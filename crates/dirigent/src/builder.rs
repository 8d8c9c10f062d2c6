//! Building an orchestrator, and what can be done with it.

use std::path::PathBuf;
use std::sync::Arc;

use dirigent_core::id::RunId;
use dirigent_core::limits::RunLimits;
use dirigent_core::recording::Recording;
use dirigent_core::spec::RunSpec;
use dirigent_core::tool::ToolSpec;
use dirigent_core::view::{Event, RunView};
use dirigent_model::{ChatModel, OfflineModel};
use dirigent_runtime::{Events, Orchestrator, RunHandle, Services, UserPresence, read_run, record_run};
use dirigent_store::{Journal, RunRecord};
use dirigent_tools::{Tool, ToolRegistry};

use crate::agents::{self, AgentDefinition};
use crate::{DirigentError, Goal, default_journal};

/// Builds a [`Dirigent`].
pub struct Builder {
    journal: Option<PathBuf>,
    model: Arc<dyn ChatModel>,
    tools: ToolRegistry,
    agents: Vec<AgentDefinition>,
}

impl Builder {
    /// The journal's file; it is created if it is not there. [`default_journal`] if not said.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(path.into());
        self
    }

    /// The model that every agent asks; [`OfflineModel`] if not said.
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.model = Arc::new(model);
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

    /// Opens the journal and starts the orchestrator in the present tokio runtime.
    ///
    /// # Errors
    /// What is wrong with the journal or an agent's definition.
    pub async fn build(self) -> Result<Dirigent, DirigentError> {
        let path = self.journal.map_or_else(default_journal, Ok)?;
        let journal = match tokio::task::spawn_blocking(move || Journal::open(&path)).await {
            Ok(journal) => journal?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        let services = Services::new(journal.clone(), self.model, self.tools);
        let tools = services.tools().specs();
        let crew = Crew::new(&self.agents, tools)?;
        let orchestrator = Orchestrator::start_up(services).await?;
        Ok(Dirigent {
            orchestrator,
            journal,
            crew: Arc::new(crew),
        })
    }
}

/// What every run is started with.
struct Crew {
    planner: dirigent_core::spec::AgentSpec,
    reflector: dirigent_core::spec::AgentSpec,
    agents: Vec<dirigent_core::spec::AgentSpec>,
    tools: Vec<ToolSpec>,
}

impl Crew {
    fn new(agents: &[AgentDefinition], tools: Vec<ToolSpec>) -> Result<Self, DirigentError> {
        Ok(Crew {
            planner: agents::planner().spec(&tools)?,
            reflector: agents::reflector().spec(&tools)?,
            agents: agents
                .iter()
                .map(|agent| agent.spec(&tools))
                .collect::<Result<_, _>>()?,
            tools,
        })
    }

    fn spec(&self, goal: String, workspace: String, limits: RunLimits) -> RunSpec {
        RunSpec {
            goal,
            workspace,
            limits,
            planner: self.planner.clone(),
            reflector: self.reflector.clone(),
            agents: self.agents.clone(),
            tools: self.tools.clone(),
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
}

impl Dirigent {
    /// The default: the offline model, the built-in tools and agents.
    pub fn builder() -> Builder {
        Builder {
            journal: None,
            model: Arc::new(OfflineModel),
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

    /// Replays a recording with the agents, prompts and tools of this orchestrator, and journals it as a new run, which has ended
    /// when this returns (HOST-9). No model is asked, no tool runs, and the workspace need not exist. So a recorded run is a
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
        let present = self.crew.spec(goal.checked_text()?, workspace, goal.limits);
        Ok(self.orchestrator.replay(recording.clone(), present).await?)
    }

    /// Goes on with a run where its journal ends (HOST-2), with the answer to its question if it stopped with one.
    ///
    /// # Errors
    /// A run that is over, held by another process, or that asked nothing where there is an answer.
    pub async fn resume(
        &self,
        run: RunId,
        user: UserPresence,
        answer: Option<String>,
    ) -> Result<RunHandle, DirigentError> {
        Ok(self.orchestrator.resume(run, user, answer).await?)
    }

    /// A run that is under way here.
    pub fn run(&self, run: RunId) -> Option<RunHandle> {
        self.orchestrator.run(run)
    }

    /// The events of any run of the journal, from its beginning.
    pub fn events(&self, run: RunId) -> Events {
        self.orchestrator.events(run)
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

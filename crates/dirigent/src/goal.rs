//! The goal of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::agent_spec::ModelProfile;
use dirigent_core::limits::{AgentLimitSettings, RunLimits};
use dirigent_core::mode::Mode;
use dirigent_core::policy::Policy;
use dirigent_core::recording::Recording;
use dirigent_core::spec::{AskedService, GoalFile, ServiceEndpoints, UsedWorkflow};
use dirigent_core::tool::ToolSpec;
use dirigent_core::turn::Turn;
use dirigent_model::ChatModel;
use dirigent_runtime::{RunServices, UserPresence, WhenShared};
use dirigent_tools::Tool;

use crate::DirigentError;
use crate::agents::{AgentDefinition, GoalAgentLimits};
use crate::services::ServiceAccess;

/// A goal with its workspace, its limits, and its own model, tools, sub-agents and rules, if it has any.
#[derive(Clone, Debug)]
pub struct Goal {
    pub(crate) text: String,
    pub(crate) workspace: PathBuf,
    /// `None` for the limits of the configuration.
    pub(crate) limits: Option<RunLimits>,
    pub(crate) agent_limits: GoalAgentLimits,
    pub(crate) user: UserPresence,
    pub(crate) mode: Mode,
    pub(crate) location: RunLocation,
    pub(crate) when_shared: WhenShared,
    pub(crate) instructions: ProjectInstructions,
    /// The files that the lead reads with the goal.
    pub(crate) files: Vec<GoalFile>,
    /// The workflow that the goal comes from, whose restrictions apply to the run.
    pub(crate) workflow: Option<UsedWorkflow>,
    /// The name of the lead's base system prompt; `None` for the configured prompt or, without one, the default prompt.
    pub(crate) system_prompt: Option<String>,
    /// The position of the run in its conversation.
    pub(crate) turn: Option<Turn>,
    /// The services that the text asks for. Set when the run starts.
    pub(crate) services: Vec<AskedService>,
    /// Whether a turn begins with a summary of its conversation.
    pub(crate) compact: bool,
    pub(crate) own: OwnParts,
}

/// The folder or worktree in which a run works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunLocation {
    /// The run works in the workspace itself.
    Workspace,
    /// The run works in a new git worktree of the workspace's repository.
    NewWorktree,
}

/// Whether a run's agents receive the project's instructions (LEAD-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProjectInstructions {
    /// The configuration decides.
    Configured,
    NotRead,
}

/// The model, tools and sub-agents that a goal adds to those of its orchestrator.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnParts {
    pub(crate) services: RunServices,
    pub(crate) profile: ModelProfile,
    pub(crate) agents: Vec<AgentDefinition>,
    pub(crate) policy: Policy,
    /// The tools that the run's agents may have from services. The orchestrator's services execute them.
    pub(crate) service_tools: Vec<ToolSpec>,
    /// The services of the run's project, which its agents may use in addition to the services of all runs.
    pub(crate) service_access: ServiceAccess,
    /// The digest of the program or the address of each service that the run may use.
    pub(crate) service_endpoints: ServiceEndpoints,
    /// The reference of the model to ask in place of the default model; `None` for the default model.
    pub(crate) default_model: Option<String>,
}

impl Goal {
    /// Creates a goal in the user's words, with the current folder as its workspace, the limits of the configuration (or the default limits), and
    /// no user to answer questions.
    pub fn new(text: impl Into<String>) -> Self {
        Goal {
            text: text.into(),
            workspace: PathBuf::from("."),
            limits: None,
            agent_limits: GoalAgentLimits::default(),
            user: UserPresence::Absent,
            mode: Mode::Auto,
            location: RunLocation::Workspace,
            when_shared: WhenShared::default(),
            instructions: ProjectInstructions::Configured,
            files: Vec::new(),
            workflow: None,
            system_prompt: None,
            turn: None,
            services: Vec::new(),
            compact: false,
            own: OwnParts::default(),
        }
    }

    /// Creates the goal of a recorded run, with the recorded workspace, limits, mode, files and workflow restrictions, for
    /// [`crate::Dirigent::replay`].
    pub fn from_recording(recording: &Recording) -> Self {
        let spec = recording.spec();
        let goal = Goal::new(spec.goal.clone())
            .workspace(spec.workspace.clone())
            .limits(spec.limits.clone())
            .mode(spec.mode);
        Goal {
            files: spec.files.clone(),
            workflow: spec.workflow.as_deref().cloned(),
            turn: spec.turn.as_deref().cloned(),
            services: spec.services.clone(),
            ..goal
        }
    }

    /// Applies the workflow's restrictions to the run.
    pub(crate) fn workflow(self, workflow: UsedWorkflow) -> Self {
        Goal {
            workflow: Some(workflow),
            ..self
        }
    }

    /// Appends a sentence to the text, unless the text is empty.
    pub fn append(mut self, sentence: &str) -> Self {
        let text = self.text.trim();
        if !text.is_empty() {
            self.text = format!("{}. {sentence}", text.trim_end_matches('.'));
        }
        self
    }

    /// Replaces the text.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Sets the base system prompt with which the lead's system prompt begins (PROMPT-1), by its name in [`crate::Dirigent::system_prompts`].
    pub fn system_prompt(mut self, name: impl Into<String>) -> Self {
        self.system_prompt = Some(name.into());
        self
    }

    /// Sets the folder in which agents and tools work. File tools stay inside it; commands start in it.
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workspace = folder.into();
        self
    }

    /// Makes the run work in its own git worktree: a new working tree of the workspace's repository, at the commit that is checked out
    /// there, next to the journal. The workspace is unchanged until the changes are applied to it ([`crate::RunWorktree::apply`]), and its
    /// uncommitted changes are not in the worktree. [`crate::Dirigent::worktree`] finds the worktree of a run.
    pub fn in_worktree(mut self) -> Self {
        self.location = RunLocation::NewWorktree;
        self
    }

    /// Sets what happens if other active runs of the journal, in any process, work in the workspace or in a folder above or below it. The
    /// default is [`WhenShared::GoOn`]. A run in its own worktree does not share its folder with any other run.
    pub fn when_shared(mut self, when: WhenShared) -> Self {
        self.when_shared = when;
        self
    }

    /// Sets the limits of the run.
    pub fn limits(mut self, limits: RunLimits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets limits of one agent in this run: of the lead (`lead`), the reflector (`reflector`) or a sub-agent, by its name. They take precedence
    /// over the agent's definition and the configuration; a limit that is `None` is not changed.
    ///
    /// ```
    /// use dirigent::{AgentLimitSettings, Goal};
    ///
    /// let more_turns = AgentLimitSettings { max_turns: Some(120), ..AgentLimitSettings::default() };
    /// let goal = Goal::new("Find every caller of `load`").agent_limits("lead", more_turns);
    /// ```
    pub fn agent_limits(mut self, agent: impl Into<String>, limits: impl Into<AgentLimitSettings>) -> Self {
        self.agent_limits.set(agent.into(), limits.into());
        self
    }

    /// Sets limits of every agent in this run, including lead and reflector, unless [`Goal::agent_limits`] sets them for an agent.
    pub fn all_agent_limits(mut self, limits: impl Into<AgentLimitSettings>) -> Self {
        self.agent_limits.set_all(limits.into());
        self
    }

    /// Sets whether a user answers the run's questions with [`dirigent_runtime::RunHandle::answer`].
    pub fn user(mut self, user: UserPresence) -> Self {
        self.user = user;
        self
    }

    /// Sets which actions the lead may take itself, and whether its plans wait for approval (LEAD-2). The default is [`Mode::Auto`]. A
    /// waiting plan is a call of the tool `submit_plan` that needs approval, with the plan as its parameters. It is approved or rejected
    /// like any other call.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Begins a turn of a conversation with the model's summary of the earlier messages, which replaces most of them (LOOP-11). Has no
    /// effect on a first turn or outside a conversation.
    pub fn compact(mut self) -> Self {
        self.compact = true;
        self
    }

    /// Does not give the agents the project's instructions (LEAD-4): its `AGENTS.md` or `CLAUDE.md`, with the files that they import. By
    /// default, the lead and every sub-agent receive them. They cannot widen what the agents may do.
    pub fn without_instructions(mut self) -> Self {
        self.instructions = ProjectInstructions::NotRead;
        self
    }

    /// Sets the model of all agents in this run. By default, they ask the models of the orchestrator.
    ///
    /// The model and the tools of a goal are not journaled: if the run is resumed, give them again, with [`Resume::model`] and
    /// [`Resume::tool`]. Its sub-agents, rules and limits are journaled.
    ///
    /// ```
    /// use dirigent::{Goal, OfflineModel};
    ///
    /// let goal = Goal::new("Count the lines in notes.txt").model(OfflineModel);
    /// ```
    ///
    /// [`Resume::model`]: crate::Resume::model
    /// [`Resume::tool`]: crate::Resume::tool
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.own.services.model = Some(Arc::new(model));
        self
    }

    /// Sets the default model of this run by its reference in the configuration, such as the name of a `[models.NAME]` table, `offline` or `provider/name`. Agents for which
    /// the configuration or their definition names a model still ask that one. The reference is journaled, so the run is resumed with the same model.
    ///
    /// Without a configuration, each request to the orchestrator's only model names the reference.
    pub fn default_model(mut self, reference: impl Into<String>) -> Self {
        self.own.default_model = Some(reference.into());
        self
    }

    /// Sets the profile of the model set with [`Goal::model`]: how it calls tools, its context window and its price.
    pub fn profile(mut self, profile: ModelProfile) -> Self {
        self.own.profile = profile;
        self
    }

    /// Adds a tool to this run, which replaces a tool of the same name. Plans may call it, and so may agents that list it and have the access
    /// that it needs.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.own.services.tools.insert(tool);
        self
    }

    /// Adds a sub-agent to this run, which replaces a sub-agent of the same name.
    pub fn agent(mut self, agent: AgentDefinition) -> Self {
        self.own.agents.retain(|other| other.name() != agent.name());
        self.own.agents.push(agent);
        self
    }

    /// Adds rules to the orchestrator's rules for this run: which calls run without approval, which need approval, and which are refused
    /// (APPROVE-1).
    pub fn policy(mut self, policy: Policy) -> Self {
        self.own.policy = policy;
        self
    }

    pub(crate) fn checked_text(&self) -> Result<String, DirigentError> {
        let text = self.text.trim();
        if text.is_empty() {
            Err(DirigentError::EmptyGoal)
        } else {
            Ok(text.to_owned())
        }
    }

    /// Returns the absolute path of the workspace, if it is a readable folder.
    pub(crate) fn checked_workspace(&self) -> Result<String, DirigentError> {
        let workspace_error = |reason: String| DirigentError::Workspace {
            path: self.workspace.clone(),
            reason,
        };
        let folder = self
            .workspace
            .canonicalize()
            .map_err(|error| workspace_error(reason(&self.workspace, &error)))?;
        if !folder.is_dir() {
            return Err(workspace_error(
                "it is not a folder: give the project's folder".to_owned(),
            ));
        }
        std::fs::read_dir(&folder).map_err(|error| workspace_error(reason(&folder, &error)))?;
        match folder.into_os_string().into_string() {
            Ok(text) => Ok(text),
            Err(_) => Err(workspace_error(
                "its path is not valid UTF-8: rename the folder, or move it".to_owned(),
            )),
        }
    }
}

fn reason(folder: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such folder".to_owned(),
        std::io::ErrorKind::PermissionDenied => "no permission to read it: check its permissions".to_owned(),
        _ => format!("{error} ({})", folder.display()),
    }
}

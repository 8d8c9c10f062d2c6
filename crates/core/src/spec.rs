//! The specification with which a run starts. It is journaled completely, so that a run depends only on its journal: later changes to the
//! configuration or the prompts do not affect a resumed or replayed run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::agent_spec::AgentSpec;
use crate::brief::AgentRole;
use crate::call::ToolSet;
use crate::limits::RunLimits;
use crate::message::Usage;
use crate::mode::Mode;
use crate::policy::Rule;
use crate::prompt::{self, SharedProject, UsableEnvironment};
use crate::setup::{AgentIndex, DelegationDepth, OfferedTools, SharedSetup};
use crate::text::shorten;
use crate::tool::ToolCategory;
use crate::turn::{EarlierTurns, ReadyAnswer, Turn};
use serde::{Deserialize, Serialize};

pub use crate::goal::{AskedService, GoalFile};

/// The goal of a run, and everything that determines how the run pursues it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The goal as the user wrote it.
    pub goal: String,
    /// Absolute path of the folder in which tools work.
    pub workspace: String,
    /// The limits of the run.
    pub limits: RunLimits,
    /// The agents, tools and rules of the run.
    pub setup: SharedSetup,
    /// Which actions the lead may take itself, and whether its plans wait for the user (LEAD-2).
    #[serde(default, skip_serializing_if = "Mode::is_auto")]
    pub mode: Mode,
    /// The files of the workspace that the goal mentions and includes, as they were when the run started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<GoalFile>,
    /// The run's place in its conversation; `None` outside of a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Box<Turn>>,
    /// The git worktree that was made for the run and contains its workspace; `None` if the run works in the user's own folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Box<Worktree>>,
    /// The description of the project for the agents (LEAD-4); `None` if nothing was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<SharedProject>,
    /// The requests that were sent before the run started, to find out how models call tools (CALL-4). They count towards the run's usage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<PreparatoryRequest>,
    /// Whether the run reads its net diff for the reflector (PAOR-6). False in journals of earlier versions, which have no `DiffRead` entries.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_diff: bool,
    /// The workflow that the user invoked (FLOW-1); `None` if the goal is in the user's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Box<UsedWorkflow>>,
    /// The services of the Model Context Protocol that the goal asks for (MCP-3).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<AskedService>,
    /// A digest of the program or the address of each service that the run may use, by the service's name. A service of this name with
    /// another program or address is never called for the run (APPROVE-3). A service that is missing here is not checked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_endpoints: ServiceEndpoints,
}

/// A digest of the program or the address of each MCP service, by the service's name. Clones share it.
pub type ServiceEndpoints = Arc<BTreeMap<String, String>>;

/// The workflow of a run, and how it restricts the run. `setup` contains the restricted tools and rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedWorkflow {
    /// The name by which the user invoked the workflow.
    pub name: String,
    /// The only tools that the run may have; `None` for no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Rules that ask or deny, in addition to the user's rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// The only sub-agent of the run, which works towards the goal while the lead delegates or plans; `None` for no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The sentence that gave its parameters their values (FLOW-2); `None` if the user gave them by position or name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<Box<UnderstoodSentence>>,
}

/// A sentence in which a model found the values of a workflow's parameters before the run started (FLOW-2). JSON: an object with these
/// fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderstoodSentence {
    /// The user's words.
    pub text: String,
    /// The values that the sentence contains, by parameter.
    pub values: BTreeMap<String, String>,
    /// The parameters for which the model gave a value that is not in the sentence. Such a value is not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invented: Vec<String>,
    /// The requests to the model. They count towards the run's usage.
    pub requests: Vec<PreparatoryRequest>,
}

/// A git worktree that was made for one run. JSON: an object with these fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// Absolute path of the folder that the user named as the workspace, to which the run's changes can be applied.
    pub origin: String,
    /// Absolute path of the worktree. The run's workspace is this folder, or a folder in it if `origin` is not the root of its repository.
    pub folder: String,
    /// The commit that was checked out.
    pub commit: String,
    /// The number of files in the user's repository that differed from this commit when the run started. The worktree does not have their
    /// changes.
    pub uncommitted: u64,
}

/// A request to a model before the run started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparatoryRequest {
    /// The model's name, from its reply or else from the configuration.
    pub model: String,
    /// The usage of the request.
    pub usage: Usage,
}

impl RunSpec {
    /// The requests to models before the run started: those that found out how models call tools, and those that understood a sentence.
    pub fn preparatory_requests(&self) -> impl Iterator<Item = &PreparatoryRequest> {
        let workflow = self.workflow.iter();
        let sentences = workflow.filter_map(|workflow| workflow.sentence.as_deref());
        self.probes
            .iter()
            .chain(sentences.flat_map(|sentence| &sentence.requests))
    }

    /// The usage of all requests before the run started.
    pub fn preparation_usage(&self) -> Usage {
        let mut total = Usage::default();
        self.preparatory_requests()
            .for_each(|request| total += request.usage);
        total
    }

    /// The only sub-agent of the run, if its workflow names one.
    pub fn only_agent(&self) -> Option<&str> {
        self.workflow.as_ref()?.agent.as_deref()
    }

    /// The context from earlier turns of the run's conversation; `None` if there are none.
    pub fn earlier_turns(&self) -> Option<&EarlierTurns> {
        self.turn.as_ref()?.earlier.as_ref()
    }

    /// The answer that was known before the run; the run returns it at once, without asking a model. `None` if the lead
    /// answers.
    pub fn ready_answer(&self) -> Option<&ReadyAnswer> {
        self.turn.as_ref()?.answer.as_ref()
    }

    /// All tools of the run, with their validators.
    pub fn tool_set(&self) -> &ToolSet {
        &self.setup.tables().tools
    }

    /// The tools `submit_plan` and `submit_reflection`.
    pub(crate) fn submissions(&self) -> &ToolSet {
        &self.setup.tables().submissions
    }

    /// The system prompt of an agent that works at this depth of delegation.
    pub(crate) fn system_prompt<'a>(&self, agent: &'a AgentSpec, depth: u32) -> &'a str {
        let deepest = match self.delegation_depth(depth) {
            DelegationDepth::BelowMax => None,
            DelegationDepth::Max => agent.deepest_prompt.as_deref(),
        };
        deepest.unwrap_or(&agent.system_prompt)
    }

    /// Returns the text that an agent with this role receives before its task: the project, and for a sub-agent the run's goal (LEAD-4).
    /// Empty, or ends with a line break. Takes up at most a quarter of the model's context window. Empty for the reflector, which judges by
    /// its request alone, so that no file of the project influences it.
    pub(crate) fn preamble(&self, role: &AgentRole, agent: &AgentSpec) -> Arc<str> {
        let Some(project) = &self.project else {
            return "".into();
        };
        let window = agent.profile.context_window.unwrap_or(u64::MAX);
        // A token has about four characters.
        let max = usize::try_from(window).unwrap_or(usize::MAX);
        let project = project.prompt(self.usable_environment(role, agent));
        let told = match shorten(project, max, None) {
            Cow::Borrowed(_) => project.clone(),
            Cow::Owned(shortened) => shortened.into(),
        };
        match role {
            AgentRole::Reflector => "".into(),
            AgentRole::Lead => told,
            AgentRole::Sub(_) => format!("{told}{}\n", prompt::run_goal(&self.goal)).into(),
        }
    }

    /// The lead knows everything, because it plans for all agents; a sub-agent only what its tools can use.
    fn usable_environment(&self, role: &AgentRole, agent: &AgentSpec) -> UsableEnvironment {
        let has = |category| {
            let mut tools = agent.tools.iter().filter_map(|name| self.tool_set().get(name));
            tools.any(|tool| tool.category == category)
        };
        match role {
            AgentRole::Lead | AgentRole::Reflector => UsableEnvironment::ALL,
            AgentRole::Sub(_) => UsableEnvironment {
                commands: has(ToolCategory::Commands),
                databases: has(ToolCategory::Data),
            },
        }
    }

    /// The tools offered to an agent that works at this depth of delegation.
    pub(crate) fn offer(&self, agent: AgentIndex, depth: u32) -> &OfferedTools {
        self.setup.tables().offer(agent, self.delegation_depth(depth))
    }

    fn delegation_depth(&self, depth: u32) -> DelegationDepth {
        if depth < self.limits.max_depth {
            DelegationDepth::BelowMax
        } else {
            DelegationDepth::Max
        }
    }
}

//! The setup of runs: their agents, tools and rules. All runs of one configuration share a setup and the data derived from it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::agent_spec::{AgentSpec, AnswerForm, DELEGATE};
use crate::brief::AgentRole;
use crate::call::{CallForm, ToolSet, reply_schema};
use crate::delegation::delegate_tool;
use crate::loop_tools::{loop_tools, service_tools};
use crate::policy::Policy;
use crate::shared_text::SharedText;
use crate::submission::submission_tool;
use crate::token_ratio::estimated_tokens;
use crate::tool::ToolSpec;

/// The agents, tools and rules of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSetup {
    /// The agent that plans.
    pub lead: AgentSpec,
    /// The agent that reflects.
    pub reflector: AgentSpec,
    /// The sub-agents, which execute sub-tasks.
    pub agents: Vec<AgentSpec>,
    /// All tools of the run. Plans may call any of them; an agent may call only the tools that its spec lists.
    pub tools: Vec<ToolSpec>,
    /// The rules that allow, ask about or deny calls.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// The number of rules at the end of `policy` that the user added to always allow calls. All earlier rules come from the configuration
    /// or the program.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub approval_rules: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl RunSetup {
    /// The index of the agent with this role; `None` if there is no such agent.
    pub(crate) fn agent_index(&self, role: &AgentRole) -> Option<AgentIndex> {
        match role {
            AgentRole::Lead => Some(AgentIndex::Lead),
            AgentRole::Reflector => Some(AgentIndex::Reflector),
            AgentRole::Sub(name) => {
                let index = self.agents.iter().position(|agent| agent.name == *name)?;
                Some(AgentIndex::Sub(index))
            }
        }
    }

    /// The agent at an index of this setup.
    pub(crate) fn agent_at(&self, index: AgentIndex) -> &AgentSpec {
        match index {
            AgentIndex::Lead => &self.lead,
            AgentIndex::Reflector => &self.reflector,
            AgentIndex::Sub(index) => &self.agents[index],
        }
    }

    /// The agent with this role; `None` if there is no such agent.
    pub fn agent_with_role(&self, role: &AgentRole) -> Option<&AgentSpec> {
        Some(self.agent_at(self.agent_index(role)?))
    }

    /// The sub-agent with this name; `None` if there is no such agent.
    pub fn agent(&self, name: &str) -> Option<&AgentSpec> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// Returns the tools offered to an agent of this setup: the tools of its spec, and the tools of the agent loop.
    pub fn offered_tools(&self, agent: &AgentSpec) -> Vec<ToolSpec> {
        let delegate = delegate_of(agent, self, DelegationDepth::BelowMax);
        let offered = OfferedTools::new(agent, self, delegate);
        Arc::unwrap_or_clone(offered.tools)
    }

    /// The lead, the reflector and the sub-agents, in this order.
    pub fn all_agents(&self) -> impl Iterator<Item = &AgentSpec> {
        [&self.lead, &self.reflector].into_iter().chain(&self.agents)
    }
}

/// The position of an agent's spec in its [`RunSetup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentIndex {
    Lead,
    Reflector,
    Sub(usize),
}

/// A [`RunSetup`] that many runs share. Clones are cheap. The tools' validators, the tools offered to each agent and the JSON text are built
/// when they are first needed, once for all runs; changing the setup through [`DerefMut`] discards them.
#[derive(Clone)]
pub struct SharedSetup(Arc<Shared>);

struct Shared {
    setup: RunSetup,
    tables: OnceLock<Tables>,
    text: OnceLock<Option<SetupText>>,
}

/// The JSON of a setup, and the same text for the journal.
#[derive(Debug)]
struct SetupText {
    json: Box<RawValue>,
    shared: SharedText,
}

impl Shared {
    fn new(setup: RunSetup) -> Self {
        Shared {
            setup,
            tables: OnceLock::new(),
            text: OnceLock::new(),
        }
    }
}

impl Clone for Shared {
    /// Copies only the setup, not the data derived from it, because a copy is made only to be changed.
    fn clone(&self) -> Self {
        Shared::new(self.setup.clone())
    }
}

impl SharedSetup {
    /// The JSON text of the setup; `None` if the setup has no JSON form.
    pub fn text(&self) -> Option<&SharedText> {
        Some(&self.setup_text()?.shared)
    }

    fn setup_text(&self) -> Option<&SetupText> {
        let build = || {
            let json = to_raw_value(&self.0.setup).ok()?;
            let shared = SharedText::from_pieces([json.get()]);
            Some(SetupText { json, shared })
        };
        self.0.text.get_or_init(build).as_ref()
    }

    pub(crate) fn tables(&self) -> &Tables {
        self.0.tables.get_or_init(|| Tables::new(&self.0.setup))
    }
}

impl From<RunSetup> for SharedSetup {
    fn from(setup: RunSetup) -> Self {
        SharedSetup(Arc::new(Shared::new(setup)))
    }
}

impl Deref for SharedSetup {
    type Target = RunSetup;

    fn deref(&self) -> &RunSetup {
        &self.0.setup
    }
}

impl DerefMut for SharedSetup {
    fn deref_mut(&mut self) -> &mut RunSetup {
        let shared = Arc::make_mut(&mut self.0);
        shared.tables = OnceLock::new();
        shared.text = OnceLock::new();
        &mut shared.setup
    }
}

impl PartialEq for SharedSetup {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.setup == other.0.setup
    }
}

impl std::fmt::Debug for SharedSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.setup.fmt(f)
    }
}

impl Serialize for SharedSetup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.setup_text() {
            Some(text) => text.json.serialize(serializer),
            None => self.0.setup.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SharedSetup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RunSetup::deserialize(deserializer).map(SharedSetup::from)
    }
}

/// Data derived from a setup: the tools' validators, and the tools offered to each agent.
#[derive(Debug)]
pub(crate) struct Tables {
    /// All tools of the run.
    pub(crate) tools: ToolSet,
    /// `submit_plan` and `submit_reflection`.
    pub(crate) submissions: ToolSet,
    offers: Offers,
    /// The tools offered to agents at the maximum depth, where no agent may delegate.
    offers_at_max_depth: Offers,
}

#[derive(Debug)]
struct Offers {
    lead: OfferedTools,
    reflector: OfferedTools,
    agents: Vec<OfferedTools>,
}

impl Tables {
    fn new(setup: &RunSetup) -> Self {
        let submissions = [AnswerForm::Plan, AnswerForm::Reflection]
            .into_iter()
            .filter_map(submission_tool)
            .collect();
        Tables {
            offers: Offers::new(setup, DelegationDepth::BelowMax),
            offers_at_max_depth: Offers::new(setup, DelegationDepth::Max),
            tools: ToolSet::new(setup.tools.clone()),
            submissions: ToolSet::new(submissions),
        }
    }

    /// The tools offered to an agent at this depth.
    pub(crate) fn offer(&self, agent: AgentIndex, depth: DelegationDepth) -> &OfferedTools {
        let offers = match depth {
            DelegationDepth::BelowMax => &self.offers,
            DelegationDepth::Max => &self.offers_at_max_depth,
        };
        match agent {
            AgentIndex::Lead => &offers.lead,
            AgentIndex::Reflector => &offers.reflector,
            AgentIndex::Sub(index) => &offers.agents[index],
        }
    }
}

impl Offers {
    fn new(setup: &RunSetup, depth: DelegationDepth) -> Self {
        let of = |agent| OfferedTools::new(agent, setup, delegate_of(agent, setup, depth));
        Offers {
            lead: of(&setup.lead),
            reflector: OfferedTools::new(&setup.reflector, setup, None),
            agents: setup.agents.iter().map(of).collect(),
        }
    }
}

/// The `delegate` tool generated for an agent; `None` if the agent may not delegate (PAOR-5), or if the setup already has a tool with
/// this name.
fn delegate_of(agent: &AgentSpec, setup: &RunSetup, depth: DelegationDepth) -> Option<ToolSpec> {
    let may_delegate = match depth {
        DelegationDepth::BelowMax => agent.may_delegate(),
        DelegationDepth::Max => false,
    };
    let replaced = setup.tools.iter().any(|tool| tool.name == DELEGATE);
    (may_delegate && !replaced).then(|| delegate_tool(agent.access, &agent.tools, &setup.agents))?
}

/// The tools offered to an agent's model.
#[derive(Debug)]
pub(crate) struct OfferedTools {
    /// The agent's tools in the order of its spec, followed by its terminating tool.
    pub(crate) tools: Arc<Vec<ToolSpec>>,
    /// The names of the agent's tools, without its terminating tool.
    pub(crate) names: Vec<String>,
    /// The tools that the agent's state machine executes itself: `delegate` ([`crate::delegation`]), and those of [`crate::loop_tools`].
    pub(crate) of_machine: ToolSet,
    /// The JSON Schema of replies ([`CallForm::JsonSchema`]); `null` for any other form of calls.
    pub(crate) reply_schema: Arc<Value>,
    /// The estimated tokens that each request needs in addition to its messages: the definitions of native tools, or the schema of replies.
    pub(crate) overhead: u64,
}

impl OfferedTools {
    fn new(agent: &AgentSpec, setup: &RunSetup, delegate: Option<ToolSpec>) -> Self {
        let is_new = |tool: &ToolSpec| setup.tools.iter().all(|other| other.name != tool.name);
        let loop_tools = loop_tools(agent.answer).into_iter().chain(service_tools());
        let loop_tools = loop_tools.filter(|tool| is_new(tool) && agent.tools.contains(&tool.name));
        let of_machine: Vec<ToolSpec> = delegate.into_iter().chain(loop_tools).collect();
        let named = |name: &String| {
            let tools = setup.tools.iter().chain(&of_machine);
            let found = tools.into_iter().find(|tool| tool.name == *name)?;
            Some(found.offered_to(agent.access, agent.answer).into_owned())
        };
        let own: Vec<ToolSpec> = agent.tools.iter().filter_map(named).collect();
        let names = own.iter().map(|tool| tool.name.clone()).collect();
        let tools: Vec<ToolSpec> = own.into_iter().chain(submission_tool(agent.answer)).collect();
        let reply_schema = match agent.profile.calls {
            CallForm::JsonSchema => reply_schema(&tools, agent.answer.allows_text()),
            CallForm::Json
            | CallForm::Native
            | CallForm::ToolCall
            | CallForm::Auto
            | CallForm::AutoNative => Value::Null,
        };
        let overhead = match agent.profile.calls {
            CallForm::Native | CallForm::AutoNative => tools.iter().map(ToolSpec::estimated_tokens).sum(),
            CallForm::JsonSchema => {
                // 18 tokens for the name of the schema and the JSON around it.
                estimated_tokens(&reply_schema.to_string()).saturating_add(18)
            }
            CallForm::Json | CallForm::ToolCall | CallForm::Auto => 0,
        };
        OfferedTools {
            overhead,
            tools: Arc::new(tools),
            names,
            of_machine: ToolSet::new(of_machine),
            reply_schema: Arc::new(reply_schema),
        }
    }
}

/// Whether an agent's depth allows it to delegate.
#[derive(Clone, Copy)]
pub(crate) enum DelegationDepth {
    /// The agent may delegate: its delegates would not exceed the maximum depth.
    BelowMax,
    /// The agent is at the maximum depth and may not delegate.
    Max,
}

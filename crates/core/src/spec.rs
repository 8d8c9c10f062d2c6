//! What a run is started with. All of it is journaled, so that a run is a function of its journal alone: neither the
//! configuration nor the prompts of a later day change what a resumed or replayed run does.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{AgentBrief, AgentRole};
use crate::call::{CallForm, ToolSet, reply_schema};
use crate::delegation::{DELEGATE, delegate_tool};
use crate::limits::{AgentLimits, RunLimits};
use crate::message::estimated_tokens;
use crate::policy::Policy;
use crate::price::Price;
use crate::prompt::{submission_tool, text_allowed};
use crate::tool::{Access, ToolSpec};

/// A run's goal and everything that decides how it is pursued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// What the user wants, in the user's words.
    pub goal: String,
    /// The absolute path of the folder that tools work in.
    pub workspace: String,
    /// The run's limits.
    pub limits: RunLimits,
    /// Who plans.
    pub planner: AgentSpec,
    /// Who reflects.
    pub reflector: AgentSpec,
    /// Who can be given sub-tasks.
    pub agents: Vec<AgentSpec>,
    /// The tools that there are: sub-tasks may call any, an agent those that its spec names.
    pub tools: Vec<ToolSpec>,
    /// Which calls must be approved, and which are never made.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
}

impl RunSpec {
    /// The sub-agent of that name.
    pub fn agent(&self, name: &str) -> Option<&AgentSpec> {
        self.agents.iter().find(|agent| agent.name == name)
    }
}

/// An agent: what it is for, what it may do and how it is prompted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// Its name in plans: `explore`.
    pub name: String,
    /// What it is good for, for the planner.
    pub description: String,
    /// Its whole system prompt, as rendered by [`crate::prompt`].
    pub system_prompt: String,
    /// The same for where it may not delegate, as it is as deep as agents may be ([`RunLimits::max_depth`]); `None` for one that never may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deepest_prompt: Option<String>,
    /// The names of the tools it may call.
    pub tools: Vec<String>,
    /// What those tools may do.
    #[serde(default)]
    pub access: Access,
    /// The model it asks; `None` for the run's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What that name stood for when the run was started, for people: `openai gpt-4.1-mini at https://api.openai.com/v1`. A run that goes
    /// on asks no other. `None` where it was not configured by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// What is known of that model.
    #[serde(default = "ModelProfile::legacy_default")]
    pub profile: ModelProfile,
    /// Its limits.
    #[serde(default)]
    pub limits: AgentLimits,
    /// What it ends with.
    #[serde(default)]
    pub answer: AnswerForm,
}

/// What a run knows of a model: what the machines decide by. Journaled with the run, so that another configuration of a later
/// day changes nothing in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// How it calls tools (CALL-4).
    #[serde(default)]
    pub calls: CallForm,
    /// Tokens that it can read and write in one request; `None` where that is not known (LOOP-11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Tokens that one of its replies may have; `None` for the provider's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// What it costs; of several that may answer the dearest. `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// How many characters of a tool's result it is shown at once: of a longer one the middle is left out, with the handle by which
    /// `read_output` reads it. `None` for all of them, as in journals from before there was this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_result: Option<usize>,
}

impl Default for ModelProfile {
    fn default() -> Self {
        ModelProfile {
            max_result: Some(16 * 1024),
            ..ModelProfile::legacy_default()
        }
    }
}

impl ModelProfile {
    fn legacy_default() -> Self {
        ModelProfile {
            calls: CallForm::default(),
            context_window: None,
            max_output_tokens: None,
            price: None,
            max_result: None,
        }
    }
}

/// What an agent's loop ends with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerForm {
    /// A reply without a call (LOOP-4): a sub-agent's findings.
    #[default]
    Text,
    /// A valid `submit_plan`, or text that answers the goal at once.
    Plan,
    /// A valid `submit_reflection`.
    Reflection,
}

/// A run's spec with its tools' validators: what its machines look things up in. Made from the spec alone.
#[derive(Debug, PartialEq)]
pub struct RunContext {
    spec: Arc<RunSpec>,
    tools: ToolSet,
    submissions: ToolSet,
    /// By agent.
    offers: BTreeMap<AgentRole, OfferedTools>,
    /// The same for agents that are too deep to delegate.
    offers_at_max_depth: BTreeMap<AgentRole, OfferedTools>,
}

/// What an agent's model is offered.
#[derive(Debug, Default, PartialEq)]
struct OfferedTools {
    /// The agent's tools and its terminating one.
    tools: Arc<Vec<ToolSpec>>,
    /// The names of its own tools.
    names: Vec<String>,
    /// The tool by which it delegates, if it may.
    delegation: Option<ToolSet>,
    /// What a reply must look like where the server holds the model to it.
    reply: Arc<Value>,
    /// See [`RunContext::request_overhead`].
    overhead: u64,
}

impl RunContext {
    /// The context of a run with that spec.
    pub fn new(spec: Arc<RunSpec>) -> Self {
        let submissions = [AnswerForm::Plan, AnswerForm::Reflection]
            .into_iter()
            .filter_map(submission_tool)
            .collect();
        let own = [
            (AgentRole::Planner, &spec.planner),
            (AgentRole::Reflector, &spec.reflector),
        ];
        let subs = spec
            .agents
            .iter()
            .map(|agent| (AgentRole::Sub(agent.name.clone()), agent));
        let agents: Vec<(AgentRole, &AgentSpec)> = own.into_iter().chain(subs).collect();
        let offers = |depth: DelegationDepth| {
            let offers = agents
                .iter()
                .map(|(role, agent)| (role.clone(), OfferedTools::new(role, agent, &spec, depth)));
            offers.collect()
        };
        RunContext {
            offers: offers(DelegationDepth::BelowMax),
            offers_at_max_depth: offers(DelegationDepth::Max),
            tools: ToolSet::new(spec.tools.clone()),
            submissions: ToolSet::new(submissions),
            spec,
        }
    }

    /// The spec.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// The run's tools.
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// `submit_plan` and `submit_reflection`.
    pub fn submissions(&self) -> &ToolSet {
        &self.submissions
    }

    /// The tools of an agent, its terminating one included, in the order of its spec.
    pub fn offered(&self, brief: &AgentBrief) -> Arc<Vec<ToolSpec>> {
        self.offer(brief)
            .map(|offer| offer.tools.clone())
            .unwrap_or_default()
    }

    /// The names of an agent's own tools.
    pub fn own_tools(&self, brief: &AgentBrief) -> &[String] {
        self.offer(brief).map_or(&[], |offer| &offer.names)
    }

    /// The tool by which an agent delegates ([`crate::delegation`]); `None` for one that may not, or is too deep to (PAOR-5).
    pub fn delegation(&self, brief: &AgentBrief) -> Option<&ToolSet> {
        self.offer(brief)?.delegation.as_ref()
    }

    /// The JSON Schema of an agent's replies ([`CallForm::JsonSchema`]); `null` for one in another form.
    pub fn reply_schema(&self, brief: &AgentBrief) -> Arc<Value> {
        self.offer(brief)
            .map(|offer| offer.reply.clone())
            .unwrap_or_default()
    }

    /// About how many tokens each request of the agent has beside its messages: the definitions of tools that are offered natively, or the schema
    /// of its replies. Counted once for the run.
    pub fn request_overhead(&self, brief: &AgentBrief) -> u64 {
        self.offer(brief).map_or(0, |offer| offer.overhead)
    }

    fn offer(&self, brief: &AgentBrief) -> Option<&OfferedTools> {
        match DelegationDepth::new(brief, &self.spec.limits) {
            DelegationDepth::BelowMax => self.offers.get(&brief.role),
            DelegationDepth::Max => self.offers_at_max_depth.get(&brief.role),
        }
    }

    /// The spec of the agent with that role; none where the run has no agent of that name.
    pub fn agent(&self, role: &AgentRole) -> Option<&AgentSpec> {
        match role {
            AgentRole::Planner => Some(&self.spec.planner),
            AgentRole::Reflector => Some(&self.spec.reflector),
            AgentRole::Sub(name) => self.spec.agent(name),
        }
    }
}

/// Whether an agent could have others work for it.
#[derive(Clone, Copy)]
pub(crate) enum DelegationDepth {
    /// Those that it started would not be too deep.
    BelowMax,
    /// It is as deep as agents may be.
    Max,
}

impl DelegationDepth {
    pub(crate) fn new(brief: &AgentBrief, limits: &RunLimits) -> Self {
        if brief.depth < limits.max_depth {
            DelegationDepth::BelowMax
        } else {
            DelegationDepth::Max
        }
    }
}

impl AgentSpec {
    /// The system prompt of an agent at that depth.
    pub(crate) fn prompt_at(&self, depth: DelegationDepth) -> &str {
        match (depth, &self.deepest_prompt) {
            (DelegationDepth::Max, Some(prompt)) => prompt,
            (DelegationDepth::Max, None) | (DelegationDepth::BelowMax, _) => &self.system_prompt,
        }
    }
}

impl OfferedTools {
    fn new(role: &AgentRole, agent: &AgentSpec, spec: &RunSpec, depth: DelegationDepth) -> Self {
        // A run's own tool of that name is what its agents call, as in journals from before there was delegation.
        let own_tool = spec.tools.iter().any(|tool| tool.name == DELEGATE);
        let delegate = match (role, depth) {
            (AgentRole::Sub(_), DelegationDepth::BelowMax) if agent.may_delegate() && !own_tool => {
                delegate_tool(agent.access, &spec.agents)
            }
            (AgentRole::Sub(_) | AgentRole::Planner | AgentRole::Reflector, _) => None,
        };
        let named = |name: &String| {
            let tools = spec.tools.iter().chain(&delegate);
            tools.into_iter().find(|tool| tool.name == *name).cloned()
        };
        let own: Vec<ToolSpec> = agent.tools.iter().filter_map(named).collect();
        let names = own.iter().map(|tool| tool.name.clone()).collect();
        let tools: Vec<ToolSpec> = own.into_iter().chain(submission_tool(agent.answer)).collect();
        let reply = match agent.profile.calls {
            CallForm::JsonSchema => reply_schema(&tools, text_allowed(agent.answer)),
            CallForm::Json | CallForm::Native | CallForm::ToolCall | CallForm::Auto => Value::Null,
        };
        let overhead = match agent.profile.calls {
            CallForm::Native => tools.iter().map(ToolSpec::estimated_tokens).sum(),
            CallForm::JsonSchema => {
                // With what stands around it, and its name.
                estimated_tokens(&reply.to_string()).saturating_add(18)
            }
            CallForm::Json | CallForm::ToolCall | CallForm::Auto => 0,
        };
        OfferedTools {
            overhead,
            tools: Arc::new(tools),
            names,
            delegation: delegate.map(|tool| ToolSet::new(vec![tool])),
            reply: Arc::new(reply),
        }
    }
}

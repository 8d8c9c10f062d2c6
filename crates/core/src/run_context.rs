//! The shared lookup context of a run's machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::brief::{AgentBrief, AgentRole};
use crate::call::{CallForm, ToolSet, reply_schema};
use crate::delegation::delegate_tool;
use crate::limits::RunLimits;
use crate::spec::{AgentSpec, AnswerForm, DELEGATE, RunSpec};
use crate::submission::submission_tool;
use crate::token_ratio::estimated_tokens;
use crate::tool::ToolSpec;

/// The lookup context of a run's machines: the spec, the tools' validators, and the tools offered to each agent. Computed from the spec
/// alone.
#[derive(Debug, PartialEq)]
pub struct RunContext {
    spec: Arc<RunSpec>,
    tools: ToolSet,
    submissions: ToolSet,
    /// The tools offered to each agent.
    offers: BTreeMap<AgentRole, OfferedTools>,
    /// The same for agents that are too deep to delegate.
    offers_at_max_depth: BTreeMap<AgentRole, OfferedTools>,
}

impl RunContext {
    /// Builds the context of a run with this spec.
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

    /// The run's spec.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// All tools of the run.
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// `submit_plan` and `submit_reflection`.
    pub fn submissions(&self) -> &ToolSet {
        &self.submissions
    }

    /// The agent's system prompt at its depth; `None` if the run has no agent with its role.
    pub fn system_prompt(&self, brief: &AgentBrief) -> Option<&str> {
        let spec = self.agent(&brief.role)?;
        let deepest = match DelegationDepth::new(brief, &self.spec.limits) {
            DelegationDepth::BelowMax => None,
            DelegationDepth::Max => spec.deepest_prompt.as_deref(),
        };
        Some(deepest.unwrap_or(&spec.system_prompt))
    }

    /// The tools offered to an agent, in the order of its spec, followed by its terminating tool.
    pub fn offered(&self, brief: &AgentBrief) -> Arc<Vec<ToolSpec>> {
        self.offer(brief)
            .map(|offer| offer.tools.clone())
            .unwrap_or_default()
    }

    /// The names of the tools offered to an agent, without its terminating tool.
    pub fn own_tools(&self, brief: &AgentBrief) -> &[String] {
        self.offer(brief).map_or(&[], |offer| &offer.names)
    }

    /// The agent's own `delegate` tool ([`crate::delegation`]); `None` if it may not delegate, or is too deep to (PAOR-5).
    pub fn delegation(&self, brief: &AgentBrief) -> Option<&ToolSet> {
        self.offer(brief)?.delegation.as_ref()
    }

    /// The JSON Schema of an agent's replies ([`CallForm::JsonSchema`]); `null` for any other form of calls.
    pub fn reply_schema(&self, brief: &AgentBrief) -> Arc<Value> {
        self.offer(brief)
            .map(|offer| offer.reply.clone())
            .unwrap_or_default()
    }

    /// The estimated tokens that each request of the agent has beside its messages: the definitions of natively offered tools, or the
    /// schema of its replies.
    pub fn request_overhead(&self, brief: &AgentBrief) -> u64 {
        self.offer(brief).map_or(0, |offer| offer.overhead)
    }

    fn offer(&self, brief: &AgentBrief) -> Option<&OfferedTools> {
        match DelegationDepth::new(brief, &self.spec.limits) {
            DelegationDepth::BelowMax => self.offers.get(&brief.role),
            DelegationDepth::Max => self.offers_at_max_depth.get(&brief.role),
        }
    }

    /// The spec of the agent with this role; `None` if the run has no such agent.
    pub fn agent(&self, role: &AgentRole) -> Option<&AgentSpec> {
        match role {
            AgentRole::Planner => Some(&self.spec.planner),
            AgentRole::Reflector => Some(&self.spec.reflector),
            AgentRole::Sub(name) => self.spec.agent(name),
        }
    }
}

/// The tools offered to an agent's model.
#[derive(Debug, Default, PartialEq)]
struct OfferedTools {
    /// The agent's tools, followed by its terminating tool.
    tools: Arc<Vec<ToolSpec>>,
    /// The names of the agent's own tools.
    names: Vec<String>,
    /// The agent's own `delegate` tool, if it may delegate.
    delegation: Option<ToolSet>,
    /// The JSON Schema of replies, if the server enforces one.
    reply: Arc<Value>,
    /// See [`RunContext::request_overhead`].
    overhead: u64,
}

impl OfferedTools {
    fn new(role: &AgentRole, agent: &AgentSpec, spec: &RunSpec, depth: DelegationDepth) -> Self {
        // A tool of the run named `delegate` takes precedence.
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
            CallForm::JsonSchema => reply_schema(&tools, agent.answer.allows_text()),
            CallForm::Json | CallForm::Native | CallForm::ToolCall | CallForm::Auto => Value::Null,
        };
        let overhead = match agent.profile.calls {
            CallForm::Native => tools.iter().map(ToolSpec::estimated_tokens).sum(),
            CallForm::JsonSchema => {
                // 18 tokens for the schema's name and the JSON around it.
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

/// Whether an agent is too deep to delegate.
#[derive(Clone, Copy)]
enum DelegationDepth {
    /// The agent's delegates would not be too deep.
    BelowMax,
    /// The agent is at the maximum depth.
    Max,
}

impl DelegationDepth {
    fn new(brief: &AgentBrief, limits: &RunLimits) -> Self {
        if brief.depth < limits.max_depth {
            DelegationDepth::BelowMax
        } else {
            DelegationDepth::Max
        }
    }
}

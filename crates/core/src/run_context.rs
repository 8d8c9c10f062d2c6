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

/// The lookup context of a run's machines: the spec, the tools' validators, and the tools offered to each agent. It depends only on the
/// spec.
#[derive(Debug, PartialEq)]
pub struct RunContext {
    spec: Arc<RunSpec>,
    tools: ToolSet,
    submissions: ToolSet,
    /// The tools offered to each agent.
    offers: BTreeMap<AgentRole, OfferedTools>,
    /// The tools offered to each agent at the maximum depth, where it may not delegate.
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

    /// Returns the run's spec.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// Returns all tools of the run.
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Returns the tools `submit_plan` and `submit_reflection`.
    pub fn submissions(&self) -> &ToolSet {
        &self.submissions
    }

    /// Returns the system prompt for an agent with this role and depth; `None` if the run has no agent with this role.
    pub fn system_prompt(&self, brief: &AgentBrief) -> Option<&str> {
        let spec = self.agent(&brief.role)?;
        let deepest = match DelegationDepth::new(brief, &self.spec.limits) {
            DelegationDepth::BelowMax => None,
            DelegationDepth::Max => spec.deepest_prompt.as_deref(),
        };
        Some(deepest.unwrap_or(&spec.system_prompt))
    }

    /// Returns the tools offered to an agent, in the order of its spec, followed by its terminating tool.
    pub fn offered(&self, brief: &AgentBrief) -> Arc<Vec<ToolSpec>> {
        self.offer(brief)
            .map(|offer| offer.tools.clone())
            .unwrap_or_default()
    }

    /// Returns the names of the tools offered to an agent, without its terminating tool.
    pub fn own_tools(&self, brief: &AgentBrief) -> &[String] {
        self.offer(brief).map_or(&[], |offer| &offer.names)
    }

    /// Returns the agent's own `delegate` tool ([`crate::delegation`]); `None` if the agent may not delegate, or not at its depth (PAOR-5).
    pub fn delegation(&self, brief: &AgentBrief) -> Option<&ToolSet> {
        self.offer(brief)?.delegation.as_ref()
    }

    /// Returns the JSON Schema of an agent's replies ([`CallForm::JsonSchema`]); `null` for any other form of calls.
    pub fn reply_schema(&self, brief: &AgentBrief) -> Arc<Value> {
        self.offer(brief)
            .map(|offer| offer.reply.clone())
            .unwrap_or_default()
    }

    /// Returns the estimated tokens that each request of the agent needs in addition to its messages: the definitions of native tools, or
    /// the schema of replies.
    pub fn request_overhead(&self, brief: &AgentBrief) -> u64 {
        self.offer(brief).map_or(0, |offer| offer.overhead)
    }

    fn offer(&self, brief: &AgentBrief) -> Option<&OfferedTools> {
        match DelegationDepth::new(brief, &self.spec.limits) {
            DelegationDepth::BelowMax => self.offers.get(&brief.role),
            DelegationDepth::Max => self.offers_at_max_depth.get(&brief.role),
        }
    }

    /// Returns the spec of the agent with this role; `None` if the run has no such agent.
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
    /// The agent's own `delegate` tool; `None` if it may not delegate.
    delegation: Option<ToolSet>,
    /// The JSON Schema of replies; `null` if the server enforces none.
    reply: Arc<Value>,
    /// See [`RunContext::request_overhead`].
    overhead: u64,
}

impl OfferedTools {
    fn new(role: &AgentRole, agent: &AgentSpec, spec: &RunSpec, depth: DelegationDepth) -> Self {
        // A tool of the run that is named `delegate` takes precedence over the generated one.
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
                // 18 tokens for the name of the schema and the JSON around it.
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

/// Whether an agent's depth allows it to delegate.
#[derive(Clone, Copy)]
enum DelegationDepth {
    /// The agent may delegate: its delegates would not exceed the maximum depth.
    BelowMax,
    /// The agent is at the maximum depth and may not delegate.
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

//! The precedence of agents' limits. A limit comes from the first of these sources that sets it: the goal, for the agent; the goal, for every agent;
//! the configuration, for the agent; the agent's own definition; the configuration, for all sub-agents; the shipped defaults.

use std::collections::BTreeMap;

use dirigent_core::agent_spec::AnswerForm;
use dirigent_core::limits::{AgentLimitSettings, AgentLimits};

use super::definition::AgentDefinition;
use crate::DirigentError;
use crate::config::{ALL_AGENTS, Config};
use crate::suggest;

/// The limits that a goal sets for its agents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GoalAgentLimits {
    all: AgentLimitSettings,
    /// Limits by agent name; they take precedence over `all`.
    by_agent: BTreeMap<String, AgentLimitSettings>,
}

impl GoalAgentLimits {
    /// Sets limits of every agent.
    pub(crate) fn set_all(&mut self, limits: AgentLimitSettings) {
        let before = std::mem::take(&mut self.all);
        self.all = limits.or(before);
    }

    /// Sets limits of one agent.
    pub(crate) fn set(&mut self, agent: String, limits: AgentLimitSettings) {
        let of_agent = self.by_agent.entry(agent).or_default();
        let before = std::mem::take(of_agent);
        *of_agent = limits.or(before);
    }

    fn for_agent(&self, agent: &str) -> AgentLimitSettings {
        let own = self.by_agent.get(agent).cloned().unwrap_or_default();
        own.or(self.all.clone())
    }

    /// Checks that the agents whose limits are set exist.
    pub(crate) fn check<'a>(&self, agents: impl Iterator<Item = &'a str>) -> Result<(), DirigentError> {
        let known: Vec<&str> = agents.collect();
        let Some(unknown) = self.by_agent.keys().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let hint = suggest::hint(unknown, known.iter().copied());
        Err(DirigentError::Agent {
            name: unknown.clone(),
            reason: format!("limits are configured for it, but no such agent exists; {hint}"),
        })
    }
}

/// Resolves the limits of an agent from all sources.
pub(crate) fn resolve_limits(
    agent: &AgentDefinition,
    config: Option<&Config>,
    goal: &GoalAgentLimits,
) -> AgentLimits {
    let configured = |name| config.map(|config| config.agent_limits(name)).unwrap_or_default();
    let of_all = match agent.answer() {
        AnswerForm::Text => configured(ALL_AGENTS),
        AnswerForm::Plan | AnswerForm::Reflection => AgentLimitSettings::default(),
    };
    goal.for_agent(agent.name())
        .or(configured(agent.name()))
        .or(agent.limits.clone())
        .or(of_all)
        .unwrap_or(agent.default_limits.clone())
}

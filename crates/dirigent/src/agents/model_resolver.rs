//! Decides which model each agent asks, and with which profile and limits.

use std::collections::BTreeSet;

use dirigent_core::agent_spec::{AnswerForm, ModelProfile};
use dirigent_core::limits::AgentLimits;
use dirigent_core::mode::Mode;

use super::definition::{AgentDefinition, AgentModel, lead, reflector};
use super::limits::{GoalAgentLimits, resolve_limits};
use super::registry::{AgentRegistry, Agents, ListedAgent};
use crate::DirigentError;
use crate::call_forms::CallForms;
use crate::config::{Config, ModelSettings};

/// Decides which model each agent asks.
#[derive(Clone)]
pub(crate) struct ModelResolver {
    pub(crate) config: Option<Config>,
    /// The profile of the only model, if there is no configuration.
    pub(crate) profile: ModelProfile,
    /// The reference of a goal's default model; `None` for the default model of the configuration.
    pub(crate) default: Option<String>,
    /// The profile of the goal's own model, which all agents of its run ask, regardless of the configuration. `None` if the goal sets no
    /// model.
    pub(crate) own: Option<ModelProfile>,
    /// How models call tools if their configuration does not specify it.
    pub(crate) forms: CallForms,
}

impl ModelResolver {
    /// Returns the reference of the model that an agent asks.
    pub(crate) fn model_name(&self, agent: &AgentDefinition) -> Option<String> {
        if self.own.is_some() {
            return None;
        }
        let Some(config) = &self.config else {
            return agent.own_model().or(self.default.as_deref()).map(str::to_owned);
        };
        let role_of_all = match agent.answer() {
            AnswerForm::Text => config.role("agents"),
            AnswerForm::Plan | AnswerForm::Reflection => None,
        };
        let model = config
            .role(agent.name())
            .or(agent.own_model())
            .or(role_of_all)
            .or(self.default.as_deref())
            .unwrap_or(config.default_model());
        Some(model.to_owned())
    }

    /// Returns the reference of the model that agents ask for which nothing names another one; `None` if no model has a reference.
    pub(crate) fn default_model(&self) -> Option<&str> {
        let configured = self.config.as_ref().map(Config::default_model);
        self.default.as_deref().or(configured)
    }

    /// Returns the model that an agent asks, with its profile.
    pub(super) fn resolve(&self, agent: &AgentDefinition) -> Result<AgentModel, DirigentError> {
        let name = self.model_name(agent);
        let (Some(config), Some(model)) = (&self.config, &name) else {
            return Ok(AgentModel {
                name,
                profile: self.own.unwrap_or(self.profile),
                ..AgentModel::default()
            });
        };
        let settings = config.model(model)?;
        Ok(AgentModel {
            profile: ModelProfile {
                calls: self.forms.form(&settings),
                ..config.profile(model)?
            },
            asks: Some(settings.to_string()),
            name,
        })
    }

    /// Returns the settings of the models that the agents of a run ask.
    pub(super) fn settings(&self, registry: &AgentRegistry) -> Result<Vec<ModelSettings>, DirigentError> {
        let Some(config) = &self.config else {
            return Ok(Vec::new());
        };
        let (lead, reflector) = (lead(&[], Mode::Auto), reflector(&[]));
        let sub_agents = registry.entries.iter().map(|entry| &entry.definition);
        let agents = sub_agents.chain([&lead, &reflector]);
        let models: BTreeSet<String> = agents.filter_map(|agent| self.model_name(agent)).collect();
        let settings = models.iter().map(|model| config.model(model));
        Ok(settings.collect::<Result<_, _>>()?)
    }

    pub(super) fn resolve_limits(&self, agent: &AgentDefinition, goal: &GoalAgentLimits) -> AgentLimits {
        resolve_limits(agent, self.config.as_ref(), goal)
    }

    /// Checks that the models of all agents are configured.
    pub(crate) fn check(&self, registry: &AgentRegistry) -> Result<(), DirigentError> {
        registry
            .entries
            .iter()
            .try_for_each(|entry| self.resolve(&entry.definition).map(drop))
    }

    /// Lists the agents for display.
    pub(crate) fn list_agents(&self, registry: AgentRegistry) -> Agents {
        let resolve_limits =
            |agent: &AgentDefinition| self.resolve_limits(agent, &GoalAgentLimits::default());
        let agents = registry.entries.iter().map(|entry| ListedAgent {
            model: self.model_name(&entry.definition),
            limits: resolve_limits(&entry.definition),
            name: entry.definition.name.clone(),
            source: entry.source.clone(),
            description: entry.definition.description.clone(),
            tools: entry.definition.tools.clone(),
            access: entry.definition.access,
            notes: entry.notes.clone(),
        });
        Agents {
            lead: resolve_limits(&lead(&[], Mode::Auto)),
            reflector: resolve_limits(&reflector(&[])),
            agents: agents.collect(),
            refused: registry.refused,
        }
    }
}

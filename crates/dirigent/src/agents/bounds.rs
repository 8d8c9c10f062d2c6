//! The most that a project's agents may have, whatever their files say: a project may come from anybody.

use std::collections::BTreeSet;

use dirigent_core::limits::{AgentLimitSettings, AgentLimits};
use dirigent_core::spec::DELEGATE;
use dirigent_core::tool::Access;

use super::AgentDefinition;
use super::file::ParsedAgentFile;
use super::limits::{GoalAgentLimits, resolve_limits};
use super::registry::{RegisteredAgent, with_model};
use super::tool_selection::ToolSelection;
use crate::config::Config;

/// The most that a project's agents may have.
pub(super) struct ProjectAgentBounds {
    access: Access,
    /// The tools of those others that have no more access than that, for each access.
    tools: [(Access, BTreeSet<String>); 3],
    /// The highest limits of any other agent.
    limits: AgentLimitSettings,
}

/// The tools of all agents that may do no more than that.
pub(super) fn tools_within_access(entries: &[RegisteredAgent], access: Access) -> BTreeSet<String> {
    let agents = entries.iter().map(|entry| &entry.definition);
    let tools = agents
        .filter(|agent| agent.access <= access)
        .flat_map(|agent| &agent.tools);
    tools.cloned().collect()
}

impl ProjectAgentBounds {
    /// What the others have together, and no more access than `most`.
    pub(super) fn new(others: &[RegisteredAgent], most: Access, config: &Config) -> Self {
        let agents = || others.iter().map(|entry| &entry.definition);
        let access = agents()
            .map(|agent| agent.access)
            .max()
            .unwrap_or(Access::ReadOnly);
        let limits = agents().map(|agent| configured_limits(agent, config));
        ProjectAgentBounds {
            access: access.min(most),
            tools: [Access::ReadOnly, Access::Execute, Access::ReadWrite]
                .map(|access| (access, tools_within_access(others, access))),
            limits: limits
                .map(AgentLimitSettings::from)
                .reduce(AgentLimitSettings::highest)
                .unwrap_or(AgentLimits::default().into()),
        }
    }

    /// The agent of that file as it may be, and what was taken from it.
    pub(super) fn apply(&self, parsed: ParsedAgentFile, config: &Config) -> (AgentDefinition, Vec<String>) {
        let mut notes = parsed.notes;
        let access = parsed.access.min(self.access);
        if access < parsed.access {
            notes.push(format!(
                "it may be {access} at most, not {}, as a project's agent ([agents] project)",
                parsed.access
            ));
        }
        let allowed = self.tools.iter().find(|(of, _)| *of == access);
        let allowed = allowed.map(|(_, tools)| tools.clone()).unwrap_or_default();
        let tools: BTreeSet<String> = match parsed.tools {
            ToolSelection::All => allowed
                .into_iter()
                .filter(|tool| tool != DELEGATE && !parsed.excluded.contains(tool))
                .collect(),
            ToolSelection::Named(requested) => {
                let (tools, refused): (BTreeSet<String>, BTreeSet<String>) = requested
                    .into_iter()
                    .filter(|tool| !parsed.excluded.contains(tool))
                    .partition(|tool| allowed.contains(tool));
                if !refused.is_empty() {
                    notes.push(format!(
                        "left out, as no {access} agent of yours or Dirigent's has it: {}",
                        Vec::from_iter(refused).join(", ")
                    ));
                }
                tools
            }
        };
        let model = parsed
            .model
            .and_then(|(model, _)| match model_of(&model, config) {
                Ok(model) => model,
                Err(problem) => {
                    notes.push(format!("it asks the model that all agents ask: {problem}"));
                    None
                }
            });
        // The planner reads it before it has looked at anything, and is to know whose words these are.
        let description = format!("As the project describes it: {}", parsed.description);
        let definition = AgentDefinition::new(parsed.name, description, parsed.role)
            .tools(tools)
            .access(access)
            .limits(parsed.limits)
            .default_limits(parsed.default_limits);
        let requested = configured_limits(&definition, config);
        let limits = AgentLimitSettings::from(requested.clone())
            .lowest(self.limits.clone())
            .unwrap_or(requested.clone());
        let lowered: Vec<String> = limits
            .differing(&requested)
            .into_iter()
            .map(|(name, limit)| format!("{name} to {limit}"))
            .collect();
        if !lowered.is_empty() {
            notes.push(format!(
                "limits lowered to what agents of yours or Dirigent's have: {}",
                lowered.join(", ")
            ));
        }
        (with_model(definition.limits(limits), model), notes)
    }
}

fn configured_limits(agent: &AgentDefinition, config: &Config) -> AgentLimits {
    resolve_limits(agent, Some(config), &GoalAgentLimits::default())
}

/// The model that a project's file may choose: one that the user has named, as what it may cost and where it is asked is the user's.
fn model_of(model: &str, config: &Config) -> Result<Option<String>, String> {
    if !config.uses_file_models() {
        return Ok(None);
    }
    if model != "default" && !config.names().contains(model) {
        let name: String = model.chars().take(64).collect();
        return Err(format!("there is no [models.{name}]"));
    }
    config.can_ask(model)?;
    Ok(Some(model.to_owned()))
}

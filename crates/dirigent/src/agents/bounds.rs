//! Upper bounds for a project's agents. The bounds apply whatever the files request, because the project's author may not be trustworthy.

use std::collections::BTreeSet;

use dirigent_core::agent_spec::DELEGATE;
use dirigent_core::limits::{AgentLimitSettings, AgentLimits};
use dirigent_core::tool::Access;
use dirigent_mcp::service_of;

use super::definition::AgentDefinition;
use super::file::ParsedAgentFile;
use super::limits::{GoalAgentLimits, resolve_limits};
use super::tool_selection::ToolSelection;
use crate::config::Config;

/// The highest access and limits, and the tools, that a project's agents may have.
pub(super) struct ProjectAgentBounds {
    access: Access,
    /// For each access, the tools of all agents outside the project that have at most this access.
    tools: [(Access, BTreeSet<String>); 3],
    /// The highest limits of the agents outside the project.
    limits: AgentLimitSettings,
}

/// Returns the tools of all agents that have at most this access.
pub(super) fn tools_within_access<'a>(
    agents: impl Iterator<Item = &'a AgentDefinition>,
    access: Access,
) -> BTreeSet<String> {
    let tools = agents
        .filter(|agent| agent.access <= access)
        .flat_map(|agent| &agent.tools);
    tools.cloned().collect()
}

impl ProjectAgentBounds {
    /// Derives the bounds from `others`, the agents that the project does not define. `most` is an upper bound for the access.
    pub(super) fn new<'a>(
        others: impl Iterator<Item = &'a AgentDefinition> + Clone,
        most: Access,
        config: &Config,
    ) -> Self {
        let access = others.clone().map(|agent| agent.access).max();
        let access = access.unwrap_or(Access::ReadOnly);
        let limits = others.clone().map(|agent| configured_limits(agent, config));
        ProjectAgentBounds {
            access: access.min(most),
            tools: [Access::ReadOnly, Access::Execute, Access::ReadWrite]
                .map(|access| (access, tools_within_access(others.clone(), access))),
            limits: limits
                .map(AgentLimitSettings::from)
                .reduce(AgentLimitSettings::highest)
                .unwrap_or(AgentLimits::default().into()),
        }
    }

    /// Returns the definition of a parsed agent, reduced to the bounds, and notes about the reductions.
    pub(super) fn apply(&self, parsed: ParsedAgentFile, config: &Config) -> (AgentDefinition, Vec<String>) {
        let mut notes = parsed.notes;
        let access = parsed.access.min(self.access);
        if access < parsed.access {
            notes.push(format!(
                "its access is {access} instead of {}, because a project defines it (see `project` of [agents])",
                parsed.access
            ));
        }
        let allowed = self.tools.iter().find(|(of, _)| *of == access);
        let allowed = allowed.map(|(_, tools)| tools.clone()).unwrap_or_default();
        let tools: BTreeSet<String> = match parsed.tools {
            ToolSelection::All => allowed
                .into_iter()
                .filter(|tool| {
                    tool != DELEGATE && service_of(tool).is_none() && !parsed.excluded.contains(tool)
                })
                .collect(),
            ToolSelection::Named(requested) => {
                let (tools, refused): (BTreeSet<String>, BTreeSet<String>) = requested
                    .into_iter()
                    .filter(|tool| !parsed.excluded.contains(tool))
                    .partition(|tool| allowed.contains(tool));
                if !refused.is_empty() {
                    notes.push(format!(
                        "tools removed: {}. A project's {access} agent may use only tools that a built-in agent or one of your own {access} agents has",
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
                    notes.push(format!("its `model` is ignored: {problem}"));
                    None
                }
            });
        // The lead reads the description first, and must know that the project's author wrote it.
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
                "limits lowered to the highest of your own and the built-in agents: {}",
                lowered.join(", ")
            ));
        }
        (definition.limits(limits).with_model(model), notes)
    }
}

fn configured_limits(agent: &AgentDefinition, config: &Config) -> AgentLimits {
    resolve_limits(agent, Some(config), &GoalAgentLimits::default())
}

/// Returns the model that a project's file chooses. It must be a configured model, because the user decides about costs and servers.
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

//! The most that a project's agents may have, whatever their files say: a project may come from anybody.

use std::collections::BTreeSet;

use dirigent_core::delegate::DELEGATE;
use dirigent_core::limits::AgentLimits;
use dirigent_core::tool::Access;

use super::AgentDefinition;
use super::abilities::Wanted;
use super::file::Written;
use super::limits::{GoalAgentLimits, limits_of};
use super::roster::{Member, with_model};
use crate::config::Config;

/// The most that a project's agents may have.
pub(super) struct Bounds {
    access: Access,
    /// The tools of those others that have no more access than that, for each access.
    tools: [(Access, BTreeSet<String>); 3],
    /// The highest limits of any other.
    limits: AgentLimits,
}

/// The tools of all agents that may do no more than that.
pub(super) fn tools_up_to(members: &[Member], access: Access) -> BTreeSet<String> {
    let agents = members.iter().map(|member| &member.definition);
    let tools = agents
        .filter(|agent| agent.access <= access)
        .flat_map(|agent| &agent.tools);
    tools.cloned().collect()
}

impl Bounds {
    /// What the others have together, and no more access than `most`.
    pub(super) fn new(others: &[Member], most: Access, config: &Config) -> Self {
        let agents = || others.iter().map(|member| &member.definition);
        let access = agents()
            .map(|agent| agent.access)
            .max()
            .unwrap_or(Access::ReadOnly);
        let limits = agents().map(|agent| configured_limits(agent, config));
        Bounds {
            access: access.min(most),
            tools: [Access::ReadOnly, Access::Execute, Access::ReadWrite]
                .map(|access| (access, tools_up_to(others, access))),
            limits: limits
                .reduce(|one, other| one.highest(&other))
                .unwrap_or_default(),
        }
    }

    /// The agent of that file as it may be, and what was taken from it.
    pub(super) fn apply(&self, written: Written, config: &Config) -> (AgentDefinition, Vec<String>) {
        let mut notes = written.notes;
        let access = written.access.min(self.access);
        if access < written.access {
            notes.push(format!(
                "it may be {access} at most, not {}, as a project's agent ([agents] project)",
                written.access
            ));
        }
        let allowed = self.tools.iter().find(|(of, _)| *of == access);
        let allowed = allowed.map(|(_, tools)| tools.clone()).unwrap_or_default();
        let tools: BTreeSet<String> = match written.tools {
            Wanted::All => allowed
                .into_iter()
                .filter(|tool| tool != DELEGATE && !written.without.contains(tool))
                .collect(),
            Wanted::Named(wanted) => {
                let (tools, refused): (BTreeSet<String>, BTreeSet<String>) = wanted
                    .into_iter()
                    .filter(|tool| !written.without.contains(tool))
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
        let model = written
            .model
            .and_then(|(model, _)| match model_of(&model, config) {
                Ok(model) => model,
                Err(problem) => {
                    notes.push(format!("it asks the model that all agents ask: {problem}"));
                    None
                }
            });
        // The planner reads it before it has looked at anything, and is to know whose words these are.
        let description = format!("As the project describes it: {}", written.description);
        let definition = AgentDefinition::new(written.name, description, written.role)
            .tools(tools)
            .access(access)
            .limits(written.limits)
            .default_limits(written.default_limits);
        let wanted = configured_limits(&definition, config);
        let limits = wanted.clone().lowest(&self.limits);
        let lowered: Vec<String> = limits
            .differing(&wanted)
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
    limits_of(agent, Some(config), &GoalAgentLimits::default())
}

/// The model that a project's file may choose: one that the user has named, as what it may cost and where it is asked is the user's.
fn model_of(model: &str, config: &Config) -> Result<Option<String>, String> {
    if !config.says_models() {
        return Ok(None);
    }
    if model != "default" && !config.names().contains(model) {
        let name: String = model.chars().take(64).collect();
        return Err(format!("there is no [models.{name}]"));
    }
    config.can_ask(model)?;
    Ok(Some(model.to_owned()))
}

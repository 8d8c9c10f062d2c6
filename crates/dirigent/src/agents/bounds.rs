//! The most that a project's agents may have, whatever their files say: a project may come from anybody.

use std::collections::BTreeSet;

use dirigent_core::delegate::DELEGATE;
use dirigent_core::limits::AgentLimits;
use dirigent_core::time::Millis;
use dirigent_core::tool::Access;

use super::AgentDefinition;
use super::abilities::Wanted;
use super::file::Written;
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
        let mut limits = AgentLimits {
            max_turns: 1,
            timeout: Millis(0),
            max_malformed: 1,
            max_repeats: Some(1),
            max_compactions: 0,
        };
        for agent in agents() {
            limits = higher(&limits, &agent.limits_with(config.agent_timeout()));
        }
        Bounds {
            access: access.min(most),
            tools: [Access::ReadOnly, Access::Execute, Access::ReadWrite]
                .map(|access| (access, tools_up_to(others, access))),
            limits,
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
            .limited(written.limits, written.timeout);
        let wanted = definition.limits_with(config.agent_timeout());
        let limits = self.lowered(&wanted, &mut notes);
        let definition = match written.timeout {
            // It still does not say.
            None if limits.timeout == wanted.timeout => definition.limited(limits, None),
            Some(_) | None => definition.limits(limits),
        };
        (with_model(definition, model), notes)
    }

    fn lowered(&self, wanted: &AgentLimits, notes: &mut Vec<String>) -> AgentLimits {
        let most = &self.limits;
        let limits = AgentLimits {
            max_turns: wanted.max_turns.min(most.max_turns),
            timeout: wanted.timeout.min(most.timeout),
            max_malformed: wanted.max_malformed.min(most.max_malformed),
            max_repeats: match (wanted.max_repeats, most.max_repeats) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
            max_compactions: wanted.max_compactions.min(most.max_compactions),
        };
        let mut lowered = Vec::new();
        let mut compare = |name: &str, wanted: String, now: String| {
            if wanted != now {
                lowered.push(format!("{name} to {now}"));
            }
        };
        let count = |count: Option<u32>| count.map_or_else(String::new, |count| count.to_string());
        compare(
            "max_turns",
            wanted.max_turns.to_string(),
            limits.max_turns.to_string(),
        );
        compare("timeout", wanted.timeout.to_string(), limits.timeout.to_string());
        compare(
            "max_malformed",
            wanted.max_malformed.to_string(),
            limits.max_malformed.to_string(),
        );
        compare(
            "max_repeats",
            count(wanted.max_repeats),
            count(limits.max_repeats),
        );
        compare(
            "max_compactions",
            wanted.max_compactions.to_string(),
            limits.max_compactions.to_string(),
        );
        if !lowered.is_empty() {
            notes.push(format!(
                "limits lowered to what agents of yours or Dirigent's have: {}",
                lowered.join(", ")
            ));
        }
        limits
    }
}

/// The highest of both.
fn higher(one: &AgentLimits, other: &AgentLimits) -> AgentLimits {
    AgentLimits {
        max_turns: one.max_turns.max(other.max_turns),
        timeout: one.timeout.max(other.timeout),
        max_malformed: one.max_malformed.max(other.max_malformed),
        max_repeats: one
            .max_repeats
            .zip(other.max_repeats)
            .map(|(one, other)| one.max(other)),
        max_compactions: one.max_compactions.max(other.max_compactions),
    }
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

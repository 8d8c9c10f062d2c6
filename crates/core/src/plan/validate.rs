//! Validation of plans. Reports all errors at once, so that the lead can correct them in one step (PAOR-4). Does not repair plans.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{PlanError, TextField};
use super::structure::{PlanStructure, build_structure};
use super::{LEAD, Plan, PlannedCall, SubTask, Work};
use crate::agent_spec::AgentSpec;
use crate::call::{SUBMIT_PLAN, SUBMIT_REFLECTION, ToolSet};
use crate::id::SubTaskId;
use crate::loop_tools::is_control_tool;
use crate::name::nearest;
use crate::policy::Policy;
use crate::text::is_invisible;

/// The rules against which a plan is validated.
#[derive(Clone, Copy, Debug)]
pub struct PlanRules<'a> {
    /// All sub-agents of the run.
    pub agents: &'a [AgentSpec],
    /// The agent that does all work of the run (FLOW-1), so that a plan has no calls of its own; `None` for no restriction.
    pub only_agent: Option<&'a str>,
    /// All tools of the run. The calls of a plan may use any of them.
    pub tools: &'a ToolSet,
    /// The rules of the run. A plan with a call that they deny is refused.
    pub policy: &'a Policy,
    /// Absolute path of the workspace, to which rules about paths refer.
    pub workspace: &'a str,
    /// Maximum number of sub-tasks.
    pub max_subtasks: u32,
    /// Number of sub-agents that the run may still start (PAOR-5).
    pub remaining_agents: u32,
    /// How many guidance entries the lead received; they are numbered from 1 (PAOR-8). `None` if unknown.
    pub guidance: Option<u32>,
}

impl Plan {
    /// Checks that the plan can be executed. Returns the plan, in which optional call parameters that are `null` are removed (see
    /// [`ToolSet::check`]).
    ///
    /// # Errors
    /// Returns all errors: first errors in the plan's structure (ids, dependencies, cycles), then errors in each sub-task in plan order,
    /// then exceeded limits, then unknown guidance numbers.
    pub fn validate(mut self, rules: &PlanRules<'_>) -> Result<Plan, Vec<PlanError>> {
        let errors = self.errors(rules, &BTreeSet::new());
        if !errors.is_empty() {
            return Err(errors);
        }
        for subtask in &mut self.subtasks {
            match &mut subtask.work {
                Work::Agent { .. } => {}
                Work::Calls { calls } => {
                    for call in calls {
                        if let Ok(parameters) = rules.tools.check_any(&call.tool, &call.parameters) {
                            call.parameters = parameters;
                        }
                    }
                }
            }
        }
        Ok(self)
    }

    /// Returns all errors, except in the work of the sub-tasks with the indices `without_work`.
    pub(super) fn errors(&self, rules: &PlanRules<'_>, without_work: &BTreeSet<usize>) -> Vec<PlanError> {
        let PlanStructure { mut errors, .. } = build_structure(self);
        let mut agents = AgentNames::new(rules.agents);
        for (index, subtask) in self.subtasks.iter().enumerate() {
            if subtask.id.0.trim().is_empty() {
                errors.push(PlanError::EmptyId { index });
            }
            if subtask.id.0 == LEAD {
                errors.push(PlanError::ReservedId { index });
            }
            if subtask.title.trim().is_empty() {
                errors.push(PlanError::EmptyTitle {
                    subtask: subtask.id.clone(),
                });
            }
            for (field, text) in [(TextField::Id, &subtask.id.0), (TextField::Title, &subtask.title)] {
                let unseen = text.chars().find(|c| c.is_control() || is_invisible(*c));
                errors.extend(unseen.map(|character| PlanError::InvisibleCharacter {
                    index,
                    field,
                    character,
                }));
            }
            if !without_work.contains(&index) {
                work_errors(subtask, rules, &mut agents, &mut errors);
            }
        }
        limit_errors(self, rules, &mut errors);
        errors.extend(rules.guidance.and_then(|known| self.unknown_guidance(known)));
        errors
    }

    fn unknown_guidance(&self, known: u32) -> Option<PlanError> {
        let numbers: BTreeSet<u32> = self.answers_guidance.iter().copied().collect();
        let numbers: Vec<u32> = numbers
            .into_iter()
            .filter(|number| !(1..=known).contains(number))
            .collect();
        (!numbers.is_empty()).then_some(PlanError::UnknownGuidance { numbers, known })
    }
}

fn work_errors<'a>(
    subtask: &'a SubTask,
    rules: &PlanRules<'a>,
    agents: &mut AgentNames<'a>,
    errors: &mut Vec<PlanError>,
) {
    let name = || subtask.id.clone();
    match &subtask.work {
        Work::Agent { agent, task } => {
            if let Some(nearest) = agents.unknown(agent) {
                errors.push(PlanError::UnknownAgent {
                    subtask: name(),
                    agent: agent.clone(),
                    nearest: nearest.map(str::to_owned),
                    known: agents.known.iter().map(|agent| agent.name.clone()).collect(),
                });
            }
            if task.trim().is_empty() {
                errors.push(PlanError::EmptyTask { subtask: name() });
            }
        }
        Work::Calls { calls } => {
            if let Some(agent) = rules.only_agent {
                errors.push(PlanError::OnlyAgent {
                    subtask: name(),
                    agent: agent.to_owned(),
                });
            }
            if calls.is_empty() {
                errors.push(PlanError::NoCalls { subtask: name() });
            }
            let calls = calls.iter().enumerate();
            errors.extend(calls.filter_map(|(call, planned)| call_error(&subtask.id, call, planned, rules)));
        }
    }
}

/// Checks the call with this index in a sub-task.
pub(super) fn call_error(
    subtask: &SubTaskId,
    call: usize,
    planned: &PlannedCall,
    rules: &PlanRules<'_>,
) -> Option<PlanError> {
    let PlannedCall { tool, parameters } = planned;
    let subtask = subtask.clone();
    let of_agents = is_control_tool(tool) || [SUBMIT_PLAN, SUBMIT_REFLECTION].contains(&tool.as_str());
    if of_agents && rules.tools.get(tool).is_none() {
        let tool = tool.clone();
        return Some(PlanError::ToolOfAgents { subtask, call, tool });
    }
    match rules.tools.check_any(tool, parameters) {
        Err(error) => Some(PlanError::BadCall { subtask, call, error }),
        Ok(parameters) => {
            let denied = rules.policy.denial(tool, &parameters, rules.workspace)?;
            let rule = denied.to_string();
            Some(PlanError::DeniedCall { subtask, call, rule })
        }
    }
}

fn limit_errors(plan: &Plan, rules: &PlanRules<'_>, errors: &mut Vec<PlanError>) {
    let exceeds = |count: usize, limit: u32| u32::try_from(count).map_or(true, |count| count > limit);
    let count = plan.subtasks.len();
    if exceeds(count, rules.max_subtasks) {
        errors.push(PlanError::TooManySubTasks {
            count,
            max: rules.max_subtasks,
        });
    }
    let agents = plan
        .subtasks
        .iter()
        .filter(|subtask| match &subtask.work {
            Work::Agent { .. } => true,
            Work::Calls { .. } => false,
        })
        .count();
    if exceeds(agents, rules.remaining_agents) {
        errors.push(PlanError::TooManyAgents {
            count: agents,
            remaining: rules.remaining_agents,
        });
    }
}

/// Finds agents by name, and caches the most similar name for each unknown agent.
struct AgentNames<'a> {
    known: &'a [AgentSpec],
    seen: BTreeMap<&'a str, Option<Option<&'a str>>>,
}

impl<'a> AgentNames<'a> {
    fn new(known: &'a [AgentSpec]) -> Self {
        let seen = known.iter().map(|agent| (agent.name.as_str(), None)).collect();
        AgentNames { known, seen }
    }

    /// Returns `None` if the agent exists; otherwise `Some` with the most similar name, if any.
    fn unknown(&mut self, name: &'a str) -> Option<Option<&'a str>> {
        let known = self.known;
        *self
            .seen
            .entry(name)
            .or_insert_with(|| Some(nearest(name, known.iter().map(|agent| agent.name.as_str()))))
    }
}

//! What can be wrong with a plan, all of it named at once, so that the planner can put it right in one go (PAOR-4).
//! Nothing here changes a plan or guesses what was meant.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{PlanError, TextField};
use super::structure::{PlanStructure, build_structure};
use super::{Plan, SubTask, Work};
use crate::call::ToolSet;
use crate::name::nearest;
use crate::spec::AgentSpec;
use crate::text::is_invisible;

/// What a plan must keep to.
#[derive(Clone, Copy, Debug)]
pub struct PlanRules<'a> {
    /// The sub-agents that there are.
    pub agents: &'a [AgentSpec],
    /// The tools that sub-tasks may call: all of them.
    pub tools: &'a ToolSet,
    /// Sub-tasks in one plan, at most.
    pub max_subtasks: u32,
    /// Sub-agents that the run may still start (PAOR-5).
    pub agents_left: u32,
    /// How many pieces of guidance the planner was given; they have the numbers from 1 on (PAOR-8). `None` if unknown.
    pub guidance: Option<u32>,
}

impl Plan {
    /// Checks that the plan can be executed, and returns it with the parameters that [`ToolSet::check`] returns for its calls.
    ///
    /// # Errors
    /// Everything that is wrong: first the plan's shape (ids, dependencies, cycles), then each sub-task's work in plan order, then the
    /// limits, then the guidance that the plan names.
    pub fn validate(mut self, rules: &PlanRules<'_>) -> Result<Plan, Vec<PlanError>> {
        let errors = self.errors(rules);
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

    fn errors(&self, rules: &PlanRules<'_>) -> Vec<PlanError> {
        let PlanStructure { mut errors, .. } = build_structure(self);
        let mut agents = AgentNames::new(rules.agents);
        for (index, subtask) in self.subtasks.iter().enumerate() {
            if subtask.id.0.trim().is_empty() {
                errors.push(PlanError::EmptyId { index });
            }
            if subtask.title.trim().is_empty() {
                errors.push(PlanError::EmptyTitle {
                    subtask: subtask.id.clone(),
                });
            }
            for (field, text) in [(TextField::Id, &subtask.id.0), (TextField::Title, &subtask.title)] {
                let unseen = text.chars().find(|c| c.is_control() || is_invisible(*c));
                errors.extend(unseen.map(|character| PlanError::UnseenCharacter {
                    index,
                    field,
                    character,
                }));
            }
            work_errors(subtask, rules, &mut agents, &mut errors);
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
            if calls.is_empty() {
                errors.push(PlanError::NoCalls { subtask: name() });
            }
            for (call, planned) in calls.iter().enumerate() {
                if let Err(error) = rules.tools.check_any(&planned.tool, &planned.parameters) {
                    errors.push(PlanError::BadCall {
                        subtask: name(),
                        call,
                        error,
                    });
                }
            }
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
    if exceeds(agents, rules.agents_left) {
        errors.push(PlanError::TooManyAgents {
            count: agents,
            remaining: rules.agents_left,
        });
    }
}

/// The agents by name. A name that many sub-tasks get wrong is looked for once.
struct AgentNames<'a> {
    known: &'a [AgentSpec],
    seen: BTreeMap<&'a str, Option<Option<&'a str>>>,
}

impl<'a> AgentNames<'a> {
    fn new(known: &'a [AgentSpec]) -> Self {
        let seen = known.iter().map(|agent| (agent.name.as_str(), None)).collect();
        AgentNames { known, seen }
    }

    /// `None` for an agent that exists, else the one most like it, if there is one.
    fn unknown(&mut self, name: &'a str) -> Option<Option<&'a str>> {
        let known = self.known;
        *self
            .seen
            .entry(name)
            .or_insert_with(|| Some(nearest(name, known.iter().map(|agent| agent.name.as_str()))))
    }
}

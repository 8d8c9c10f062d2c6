//! Errors of a plan, in words for the planner.

use std::fmt;

use crate::call::CallError;
use crate::id::SubTaskId;
use crate::name::{did_you_mean, quoted, quoted_list};

/// An error in a plan. The message tells the planner what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A sub-task has an empty id.
    #[error("subtasks[{index}] has an empty `id`: give it a short name of its own, such as `step-{}`", index + 1)]
    EmptyId {
        /// Index of the sub-task in the plan.
        index: usize,
    },
    /// A sub-task has an empty title.
    #[error("sub-task {} has an empty `title`: say in a few words what it is", quoted(&subtask.0))]
    EmptyTitle {
        /// The sub-task.
        subtask: SubTaskId,
    },
    /// An id or a title contains an invisible character, so that it would not read as shown.
    #[error(
        "the {field} of subtasks[{index}] has the character U+{:04X}, which is invisible: remove it",
        u32::from(*character)
    )]
    InvisibleCharacter {
        /// Index of the sub-task in the plan.
        index: usize,
        /// The field with the character.
        field: TextField,
        /// The first such character.
        character: char,
    },
    /// Several sub-tasks have the same id.
    #[error("{count} sub-tasks have the id {}: give each one a unique id", quoted(&id.0))]
    DuplicateId {
        /// The id.
        id: SubTaskId,
        /// Number of sub-tasks with this id.
        count: usize,
    },
    /// A sub-task depends on a sub-task that is not in the plan.
    #[error(
        "sub-task {} depends on {}, which is not in the plan{}: use the id of a sub-task of this plan, or drop the dependency",
        quoted(&subtask.0), quoted(&dependency.0), did_you_mean(nearest.as_ref().map(|id| id.0.as_str()))
    )]
    UnknownDependency {
        /// The dependent sub-task.
        subtask: SubTaskId,
        /// The unknown dependency.
        dependency: SubTaskId,
        /// The most similar id in the plan, if any.
        nearest: Option<SubTaskId>,
    },
    /// A sub-task depends on itself.
    #[error("sub-task {} depends on itself: drop that dependency", quoted(&subtask.0))]
    SelfDependency {
        /// The sub-task.
        subtask: SubTaskId,
    },
    /// Sub-tasks depend on each other. One error per group whose members all depend, directly or indirectly, on each other.
    #[error("{}", describe_cycle(members, others))]
    Cycle {
        /// A shortest cycle through the group's first sub-task: each depends on the next, the last on the first.
        members: Vec<SubTaskId>,
        /// The rest of the group in plan order; they are in further cycles with the members.
        others: Vec<SubTaskId>,
    },
    /// A sub-task is for an agent that does not exist.
    #[error(
        "sub-task {} is for the agent {}, which does not exist{}: the agents are {}",
        quoted(&subtask.0), quoted(agent), did_you_mean(nearest.as_deref()), quoted_list(known.iter().map(String::as_str))
    )]
    UnknownAgent {
        /// The sub-task.
        subtask: SubTaskId,
        /// The unknown agent.
        agent: String,
        /// The most similar agent, if any.
        nearest: Option<String>,
        /// All agents.
        known: Vec<String>,
    },
    /// A sub-task for an agent has an empty task.
    #[error("sub-task {} has an empty `task`: tell the agent all that it needs to know", quoted(&subtask.0))]
    EmptyTask {
        /// The sub-task.
        subtask: SubTaskId,
    },
    /// A sub-task has an empty list of calls.
    #[error("sub-task {} has an empty list of `calls`: name at least one, or give it an `agent` and a `task`", quoted(&subtask.0))]
    NoCalls {
        /// The sub-task.
        subtask: SubTaskId,
    },
    /// A call in the plan is invalid.
    #[error("sub-task {}, calls[{call}]: {error}", quoted(&subtask.0))]
    BadCall {
        /// The sub-task.
        subtask: SubTaskId,
        /// Index of the call in the sub-task.
        call: usize,
        /// The error.
        error: CallError,
    },
    /// The plan has too many sub-tasks.
    #[error(
        "the plan has {count} sub-tasks and may have {max}: merge some, or plan only the next part of the work"
    )]
    TooManySubTasks {
        /// Number of sub-tasks.
        count: usize,
        /// Maximum number of sub-tasks.
        max: u32,
    },
    /// The plan starts more sub-agents than the run may still start.
    #[error(
        "the plan starts {count} sub-agents and the run may start {remaining} more: merge sub-tasks, or use `calls` where tools suffice"
    )]
    TooManyAgents {
        /// Number of sub-agents that the plan starts.
        count: usize,
        /// Number of sub-agents that the run may still start.
        remaining: u32,
    },
    /// The plan answers guidance that does not exist (PAOR-8).
    #[error("`answers_guidance` names {}, {}", listed_numbers(numbers), known_guidance(*known))]
    UnknownGuidance {
        /// The unknown numbers.
        numbers: Vec<u32>,
        /// Number of pieces of guidance that the user gave.
        known: u32,
    },
}

/// A field of a sub-task with text for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextField {
    /// The id.
    Id,
    /// The title.
    Title,
}

impl fmt::Display for TextField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TextField::Id => "`id`",
            TextField::Title => "`title`",
        })
    }
}

fn listed_numbers(numbers: &[u32]) -> String {
    const SHOWN: usize = 20;
    let mut shown: Vec<String> = numbers.iter().take(SHOWN).map(u32::to_string).collect();
    if numbers.len() > SHOWN {
        shown.push(format!("and {} more", numbers.len() - SHOWN));
    }
    shown.join(", ")
}

fn known_guidance(known: u32) -> String {
    let valid = match known {
        0 => return "but the user gave no guidance: leave `answers_guidance` out".to_owned(),
        1 => "the only number of the user's guidance is 1".to_owned(),
        known => format!("the numbers of the user's guidance are 1 to {known}"),
    };
    format!("but {valid}: name only guidance that this plan answers")
}

fn describe_cycle(members: &[SubTaskId], others: &[SubTaskId]) -> String {
    let cycle = listed_path(members);
    if others.is_empty() {
        format!("sub-tasks depend on each other in a cycle: {cycle}. Drop one of these dependencies")
    } else {
        format!(
            "sub-tasks depend on each other in a cycle: {cycle}, and in further cycles with these: {}. Drop dependencies until no cycle is left",
            quoted_list(others.iter().map(|id| id.0.as_str()))
        )
    }
}

/// Formats a cycle as `a` → `b` → `a`, cutting a long one.
fn listed_path(members: &[SubTaskId]) -> String {
    const SHOWN: usize = 20;
    let mut steps: Vec<String> = members.iter().take(SHOWN).map(|id| quoted(&id.0)).collect();
    if members.len() > SHOWN {
        steps.push(format!("… ({} more)", members.len() - SHOWN));
    }
    steps.extend(members.first().map(|id| quoted(&id.0)));
    steps.join(" → ")
}

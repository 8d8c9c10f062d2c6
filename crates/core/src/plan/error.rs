//! The errors of a plan, written for the planner.

use std::fmt;

use crate::call::CallError;
use crate::id::SubTaskId;
use crate::name::{did_you_mean, quoted, quoted_list};

/// One thing that is wrong with a plan. The message is for the planner: what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A sub-task without a name.
    #[error("subtasks[{index}] has an empty `id`: give it a short name of its own, such as `step-{}`", index + 1)]
    EmptyId {
        /// Its place in the plan, from 0.
        index: usize,
    },
    /// A sub-task that does not say what it is.
    #[error("sub-task {} has an empty `title`: say in a few words what it is", quoted(&subtask.0))]
    EmptyTitle {
        /// Which.
        subtask: SubTaskId,
    },
    /// A name or title with a character that is not seen: it would say one thing and show another.
    #[error(
        "the {field} of subtasks[{index}] has the character U+{:04X}, which cannot be seen: leave it out",
        u32::from(*character)
    )]
    UnseenCharacter {
        /// Its place in the plan, from 0.
        index: usize,
        /// Where in it.
        field: TextField,
        /// The first such character.
        character: char,
    },
    /// Several sub-tasks of one name.
    #[error("{count} sub-tasks have the id {}: give each an id of its own", quoted(&id.0))]
    DuplicateId {
        /// The name.
        id: SubTaskId,
        /// How many have it.
        count: usize,
    },
    /// A dependency on a sub-task that is not in the plan.
    #[error(
        "sub-task {} depends on {}, which is not in the plan{}: use the id of a sub-task of this plan, or drop the dependency",
        quoted(&subtask.0), quoted(&dependency.0), did_you_mean(nearest.as_ref().map(|id| id.0.as_str()))
    )]
    UnknownDependency {
        /// The dependent.
        subtask: SubTaskId,
        /// What it names.
        dependency: SubTaskId,
        /// The most similar id of the plan, where one is similar.
        nearest: Option<SubTaskId>,
    },
    /// A sub-task that waits for itself.
    #[error("sub-task {} depends on itself: drop that dependency", quoted(&subtask.0))]
    SelfDependency {
        /// Which.
        subtask: SubTaskId,
    },
    /// Sub-tasks that wait for each other. One error for each group in which every member waits, directly or not, for
    /// every other.
    #[error("{}", describe_cycle(members, others))]
    Cycle {
        /// A shortest cycle through the group's first sub-task: each depends on the next, the last on the first.
        members: Vec<SubTaskId>,
        /// The rest of the group, in plan order: they are in other cycles with these.
        others: Vec<SubTaskId>,
    },
    /// A sub-agent that does not exist.
    #[error(
        "sub-task {} is for the agent {}, which does not exist{}: the agents are {}",
        quoted(&subtask.0), quoted(agent), did_you_mean(nearest.as_deref()), quoted_list(known.iter().map(String::as_str))
    )]
    UnknownAgent {
        /// Which sub-task.
        subtask: SubTaskId,
        /// What it names.
        agent: String,
        /// The most similar agent, where one is similar.
        nearest: Option<String>,
        /// The agents that there are.
        known: Vec<String>,
    },
    /// A sub-agent without a brief.
    #[error("sub-task {} has an empty `task`: tell the agent all that it needs to know", quoted(&subtask.0))]
    EmptyTask {
        /// Which.
        subtask: SubTaskId,
    },
    /// A sequence of no calls.
    #[error("sub-task {} has an empty list of `calls`: name at least one, or give it an `agent` and a `task`", quoted(&subtask.0))]
    NoCalls {
        /// Which.
        subtask: SubTaskId,
    },
    /// A call that could not run.
    #[error("sub-task {}, calls[{call}]: {error}", quoted(&subtask.0))]
    BadCall {
        /// Which sub-task.
        subtask: SubTaskId,
        /// The call's place in its list, from 0.
        call: usize,
        /// What is wrong with it.
        error: CallError,
    },
    /// More sub-tasks than a plan may have.
    #[error(
        "the plan has {count} sub-tasks and may have {max}: merge some, or plan only the next part of the work"
    )]
    TooManySubTasks {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: u32,
    },
    /// More sub-agents than the run may still start.
    #[error(
        "the plan starts {count} sub-agents and the run may start {remaining} more: merge sub-tasks, or use `calls` where tools suffice"
    )]
    TooManyAgents {
        /// How many it starts.
        count: usize,
        /// How many it may start.
        remaining: u32,
    },
    /// Guidance that the user never gave (PAOR-8).
    #[error("`answers_guidance` names {}, {}", listed_numbers(numbers), known_guidance(*known))]
    UnknownGuidance {
        /// The numbers that no guidance has.
        numbers: Vec<u32>,
        /// How many pieces of guidance there are.
        known: u32,
    },
}

/// A text of a sub-task that people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextField {
    /// Its name in the plan.
    Id,
    /// What it is.
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
    let ring = listed_path(members);
    if others.is_empty() {
        format!("sub-tasks wait for each other in a circle: {ring}. Drop one of these dependencies")
    } else {
        format!(
            "sub-tasks wait for each other in circles: {ring}, and in further circles with these: {}. Drop dependencies until no circle is left",
            quoted_list(others.iter().map(|id| id.0.as_str()))
        )
    }
}

/// `a` → `b` → `a`; a long way is shortened in the middle.
fn listed_path(members: &[SubTaskId]) -> String {
    const SHOWN: usize = 20;
    let mut steps: Vec<String> = members.iter().take(SHOWN).map(|id| quoted(&id.0)).collect();
    if members.len() > SHOWN {
        steps.push(format!("… ({} more)", members.len() - SHOWN));
    }
    steps.extend(members.first().map(|id| quoted(&id.0)));
    steps.join(" → ")
}

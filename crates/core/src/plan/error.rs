//! Errors in plans, with messages for the lead.

use std::fmt;

use crate::call::CallError;
use crate::id::SubTaskId;
use crate::name::{did_you_mean, quoted, quoted_list};

/// An error in a plan. The message tells the lead what the problem is, where it is, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A sub-task has an empty id.
    #[error("subtasks[{index}] has an empty `id`: give it a short unique id, such as `step-{}`", index + 1)]
    EmptyId {
        /// Index of the sub-task in the plan.
        index: usize,
    },
    /// A sub-task has the id that is reserved for the lead's own work (LEAD-3).
    #[error("subtasks[{index}] has the id `lead`, which stands for your own work: give it another id")]
    ReservedId {
        /// Index of the sub-task in the plan.
        index: usize,
    },
    /// A sub-task has an empty title.
    #[error("sub-task {} has an empty `title`: describe the sub-task in a few words", quoted(&subtask.0))]
    EmptyTitle {
        /// The id of the sub-task.
        subtask: SubTaskId,
    },
    /// An id or a title contains an invisible character, so it is not displayed as written.
    #[error(
        "the {field} of subtasks[{index}] contains the invisible character U+{:04X}: remove it",
        u32::from(*character)
    )]
    InvisibleCharacter {
        /// Index of the sub-task in the plan.
        index: usize,
        /// The field with the character.
        field: TextField,
        /// The first invisible character.
        character: char,
    },
    /// Several sub-tasks have the same id.
    #[error("{count} sub-tasks have the id {}: give each one a unique id", quoted(&id.0))]
    DuplicateId {
        /// The duplicated id.
        id: SubTaskId,
        /// Number of sub-tasks with this id.
        count: usize,
    },
    /// A sub-task depends on a sub-task that does not exist in the plan.
    #[error(
        "sub-task {} depends on {}, which is not in the plan{}: use the id of a sub-task of this plan, or remove the dependency",
        quoted(&subtask.0), quoted(&dependency.0), did_you_mean(nearest.as_ref().map(|id| id.0.as_str()))
    )]
    UnknownDependency {
        /// The id of the dependent sub-task.
        subtask: SubTaskId,
        /// The unknown id in `depends_on`.
        dependency: SubTaskId,
        /// The most similar id in the plan, if any.
        nearest: Option<SubTaskId>,
    },
    /// A sub-task depends on itself.
    #[error("sub-task {} depends on itself: remove this dependency", quoted(&subtask.0))]
    SelfDependency {
        /// The id of the sub-task.
        subtask: SubTaskId,
    },
    /// Sub-tasks depend on each other in a cycle. There is one error per group of sub-tasks that all depend on each other, directly or
    /// indirectly.
    #[error("{}", describe_cycle(members, others))]
    Cycle {
        /// A shortest cycle through the group's first sub-task. Each member depends on the next, and the last depends on the first.
        members: Vec<SubTaskId>,
        /// The other sub-tasks of the group, in plan order. They form further cycles with the members.
        others: Vec<SubTaskId>,
    },
    /// A sub-task is assigned to an agent that does not exist.
    #[error(
        "sub-task {} is assigned to the agent {}, which does not exist{}: the available agents are {}",
        quoted(&subtask.0), quoted(agent), did_you_mean(nearest.as_deref()), quoted_list(known.iter().map(String::as_str))
    )]
    UnknownAgent {
        /// The id of the sub-task.
        subtask: SubTaskId,
        /// The unknown agent.
        agent: String,
        /// The name of the most similar agent, if any.
        nearest: Option<String>,
        /// The names of all agents.
        known: Vec<String>,
    },
    /// A sub-task with an agent has an empty task.
    #[error("sub-task {} has an empty `task`: write everything that the agent needs to know", quoted(&subtask.0))]
    EmptyTask {
        /// The id of the sub-task.
        subtask: SubTaskId,
    },
    /// A sub-task has an empty list of calls.
    #[error("sub-task {} has an empty list of `calls`: add at least one call, or set `agent` and `task` instead", quoted(&subtask.0))]
    NoCalls {
        /// The id of the sub-task.
        subtask: SubTaskId,
    },
    /// A sub-task has calls although the run's workflow gives all work to an agent.
    #[error(
        "sub-task {} has `calls`, but the user's workflow gives all work to the agent {}: set `agent` and `task` instead",
        quoted(&subtask.0), quoted(agent)
    )]
    OnlyAgent {
        /// The id of the sub-task.
        subtask: SubTaskId,
        /// The name of the agent.
        agent: String,
    },
    /// A call in the plan is invalid.
    #[error("sub-task {}, calls[{call}]: {error}", quoted(&subtask.0))]
    BadCall {
        /// The id of the sub-task.
        subtask: SubTaskId,
        /// Index of the call in the sub-task.
        call: usize,
        /// The error in the call.
        error: CallError,
    },
    /// A rule of the user denies a call in the plan, so the call would never run.
    #[error("sub-task {}, calls[{call}]: {rule}: plan another way, without this call", quoted(&subtask.0))]
    DeniedCall {
        /// The id of the sub-task.
        subtask: SubTaskId,
        /// Index of the call in the sub-task.
        call: usize,
        /// A description of the rule.
        rule: String,
    },
    /// A call in the plan uses a tool that only agents may use.
    #[error(
        "sub-task {}, calls[{call}]: `calls` cannot use {}: it is for agents; name an agent, or use it yourself",
        quoted(&subtask.0), quoted(tool)
    )]
    ToolOfAgents {
        /// The id of the sub-task.
        subtask: SubTaskId,
        /// Index of the call in the sub-task.
        call: usize,
        /// The tool of the call.
        tool: String,
    },
    /// The plan has too many sub-tasks.
    #[error(
        "the plan has {count} sub-tasks, but the maximum is {max}: merge some, or plan only the next part of the work"
    )]
    TooManySubTasks {
        /// Number of sub-tasks.
        count: usize,
        /// Maximum number of sub-tasks.
        max: u32,
    },
    /// The plan starts more sub-agents than the run may still start.
    #[error(
        "the plan starts {count} sub-agents, but the run may start only {remaining} more: merge sub-tasks, or use `calls` where tools suffice"
    )]
    TooManyAgents {
        /// Number of sub-agents that the plan starts.
        count: usize,
        /// Number of sub-agents that the run may still start.
        remaining: u32,
    },
    /// `answers_guidance` lists numbers for which there is no guidance (PAOR-8).
    #[error("`answers_guidance` contains {}, {}", listed_numbers(numbers), known_guidance(*known))]
    UnknownGuidance {
        /// The numbers without guidance.
        numbers: Vec<u32>,
        /// Number of guidance entries that the user gave.
        known: u32,
    },
}

/// A text field of a sub-task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextField {
    /// The sub-task's id.
    Id,
    /// The sub-task's title.
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
        0 => return "but the user gave no guidance: omit `answers_guidance`".to_owned(),
        1 => "the user gave only guidance 1".to_owned(),
        known => format!("the user's guidance is numbered from 1 to {known}"),
    };
    format!("but {valid}: list only guidance that this plan answers")
}

fn describe_cycle(members: &[SubTaskId], others: &[SubTaskId]) -> String {
    let cycle = listed_path(members);
    if others.is_empty() {
        format!("sub-tasks depend on each other in a cycle: {cycle}. Remove one of these dependencies")
    } else {
        format!(
            "sub-tasks depend on each other in a cycle: {cycle}. They form further cycles with {}. Remove dependencies until no cycle remains",
            quoted_list(others.iter().map(|id| id.0.as_str()))
        )
    }
}

/// Formats a cycle as `a` → `b` → `a`, and omits the end of a long one.
fn listed_path(members: &[SubTaskId]) -> String {
    const SHOWN: usize = 20;
    let mut steps: Vec<String> = members.iter().take(SHOWN).map(|id| quoted(&id.0)).collect();
    if members.len() > SHOWN {
        steps.push(format!("… ({} more)", members.len() - SHOWN));
    }
    steps.extend(members.first().map(|id| quoted(&id.0)));
    steps.join(" → ")
}

//! Draws a plan that is waiting for the user's approval (LEAD-2).

use std::sync::Arc;

use dirigent_core::plan::{Plan, PlanGraph, PlannedCall, SubTask, Work};
use dirigent_core::setup::RunSetup;
use dirigent_core::tool::Access;

use super::graph::{plain_text, tree_of};

/// Draws a proposed plan as an indented tree: each sub-task with its agent or tools, and whether it may change something. `None` if the plan
/// is not valid.
pub fn proposal(plan: &Plan, setup: &RunSetup) -> Option<String> {
    let graph = PlanGraph::new(Arc::new(plan.clone())).ok()?;
    let label = |index: usize| {
        let subtask = &plan.subtasks[index];
        let (title, id) = (plain_text(&subtask.title), plain_text(&subtask.id.0));
        let (worker, effect) = worker(subtask, setup);
        let may_fail = if subtask.may_fail { ", may fail" } else { "" };
        format!("{title} [{id}] — {}: {effect}{may_fail}", plain_text(&worker))
    };
    Some(tree_of(&graph, &label))
}

/// Returns who works on a sub-task, and what the worker may change.
fn worker(subtask: &SubTask, setup: &RunSetup) -> (String, &'static str) {
    match &subtask.work {
        Work::Agent { agent, .. } => {
            let effect = match setup.agent(agent).map(|agent| agent.access) {
                Some(Access::ReadOnly) => "changes nothing",
                Some(Access::Execute) => "may run commands",
                Some(Access::ReadWrite) | None => "may change files and run commands",
            };
            (agent.clone(), effect)
        }
        Work::Calls { calls } => {
            let mut names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
            names.dedup();
            let changes = calls.iter().any(|call| may_change(call, setup));
            let effect = if changes {
                "may change something"
            } else {
                "changes nothing"
            };
            (names.join(", "), effect)
        }
    }
}

/// Returns true unless the call is safe to repeat. A tool that the run does not have may change anything.
fn may_change(call: &PlannedCall, setup: &RunSetup) -> bool {
    let tool = setup.tools.iter().find(|tool| tool.name == call.tool);
    tool.is_none_or(|tool| !tool.repeat.is_safe(&call.parameters))
}

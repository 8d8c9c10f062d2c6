//! Plans whose sub-tasks differ only in ids and dependencies.

use std::sync::Arc;

use dirigent_core::plan::{Plan, PlanGraph, SubTask, Work};

pub fn subtask(id: &str, depends_on: &[&str]) -> SubTask {
    SubTask {
        id: id.into(),
        title: format!("Do {id}"),
        depends_on: depends_on.iter().map(|id| (*id).into()).collect(),
        may_fail: false,
        work: Work::Agent {
            agent: "explore".to_owned(),
            task: "Look.".to_owned(),
        },
    }
}

pub fn plan(subtasks: Vec<SubTask>) -> Plan {
    Plan {
        summary: "A plan.".to_owned(),
        answers_guidance: Vec::new(),
        subtasks,
    }
}

pub fn graph(subtasks: &[(&str, &[&str])]) -> PlanGraph {
    let subtasks = subtasks
        .iter()
        .map(|(id, depends_on)| subtask(id, depends_on))
        .collect();
    PlanGraph::new(Arc::new(plan(subtasks))).unwrap()
}

/// Sub-tasks by number, each with the numbers of its dependencies. A dependency has a smaller number, unless a test
/// needs a cycle.
pub fn numbered(dependencies: &[Vec<usize>]) -> Arc<Plan> {
    let subtasks = dependencies.iter().enumerate().map(|(index, depends_on)| {
        let depends_on: Vec<String> = depends_on.iter().map(|index| format!("t{index}")).collect();
        let depends_on: Vec<&str> = depends_on.iter().map(String::as_str).collect();
        subtask(&format!("t{index}"), &depends_on)
    });
    Arc::new(plan(subtasks.collect()))
}

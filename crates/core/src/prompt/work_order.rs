//! The order of the work in an iteration: which results were outdated by the changes of later calls.

use std::collections::BTreeSet;

use crate::confirmation::Outdated;
use crate::id::SubTaskId;
use crate::observation::{Observation, SubTaskResult};
use crate::plan::{LEAD, Plan};

/// The order in which sub-tasks did their work, as far as the plan determines it.
#[derive(Clone, Copy)]
pub(super) struct WorkOrder<'a> {
    pub(super) observed: &'a [Observation],
    pub(super) plan: Option<&'a Plan>,
}

impl WorkOrder<'_> {
    /// Returns what the sub-tasks have outdated that began after this one had ended.
    pub(super) fn outdated_by_later(self, observation: &Observation) -> Vec<Outdated> {
        let later = self
            .observed
            .iter()
            .filter(|other| self.began_after(&other.subtask, observation));
        later
            .flat_map(|other| outdates(&other.finding))
            .filter(|outdated| *outdated != Outdated::Nothing)
            .collect()
    }

    /// The plan's sub-tasks begin once the lead has ended, and once all that they depend on has ended.
    fn began_after(self, later: &SubTaskId, earlier: &Observation) -> bool {
        if *later == earlier.subtask || later.0 == LEAD {
            return false;
        }
        let mut reached = BTreeSet::from([later]);
        let mut open = vec![later];
        while let (Some(plan), Some(next)) = (self.plan, open.pop()) {
            let subtask = plan.subtasks.iter().find(|subtask| subtask.id == *next);
            for dependency in subtask.into_iter().flat_map(|subtask| &subtask.depends_on) {
                if reached.insert(dependency) {
                    open.push(dependency);
                }
            }
        }
        earlier.subtask.0 == LEAD || reached.contains(&earlier.subtask)
    }
}

/// Returns what each call of a sub-task has outdated, in order.
pub(super) fn outdates(finding: &SubTaskResult) -> Vec<Outdated> {
    match finding {
        SubTaskResult::Calls { calls } => calls
            .iter()
            .map(|call| Outdated::from_result(&call.result))
            .collect(),
        SubTaskResult::Agent { work, .. } => work.calls.iter().map(|call| call.outdates).collect(),
        SubTaskResult::Skipped { .. } => Vec::new(),
    }
}

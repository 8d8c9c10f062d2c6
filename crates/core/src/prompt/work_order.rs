//! The order of the work in an iteration: which results were outdated by the changes of later calls.

use std::collections::BTreeMap;

use crate::confirmation::Outdated;
use crate::id::SubTaskId;
use crate::observation::{Observation, SubTaskResult};
use crate::plan::{LEAD, Plan, SubTask};

/// What the sub-tasks have outdated that began after another one had ended, as far as the plan determines the order. Computed once, in
/// time proportional to the size of the plan.
pub(super) struct WorkOrder<'a> {
    /// By the earlier sub-task.
    later: BTreeMap<&'a SubTaskId, Kinds>,
    /// The plan's sub-tasks begin once the lead has ended.
    after_lead: Kinds,
}

/// Which of [`Outdated`] occur.
#[derive(Clone, Copy, Default)]
struct Kinds {
    files: bool,
    databases: bool,
    everything: bool,
}

impl Kinds {
    fn of(finding: &SubTaskResult) -> Self {
        let all = outdates(finding);
        let has = |kind| all.contains(&kind);
        Kinds {
            files: has(Outdated::Files),
            databases: has(Outdated::Databases),
            everything: has(Outdated::Everything),
        }
    }

    fn and(self, other: Kinds) -> Self {
        Kinds {
            files: self.files || other.files,
            databases: self.databases || other.databases,
            everything: self.everything || other.everything,
        }
    }
}

impl<'a> WorkOrder<'a> {
    pub(super) fn new(observed: &'a [Observation], plan: Option<&'a Plan>) -> Self {
        let planned = observed.iter().filter(|one| one.subtask.0 != LEAD);
        let own: BTreeMap<&SubTaskId, Kinds> = planned
            .map(|one| (&one.subtask, Kinds::of(&one.finding)))
            .collect();
        let subtasks: &[SubTask] = plan.map_or(&[], |plan| &plan.subtasks);
        let by_id: BTreeMap<&SubTaskId, &SubTask> =
            subtasks.iter().map(|subtask| (&subtask.id, subtask)).collect();
        // A sub-task is visited after all that depend on it, so what comes after it is known by then.
        let mut unvisited: BTreeMap<&SubTaskId, usize> = BTreeMap::new();
        for dependency in subtasks.iter().flat_map(|subtask| &subtask.depends_on) {
            *unvisited.entry(dependency).or_default() += 1;
        }
        let is_last = |subtask: &&SubTask| !unvisited.contains_key(&subtask.id);
        let mut open: Vec<&SubTask> = subtasks.iter().filter(is_last).collect();
        let mut later: BTreeMap<&SubTaskId, Kinds> = BTreeMap::new();
        while let Some(subtask) = open.pop() {
            let kinds_of =
                |map: &BTreeMap<&SubTaskId, Kinds>| map.get(&subtask.id).copied().unwrap_or_default();
            let kinds = kinds_of(&later).and(kinds_of(&own));
            for dependency in &subtask.depends_on {
                let known = later.entry(dependency).or_default();
                *known = known.and(kinds);
                if let Some(count) = unvisited.get_mut(dependency) {
                    *count -= 1;
                    if *count == 0 {
                        open.extend(by_id.get(dependency));
                    }
                }
            }
        }
        WorkOrder {
            later,
            after_lead: own.values().fold(Kinds::default(), |all, one| all.and(*one)),
        }
    }

    /// Returns what the sub-tasks have outdated that began after this one had ended.
    pub(super) fn outdated_by_later(&self, observation: &Observation) -> Vec<Outdated> {
        let kinds = match observation.subtask.0 == LEAD {
            true => self.after_lead,
            false => self.later.get(&observation.subtask).copied().unwrap_or_default(),
        };
        [
            (kinds.files, Outdated::Files),
            (kinds.databases, Outdated::Databases),
            (kinds.everything, Outdated::Everything),
        ]
        .into_iter()
        .filter_map(|(occurs, kind)| occurs.then_some(kind))
        .collect()
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

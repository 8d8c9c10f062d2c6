//! One iteration of a run: its plan, observations and reflection.

use std::collections::BTreeMap;

use crate::agent_report::AgentWork;
use crate::id::AgentId;
use crate::observation::{Observation, ObservedCall, SubTaskResult};
use crate::plan::PlanGraph;
use crate::reflection::{Reflection, ReflectionVerdict};
use crate::time::Timestamp;
use crate::tool::StateChange;

/// One iteration of a run: its plan, observations and reflection.
#[derive(Clone, Debug, PartialEq)]
pub struct Iteration {
    /// The iteration's number, from 1.
    pub number: u32,
    /// The plan and the states of its sub-tasks; empty if the lead did the work without a plan.
    pub graph: PlanGraph,
    has_plan: bool,
    /// The lead's own work, if it acted (LEAD-3), then the observations of ended sub-tasks, in the order in which they ended.
    pub observations: Vec<Observation>,
    /// The reflector's evaluation of the iteration; `None` until it exists.
    pub reflection: Option<Reflection>,
    /// A note that the run ended during this iteration and was resumed, with the end reason and the unfinished sub-tasks. `None` if the
    /// iteration was not interrupted.
    pub(super) interrupted: Option<String>,
    /// Indexes into `observations`, by the sub-task's index in the plan.
    pub(super) observed: BTreeMap<usize, usize>,
    /// The running sub-tasks, by index in the plan.
    pub(super) active: BTreeMap<usize, ActiveSubTask>,
}

/// A running sub-task.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveSubTask {
    /// When the sub-task started.
    pub since: Timestamp,
    /// The agent that works on the sub-task; `None` if the sub-task is a sequence of calls.
    pub agent: Option<AgentId>,
    pub(super) calls: Vec<ObservedCall>,
}

impl Iteration {
    /// Creates an iteration with the lead's own work, if it acted, and the graph of its plan, if it made one.
    pub(super) fn new(iteration: u32, lead: Option<Observation>, graph: Option<PlanGraph>) -> Self {
        Iteration {
            number: iteration,
            has_plan: graph.is_some(),
            graph: graph.unwrap_or_else(PlanGraph::empty),
            observations: lead.into_iter().collect(),
            reflection: None,
            interrupted: None,
            observed: BTreeMap::new(),
            active: BTreeMap::new(),
        }
    }

    /// Returns true if the lead made a plan, and false if it did the work itself and ended with text.
    pub fn has_plan(&self) -> bool {
        self.has_plan
    }

    /// Returns true if the reflector found the goal achieved at the end of this iteration.
    pub fn is_achieved(&self) -> bool {
        let reflection = self.reflection.as_ref();
        reflection.is_some_and(|reflection| reflection.verdict == ReflectionVerdict::Achieved)
    }

    /// The running sub-tasks, by index in the plan.
    pub fn active(&self) -> impl Iterator<Item = (usize, &ActiveSubTask)> {
        self.active.iter().map(|(index, active)| (*index, active))
    }

    /// The observation of the sub-task at this index of the plan; `None` until it has ended.
    pub fn observation(&self, index: usize) -> Option<&Observation> {
        self.observations.get(*self.observed.get(&index)?)
    }

    pub(super) fn observe(&mut self, index: usize, now: Timestamp, finding: SubTaskResult) {
        let subtask = &self.graph.plan().subtasks[index];
        let started = self.active.remove(&index).map(|active| active.since);
        self.observed.insert(index, self.observations.len());
        self.observations.push(Observation {
            subtask: subtask.id.clone(),
            title: subtask.title.clone(),
            duration: started.map_or_else(Default::default, |since| now - since),
            may_fail: subtask.may_fail,
            finding,
        });
    }
}

/// Returns the changes made by ended sub-tasks, then by finished calls of running sub-tasks, then by agents that have not reported yet.
pub(super) fn changes<'a>(
    iterations: &'a [Iteration],
    unreported: &'a [&AgentWork],
) -> impl Iterator<Item = &'a StateChange> {
    let observations = iterations.iter().flat_map(|iteration| &iteration.observations);
    let ended = observations.flat_map(Observation::changes);
    let active = iterations.iter().flat_map(|iteration| iteration.active.values());
    let running = active.flat_map(|active| active.calls.iter().flat_map(|call| &call.result.changes));
    ended
        .chain(running)
        .chain(unreported.iter().flat_map(|work| &work.changes))
}

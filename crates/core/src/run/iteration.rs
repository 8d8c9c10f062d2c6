//! One iteration of a run: its plan and what came of it.

use std::collections::BTreeMap;

use crate::id::AgentId;
use crate::observation::{Observation, ObservedCall, SubTaskResult};
use crate::plan::PlanGraph;
use crate::reflection::Reflection;
use crate::time::Timestamp;

/// One iteration: a plan, what was observed of it, and the judgement.
#[derive(Clone, Debug, PartialEq)]
pub struct Iteration {
    /// Its number, from 1.
    pub number: u32,
    /// The plan and how far it is.
    pub graph: PlanGraph,
    /// The ends of its sub-tasks, in their order.
    pub observations: Vec<Observation>,
    /// The judgement, once there is one.
    pub reflection: Option<Reflection>,
    /// Why the run ended within it, if it was resumed since: the plan was not carried out to its end.
    pub(super) cut_off: Option<String>,
    /// Which observation belongs to which sub-task of the plan.
    pub(super) observed: BTreeMap<usize, usize>,
    /// The sub-tasks that run now.
    pub(super) active: BTreeMap<usize, ActiveSubTask>,
}

/// A sub-task that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveSubTask {
    /// When it started.
    pub since: Timestamp,
    /// The agent that works on it; none for a sequence of calls.
    pub agent: Option<AgentId>,
    pub(super) calls: Vec<ObservedCall>,
}

impl Iteration {
    pub(super) fn new(iteration: u32, graph: PlanGraph) -> Self {
        Iteration {
            number: iteration,
            graph,
            observations: Vec::new(),
            reflection: None,
            cut_off: None,
            observed: BTreeMap::new(),
            active: BTreeMap::new(),
        }
    }

    /// The sub-tasks that run now, by their index in the plan.
    pub fn active(&self) -> impl Iterator<Item = (usize, &ActiveSubTask)> {
        self.active.iter().map(|(index, active)| (*index, active))
    }

    /// The observation of the sub-task at that index of the plan, once it has ended.
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
            finding,
        });
    }
}

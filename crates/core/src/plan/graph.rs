//! The plan while it is carried out: which sub-task may start, which never will (PAOR-4). It starts nothing itself.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use petgraph::Direction;
use petgraph::graph::NodeIndex;
use serde::{Deserialize, Serialize};

use super::Plan;
use super::error::PlanError;
use super::structure::{DependencyGraph, PlanStructure, build_structure};

/// Where a sub-task is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubTaskState {
    /// Something that it depends on has not ended yet.
    Waiting,
    /// All that it depends on succeeded: it may start.
    Ready,
    /// It was started.
    Running,
    /// It did what it was for.
    Succeeded,
    /// It did not.
    Failed,
    /// It never starts, as something that it depends on, directly or not, failed, or as the user's guidance changed the plan (PAOR-8).
    Skipped,
}

impl fmt::Display for SubTaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SubTaskState::Waiting => "waiting",
            SubTaskState::Ready => "ready",
            SubTaskState::Running => "running",
            SubTaskState::Succeeded => "succeeded",
            SubTaskState::Failed => "failed",
            SubTaskState::Skipped => "skipped",
        })
    }
}

/// How a sub-task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubTaskOutcome {
    /// Its dependents may run.
    Succeeded,
    /// Its dependents are skipped.
    Failed,
}

/// A sub-task that never starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Which.
    pub index: usize,
    /// The sub-task whose failure is the cause.
    pub because: usize,
}

/// How many sub-tasks are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubTaskCounts {
    /// [`SubTaskState::Waiting`].
    pub waiting: usize,
    /// [`SubTaskState::Ready`].
    pub ready: usize,
    /// [`SubTaskState::Running`].
    pub running: usize,
    /// [`SubTaskState::Succeeded`].
    pub succeeded: usize,
    /// [`SubTaskState::Failed`].
    pub failed: usize,
    /// [`SubTaskState::Skipped`].
    pub skipped: usize,
}

impl SubTaskCounts {
    /// Sub-tasks in any state.
    pub fn total(&self) -> usize {
        self.waiting + self.ready + self.running + self.ended()
    }

    /// Sub-tasks that will not change any more.
    pub fn ended(&self) -> usize {
        self.succeeded + self.failed + self.skipped
    }

    fn count_mut(&mut self, state: SubTaskState) -> &mut usize {
        match state {
            SubTaskState::Waiting => &mut self.waiting,
            SubTaskState::Ready => &mut self.ready,
            SubTaskState::Running => &mut self.running,
            SubTaskState::Succeeded => &mut self.succeeded,
            SubTaskState::Failed => &mut self.failed,
            SubTaskState::Skipped => &mut self.skipped,
        }
    }
}

/// A plan with the state of each of its sub-tasks, which are named by their index in [`Plan::subtasks`]. A whole run takes
/// time linear in sub-tasks and dependencies (and the logarithm of how many are ready at once).
#[derive(Clone, Debug)]
pub struct PlanGraph {
    plan: Arc<Plan>,
    graph: Arc<DependencyGraph>,
    states: Vec<SubTaskState>,
    /// For each sub-task, how many of its dependencies have not succeeded yet.
    missing: Vec<usize>,
    ready: BTreeSet<usize>,
    counts: SubTaskCounts,
}

/// All else follows from these two.
impl PartialEq for PlanGraph {
    fn eq(&self, other: &Self) -> bool {
        self.states == other.states && self.plan == other.plan
    }
}

impl PlanGraph {
    /// The plan before its start. Refused with every duplicate, dangling and cyclic dependency, and nothing else:
    /// [`Plan::validate`] checks the rest.
    pub fn new(plan: Arc<Plan>) -> Result<PlanGraph, Vec<PlanError>> {
        let PlanStructure { graph, errors } = build_structure(&plan);
        if !errors.is_empty() {
            return Err(errors);
        }
        let missing: Vec<usize> = graph
            .node_indices()
            .map(|node| graph.neighbors_directed(node, Direction::Incoming).count())
            .collect();
        let ready: BTreeSet<usize> = (0..missing.len()).filter(|index| missing[*index] == 0).collect();
        let states = missing
            .iter()
            .map(|missing| match missing {
                0 => SubTaskState::Ready,
                _ => SubTaskState::Waiting,
            })
            .collect();
        let counts = SubTaskCounts {
            waiting: missing.len() - ready.len(),
            ready: ready.len(),
            ..SubTaskCounts::default()
        };
        Ok(PlanGraph {
            plan,
            graph: Arc::new(graph),
            states,
            missing,
            ready,
            counts,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The first sub-task in plan order that may start; it counts as running from now on.
    pub fn next_ready(&mut self) -> Option<usize> {
        let index = self.ready.pop_first()?;
        self.set(index, SubTaskState::Running);
        Some(index)
    }

    /// A running sub-task has ended. Gives the sub-tasks that are skipped for it, in plan order; each is skipped once, for
    /// the first failure that reaches it. A sub-task that is not running is left as it is, and nothing follows.
    pub fn finish(&mut self, index: usize, success: SubTaskOutcome) -> Vec<Skipped> {
        if self.states.get(index) != Some(&SubTaskState::Running) {
            return Vec::new();
        }
        match success {
            SubTaskOutcome::Succeeded => {
                self.set(index, SubTaskState::Succeeded);
                self.release_dependents(index);
                Vec::new()
            }
            SubTaskOutcome::Failed => {
                self.set(index, SubTaskState::Failed);
                self.skip_dependents(index)
            }
        }
    }

    fn release_dependents(&mut self, index: usize) {
        let graph = Arc::clone(&self.graph);
        for dependent in graph.neighbors(NodeIndex::new(index)).map(NodeIndex::index) {
            self.missing[dependent] -= 1;
            if self.missing[dependent] == 0 {
                self.set(dependent, SubTaskState::Ready);
                self.ready.insert(dependent);
            }
        }
    }

    fn skip_dependents(&mut self, because: usize) -> Vec<Skipped> {
        let graph = Arc::clone(&self.graph);
        let mut skipped = Vec::new();
        let mut open = vec![because];
        while let Some(index) = open.pop() {
            for dependent in graph.neighbors(NodeIndex::new(index)).map(NodeIndex::index) {
                if self.states[dependent] == SubTaskState::Waiting {
                    self.set(dependent, SubTaskState::Skipped);
                    skipped.push(Skipped {
                        index: dependent,
                        because,
                    });
                    open.push(dependent);
                }
            }
        }
        skipped.sort_unstable_by_key(|skipped| skipped.index);
        skipped
    }

    /// Whatever has not started is skipped. Gives it in plan order.
    pub fn skip_rest(&mut self) -> Vec<usize> {
        self.ready.clear();
        let unstarted = |state: SubTaskState| match state {
            SubTaskState::Waiting | SubTaskState::Ready => true,
            SubTaskState::Running
            | SubTaskState::Succeeded
            | SubTaskState::Failed
            | SubTaskState::Skipped => false,
        };
        let rest: Vec<usize> = (0..self.states.len())
            .filter(|index| unstarted(self.states[*index]))
            .collect();
        for index in &rest {
            self.set(*index, SubTaskState::Skipped);
        }
        rest
    }

    fn set(&mut self, index: usize, state: SubTaskState) {
        *self.counts.count_mut(self.states[index]) -= 1;
        *self.counts.count_mut(state) += 1;
        self.states[index] = state;
    }

    /// Where a sub-task is on its way.
    ///
    /// # Panics
    /// Where the plan has no sub-task of that index, as indexing a slice does.
    pub fn state(&self, index: usize) -> SubTaskState {
        self.states[index]
    }

    /// How many sub-tasks are running.
    pub fn running(&self) -> usize {
        self.counts.running
    }

    /// Whether every sub-task has succeeded, failed or been skipped.
    pub fn is_done(&self) -> bool {
        self.counts.ended() == self.states.len()
    }

    /// How many sub-tasks are in each state.
    pub fn counts(&self) -> SubTaskCounts {
        self.counts
    }

    /// What a sub-task depends on, in the order in which it says so, each once. One that the plan does not have depends on
    /// nothing.
    pub fn dependencies(&self, index: usize) -> impl Iterator<Item = usize> {
        self.graph
            .neighbors_directed(NodeIndex::new(index), Direction::Incoming)
            .map(NodeIndex::index)
    }

    /// What depends on a sub-task, in plan order, each once.
    pub fn dependents(&self, index: usize) -> impl Iterator<Item = usize> {
        self.graph.neighbors(NodeIndex::new(index)).map(NodeIndex::index)
    }
}

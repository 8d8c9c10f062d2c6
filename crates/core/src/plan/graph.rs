//! The execution state of a plan: tracks which sub-tasks may start and which are skipped (PAOR-4). Does not start anything itself.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use petgraph::Direction;
use petgraph::graph::NodeIndex;
use serde::{Deserialize, Serialize};

use super::Plan;
use super::error::PlanError;
use super::structure::{DependencyGraph, PlanStructure, build_structure};

/// The state of a sub-task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubTaskState {
    /// At least one dependency is not done yet.
    Waiting,
    /// All dependencies are done, and the sub-task may start.
    Ready,
    /// The sub-task has started.
    Running,
    /// The sub-task succeeded.
    Succeeded,
    /// The sub-task failed.
    Failed,
    /// The sub-task will never start: a direct or indirect dependency failed, or the user's guidance changed the plan (PAOR-8).
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

/// The outcome of an executed sub-task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubTaskOutcome {
    /// The sub-task succeeded, and its dependents may run.
    Succeeded,
    /// The sub-task failed. Its dependents are skipped, unless the sub-task may fail.
    Failed,
    /// The user stopped the sub-task by a decision about one of its calls or by immediate guidance. Its dependents are skipped.
    Stopped,
}

/// A sub-task that is skipped because of a failed dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Index of the skipped sub-task.
    pub index: usize,
    /// Index of the failed sub-task that causes the skip.
    pub because: usize,
}

/// The number of sub-tasks in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubTaskCounts {
    /// Sub-tasks in state [`SubTaskState::Waiting`].
    pub waiting: usize,
    /// Sub-tasks in state [`SubTaskState::Ready`].
    pub ready: usize,
    /// Sub-tasks in state [`SubTaskState::Running`].
    pub running: usize,
    /// Sub-tasks in state [`SubTaskState::Succeeded`].
    pub succeeded: usize,
    /// Sub-tasks in state [`SubTaskState::Failed`].
    pub failed: usize,
    /// Sub-tasks in state [`SubTaskState::Skipped`].
    pub skipped: usize,
}

impl SubTaskCounts {
    /// Returns the number of all sub-tasks.
    pub fn total(&self) -> usize {
        self.waiting + self.ready + self.running + self.ended()
    }

    /// Returns the number of sub-tasks that have succeeded, failed or been skipped.
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

/// A plan with the state of each sub-task. Sub-tasks are identified by their index in [`Plan::subtasks`].
///
/// Executing a whole plan takes O((n + d) · log r) time for n sub-tasks with d dependencies, of which up to r are ready at once.
#[derive(Clone, Debug)]
pub struct PlanGraph {
    plan: Arc<Plan>,
    graph: Arc<DependencyGraph>,
    states: Vec<SubTaskState>,
    /// For each sub-task, the number of its dependencies that are not done yet.
    missing: Vec<usize>,
    ready: BTreeSet<usize>,
    counts: SubTaskCounts,
}

/// Compares only the plan and the states, because all other fields are derived from them.
impl PartialEq for PlanGraph {
    fn eq(&self, other: &Self) -> bool {
        self.states == other.states && self.plan == other.plan
    }
}

impl PlanGraph {
    /// Creates the initial execution state of a plan: no sub-task has started.
    ///
    /// # Errors
    /// Returns all duplicate ids, unknown dependencies and cycles. [`Plan::validate`] performs all other checks.
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

    /// The graph of an iteration without a plan.
    pub(crate) fn empty() -> PlanGraph {
        PlanGraph {
            plan: Arc::default(),
            graph: Arc::default(),
            states: Vec::new(),
            missing: Vec::new(),
            ready: BTreeSet::new(),
            counts: SubTaskCounts::default(),
        }
    }

    /// Returns the plan whose execution is tracked.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Marks the first ready sub-task in plan order as running and returns its index; `None` if no sub-task is ready.
    pub fn next_ready(&mut self) -> Option<usize> {
        let index = self.ready.pop_first()?;
        self.set(index, SubTaskState::Running);
        Some(index)
    }

    /// Ends a running sub-task. Returns the sub-tasks that are skipped as a result, in plan order. Does nothing if the sub-task is not
    /// running.
    pub fn finish(&mut self, index: usize, outcome: SubTaskOutcome) -> Vec<Skipped> {
        if self.states.get(index) != Some(&SubTaskState::Running) {
            return Vec::new();
        }
        match outcome {
            SubTaskOutcome::Succeeded => {
                self.set(index, SubTaskState::Succeeded);
                self.release_dependents(index);
                Vec::new()
            }
            SubTaskOutcome::Failed if self.plan.subtasks[index].may_fail => {
                self.set(index, SubTaskState::Failed);
                self.release_dependents(index);
                Vec::new()
            }
            SubTaskOutcome::Failed | SubTaskOutcome::Stopped => {
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

    /// Skips all sub-tasks that have not started. Returns their indices in plan order.
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

    /// Returns the state of a sub-task.
    ///
    /// # Panics
    /// Panics if the index is out of range.
    pub fn state(&self, index: usize) -> SubTaskState {
        self.states[index]
    }

    /// Returns the number of running sub-tasks.
    pub fn running(&self) -> usize {
        self.counts.running
    }

    /// Returns true if every sub-task has succeeded, failed or been skipped.
    pub fn is_done(&self) -> bool {
        self.counts.ended() == self.states.len()
    }

    /// Returns the number of sub-tasks in each state.
    pub fn counts(&self) -> SubTaskCounts {
        self.counts
    }

    /// Returns the dependencies of a sub-task in the order in which the sub-task lists them, without duplicates. Empty if the index is out
    /// of range.
    pub fn dependencies(&self, index: usize) -> impl Iterator<Item = usize> {
        self.graph
            .neighbors_directed(NodeIndex::new(index), Direction::Incoming)
            .map(NodeIndex::index)
    }

    /// Returns the direct dependents of a sub-task in plan order, without duplicates.
    pub fn dependents(&self, index: usize) -> impl Iterator<Item = usize> {
        self.graph.neighbors(NodeIndex::new(index)).map(NodeIndex::index)
    }
}

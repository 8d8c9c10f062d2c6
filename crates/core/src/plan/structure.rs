//! Builds the dependency graph of a plan and detects duplicate ids, unknown dependencies and cycles. All algorithms are iterative and take
//! time linear in the number of sub-tasks and dependencies, because plans can have very long chains.

use std::collections::{BTreeMap, VecDeque};

use petgraph::Direction;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::Plan;
use super::error::PlanError;
use crate::id::SubTaskId;
use crate::name::nearest;

/// The dependency graph of a plan. Nodes are sub-task indices, and each edge leads from a sub-task to one of its dependents.
pub(super) type DependencyGraph = DiGraph<(), ()>;

/// A plan's graph and its errors. The graph is complete only if there are no errors.
pub(super) struct PlanStructure {
    pub(super) graph: DependencyGraph,
    pub(super) errors: Vec<PlanError>,
}

/// Maximum number of name comparisons per plan in the search for similar ids. Prevents quadratic time for plans with thousands of unknown
/// names.
const MAX_NAME_COMPARISONS: usize = 50_000;

pub(super) fn build_structure(plan: &Plan) -> PlanStructure {
    let mut errors = Vec::new();
    let indices = indices_by_id(plan, &mut errors);
    let mut graph = DependencyGraph::with_capacity(plan.subtasks.len(), plan.subtasks.len());
    for _ in &plan.subtasks {
        graph.add_node(());
    }
    check_dependencies(plan, &indices, &mut errors);
    // petgraph iterates over a node's edges newest first, so add them in reverse to iterate in plan order.
    let mut listed_by = vec![usize::MAX; plan.subtasks.len()];
    for (index, subtask) in plan.subtasks.iter().enumerate().rev() {
        let mut dependencies: Vec<usize> = Vec::with_capacity(subtask.depends_on.len());
        for id in &subtask.depends_on {
            let Some(&dependency) = indices.get(id) else {
                continue;
            };
            if dependency != index && listed_by[dependency] != index {
                listed_by[dependency] = index;
                dependencies.push(dependency);
            }
        }
        for dependency in dependencies.into_iter().rev() {
            graph.add_edge(NodeIndex::new(dependency), NodeIndex::new(index), ());
        }
    }
    check_cycles(plan, &graph, &mut errors);
    PlanStructure { graph, errors }
}

/// Maps ids to indices. A duplicate id maps to the first sub-task with this id.
fn indices_by_id<'a>(plan: &'a Plan, errors: &mut Vec<PlanError>) -> BTreeMap<&'a SubTaskId, usize> {
    let mut indices = BTreeMap::new();
    let mut extra: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, subtask) in plan.subtasks.iter().enumerate() {
        let first = *indices.entry(&subtask.id).or_insert(index);
        if first != index {
            *extra.entry(first).or_default() += 1;
        }
    }
    errors.extend(extra.into_iter().map(|(first, extra)| PlanError::DuplicateId {
        id: plan.subtasks[first].id.clone(),
        count: extra + 1,
    }));
    indices
}

fn check_dependencies(plan: &Plan, indices: &BTreeMap<&SubTaskId, usize>, errors: &mut Vec<PlanError>) {
    let mut remaining_comparisons = MAX_NAME_COMPARISONS;
    for subtask in &plan.subtasks {
        for dependency in &subtask.depends_on {
            if *dependency == subtask.id {
                errors.push(PlanError::SelfDependency {
                    subtask: subtask.id.clone(),
                });
            } else if !indices.contains_key(dependency) {
                let near = if indices.len() <= remaining_comparisons {
                    remaining_comparisons -= indices.len();
                    // A sub-task cannot depend on itself, so do not suggest its own id.
                    let others = plan
                        .subtasks
                        .iter()
                        .map(|other| &other.id)
                        .filter(|id| **id != subtask.id);
                    nearest(&dependency.0, others.map(|id| id.0.as_str()))
                } else {
                    None
                };
                errors.push(PlanError::UnknownDependency {
                    subtask: subtask.id.clone(),
                    dependency: dependency.clone(),
                    nearest: near.map(SubTaskId::from),
                });
            }
        }
    }
}

fn check_cycles(plan: &Plan, graph: &DependencyGraph, errors: &mut Vec<PlanError>) {
    let mut groups: Vec<Vec<usize>> = kosaraju_scc(graph)
        .into_iter()
        .filter(|group| group.len() > 1)
        .map(|group| group.into_iter().map(NodeIndex::index).collect())
        .collect();
    for group in &mut groups {
        group.sort_unstable();
    }
    groups.sort_unstable();
    let mut search = CycleSearch::new(plan.subtasks.len());
    for group in groups {
        let cycle = search.shortest(graph, &group);
        let ids = |indices: &[usize]| {
            indices
                .iter()
                .map(|index| plan.subtasks[*index].id.clone())
                .collect()
        };
        let mut on_cycle = cycle.clone();
        on_cycle.sort_unstable();
        let others: Vec<usize> = group
            .iter()
            .copied()
            .filter(|index| on_cycle.binary_search(index).is_err())
            .collect();
        errors.push(PlanError::Cycle {
            members: ids(&cycle),
            others: ids(&others),
        });
    }
}

/// A breadth-first search along dependencies for a path from a sub-task back to itself.
struct CycleSearch {
    /// For each sub-task, the first member of its strongly connected group.
    group: Vec<usize>,
    came_from: Vec<usize>,
}

impl CycleSearch {
    fn new(len: usize) -> Self {
        CycleSearch {
            group: vec![usize::MAX; len],
            came_from: vec![usize::MAX; len],
        }
    }

    /// Returns a shortest cycle through the first member of a strongly connected group.
    fn shortest(&mut self, graph: &DependencyGraph, group: &[usize]) -> Vec<usize> {
        let start = group[0];
        for &index in group {
            self.group[index] = start;
        }
        let mut queue = VecDeque::from([start]);
        while let Some(index) = queue.pop_front() {
            for next in graph.neighbors_directed(NodeIndex::new(index), Direction::Incoming) {
                let next = next.index();
                if next == start {
                    return self.path_back(start, index);
                }
                if self.group[next] == start && self.came_from[next] == usize::MAX {
                    self.came_from[next] = index;
                    queue.push_back(next);
                }
            }
        }
        group.to_vec()
    }

    fn path_back(&self, start: usize, last: usize) -> Vec<usize> {
        let mut path = vec![last];
        let mut index = last;
        while index != start {
            index = self.came_from[index];
            path.push(index);
        }
        path.reverse();
        path
    }
}

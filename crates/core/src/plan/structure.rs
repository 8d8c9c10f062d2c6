//! The graph of a plan as a petgraph graph, and what is wrong with that graph: duplicates, dangling dependencies,
//! cycles. Every step is iterative and linear in sub-tasks and dependencies, as a plan may hold very long chains.

use std::collections::{BTreeMap, VecDeque};

use petgraph::Direction;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::Plan;
use super::error::PlanError;
use crate::id::SubTaskId;
use crate::name::nearest;

/// Sub-tasks by their place in the plan; an edge leads from a sub-task to one that depends on it.
pub(super) type DependencyGraph = DiGraph<(), ()>;

/// A plan's graph and what is wrong with it. Only without errors does the graph hold all of the plan.
pub(super) struct PlanStructure {
    pub(super) graph: DependencyGraph,
    pub(super) errors: Vec<PlanError>,
}

/// How many names the search for similar ids may look at for one plan, so that a plan of thousands of wrong names does not
/// take quadratic time.
const MAX_NAME_COMPARISONS: usize = 50_000;

pub(super) fn build_structure(plan: &Plan) -> PlanStructure {
    let mut errors = Vec::new();
    let indices = indices_by_id(plan, &mut errors);
    let mut graph = DependencyGraph::with_capacity(plan.subtasks.len(), plan.subtasks.len());
    for _ in &plan.subtasks {
        graph.add_node(());
    }
    check_dependencies(plan, &indices, &mut errors);
    // petgraph lists a node's edges newest first: added backwards, they come in plan order.
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

/// Where each id is; of several of one name, the first.
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
    let mut comparisons_left = MAX_NAME_COMPARISONS;
    for subtask in &plan.subtasks {
        for dependency in &subtask.depends_on {
            if *dependency == subtask.id {
                errors.push(PlanError::SelfDependency {
                    subtask: subtask.id.clone(),
                });
            } else if !indices.contains_key(dependency) {
                let near = if indices.len() <= comparisons_left {
                    comparisons_left -= indices.len();
                    // A sub-task does not depend on itself: its own id is no suggestion.
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
                .map(|place| plan.subtasks[*place].id.clone())
                .collect()
        };
        let mut on_cycle = cycle.clone();
        on_cycle.sort_unstable();
        let others: Vec<usize> = group
            .iter()
            .copied()
            .filter(|place| on_cycle.binary_search(place).is_err())
            .collect();
        errors.push(PlanError::Cycle {
            members: ids(&cycle),
            others: ids(&others),
        });
    }
}

/// A breadth-first search for the way from a sub-task back to itself, along what each depends on.
struct CycleSearch {
    /// Which group each sub-task is in, by the group's first member.
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

    /// A shortest cycle through the first of a strongly connected group's members.
    fn shortest(&mut self, graph: &DependencyGraph, group: &[usize]) -> Vec<usize> {
        let start = group[0];
        for &place in group {
            self.group[place] = start;
        }
        let mut queue = VecDeque::from([start]);
        while let Some(place) = queue.pop_front() {
            for next in graph.neighbors_directed(NodeIndex::new(place), Direction::Incoming) {
                let next = next.index();
                if next == start {
                    return self.path_back(start, place);
                }
                if self.group[next] == start && self.came_from[next] == usize::MAX {
                    self.came_from[next] = place;
                    queue.push_back(next);
                }
            }
        }
        group.to_vec()
    }

    fn path_back(&self, start: usize, last: usize) -> Vec<usize> {
        let mut way = vec![last];
        let mut place = last;
        while place != start {
            place = self.came_from[place];
            way.push(place);
        }
        way.reverse();
        way
    }
}

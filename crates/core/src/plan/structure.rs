//! The shape of a plan as a petgraph graph, and what is wrong with that shape: duplicates, dangling dependencies,
//! cycles. Every step is iterative and linear in sub-tasks and dependencies, as a plan may hold very long chains.

use std::collections::{BTreeMap, VecDeque};

use petgraph::Direction;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::{Plan, PlanFault};
use crate::call::nearest;
use crate::id::SubTaskId;

/// Sub-tasks by their place in the plan; an edge leads from a sub-task to one that depends on it.
pub(super) type Shape = DiGraph<(), ()>;

/// A plan's shape and what is wrong with it. Only without faults does the shape hold all of the plan.
pub(super) struct Structure {
    pub(super) shape: Shape,
    pub(super) faults: Vec<PlanFault>,
}

/// How many names the search for similar ids may look at for one plan, so that a plan of thousands of wrong names does not
/// take quadratic time.
const NEAREST_LOOKS: usize = 50_000;

pub(super) fn structure(plan: &Plan) -> Structure {
    let mut faults = Vec::new();
    let places = places(plan, &mut faults);
    let mut shape = Shape::with_capacity(plan.subtasks.len(), plan.subtasks.len());
    for _ in &plan.subtasks {
        shape.add_node(());
    }
    dangling(plan, &places, &mut faults);
    // petgraph lists a node's edges newest first: added backwards, they come in plan order.
    let mut listed_by = vec![usize::MAX; plan.subtasks.len()];
    for (index, subtask) in plan.subtasks.iter().enumerate().rev() {
        let mut dependencies: Vec<usize> = Vec::with_capacity(subtask.depends_on.len());
        for id in &subtask.depends_on {
            let Some(&dependency) = places.get(id) else {
                continue;
            };
            if dependency != index && listed_by[dependency] != index {
                listed_by[dependency] = index;
                dependencies.push(dependency);
            }
        }
        for dependency in dependencies.into_iter().rev() {
            shape.add_edge(NodeIndex::new(dependency), NodeIndex::new(index), ());
        }
    }
    cycles(plan, &shape, &mut faults);
    Structure { shape, faults }
}

/// Where each id is; of several of one name, the first.
fn places<'a>(plan: &'a Plan, faults: &mut Vec<PlanFault>) -> BTreeMap<&'a SubTaskId, usize> {
    let mut places = BTreeMap::new();
    let mut extra: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, subtask) in plan.subtasks.iter().enumerate() {
        let first = *places.entry(&subtask.id).or_insert(index);
        if first != index {
            *extra.entry(first).or_default() += 1;
        }
    }
    faults.extend(extra.into_iter().map(|(first, extra)| PlanFault::DuplicateId {
        id: plan.subtasks[first].id.clone(),
        count: extra + 1,
    }));
    places
}

fn dangling(plan: &Plan, places: &BTreeMap<&SubTaskId, usize>, faults: &mut Vec<PlanFault>) {
    let mut looks = NEAREST_LOOKS;
    for subtask in &plan.subtasks {
        for dependency in &subtask.depends_on {
            if *dependency == subtask.id {
                faults.push(PlanFault::SelfDependency {
                    subtask: subtask.id.clone(),
                });
            } else if !places.contains_key(dependency) {
                let near = if places.len() <= looks {
                    looks -= places.len();
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
                faults.push(PlanFault::UnknownDependency {
                    subtask: subtask.id.clone(),
                    dependency: dependency.clone(),
                    nearest: near.map(SubTaskId::from),
                });
            }
        }
    }
}

fn cycles(plan: &Plan, shape: &Shape, faults: &mut Vec<PlanFault>) {
    let mut groups: Vec<Vec<usize>> = kosaraju_scc(shape)
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
        let cycle = search.shortest(shape, &group);
        let ids = |places: &[usize]| {
            places
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
        faults.push(PlanFault::Cycle {
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
    fn shortest(&mut self, shape: &Shape, group: &[usize]) -> Vec<usize> {
        let start = group[0];
        for &place in group {
            self.group[place] = start;
        }
        let mut queue = VecDeque::from([start]);
        while let Some(place) = queue.pop_front() {
            for next in shape.neighbors_directed(NodeIndex::new(place), Direction::Incoming) {
                let next = next.index();
                if next == start {
                    return self.way(start, place);
                }
                if self.group[next] == start && self.came_from[next] == usize::MAX {
                    self.came_from[next] = place;
                    queue.push_back(next);
                }
            }
        }
        group.to_vec()
    }

    fn way(&self, start: usize, last: usize) -> Vec<usize> {
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

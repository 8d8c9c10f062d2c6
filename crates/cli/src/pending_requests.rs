//! The requests of a run that wait for the user: calls to approve and a question.

use std::collections::BTreeSet;

use dirigent::RunView;
use dirigent::events::Question;
use dirigent::events::{EffectId, Plan, SUBMIT_PLAN, SubTaskId};
use dirigent::report::WaitingCall;
use serde_json::{Value, json};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PendingRequests {
    /// The calls that wait for approval, oldest first.
    pub(crate) calls: Vec<PendingCall>,
    pub(crate) question: Option<(EffectId, Question)>,
}

/// A call that waits for approval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PendingCall {
    pub(crate) call: WaitingCall,
    /// The call's sub-task and all sub-tasks that depend on it, each as `id: title`.
    pub(crate) affected_subtasks: Vec<String>,
    /// The drawing of a plan that waits for approval (LEAD-2); `None` for any other call.
    pub(crate) proposal: Option<Proposal>,
}

/// A plan that waits for approval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proposal {
    pub(crate) plan: Plan,
    /// The plan's tree, one line for each sub-task.
    pub(crate) tree: String,
}

/// The proposal that a call makes; `None` if the call is not a plan.
fn proposal(view: &RunView, call: &WaitingCall) -> Option<Proposal> {
    let approval = &call.approval;
    if approval.tool != SUBMIT_PLAN {
        return None;
    }
    let plan = Plan::from_parameters(&approval.parameters).ok()?;
    let tree = dirigent::render::proposal(&plan, &view.run().spec().setup)?;
    Some(Proposal { plan, tree })
}

impl PendingRequests {
    pub(crate) fn from_view(view: &RunView) -> PendingRequests {
        let calls = view.waiting().into_iter().map(|call| PendingCall {
            affected_subtasks: call
                .subtask
                .as_ref()
                .map_or_else(Vec::new, |subtask| affected_subtasks(view, subtask)),
            proposal: proposal(view, &call),
            call,
        });
        let question = view.run().question();
        PendingRequests {
            calls: calls.collect(),
            question: question.map(|(effect, question)| (effect, question.clone())),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.question.is_none()
    }

    /// Returns true if the call or question is pending. Ignores the number of the attempt.
    pub(crate) fn contains(&self, effect: EffectId) -> bool {
        let question = self
            .question
            .as_ref()
            .is_some_and(|(asked, _)| same_call(*asked, effect));
        question || self.call(effect).is_some()
    }

    /// The pending call with this id. Ignores the number of the attempt.
    pub(crate) fn call(&self, effect: EffectId) -> Option<&PendingCall> {
        self.calls
            .iter()
            .find(|pending| same_call(pending.call.approval.effect, effect))
    }

    /// Adds `"waiting"`, the calls as in a report, and `"question"`, which may be `null`, to a JSON object.
    pub(crate) fn add_to_json(&self, object: &mut Value) {
        let calls: Vec<&WaitingCall> = self.calls.iter().map(|pending| &pending.call).collect();
        object["waiting"] = json!(calls);
        object["question"] = json!(self.question.as_ref().map(|(_, question)| question));
    }
}

fn same_call(one: EffectId, other: EffectId) -> bool {
    (one.scope, one.step) == (other.scope, other.step)
}

/// The sub-task, then all sub-tasks that cannot start before it has finished.
fn affected_subtasks(view: &RunView, subtask: &SubTaskId) -> Vec<String> {
    let Some(iteration) = view.run().iterations().last() else {
        return Vec::new();
    };
    let subtasks = &iteration.graph.plan().subtasks;
    let Some(first) = subtasks.iter().position(|other| other.id == *subtask) else {
        return Vec::new();
    };
    let (mut later, mut next) = (BTreeSet::new(), vec![first]);
    while let Some(index) = next.pop() {
        next.extend(
            iteration
                .graph
                .dependents(index)
                .filter(|index| later.insert(*index)),
        );
    }
    let named = |index: usize| format!("{}: {}", subtasks[index].id, subtasks[index].title);
    let after = later
        .into_iter()
        .map(|index| format!("{}, after it", named(index)));
    std::iter::once(named(first)).chain(after).collect()
}

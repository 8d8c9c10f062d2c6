//! The requests of a run that are waiting for the user: calls to approve, and questions.

use std::collections::BTreeSet;

use dirigent::approval_rules::CallPattern;
use dirigent::events::{EffectId, OpenQuestion, Plan, SUBMIT_PLAN, SubTaskId};
use dirigent::report::WaitingCall;
use dirigent::{Policy, RunView};
use serde_json::{Value, json};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PendingRequests {
    /// The calls that are waiting for approval, oldest first.
    pub(crate) calls: Vec<PendingCall>,
    /// The open questions, oldest first.
    pub(crate) questions: Vec<OpenQuestion>,
    /// The rules with which the run started.
    pub(crate) policy: Policy,
    /// The user's own folder: the folder in which the run works or, for a run in a worktree, the folder for which the worktree was
    /// created.
    pub(crate) folder: String,
}

/// A call that is waiting for approval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PendingCall {
    pub(crate) call: WaitingCall,
    /// The call's sub-task and all sub-tasks that depend on it, each as `id: title`.
    pub(crate) affected_subtasks: Vec<String>,
    /// The plan that the call submits (LEAD-2); `None` for any other call.
    pub(crate) proposal: Option<Proposal>,
    /// Patterns with which the user may allow the call and similar calls from now on, the narrowest first.
    pub(crate) suggestions: Vec<CallPattern>,
}

/// A plan that is waiting for approval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proposal {
    pub(crate) plan: Plan,
    /// The plan's tree, one line for each sub-task.
    pub(crate) tree: String,
}

/// Draws the plan that a call submits; `None` for any other call.
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
        let spec = view.run().spec();
        let policy = &spec.setup.policy;
        let origin = spec.worktree.as_ref().map(|worktree| &worktree.origin);
        let calls = view.waiting().into_iter().map(|call| PendingCall {
            affected_subtasks: call
                .subtask
                .as_ref()
                .map_or_else(Vec::new, |subtask| affected_subtasks(view, subtask)),
            proposal: proposal(view, &call),
            suggestions: call.suggestions.clone(),
            call,
        });
        PendingRequests {
            calls: calls.collect(),
            questions: view.questions(),
            policy: policy.clone(),
            folder: origin.unwrap_or(&spec.workspace).clone(),
        }
    }

    /// Returns true if a rule that allows `calls` approves the pending call.
    pub(crate) fn approves(&self, calls: &CallPattern, pending: &PendingCall) -> bool {
        pending.call.approval.is_approved_by(calls, &self.policy)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.questions.is_empty()
    }

    /// Returns true if the call or question is pending. Ignores the number of the attempt.
    pub(crate) fn contains(&self, effect: EffectId) -> bool {
        let mut questions = self.questions.iter();
        questions.any(|asked| same_call(asked.effect, effect)) || self.call(effect).is_some()
    }

    /// The pending call with this id. Ignores the number of the attempt.
    pub(crate) fn call(&self, effect: EffectId) -> Option<&PendingCall> {
        self.calls
            .iter()
            .find(|pending| same_call(pending.call.approval.effect, effect))
    }

    /// Adds to a JSON object the fields `waiting` and `questions`, as in a report, and the field `question`: the oldest question, or
    /// `null`.
    pub(crate) fn add_to_json(&self, object: &mut Value) {
        let calls: Vec<&WaitingCall> = self.calls.iter().map(|pending| &pending.call).collect();
        object["waiting"] = json!(calls);
        object["question"] = json!(self.questions.first().map(|asked| &asked.question));
        object["questions"] = json!(self.questions);
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

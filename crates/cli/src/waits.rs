//! What of a run waits for a person: calls to be approved and a question, with what depends on them.

use std::collections::BTreeSet;
use std::sync::Arc;

use dirigent::RunView;
use dirigent::core::approval::Approval;
use dirigent::core::id::{AgentId, EffectId, Scope};
use dirigent::core::run::Question;
use serde_json::{Value, json};

/// All that waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Waits {
    /// The oldest first.
    pub(crate) calls: Vec<WaitingCall>,
    pub(crate) question: Option<(EffectId, Question)>,
}

/// A call that waits for an approval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WaitingCall {
    pub(crate) approval: Arc<Approval>,
    /// The sub-task that it belongs to, and those that wait for that one, each with its title.
    pub(crate) on_it: Vec<String>,
}

impl Waits {
    pub(crate) fn of(view: &RunView) -> Waits {
        let calls = view.approvals().into_iter().map(|approval| WaitingCall {
            on_it: waiting_on(view, approval.effect),
            approval,
        });
        let question = view.run().question();
        Waits {
            calls: calls.collect(),
            question: question.map(|(effect, question)| (effect, question.clone())),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.question.is_none()
    }

    /// Whether that waits, whatever its try.
    pub(crate) fn has(&self, effect: EffectId) -> bool {
        let same = |other: EffectId| (other.scope, other.step) == (effect.scope, effect.step);
        self.calls.iter().any(|call| same(call.approval.effect))
            || self.question.as_ref().is_some_and(|(asked, _)| same(*asked))
    }

    /// The call with that handle, whatever its try.
    pub(crate) fn call(&self, effect: EffectId) -> Option<&WaitingCall> {
        let same = |other: EffectId| (other.scope, other.step) == (effect.scope, effect.step);
        self.calls.iter().find(|call| same(call.approval.effect))
    }

    /// For programs: `{"approvals": […], "question": {…} or null}`.
    pub(crate) fn as_json(&self) -> Value {
        let approvals = self.calls.iter().map(|call| {
            let mut approval = json!(call.approval);
            approval["for"] = json!(call.on_it);
            approval
        });
        let question = self.question.as_ref().map(|(effect, question)| {
            json!({"effect": effect, "question": question.question, "choices": question.choices})
        });
        json!({"approvals": approvals.collect::<Vec<_>>(), "question": question})
    }
}

/// The sub-task that a call belongs to, then all that cannot start before it has ended.
fn waiting_on(view: &RunView, effect: EffectId) -> Vec<String> {
    let (Some(round), Some(index)) = (view.run().rounds().last(), subtask_of(view, effect)) else {
        return Vec::new();
    };
    let subtasks = &round.graph.plan().subtasks;
    let named = |index: usize| format!("{}: {}", subtasks[index].id, subtasks[index].title);
    let (mut later, mut next) = (BTreeSet::new(), vec![index]);
    while let Some(index) = next.pop() {
        next.extend(round.graph.dependents(index).filter(|index| later.insert(*index)));
    }
    let after = later
        .into_iter()
        .map(|index| format!("{}, after it", named(index)));
    std::iter::once(named(index)).chain(after).collect()
}

fn subtask_of(view: &RunView, effect: EffectId) -> Option<usize> {
    let round = view.run().rounds().last()?;
    match effect.scope {
        Scope::Agent(agent) => {
            let agent = started_by_plan(view, agent);
            let mut active = round.active();
            active
                .find(|(_, active)| active.agent == Some(agent))
                .map(|(index, _)| index)
        }
        Scope::Run => {
            let sequences: Vec<usize> = round
                .active()
                .filter(|(_, active)| active.agent.is_none())
                .map(|(index, _)| index)
                .collect();
            match sequences[..] {
                [index] => Some(index),
                _ => None,
            }
        }
    }
}

/// The agent of the plan on whose behalf an agent works.
fn started_by_plan(view: &RunView, agent: AgentId) -> AgentId {
    let caller = view
        .agent(agent)
        .and_then(|agent| agent.brief())
        .and_then(|brief| brief.caller);
    match caller.map(|caller| caller.scope) {
        // A caller has started before those whom it calls.
        Some(Scope::Agent(caller)) if caller < agent => started_by_plan(view, caller),
        Some(Scope::Agent(_) | Scope::Run) | None => agent,
    }
}

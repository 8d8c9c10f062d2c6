//! The work that a run waits for: agents, calls of the plan, the diff, and the question to the user. Indexes avoid a scan of all work for each input.
//!
//! This file holds the table; `pending` says what one piece of work is, and `waiting` which calls wait for the user.

mod pending;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{AgentId, EffectId, Scope};
use crate::machine::{Outstanding, Refusal};
use crate::time::Timestamp;

use pending::AwaitedCall;

pub(super) use pending::{
    AskedQuestion, CallPosition, CallState, LastDelegation, Pending, PlannedCall, Purpose, RequestState,
    RunningAgent,
};

/// The outstanding work of a run, by effect.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OutstandingWork {
    effects: Outstanding<Pending>,
    agents: BTreeMap<AgentId, u32>,
    /// The steps of busy work ([`Pending::is_busy`]).
    busy: BTreeSet<u32>,
    /// The steps of planned calls that wait for approval.
    approvals: BTreeSet<u32>,
    /// All calls of the plan and of agents that wait for the user, each with the start of its wait, oldest first.
    awaited_calls: BTreeSet<(Timestamp, EffectId)>,
    /// The indexes of the running sub-tasks that wait for the user.
    waiting_subtasks: BTreeSet<usize>,
    /// The step of the open question to the user.
    question: Option<u32>,
}

impl OutstandingWork {
    pub(super) fn new() -> Self {
        OutstandingWork::after(0)
    }

    /// Creates an empty table. The steps of effects follow `last_step`.
    pub(super) fn after(last_step: u32) -> Self {
        OutstandingWork {
            effects: Outstanding::new(Scope::Run, last_step),
            agents: BTreeMap::new(),
            busy: BTreeSet::new(),
            approvals: BTreeSet::new(),
            awaited_calls: BTreeSet::new(),
            waiting_subtasks: BTreeSet::new(),
            question: None,
        }
    }

    /// The id that the next effect will have.
    pub(super) fn next_effect(&self) -> EffectId {
        self.effects.next_effect()
    }

    /// Reserves the next effect id without starting an effect, and returns it.
    pub(super) fn skip_effect(&mut self) -> EffectId {
        self.effects.skip()
    }

    /// Adds work under the next id, or under the id of a planned call that was just removed.
    pub(super) fn insert(&mut self, effect: EffectId, pending: Pending) {
        match &pending {
            Pending::Agent(agent) => {
                self.agents.insert(agent.brief.agent, effect.step);
                if let Purpose::Delegation(call) = agent.purpose {
                    self.update_delegates(call, |delegates| delegates.insert(effect.step));
                }
            }
            Pending::Call(call) => self.await_planned_call(call),
            Pending::Diff => {}
            Pending::Question(_) => self.question = Some(effect.step),
        }
        self.index(effect.step, &pending);
        self.effects.put(effect, pending);
    }

    /// Removes work and returns it.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if this attempt of the effect is not outstanding.
    pub(super) fn remove(&mut self, effect: EffectId) -> Result<Pending, Refusal> {
        let pending = self.effects.finish(effect)?;
        self.busy.remove(&effect.step);
        self.approvals.remove(&effect.step);
        match &pending {
            Pending::Agent(agent) => {
                self.agents.remove(&agent.brief.agent);
                if let Some(AwaitedCall { call, since, .. }) = agent.awaited_call {
                    self.settle(agent.purpose, call, since);
                }
                if let Purpose::Delegation(call) = agent.purpose {
                    self.update_delegates(call, |delegates| delegates.remove(&effect.step));
                }
            }
            Pending::Call(call) => self.settle_planned_call(call),
            Pending::Diff => {}
            Pending::Question(_) => self.question = None,
        }
        Ok(pending)
    }

    /// Removes an agent and returns it.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if the run waits for no agent under this effect id.
    pub(super) fn remove_agent(&mut self, effect: EffectId) -> Result<RunningAgent, Refusal> {
        self.agent(effect)?;
        match self.remove(effect)? {
            Pending::Agent(agent) => Ok(agent),
            Pending::Call(_) | Pending::Diff | Pending::Question(_) => Err(Refusal::Stale { effect }),
        }
    }

    /// Removes a planned call and returns it.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if the run waits for no planned call under this effect id.
    pub(super) fn remove_call(&mut self, effect: EffectId) -> Result<PlannedCall, Refusal> {
        self.call(effect)?;
        match self.remove(effect)? {
            Pending::Call(call) => Ok(call),
            Pending::Agent(_) | Pending::Diff | Pending::Question(_) => Err(Refusal::Stale { effect }),
        }
    }

    /// Applies a change to an outstanding agent.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if the run waits for no agent under this effect id.
    pub(super) fn update_agent<R>(
        &mut self,
        effect: EffectId,
        change: impl FnOnce(&mut RunningAgent) -> R,
    ) -> Result<R, Refusal> {
        let pending = self.effects.get_mut(effect)?;
        let Pending::Agent(agent) = pending else {
            return Err(Refusal::Stale { effect });
        };
        let changed = change(agent);
        let is_busy = pending.is_busy();
        self.set_busy(effect.step, is_busy);
        Ok(changed)
    }

    /// Applies a change to an outstanding planned call.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if the run waits for no planned call under this effect id.
    pub(super) fn update_call<R>(
        &mut self,
        effect: EffectId,
        change: impl FnOnce(&mut PlannedCall) -> R,
    ) -> Result<R, Refusal> {
        let mut call = self.remove_call(effect)?;
        let changed = change(&mut call);
        self.insert(effect, Pending::Call(call));
        Ok(changed)
    }

    /// Returns the outstanding agent with this effect id.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if the run waits for no agent under this effect id.
    pub(super) fn agent(&self, effect: EffectId) -> Result<&RunningAgent, Refusal> {
        let agent = self.effects.get(effect)?.agent();
        agent.ok_or(Refusal::Stale { effect })
    }

    /// Returns the outstanding planned call with this effect id.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if the run waits for no planned call under this effect id.
    pub(super) fn call(&self, effect: EffectId) -> Result<&PlannedCall, Refusal> {
        let call = self.effects.get(effect)?.call();
        call.ok_or(Refusal::Stale { effect })
    }

    /// Returns the outstanding work with this effect id; `None` if this attempt of the effect is not outstanding.
    pub(super) fn get(&self, effect: EffectId) -> Option<&Pending> {
        self.effects.get(effect).ok()
    }

    /// Returns the outstanding planned call with this step, whatever its attempt.
    pub(super) fn call_at(&self, scope: Scope, step: u32) -> Option<(EffectId, &PlannedCall)> {
        let (effect, pending) = self.effects.at_step(scope, step)?;
        Some((effect, pending.call()?))
    }

    /// Returns the outstanding agent with this agent id, and its effect id.
    pub(super) fn by_id(&self, agent: AgentId) -> Option<(EffectId, &RunningAgent)> {
        self.agent_at(*self.agents.get(&agent)?)
    }

    fn agent_at(&self, step: u32) -> Option<(EffectId, &RunningAgent)> {
        let (effect, pending) = self.effects.at_step(Scope::Run, step)?;
        Some((effect, pending.agent()?))
    }

    /// Returns the outstanding agents to which this agent delegated.
    pub(super) fn delegates(&self, agent: AgentId) -> impl Iterator<Item = (EffectId, &RunningAgent)> {
        let steps = self.by_id(agent).map(|(_, agent)| &agent.delegates);
        let steps = steps.into_iter().flatten();
        steps.filter_map(|step| self.agent_at(*step))
    }

    /// Follows the chain of callers from this agent to the agent without a caller, and returns that agent.
    pub(super) fn root(&self, agent: AgentId) -> Option<&RunningAgent> {
        let (_, mut agent) = self.by_id(agent)?;
        while let Purpose::Delegation(call) = agent.purpose {
            (_, agent) = self.by_id(call.scope.agent()?)?;
        }
        Some(agent)
    }

    /// Ends the wait for the diff.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if the run waits for no diff under this effect id.
    pub(super) fn remove_diff(&mut self, effect: EffectId) -> Result<(), Refusal> {
        match self.effects.get(effect)? {
            Pending::Diff => self.remove(effect).map(drop),
            Pending::Agent(_) | Pending::Call(_) | Pending::Question(_) => Err(Refusal::Stale { effect }),
        }
    }

    /// The effect id of the diff that the run waits for.
    pub(super) fn diff(&self) -> Option<EffectId> {
        let mut pending = self.iter();
        pending.find_map(|(effect, pending)| match pending {
            Pending::Diff => Some(effect),
            Pending::Agent(_) | Pending::Call(_) | Pending::Question(_) => None,
        })
    }

    /// The open question to the user.
    pub(super) fn question(&self) -> Option<(EffectId, &AskedQuestion)> {
        let (effect, pending) = self.effects.at_step(Scope::Run, self.question?)?;
        match pending {
            Pending::Question(question) => Some((effect, question)),
            Pending::Agent(_) | Pending::Call(_) | Pending::Diff => None,
        }
    }

    /// All work, in the order in which it started.
    pub(super) fn iter(&self) -> impl Iterator<Item = (EffectId, &Pending)> {
        self.effects.iter()
    }

    /// The outstanding agents, in the order in which they started.
    pub(super) fn agents(&self) -> impl Iterator<Item = (EffectId, &RunningAgent)> {
        self.iter()
            .filter_map(|(effect, pending)| Some((effect, pending.agent()?)))
    }

    /// The outstanding planned calls, in the order in which they started.
    pub(super) fn calls(&self) -> impl Iterator<Item = (EffectId, &PlannedCall)> {
        self.iter()
            .filter_map(|(effect, pending)| Some((effect, pending.call()?)))
    }

    /// Removes all work and returns it. The numbering of steps continues.
    pub(super) fn take(&mut self) -> Self {
        let rest = OutstandingWork {
            effects: self.effects.empty_successor(),
            ..OutstandingWork::new()
        };
        std::mem::replace(self, rest)
    }

    /// Starts another attempt of all work except calls that wait for approval. Completions of earlier attempts become stale. A call that
    /// waits for approval keeps its attempt, so that a decision made while no process owned the run stays valid.
    pub(super) fn retry(&mut self) {
        let is_retried = |pending: &Pending| pending.call().is_none_or(|call| call.approval().is_none());
        self.effects.retry(is_retried);
    }

    fn index(&mut self, step: u32, pending: &Pending) {
        self.set_busy(step, pending.is_busy());
        if pending.call().is_some_and(|call| call.approval().is_some()) {
            self.approvals.insert(step);
        }
    }

    fn set_busy(&mut self, step: u32, is_busy: bool) {
        if is_busy {
            self.busy.insert(step);
        } else {
            self.busy.remove(&step);
        }
    }

    /// Updates the delegates of the agent that made the call.
    fn update_delegates(&mut self, call: EffectId, change: impl FnOnce(&mut BTreeSet<u32>) -> bool) {
        let caller = call.scope.agent().and_then(|caller| self.by_id(caller));
        if let Some((effect, _)) = caller {
            // Cannot fail: a caller stays outstanding until its delegates have ended.
            let _ = self.update_agent(effect, |caller| change(&mut caller.delegates));
        }
    }

    fn await_planned_call(&mut self, call: &PlannedCall) {
        if let Some(approval) = call.approval() {
            self.awaited_calls.insert((approval.asked_at, approval.effect));
            self.waiting_subtasks.insert(call.position.subtask);
        }
    }

    fn settle_planned_call(&mut self, call: &PlannedCall) {
        if let Some(approval) = call.approval() {
            self.awaited_calls.remove(&(approval.asked_at, approval.effect));
            self.waiting_subtasks.remove(&call.position.subtask);
        }
    }

    /// Removes a call of an agent from the indexes of waiting calls.
    fn settle(&mut self, purpose: Purpose, call: EffectId, since: Timestamp) {
        self.awaited_calls.remove(&(since, call));
        let root = match purpose {
            Purpose::Delegation(call) => {
                let root = call.scope.agent().and_then(|caller| self.root(caller));
                root.map(|root| root.purpose)
            }
            Purpose::Lead | Purpose::Reflection | Purpose::SubTask(_) | Purpose::Abandoned => Some(purpose),
        };
        if let Some(Purpose::SubTask(index)) = root {
            self.waiting_subtasks.remove(&index);
        }
    }
}

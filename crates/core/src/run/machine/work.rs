//! The work that a run waits for: agents, calls of the plan, the diff, and the question to the user. Indexes avoid a scan of all work for each input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agent_report::{AgentReport, CallSummary};
use crate::approval::Approval;
use crate::brief::{AgentBrief, Continuation};
use crate::id::{AgentId, EffectId, Scope};
use crate::machine::{Outstanding, Refusal};
use crate::message::ToolCall;
use crate::question::Question;
use crate::time::Timestamp;
use crate::tool::ToolResult;

/// One piece of work that a run waits for.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most outstanding work is agents")]
pub(super) enum Pending {
    Agent(RunningAgent),
    Call(PlannedCall),
    /// The run's net diff, for the reflector.
    Diff,
    Question(AskedQuestion),
}

/// An agent that is still running, or that has ended while its delegates are still running.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RunningAgent {
    pub(super) brief: Arc<AgentBrief>,
    /// The run's message to a lead that continues; `None` for a first start.
    pub(super) continuation: Option<Arc<Continuation>>,
    pub(super) purpose: Purpose,
    /// Set once the run has asked the agent to stop.
    pub(super) stopping: bool,
    /// The agent's report, deferred until its delegates have ended.
    pub(super) report: Option<AgentReport>,
    /// The agent's call that waits for the user.
    awaited_call: Option<AwaitedCall>,
    /// The number of the run's guidance entries that the agent knows.
    known_guidance: u32,
    /// The number of the run's guidance entries that the agent will know once its outdated question is settled.
    sent_guidance: u32,
    /// The effect steps of this agent's outstanding delegates.
    delegates: BTreeSet<u32>,
    /// The calls of ended delegates, to be added to this agent's report for the reflector.
    pub(super) delegate_calls: Vec<(EffectId, Vec<CallSummary>)>,
    /// The result of the agent's last delegation; `None` once the agent is known to have received it.
    pub(super) last_delegation: Option<LastDelegation>,
}

/// An agent's call that waits for the user.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AwaitedCall {
    call: EffectId,
    since: Timestamp,
    request: RequestState,
}

/// Whether the request of a waiting call takes the run's guidance into account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RequestState {
    /// Guidance does not affect the request: it asks for a decision about a sub-agent's call, or comes from a journal of an earlier
    /// version.
    Independent,
    /// A sub-agent's question. Guidance outdates it only if all outstanding work waits for the user and the agent has not received the
    /// guidance.
    Question,
    /// The lead knew all guidance when it made the request.
    Current,
    /// The agent was sent guidance, or calls that the user allows, after it made the request. It will withdraw the request or make it again, so it counts as busy.
    Outdated,
}

/// The purpose of an agent's report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Purpose {
    /// The lead's plan or answer.
    Lead,
    Reflection,
    /// The result of the sub-task at this index of the plan.
    SubTask(usize),
    /// The result of a `delegate` call of another agent.
    Delegation(EffectId),
    /// The result is no longer needed: the agent is a reflector that was stopped. Only the usage in its report is counted.
    Abandoned,
}

/// The result of an agent's last delegation. After a restart, the agent may repeat the delegation, so the result is stored until the agent
/// is known to have received it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LastDelegation {
    pub(super) call: EffectId,
    pub(super) result: ToolResult,
}

/// A tool call of the plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedCall {
    pub(super) position: CallPosition,
    pub(super) call: ToolCall,
    pub(super) state: CallState,
}

/// The position of a call in the plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CallPosition {
    /// The index of the sub-task.
    pub(super) subtask: usize,
    /// The index of the call in its sub-task.
    pub(super) call: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallState {
    /// Waits for approval (APPROVE-1).
    AwaitingApproval(Arc<Approval>),
    Running {
        /// Set once the start of the call is journaled.
        started: bool,
        /// Set once the run has requested that the call stop.
        stopping: bool,
        deadline: Timestamp,
        /// The approval that was granted, if one was needed.
        approved: Option<Arc<Approval>>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct AskedQuestion {
    pub(super) question: Question,
    pub(super) asked_at: Timestamp,
}

impl Purpose {
    /// The `delegate` call that started the agent; `None` for any other purpose.
    pub(super) fn delegating_call(self) -> Option<EffectId> {
        match self {
            Purpose::Delegation(call) => Some(call),
            Purpose::Lead | Purpose::Reflection | Purpose::SubTask(_) | Purpose::Abandoned => None,
        }
    }
}

impl RunningAgent {
    /// Creates a running agent. `known_guidance` is the number of the run's guidance entries that the agent receives at its start.
    pub(super) fn new(brief: Arc<AgentBrief>, purpose: Purpose, known_guidance: u32) -> Self {
        RunningAgent {
            brief,
            continuation: None,
            purpose,
            stopping: false,
            report: None,
            awaited_call: None,
            known_guidance,
            sent_guidance: known_guidance,
            delegates: BTreeSet::new(),
            delegate_calls: Vec::new(),
            last_delegation: None,
        }
    }

    /// The agent's call that waits for the user.
    pub(super) fn awaited_call(&self) -> Option<EffectId> {
        self.awaited_call.map(|awaited| awaited.call)
    }

    /// Returns true while an agent to which this agent delegated is outstanding.
    pub(super) fn has_delegates(&self) -> bool {
        !self.delegates.is_empty()
    }
}

impl PlannedCall {
    /// The approval that the call waits for.
    pub(super) fn approval(&self) -> Option<&Arc<Approval>> {
        match &self.state {
            CallState::AwaitingApproval(approval) => Some(approval),
            CallState::Running { .. } => None,
        }
    }
}

impl PlannedCall {
    /// Records that the run has requested that a running call stop.
    pub(super) fn stop(&mut self) {
        if let CallState::Running { stopping, .. } = &mut self.state {
            *stopping = true;
        }
    }
}

impl Pending {
    fn agent(&self) -> Option<&RunningAgent> {
        match self {
            Pending::Agent(agent) => Some(agent),
            Pending::Call(_) | Pending::Diff | Pending::Question(_) => None,
        }
    }

    fn call(&self) -> Option<&PlannedCall> {
        match self {
            Pending::Call(call) => Some(call),
            Pending::Agent(_) | Pending::Diff | Pending::Question(_) => None,
        }
    }

    /// Returns false if the work waits for the user's decision about a call or for the user's answer to an agent. An agent with delegates
    /// is not busy itself, because its delegates are separate work. The run's own question counts as busy: [`OutstandingWork::question`]
    /// tracks its wait.
    fn is_busy(&self) -> bool {
        match self {
            Pending::Agent(agent) => {
                let waits_for_user = |awaited: AwaitedCall| match awaited.request {
                    RequestState::Independent | RequestState::Question | RequestState::Current => true,
                    RequestState::Outdated => false,
                };
                let waits = agent.has_delegates() || agent.awaited_call.is_some_and(waits_for_user);
                agent.stopping || agent.purpose == Purpose::Abandoned || !waits
            }
            Pending::Call(call) => call.approval().is_none(),
            Pending::Diff | Pending::Question(_) => true,
        }
    }
}

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

    /// The approvals for which planned calls wait, ordered by id.
    pub(super) fn approvals(&self) -> impl Iterator<Item = &Arc<Approval>> {
        self.approvals.iter().filter_map(|step| {
            let (_, call) = self.call_at(Scope::Run, *step)?;
            call.approval()
        })
    }

    /// The number of running sub-tasks that wait for the user.
    pub(super) fn waiting_subtasks(&self) -> usize {
        self.waiting_subtasks.len()
    }

    /// The call that has waited longest for the user; `None` unless all work waits for the user.
    pub(super) fn awaited_call(&self) -> Option<EffectId> {
        if !self.busy.is_empty() {
            return None;
        }
        self.awaited_calls.first().map(|(_, effect)| *effect)
    }

    /// Returns true if the call waits for the user, whatever the attempt in its id.
    pub(super) fn is_awaited(&self, call: EffectId) -> bool {
        match call.scope {
            Scope::Run => self.approvals.contains(&call.step),
            Scope::Agent(agent) => self.awaited_call_of(agent, call).is_some(),
        }
    }

    /// Records that a call of an agent waits for the user.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if the agent is not outstanding or already has a waiting call. Exception: a call whose request is
    /// [`RequestState::Outdated`] may be recorded again; it keeps the start of its wait.
    pub(super) fn await_call(
        &mut self,
        call: EffectId,
        since: Timestamp,
        request: RequestState,
    ) -> Result<(), Refusal> {
        let stale = Refusal::Stale { effect: call };
        let Some((effect, agent)) = call.scope.agent().and_then(|agent| self.by_id(agent)) else {
            return Err(stale);
        };
        let since = match agent.awaited_call {
            None => since,
            Some(asked) if asked.request == RequestState::Outdated && asked.call == call => asked.since,
            Some(_) => return Err(stale),
        };
        let agent = agent.brief.agent;
        let awaited = AwaitedCall { call, since, request };
        self.update_agent(effect, |agent| agent.awaited_call = Some(awaited))?;
        self.awaited_calls.insert((since, call));
        if let Some(Purpose::SubTask(index)) = self.root(agent).map(|root| root.purpose) {
            self.waiting_subtasks.insert(index);
        }
        Ok(())
    }

    /// Records that guidance was sent to the lead, which makes its earlier request, if any, outdated.
    pub(super) fn outdate_request(&mut self, agent: AgentId) {
        let Some((effect, _)) = self.by_id(agent) else {
            return;
        };
        // Cannot fail: the agent is outstanding.
        let _ = self.update_agent(effect, |agent| {
            if let Some(awaited) = &mut agent.awaited_call
                && awaited.request == RequestState::Current
            {
                awaited.request = RequestState::Outdated;
            }
        });
    }

    /// Records that a rule was sent to all agents, which makes their earlier requests outdated.
    pub(super) fn outdate_all_requests(&mut self) {
        let waiting = self.agents().filter(|(_, agent)| agent.awaited_call.is_some());
        let waiting: Vec<EffectId> = waiting.map(|(effect, _)| effect).collect();
        for effect in waiting {
            // Cannot fail: the agent is outstanding.
            let _ = self.update_agent(effect, |agent| {
                if let Some(awaited) = &mut agent.awaited_call {
                    awaited.request = RequestState::Outdated;
                }
            });
        }
    }

    /// Outdates the open questions of all sub-agents that do not know all of the `given` guidance entries, and records that the missing
    /// entries are sent to them. Returns these agents, each with the number of entries that it already knows.
    pub(super) fn outdate_questions(&mut self, given: u32) -> Vec<(AgentId, u32)> {
        let asked = self.agents().filter_map(|(effect, agent)| {
            let asks = agent.awaited_call?.request == RequestState::Question;
            let known = agent.known_guidance;
            (asks && known < given).then_some((effect, agent.brief.agent, known))
        });
        let asked: Vec<(EffectId, AgentId, u32)> = asked.collect();
        for (effect, ..) in &asked {
            // Cannot fail: the agent is outstanding.
            let _ = self.update_agent(*effect, |agent| {
                agent.sent_guidance = given;
                if let Some(awaited) = &mut agent.awaited_call {
                    awaited.request = RequestState::Outdated;
                }
            });
        }
        asked
            .into_iter()
            .map(|(_, agent, known)| (agent, known))
            .collect()
    }

    /// Records that a call of an agent no longer waits for the user.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if the call does not wait for the user.
    pub(super) fn settle_call(&mut self, call: EffectId) -> Result<(), Refusal> {
        let agent = self.end_wait(call)?;
        self.update_agent(agent, |agent| agent.known_guidance = agent.sent_guidance)
    }

    /// Records that the call no longer waits, and returns the effect of its agent.
    fn end_wait(&mut self, call: EffectId) -> Result<EffectId, Refusal> {
        let stale = Refusal::Stale { effect: call };
        let agent = call.scope.agent().ok_or(stale.clone())?;
        let (asked, since) = self.awaited_call_of(agent, call).ok_or(stale.clone())?;
        let (effect, running) = self.by_id(agent).ok_or(stale)?;
        let purpose = running.purpose;
        self.update_agent(effect, |agent| agent.awaited_call = None)?;
        self.settle(purpose, asked, since);
        Ok(effect)
    }

    /// Records that no agent's call waits for the user any longer, because the agents make their requests again. Planned calls keep waiting.
    pub(super) fn settle_all_calls(&mut self) {
        let of_agents = self.awaited_calls.iter().map(|(_, call)| *call);
        let of_agents: Vec<EffectId> = of_agents.filter(|call| call.scope != Scope::Run).collect();
        for call in of_agents {
            // Cannot fail: every waiting call belongs to an outstanding agent.
            let _ = self.end_wait(call);
        }
    }

    /// Returns the agent's waiting call and the start of its wait, if the waiting call is `call` or another attempt of it.
    fn awaited_call_of(&self, agent: AgentId, call: EffectId) -> Option<(EffectId, Timestamp)> {
        let (_, agent) = self.by_id(agent)?;
        agent
            .awaited_call
            .filter(|awaited| awaited.call.is_same_effect(call))
            .map(|awaited| (awaited.call, awaited.since))
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

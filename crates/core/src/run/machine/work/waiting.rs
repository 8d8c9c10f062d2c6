//! What waits for the user: calls of the plan for an approval, and calls of agents for a decision or an answer. Also the requests of agents
//! that guidance or a rule makes outdated.

use std::sync::Arc;

use super::OutstandingWork;
use super::pending::{AwaitedCall, Purpose, RequestState};
use crate::approval::Approval;
use crate::id::{AgentId, EffectId, Scope};
use crate::machine::Refusal;
use crate::time::Timestamp;

impl OutstandingWork {
    /// The approvals for which planned calls wait, ordered by id.
    pub(in crate::run::machine) fn approvals(&self) -> impl Iterator<Item = &Arc<Approval>> {
        self.approvals.iter().filter_map(|step| {
            let (_, call) = self.call_at(Scope::Run, *step)?;
            call.approval()
        })
    }

    /// The number of running sub-tasks that wait for the user.
    pub(in crate::run::machine) fn waiting_subtasks(&self) -> usize {
        self.waiting_subtasks.len()
    }

    /// The call that has waited longest for the user; `None` unless all work waits for the user.
    pub(in crate::run::machine) fn awaited_call(&self) -> Option<EffectId> {
        if !self.busy.is_empty() {
            return None;
        }
        self.awaited_calls.first().map(|(_, effect)| *effect)
    }

    /// Returns true if the call waits for the user, whatever the attempt in its id.
    pub(in crate::run::machine) fn is_awaited(&self, call: EffectId) -> bool {
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
    pub(in crate::run::machine) fn await_call(
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
    pub(in crate::run::machine) fn outdate_request(&mut self, agent: AgentId) {
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
    pub(in crate::run::machine) fn outdate_all_requests(&mut self) {
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
    pub(in crate::run::machine) fn outdate_questions(&mut self, given: u32) -> Vec<(AgentId, u32)> {
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
    pub(in crate::run::machine) fn settle_call(&mut self, call: EffectId) -> Result<(), Refusal> {
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
    pub(in crate::run::machine) fn settle_all_calls(&mut self) {
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
}

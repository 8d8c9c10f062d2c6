//! Approvals of the calls in a plan, and calls of agents that wait for the user (APPROVE-1 to APPROVE-3, LEAD-4, HOST-11). While all
//! outstanding work waits for the user, the run's clock is paused. If no user is available, the run pauses.

use std::sync::Arc;

use serde_json::Value;

use super::work::{CallPosition, CallState, Pending, PlannedCall, Purpose, RequestState};
use super::{Commands, Run};
use crate::approval::{Approval, Decision, ResolvedDecision, resolve};
use crate::id::{AgentId, EffectId, Scope, SubTaskId};
use crate::machine::Refusal;
use crate::message::ToolCall;
use crate::phase::Phase;
use crate::policy::{CallPattern, PolicyDecision, Ruling};
use crate::run::{RunCommand, RunInput, RunTimer};
use crate::time::Timestamp;
use crate::tool::ToolResult;
use crate::user_request::UserRequestKind;

/// A period in which all outstanding work waits for the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AwaitingUser {
    pub(super) since: Timestamp,
    /// The call that has waited longest.
    pub(super) effect: EffectId,
}

impl Run {
    /// The approvals for which calls of the plan wait, ordered by id.
    pub fn approvals(&self) -> impl Iterator<Item = &Arc<Approval>> {
        self.work.approvals()
    }

    /// The call, of the plan or of an agent, that has waited longest for the user; `None` unless all outstanding work waits for the user.
    pub fn awaited_call(&self) -> Option<EffectId> {
        self.awaiting_user.map(|awaiting| awaiting.effect)
    }

    /// The index of the sub-task that this call blocks while it waits for the user; `None` for a call of the lead or the reflector.
    pub(crate) fn blocked_subtask(&self, effect: EffectId) -> Option<usize> {
        match effect.scope {
            Scope::Run => {
                let (_, planned) = self.work.call_at(effect.scope, effect.step)?;
                planned.approval().map(|_| planned.position.subtask)
            }
            Scope::Agent(agent) => self.subtask_of_agent(agent),
        }
    }

    /// The id of the sub-task to which this running call belongs, directly or through the agent that makes it; `None` for a call of the lead
    /// or the reflector.
    pub(crate) fn subtask_of_call(&self, effect: EffectId) -> Option<SubTaskId> {
        let index = match effect.scope {
            Scope::Run => self.work.call_at(effect.scope, effect.step)?.1.position.subtask,
            Scope::Agent(agent) => self.subtask_of_agent(agent)?,
        };
        let subtasks = &self.iterations.last()?.graph.plan().subtasks;
        Some(subtasks.get(index)?.id.clone())
    }

    /// The index of the sub-task for which this agent works, directly or because another agent delegated to it.
    fn subtask_of_agent(&self, agent: AgentId) -> Option<usize> {
        match self.work.root(agent)?.purpose {
            Purpose::SubTask(index) => Some(index),
            Purpose::Lead | Purpose::Reflection | Purpose::Delegation(_) | Purpose::Abandoned => None,
        }
    }

    pub(super) fn evaluate_policy(&self, call: &ToolCall) -> PolicyDecision {
        let spec = self.spec();
        match self.tool_set().get(&call.tool) {
            Some(tool) => {
                let policy = spec.setup.policy.allowing(&self.allowed);
                policy.decide(tool, &call.parameters, &spec.workspace)
            }
            // A call of an unknown tool needs no approval: its validation fails.
            None => PolicyDecision::Allow,
        }
    }

    pub(super) fn ask_approval(
        &mut self,
        now: Timestamp,
        position: CallPosition,
        call: ToolCall,
        commands: &mut Commands,
    ) {
        let effect = self.work.next_effect();
        let approval = Arc::new(Approval::new(
            effect,
            None,
            &call,
            &self.spec().workspace,
            self.spec().limits.approval_timeout,
            now,
        ));
        let planned = PlannedCall {
            position,
            call,
            state: CallState::AwaitingApproval(approval.clone()),
        };
        self.work.insert(effect, Pending::Call(planned));
        commands.extend(expiry(&approval));
        commands.push(RunCommand::AskApproval { approval });
    }

    /// Allows these calls of plans and of all agents from now on. Runs the planned calls that are waiting for approval if the policy allows
    /// them now. A pattern that is already known changes nothing.
    pub(super) fn allow_calls(
        &mut self,
        now: Timestamp,
        calls: CallPattern,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        if self.allows(&calls) {
            return Ok(());
        }
        self.allowed.push(calls);
        self.work.outdate_all_requests();
        let agents = self.work.agents().map(|(_, agent)| agent.brief.agent);
        commands.extend(agents.filter_map(|agent| self.allow_again(agent).last()));
        let is_allowed = |planned: &PlannedCall| {
            planned.approval().is_some() && self.evaluate_policy(&planned.call) == PolicyDecision::Allow
        };
        let waiting = self.work.calls().filter(|(_, planned)| is_allowed(planned));
        let waiting: Vec<EffectId> = waiting.map(|(effect, _)| effect).collect();
        for effect in waiting {
            let (effect, position, call) = self.end_approval(effect)?;
            self.execute(now, effect, position, call, None, commands);
        }
        Ok(())
    }

    /// Returns the commands that tell an agent which calls the user has allowed since the run started. The agent refuses patterns that it
    /// already knows.
    pub(super) fn allow_again(&self, agent: AgentId) -> impl Iterator<Item = RunCommand> {
        (1..)
            .zip(&self.allowed)
            .map(move |(number, calls)| RunCommand::AllowCalls {
                agent,
                number,
                calls: calls.clone(),
            })
    }

    /// Returns true if a rule of the run allows exactly these calls.
    pub fn allows(&self, calls: &CallPattern) -> bool {
        let rules = self.spec.setup.policy.rules.iter();
        let mut allowed = rules.filter(|rule| rule.ruling == Ruling::Allow);
        self.allowed.contains(calls) || allowed.any(|rule| rule.calls == *calls)
    }

    pub(super) fn decide(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        decision: Decision,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let asked = self.work.call_at(effect.scope, effect.step);
        let approval = asked.and_then(|(_, planned)| planned.approval()).cloned();
        let check = |parameters: &Value| match &approval {
            Some(approval) => {
                let checked = self.tool_set().check_any(&approval.tool, parameters);
                checked.map_err(|fault| fault.to_string())
            }
            None => Ok(parameters.clone()),
        };
        let policy = &self.spec.setup.policy;
        let resolved = resolve(approval.as_deref(), now, effect, decision, policy, check)?;
        let (effect, position, mut call) = self.end_approval(effect)?;
        let rejected = match resolved {
            ResolvedDecision::Run => {
                self.execute(now, effect, position, call, approval, commands);
                return Ok(());
            }
            ResolvedDecision::RunWith(parameters) => {
                call.parameters = parameters;
                self.execute(now, effect, position, call, approval, commands);
                return Ok(());
            }
            ResolvedDecision::Reject(reason) => ToolResult::rejected(reason.as_deref()),
            ResolvedDecision::Guide(guidance) => {
                let result = ToolResult::guided(&guidance);
                self.guidance.push(guidance);
                result
            }
        };
        self.finish_unexecuted(now, effect, position, call, rejected, commands)?;
        self.advance(now, commands)
    }

    pub(super) fn approval_expired(
        &mut self,
        now: Timestamp,
        step: u32,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let asked = self.work.call_at(Scope::Run, step);
        let expired = asked
            .and_then(|(_, planned)| planned.approval())
            .filter(|approval| approval.has_expired(now));
        let Some(effect) = expired.map(|approval| approval.effect) else {
            let timer = RunTimer::Approval(step);
            return Err(self.invalid_state(&RunInput::TimerFired { timer }));
        };
        let (effect, position, call) = self.end_approval(effect)?;
        let result = ToolResult::approval_expired();
        self.finish_unexecuted(now, effect, position, call, result, commands)?;
        self.advance(now, commands)
    }

    /// Ends a planned call's wait for approval and returns the call. Ignores the attempt in `effect`.
    pub(super) fn end_approval(
        &mut self,
        effect: EffectId,
    ) -> Result<(EffectId, CallPosition, ToolCall), Refusal> {
        let asked = self.work.call_at(effect.scope, effect.step);
        let asked = asked.filter(|(_, planned)| planned.approval().is_some());
        let (effect, _) = asked.ok_or(Refusal::Stale { effect })?;
        let PlannedCall { position, call, .. } = self.work.remove_call(effect)?;
        Ok((effect, position, call))
    }

    /// Records that an agent's call waits for the user. The agent's sub-task frees its slot. Refuses the input if the agent does not know
    /// all calls that the user allows or, for a lead, all guidance. The agent will then withdraw its request or make it again.
    pub(super) fn call_awaits_user(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        guidance: Option<u32>,
        request: UserRequestKind,
        allowed: u32,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        if (allowed as usize) < self.allowed.len() {
            return Err(Refusal::Stale { effect });
        }
        if guidance.is_some_and(|known| known < self.guidance_given()) {
            return Err(Refusal::Stale { effect });
        }
        let request = match (guidance, request) {
            (Some(_), _) => RequestState::Current,
            (None, UserRequestKind::Answer) => RequestState::Question,
            (None, UserRequestKind::Decision) => RequestState::Independent,
        };
        self.work.await_call(effect, now, request)?;
        match self.phase {
            // The sub-task has freed its slot, so another sub-task may start.
            Phase::Acting | Phase::Observing => self.advance(now, commands),
            Phase::Idle | Phase::Planning | Phase::Reflecting | Phase::Complete | Phase::Failed => Ok(()),
        }
    }

    /// Returns true if the run waits only for the user: for answers or for decisions.
    pub(crate) fn is_awaiting_user(&self) -> bool {
        self.awaiting_user.is_some() || self.question().is_some()
    }

    /// Checks that the whole run waits for this question or call.
    pub(super) fn check_awaited(&self, effect: EffectId) -> Result<(), Refusal> {
        let asked = self.question().map(|(asked, _)| asked);
        if asked == Some(effect) || self.awaiting_user.is_some() && self.work.is_awaited(effect) {
            Ok(())
        } else {
            Err(Refusal::Stale { effect })
        }
    }

    /// Updates whether all outstanding work waits for the user, which pauses or resumes the run's clock.
    pub(super) fn update_awaiting_user(&mut self, now: Timestamp, commands: &mut Commands) {
        match (self.awaiting_user, self.work.awaited_call()) {
            (None, None) => {}
            (None, Some(effect)) => {
                self.awaiting_user = Some(AwaitingUser { since: now, effect });
                commands.push(RunCommand::AwaitUser { effect });
            }
            (Some(awaiting), Some(effect)) if awaiting.effect == effect => {}
            (Some(awaiting), Some(effect)) => {
                self.awaiting_user = Some(AwaitingUser { effect, ..awaiting });
                commands.push(RunCommand::AwaitUser { effect });
            }
            (Some(awaiting), None) => {
                self.awaiting_user = None;
                self.extend_deadline(now - awaiting.since, commands);
            }
        }
    }
}

/// Returns the command that sets the timer for an approval's expiry; `None` if the approval never expires.
pub(super) fn expiry(approval: &Approval) -> Option<RunCommand> {
    let at = approval.expires_at?;
    Some(RunCommand::SetTimer {
        timer: RunTimer::Approval(approval.effect.step),
        at,
    })
}

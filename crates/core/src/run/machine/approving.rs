//! Approvals of a plan's own calls and of agents' calls (APPROVE-1 to APPROVE-3, HOST-11). While all outstanding work waits for people, the
//! run's clock is paused, and the run stops if no user is there.

use std::sync::Arc;

use crate::tool::ToolResult;
use serde_json::Value;

use super::acting::CallPosition;
use super::{Commands, Pending, Run};
use crate::approval::{Approval, Decision, DecisionError, ResolvedDecision, resolve};
use crate::id::{AgentId, EffectId, Scope};
use crate::machine::Refusal;
use crate::message::ToolCall;
use crate::phase::Phase;
use crate::policy::{Policy, PolicyDecision};
use crate::run::{RunCommand, RunInput, RunTimer};
use crate::time::Timestamp;

/// The wait in which all outstanding work waits for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AwaitingUser {
    pub(super) since: Timestamp,
    /// The call that has waited longest.
    pub(super) effect: EffectId,
}

impl Run {
    /// The approvals that a plan's own calls wait for, in the order of their ids.
    pub fn approvals(&self) -> impl Iterator<Item = &Arc<Approval>> {
        self.outstanding
            .iter()
            .filter_map(|(_, pending)| pending.approval())
    }

    /// If all outstanding work waits for people, the call of the run or an agent that has waited longest.
    pub fn awaited_approval(&self) -> Option<EffectId> {
        self.awaiting_user.map(|awaiting| awaiting.effect)
    }

    /// The index of the sub-task that waits with this call; `None` for a call of the planner or the reflector.
    pub(crate) fn blocked_subtask(&self, effect: EffectId) -> Option<usize> {
        match (effect.scope, self.outstanding.at_step(effect.scope, effect.step)) {
            (Scope::Run, Some((_, Pending::Approval { index, .. }))) => Some(*index),
            (Scope::Run, _) => None,
            (Scope::Agent(agent), _) => {
                let (agent, mut active) = (self.root_agent(agent), self.iterations.last()?.active());
                active.find_map(|(index, active)| (active.agent == Some(agent)).then_some(index))
            }
        }
    }

    pub(super) fn evaluate_policy(&self, call: &ToolCall) -> PolicyDecision {
        let Some(context) = &self.context else {
            return PolicyDecision::Ask;
        };
        let spec = context.spec();
        match context.tools().get(&call.tool) {
            Some(tool) => spec.policy.decide(tool, &call.parameters, &spec.workspace),
            // A call of an unknown tool fails when it is checked.
            None => PolicyDecision::Allow,
        }
    }

    pub(super) fn ask_approval(
        &mut self,
        now: Timestamp,
        call_position: CallPosition,
        call: ToolCall,
        commands: &mut Commands,
    ) {
        let Some(context) = &self.context else { return };
        let effect = self.outstanding.next_effect();
        let approval = Arc::new(Approval::new(effect, None, &call, context.spec(), now));
        let pending = Pending::Approval {
            index: call_position.index,
            position: call_position.position,
            call,
            approval: approval.clone(),
        };
        self.outstanding.put(effect, pending);
        commands.extend(expiry(&approval));
        commands.push(RunCommand::AskApproval { approval });
    }

    pub(super) fn decide(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        decision: Decision,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let pending = self.outstanding.at_step(effect.scope, effect.step);
        let approved = pending.and_then(|(_, pending)| pending.approval()).cloned();
        let approval = approved.as_deref();
        let check = |parameters: &Value| match (&self.context, approval) {
            (Some(context), Some(approval)) => context
                .tools()
                .check_any(&approval.tool, parameters)
                .map_err(|fault| fault.to_string()),
            (None, _) | (_, None) => Ok(parameters.clone()),
        };
        let no_policy = Policy::default();
        let policy = self
            .context
            .as_ref()
            .map_or(&no_policy, |context| &context.spec().policy);
        let settled = resolve(approval, now, effect, decision, policy, check)?;
        let Some((effect, call_position, mut call)) = self.end_approval(effect) else {
            return Err(DecisionError::NotPending { effect }.into());
        };
        match settled {
            ResolvedDecision::Run => self.execute(now, effect, call_position, call, approved, commands),
            ResolvedDecision::RunWith(parameters) => {
                call.parameters = parameters;
                self.execute(now, effect, call_position, call, approved, commands);
            }
            ResolvedDecision::Reject(reason) => {
                let result = ToolResult::rejected(reason.as_deref());
                self.finish_unexecuted(now, effect, call_position, call, result, commands)?;
                self.advance(now, commands)?;
            }
            ResolvedDecision::Guide(guidance) => {
                let result = ToolResult::guided(&guidance);
                self.guidance.push(guidance);
                self.finish_unexecuted(now, effect, call_position, call, result, commands)?;
                self.advance(now, commands)?;
            }
        }
        Ok(())
    }

    pub(super) fn approval_expired(
        &mut self,
        now: Timestamp,
        step: u32,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let expired = self.approvals().find(|approval| approval.effect.step == step);
        let expired = expired.filter(|approval| approval.has_expired(now));
        let ended = expired.map(|approval| approval.effect);
        match ended.and_then(|effect| self.end_approval(effect)) {
            Some((effect, call_position, call)) => {
                self.finish_unexecuted(
                    now,
                    effect,
                    call_position,
                    call,
                    ToolResult::approval_expired(),
                    commands,
                )?;
                self.advance(now, commands)
            }
            None => Err(self.invalid_state(&RunInput::TimerFired {
                timer: RunTimer::Approval(step),
            })),
        }
    }

    pub(super) fn end_approval(&mut self, effect: EffectId) -> Option<(EffectId, CallPosition, ToolCall)> {
        let (effect, _) = self.outstanding.at_step(effect.scope, effect.step)?;
        match self.outstanding.finish(effect) {
            Ok(Pending::Approval {
                index,
                position,
                call,
                ..
            }) => Some((effect, CallPosition { index, position }, call)),
            // The callers have checked that it is an approval.
            Ok(_) | Err(_) => None,
        }
    }

    /// Records that an agent's call waits for approval. The agent's sub-task frees its slot.
    pub(super) fn approval_asked(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let is_under_way = match effect.scope {
            Scope::Run => false,
            Scope::Agent(agent) => self.is_under_way(agent),
        };
        if !is_under_way || self.pending_approval_of(effect).is_some() {
            return Err(Refusal::Stale { effect });
        }
        self.pending_approvals.insert(effect, now);
        match self.phase {
            // Another sub-task may take the slot.
            Phase::Acting | Phase::Observing => self.advance(now, commands),
            Phase::Idle | Phase::Planning | Phase::Reflecting | Phase::Complete | Phase::Failed => Ok(()),
        }
    }

    pub(super) fn approval_settled(&mut self, effect: EffectId) -> Result<(), Refusal> {
        let asked = self
            .pending_approval_of(effect)
            .ok_or(Refusal::Stale { effect })?;
        self.pending_approvals.remove(&asked);
        Ok(())
    }

    /// The id of the agent's waiting call, at any attempt.
    fn pending_approval_of(&self, effect: EffectId) -> Option<EffectId> {
        self.pending_approvals
            .keys()
            .copied()
            .find(|asked| is_same_call(*asked, effect))
    }

    /// The number of running sub-tasks that only wait for a person.
    pub(super) fn subtasks_awaiting_user(&self) -> usize {
        let own = self.approvals().count();
        let Some(iteration) = self.iterations.last() else {
            return own;
        };
        let agents = iteration.active().filter_map(|(_, active)| active.agent);
        own + agents.filter(|agent| self.is_awaiting_approval(*agent)).count()
    }

    /// Returns true if the agent, or its delegate, waits for a person.
    fn is_awaiting_approval(&self, agent: AgentId) -> bool {
        let asks = |scope| self.pending_approvals.keys().any(|asked| asked.scope == scope);
        asks(Scope::Agent(agent))
            || self
                .children_of(agent)
                .filter_map(|child| self.agent_of(child))
                .any(|child| self.is_awaiting_approval(child))
    }

    fn is_under_way(&self, agent: AgentId) -> bool {
        self.outstanding
            .iter()
            .any(|(effect, _)| self.agent_of(effect) == Some(agent))
    }

    /// Returns true if the run waits only for people: for an answer or for decisions.
    pub(crate) fn is_awaiting_user(&self) -> bool {
        self.awaiting_user.is_some() || self.question().is_some()
    }

    /// Checks that this question or call is what the whole run waits for.
    pub(super) fn check_awaited(&self, effect: EffectId) -> Result<(), Refusal> {
        let asked = self.question().map(|(asked, _)| asked);
        let waits = asked == Some(effect)
            || self.awaiting_user.is_some()
                && (self.pending_approval_of(effect).is_some()
                    || self
                        .approvals()
                        .any(|approval| is_same_call(approval.effect, effect)));
        if waits {
            Ok(())
        } else {
            Err(Refusal::Stale { effect })
        }
    }

    /// Updates whether all outstanding work waits for people, which pauses or resumes the run's clock.
    pub(super) fn update_awaiting_user(&mut self, now: Timestamp, commands: &mut Commands) {
        match (self.awaiting_user, self.longest_waiting_call()) {
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

    /// The call that has waited longest; `None` unless all outstanding work waits for people.
    fn longest_waiting_call(&self) -> Option<EffectId> {
        let waits = |(effect, pending): (EffectId, &Pending)| match pending {
            Pending::Approval { .. } => true,
            Pending::Planner(_)
            | Pending::Reflector(_)
            | Pending::SubAgent { .. }
            | Pending::Child { .. } => {
                let Some(agent) = self.agent_of(effect) else {
                    return false;
                };
                // An agent with delegates waits if they wait.
                self.has_children(agent)
                    || self
                        .pending_approvals
                        .keys()
                        .any(|asked| asked.scope == Scope::Agent(agent))
            }
            // An abandoned agent ends by itself; nothing waits for it.
            Pending::Abandoned(_) => true,
            Pending::Tool { .. } | Pending::Question { .. } => false,
        };
        // Work that is being stopped is about to end.
        if !self.stopping.is_empty() || !self.outstanding.iter().all(waits) {
            return None;
        }
        let own = self
            .approvals()
            .map(|approval| (approval.asked_at, approval.effect));
        let of_agents = self
            .pending_approvals
            .iter()
            .map(|(effect, since)| (*since, *effect));
        own.chain(of_agents).min().map(|(_, effect)| effect)
    }
}

/// Returns true if both are the same call, at any attempt.
fn is_same_call(one: EffectId, other: EffectId) -> bool {
    (one.scope, one.step) == (other.scope, other.step)
}

/// The timer for the expiry of an approval, if it expires.
pub(super) fn expiry(approval: &Approval) -> Option<RunCommand> {
    let at = approval.expires_at?;
    Some(RunCommand::SetTimer {
        timer: RunTimer::Approval(approval.effect.step),
        at,
    })
}

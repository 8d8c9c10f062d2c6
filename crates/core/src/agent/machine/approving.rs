//! Approvals of an agent's calls (APPROVE-1 to APPROVE-3). While a call waits for approval, the agent does nothing else, and the waiting
//! time does not count towards its time limit (LOOP-5).

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::{Agent, Commands, Edited, Pending, State};
use crate::agent::{AgentCommand, AgentInput, AgentTimer};
use crate::agent_report::AgentFailure;
use crate::approval::{Approval, Decision, DecisionError, ResolvedDecision, resolve};
use crate::call::SUBMIT_PLAN;
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::message::ToolCall;
use crate::policy::PolicyDecision;
use crate::time::{Millis, Timestamp};
use crate::tool::{ToolResult, code};

impl Agent {
    /// The approval that the agent waits for, if any.
    pub fn approval(&self) -> Option<&Arc<Approval>> {
        self.outstanding.iter().find_map(|(_, pending)| match pending {
            Pending::Approval { approval, .. } => Some(approval),
            Pending::Model | Pending::Tool { .. } => None,
        })
    }

    /// Returns the policy's decision on a validated call.
    pub(super) fn evaluate_policy(&self, call: &ToolCall) -> PolicyDecision {
        let spec = &self.run_spec;
        match self.tools_for(call).get(&call.tool) {
            Some(tool) => spec.setup.policy.decide(tool, &call.parameters, &spec.workspace),
            None => PolicyDecision::Ask,
        }
    }

    pub(super) fn ask_approval(&mut self, now: Timestamp, call: ToolCall, commands: &mut Commands) {
        let effect = self.outstanding.next_effect();
        let agent = Some(self.spec().name.clone());
        let approval = Arc::new(Approval::new(effect, agent, &call, &self.run_spec, now));
        let pending = Pending::Approval {
            call,
            approval: approval.clone(),
            edited: Edited::No,
        };
        self.outstanding.put(effect, pending);
        commands.extend(expiry(&approval));
        commands.push(AgentCommand::AskApproval { approval });
    }

    pub(super) fn decide(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        decision: Decision,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let pending = match self.outstanding.at_step(effect.scope, effect.step) {
            Some((_, Pending::Approval { call, approval, .. })) => Some((call, approval)),
            Some((_, Pending::Model | Pending::Tool { .. })) | None => None,
        };
        let check = |parameters: &Value| match pending {
            Some((call, _)) => self.check_edited(&with_parameters(call, parameters.clone())),
            None => Ok(parameters.clone()),
        };
        let policy = &self.run_spec.setup.policy;
        let approved = pending.map(|(_, approval)| approval.clone());
        let settled = resolve(approved.as_deref(), now, effect, decision, policy, check)?;
        let Some((effect, call, edited)) = self.end_approval(now, commands) else {
            return Err(DecisionError::NotPending { effect }.into());
        };
        match settled {
            ResolvedDecision::Run => self.execute_approved(now, effect, call, edited, approved, commands),
            ResolvedDecision::RunWith(parameters) => {
                let call = with_parameters(&call, parameters);
                self.execute_approved(now, effect, call, Edited::ByUser, approved, commands);
            }
            ResolvedDecision::Reject(reason) => {
                self.refuse_call(&call, &ToolResult::rejected(reason.as_deref()));
                self.skip_remaining_calls(&not_approved());
                let tool = call.tool;
                self.finish(now, Err(AgentFailure::Rejected { tool, reason }), commands);
            }
            ResolvedDecision::Guide(guidance) => {
                self.refuse_call(&call, &ToolResult::guided(&guidance));
                self.skip_remaining_calls(&not_approved());
                self.next_call(now, VecDeque::new(), commands);
            }
        }
        Ok(())
    }

    pub(super) fn approval_expired(
        &mut self,
        now: Timestamp,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        if !self.approval().is_some_and(|approval| approval.has_expired(now)) {
            return Err(self.invalid_state(&AgentInput::TimerFired {
                timer: AgentTimer::Approval,
            }));
        }
        if let Some((_, call, _)) = self.end_approval(now, commands) {
            self.refuse_call(&call, &ToolResult::approval_expired());
            let rest = self.take_calls();
            self.next_call(now, rest, commands);
        }
        Ok(())
    }

    /// Withdraws the call that waits for approval, because urgent guidance came first.
    pub(super) fn withdraw_approval(&mut self, now: Timestamp, commands: &mut Commands) {
        if let Some((_, call, _)) = self.end_approval(now, commands) {
            let result = ToolResult::redirected();
            self.refuse_call(&call, &result);
            self.skip_remaining_calls(&result);
            self.next_call(now, VecDeque::new(), commands);
        }
    }

    /// Withdraws a plan that waits for approval, because the user gave guidance instead. The next request contains the guidance (LEAD-2).
    pub(super) fn withdraw_plan(&mut self, now: Timestamp, commands: &mut Commands) {
        let is_plan = |approval: &Arc<Approval>| approval.tool == SUBMIT_PLAN;
        if !self.approval().is_some_and(is_plan) {
            return;
        }
        if let Some((_, call, _)) = self.end_approval(now, commands) {
            let result = ToolResult::plan_not_approved();
            self.refuse_call(&call, &result);
            self.skip_remaining_calls(&result);
            self.next_call(now, VecDeque::new(), commands);
        }
    }

    /// When the agent started to wait for the user or a delegate, which pauses its time limit; `None` if it does not wait.
    pub(super) fn waiting_since(&self) -> Option<Timestamp> {
        let asked_at = self.approval().map(|approval| approval.asked_at);
        asked_at.or(self.delegating_since)
    }

    /// Extends the approval's expiry by the time in which no process owned the run.
    pub(super) fn extend_expiry(&mut self, by: Millis) {
        for pending in self.outstanding.values_mut() {
            match pending {
                Pending::Approval { approval, .. } => Arc::make_mut(approval).extend_expiry(by),
                Pending::Model | Pending::Tool { .. } => {}
            }
        }
    }

    /// In a fork, requests approval again for each call that waits for approval or that was approved and has not ended. Decisions made in
    /// the source run are not valid in the fork (APPROVE-3). The waiting time so far does not count towards the time limit (LOOP-5).
    pub(super) fn renew_approvals(&mut self, now: Timestamp) {
        let waiting_since = self.waiting_since();
        for (effect, pending) in self.outstanding.iter_mut() {
            let (call, asked, edited) = match pending {
                Pending::Approval {
                    call,
                    approval,
                    edited,
                }
                | Pending::Tool {
                    call,
                    approved: Some(approval),
                    edited,
                    ..
                } => (call.clone(), approval.clone(), *edited),
                Pending::Tool { approved: None, .. } | Pending::Model => continue,
            };
            let approval = Arc::new(asked.renewed(effect, &call, &self.run_spec, now));
            *pending = Pending::Approval {
                call,
                approval,
                edited,
            };
            if let Some(since) = waiting_since {
                self.deadline = self.deadline + (now - since);
            }
            self.delegating_since = None;
        }
    }

    /// Ends the wait for approval and returns the call; `None` if no call waits. The waiting time does not count towards the time limit
    /// (LOOP-5).
    fn end_approval(
        &mut self,
        now: Timestamp,
        commands: &mut Commands,
    ) -> Option<(EffectId, ToolCall, Edited)> {
        let (effect, since) = self
            .approval()
            .map(|approval| (approval.effect, approval.asked_at))?;
        let Ok(Pending::Approval { call, edited, .. }) = self.outstanding.finish(effect) else {
            return None;
        };
        self.deadline = self.deadline + (now - since);
        commands.push(AgentCommand::ApprovalSettled { effect });
        commands.push(AgentCommand::SetTimer {
            timer: AgentTimer::Deadline,
            at: self.deadline,
        });
        Some((effect, call, edited))
    }

    /// Removes and returns the calls of the reply that have not been handled yet.
    pub(super) fn take_calls(&mut self) -> VecDeque<ToolCall> {
        match std::mem::replace(&mut self.state, State::Asking) {
            State::Calling(rest) => rest,
            State::Asking | State::Summarising(_) | State::Done(_) => VecDeque::new(),
        }
    }

    /// Refuses the remaining calls of the reply, because they may depend on the call before them.
    pub(super) fn skip_remaining_calls(&mut self, result: &ToolResult) {
        for call in self.take_calls() {
            self.refuse_call(&call, result);
        }
    }
}

/// The result of the calls that follow one that was not approved.
fn not_approved() -> ToolResult {
    ToolResult::failure("the call did not run, because the user did not approve an earlier call")
        .with_code(code::NOT_APPROVED)
}

fn with_parameters(call: &ToolCall, parameters: Value) -> ToolCall {
    ToolCall {
        parameters,
        ..call.clone()
    }
}

/// Returns the command that sets the timer for an approval's expiry; `None` if the approval never expires.
pub(super) fn expiry(approval: &Approval) -> Option<AgentCommand> {
    let at = approval.expires_at?;
    Some(AgentCommand::SetTimer {
        timer: AgentTimer::Approval,
        at,
    })
}

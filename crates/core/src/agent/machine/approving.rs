//! Approvals of an agent's calls (APPROVE-1 to APPROVE-3). [`super::waiting`] has the code that approvals and questions share.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::waiting::UserRequest;
use super::{Agent, Commands, Edited, Pending};
use crate::agent::AgentCommand;
use crate::agent_report::AgentFailure;
use crate::approval::{Approval, Decision, DecisionError, ResolvedDecision, resolve};
use crate::call::SUBMIT_PLAN;
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::message::ToolCall;
use crate::policy::{CallPattern, PolicyDecision};
use crate::time::Timestamp;
use crate::tool::{ToolResult, code};

impl Agent {
    /// Returns the policy's decision on a validated call.
    pub(super) fn evaluate_policy(&self, call: &ToolCall) -> PolicyDecision {
        let spec = &self.run_spec;
        match self.tools_for(call).get(&call.tool) {
            Some(tool) => {
                let policy = spec.setup.policy.allowing(&self.allowed);
                policy.decide(tool, &call.parameters, &spec.workspace)
            }
            None => PolicyDecision::Ask,
        }
    }

    pub(super) fn ask_approval(&mut self, now: Timestamp, call: ToolCall, commands: &mut Commands) {
        let effect = self.outstanding.next_effect();
        let agent = Some(self.spec().name.clone());
        let approval = Arc::new(Approval::new(
            effect,
            agent,
            &call,
            &self.run_spec.workspace,
            self.run_spec.limits.approval_timeout,
            now,
        ));
        self.await_user(call, UserRequest::Approval(approval), commands);
    }

    /// Allows calls from now on. Runs the call that is waiting for approval if the policy allows it now. Sends any other pending request,
    /// such as a plan (LEAD-2), again, so that the run learns that the request is still pending.
    pub(super) fn allow_calls(&mut self, now: Timestamp, calls: CallPattern, commands: &mut Commands) {
        self.allowed.push(calls);
        let Some(request) = self.user_request() else {
            return;
        };
        let waits = match request {
            UserRequest::Approval(approval) => approval.tool != SUBMIT_PLAN,
            UserRequest::Question(_) | UserRequest::ToolQuestion { .. } => false,
        };
        let call = self.current_call().filter(|_| waits);
        if call.is_none_or(|call| self.evaluate_policy(call) != PolicyDecision::Allow) {
            commands.push(self.request_command(request));
        } else if let Some((effect, call, edited)) = self.end_wait(now, commands) {
            self.execute(now, effect, call, edited, None, commands);
        }
    }

    pub(super) fn decide(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        decision: Decision,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        // The user has answered the plan with guidance. The plan is withdrawn as soon as the run has passed the guidance on to the lead.
        if self.plan_guidance.is_some() {
            return Err(DecisionError::NotPending { effect }.into());
        }
        let pending = match self.outstanding.at_step(effect.scope, effect.step) {
            Some((_, Pending::User { call, request, .. })) => match request {
                UserRequest::Approval(approval) => Some((call, approval)),
                UserRequest::Question(_) | UserRequest::ToolQuestion { .. } => None,
            },
            Some((_, Pending::Model | Pending::Tool { .. })) | None => None,
        };
        let check = |parameters: &Value| match pending {
            Some((call, _)) => self.check_edited(&with_parameters(call, parameters.clone())),
            None => Ok(parameters.clone()),
        };
        let policy = &self.run_spec.setup.policy;
        let approved = pending.map(|(_, approval)| approval.clone());
        let settled = resolve(approved.as_deref(), now, effect, decision, policy, check)?;
        if let (ResolvedDecision::Guide(guidance), Some(plan)) = (&settled, self.waiting_plan()) {
            self.plan_guidance = Some(guidance.clone());
            let guidance = guidance.clone();
            commands.push(AgentCommand::GuideRun {
                effect: plan,
                guidance,
            });
            return Ok(());
        }
        let Some((effect, call, edited)) = self.end_wait(now, commands) else {
            return Err(DecisionError::NotPending { effect }.into());
        };
        match settled {
            ResolvedDecision::Run => self.execute_approved(now, effect, call, edited, approved, commands),
            ResolvedDecision::RunWith(parameters) => {
                let call = with_parameters(&call, parameters);
                self.execute_approved(now, effect, call, Edited::ByUser, approved, commands);
            }
            ResolvedDecision::Reject(reason) => {
                self.answer_call(&call, &ToolResult::rejected(reason.as_deref()));
                self.skip_remaining_calls(&not_approved());
                let tool = call.tool;
                self.finish(now, Err(AgentFailure::Rejected { tool, reason }), commands);
            }
            ResolvedDecision::Guide(guidance) => {
                self.answer_call(&call, &ToolResult::guided(&guidance));
                self.skip_remaining_calls(&not_approved());
                self.next_call(now, VecDeque::new(), commands);
            }
        }
        Ok(())
    }
}

/// The result of each call that is skipped because it follows a call that was not approved.
fn not_approved() -> ToolResult {
    ToolResult::failure("the call did not run, because the user did not approve an earlier call of the reply")
        .with_code(code::NOT_APPROVED)
}

fn with_parameters(call: &ToolCall, parameters: Value) -> ToolCall {
    ToolCall {
        parameters,
        ..call.clone()
    }
}

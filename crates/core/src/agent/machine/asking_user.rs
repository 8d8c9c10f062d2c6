//! Questions to the user, and the report of a failure (LEAD-4).

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::json;

use super::waiting::UserRequest;
use super::{Agent, Commands, Pending};
use crate::agent_report::AgentFailure;
use crate::id::EffectId;
use crate::loop_tools::answer_result;
use crate::machine::Refusal;
use crate::message::ToolCall;
use crate::question::{OpenQuestion, Question};
use crate::time::Timestamp;
use crate::tool::{ToolResult, code};

impl Agent {
    pub(super) fn ask_user(
        &mut self,
        now: Timestamp,
        mut call: ToolCall,
        question: Question,
        commands: &mut Commands,
    ) {
        // The user's answer is not the agent's final answer.
        call.terminate = false;
        let effect = self.outstanding.next_effect();
        let agent = self.spec().name.clone();
        let asked = OpenQuestion::of_agent(effect, agent, question, &self.run_spec.limits, now);
        self.await_user(call, UserRequest::Question(Arc::new(asked)), commands);
    }

    /// Handles the user's answer: it becomes the result of `ask_user`, or goes to the running tool that asked the question. Ignores the
    /// attempt in `effect`.
    pub(super) fn answered(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        answer: &str,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let asked = match self.outstanding.at_step(effect.scope, effect.step) {
            Some((_, Pending::User { request, .. })) => match request {
                UserRequest::Question(question) => Some((question, false)),
                UserRequest::ToolQuestion { question, .. } => Some((question, true)),
                UserRequest::Approval(_) => None,
            },
            Some((_, Pending::Model | Pending::Tool { .. })) | None => None,
        };
        let asked = asked.filter(|(asked, _)| !asked.has_expired(now));
        let (asked, by_running_call) = asked.ok_or(Refusal::Stale { effect })?;
        let chosen = asked.question.choose(answer)?;
        if by_running_call {
            self.answer_tool(now, Some(chosen), commands);
            return Ok(());
        }
        if let Some((effect, call, edited)) = self.end_wait(now, commands) {
            self.handle_result(now, effect, call, edited, answer_result(&chosen), commands);
        }
        Ok(())
    }

    /// Ends the agent as failed, for the reason that it gives. The calls that follow do not run.
    pub(super) fn give_up(
        &mut self,
        now: Timestamp,
        call: &ToolCall,
        rest: VecDeque<ToolCall>,
        reason: String,
        commands: &mut Commands,
    ) {
        let given_up = ToolResult::success(json!("given up"));
        self.record_call(None, call, &given_up);
        self.conversation.push_result(call, None, &given_up, None);
        let skipped = ToolResult::failure("the call did not run, because you gave up before it")
            .with_code(code::REFUSED);
        for call in rest {
            self.answer_call(&call, &skipped);
        }
        self.finish(now, Err(AgentFailure::GaveUp { reason }), commands);
    }
}

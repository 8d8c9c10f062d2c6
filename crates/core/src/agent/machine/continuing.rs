//! Continuing a lead: after its report (LEAD-1), and with guidance for the run while it works (PAOR-8).

use std::sync::Arc;

use super::{Agent, Commands, Edited, Guidance, Pending, State};
use crate::agent::{AgentCommand, AgentTimer};
use crate::agent_report::{AgentAnswer, AgentWork};
use crate::brief::{AgentRole, Continuation};
use crate::machine::Refusal;
use crate::message::{Message, ToolCall};
use crate::prompt;
use crate::spec::RunSpec;
use crate::time::Timestamp;
use crate::tool::{ToolResult, code};
use crate::turn::HistoryPart;

impl Agent {
    /// How many times the lead was continued.
    pub fn continuations(&self) -> u32 {
        self.continuations
    }

    /// Replaces the run's spec, whose limits may have changed since the agent ended. The driver does this before it continues a lead.
    pub fn set_run_spec(&mut self, run_spec: Arc<RunSpec>) {
        self.run_spec = run_spec;
    }

    /// Continues with the run's message. Turns and time are counted from zero again, and the next report contains the
    /// work since then.
    pub(super) fn go_on(&mut self, now: Timestamp, continuation: Continuation, commands: &mut Commands) {
        let Continuation {
            number,
            message,
            agents_left,
            guidance,
        } = continuation;
        // The work so far has been reported, so only its totals are kept.
        self.earlier_usage = self.usage();
        self.earlier_changes = self.changes_so_far();
        self.earlier_calls += self.work().calls.len();
        let submitted = self.has_submitted();
        self.keep_open_calls();
        self.outstanding.clear();
        self.add_message(message, submitted);
        self.continuations = number;
        self.agents_left = Some(agents_left);
        self.guidance_given = Some(guidance);
        // The continuation message already contains the run's guidance.
        self.guidance
            .retain(|guidance| matches!(guidance, Guidance::OfAgent(_)));
        self.work = AgentWork::default();
        (self.turns, self.malformed, self.compactions) = (0, 0, 0);
        (self.asked_to_send_alone, self.last_turn_announced) = (false, false);
        (self.acting, self.redirected) = (false, false);
        (self.stuck, self.delegating_since) = (None, None);
        self.started_at = now;
        self.deadline = now + self.limits_timeout();
        commands.push(AgentCommand::SetTimer {
            timer: AgentTimer::Deadline,
            at: self.deadline,
        });
        self.ask(now, commands);
    }

    /// Returns the lead's messages for the next turn of the conversation. Every call in these messages has a result;
    /// the result of an open plan is `closing_message`.
    pub(crate) fn left_history(&self, closing_message: String) -> HistoryPart {
        let mut agent = self.clone();
        let submitted = agent.has_submitted();
        agent.keep_open_calls();
        agent.close_calls(closing_message, submitted);
        let guidance = agent.guidance.iter().map(|guidance| match guidance {
            Guidance::OfAgent(text) | Guidance::OfRun(text) => Message::User {
                content: text.clone(),
            },
        });
        let notices = self.tool_notices.iter().map(|content| Message::User {
            content: content.clone(),
        });
        let messages = agent.conversation.messages().iter().skip(1).cloned();
        HistoryPart {
            messages: messages.chain(notices).chain(guidance).collect(),
            effects: agent.conversation.effects(),
            seen: self.seen.values().cloned().collect(),
            runs: Vec::new(),
        }
    }

    /// Returns true if the agent ended by submitting a plan, and this call has no result yet.
    fn has_submitted(&self) -> bool {
        match &self.state {
            State::Done(report) => matches!(report.result, Ok(AgentAnswer::Plan(_))),
            State::Asking | State::Summarising(_) | State::Calling(_) => false,
        }
    }

    /// Adds the message to the conversation: as the result of the call that submitted the plan, if that call has none yet; otherwise as a
    /// user message after the results of all open calls.
    fn add_message(&mut self, message: String, submitted: bool) {
        if let Some(content) = self.close_calls(message, submitted) {
            self.conversation.push(Message::User { content });
        }
    }

    /// Gives every open call a result: the message for the open submission. Returns the message if no submission is open.
    fn close_calls(&mut self, message: String, submitted: bool) -> Option<String> {
        let mut open = std::mem::take(&mut self.open_calls);
        let (submission, left_out) = if submitted {
            let why = "the call did not run, because it came after the plan";
            (
                open.pop_front(),
                ToolResult::failure(why).with_code(code::REFUSED),
            )
        } else {
            (None, ToolResult::run_ended())
        };
        let rest = match submission {
            Some(call) => {
                let message = match std::mem::replace(&mut self.plan_edited, Edited::No) {
                    Edited::No => message,
                    Edited::ByUser => format!("{message}\n\n{}", prompt::edited_plan(&call.parameters)),
                };
                self.conversation.push_submission_result(&call, message);
                None
            }
            None => Some(message),
        };
        for call in &open {
            self.conversation.push_result(call, None, &left_out, None);
        }
        rest
    }

    /// Saves the calls of the last reply that have no result, for a continuation: the running call, and the calls after
    /// it.
    pub(super) fn keep_open_calls(&mut self) {
        let running = self.current_call().cloned();
        let rest = self.take_calls();
        self.open_calls.extend(running.into_iter().chain(rest));
    }

    /// The number of the first of the run's guidance entries that the lead does not know yet. Entries that were lost when a process was
    /// killed are sent again.
    pub(super) fn next_guidance(&self) -> u32 {
        let of_run = |guidance: &&Guidance| matches!(guidance, Guidance::OfRun(_));
        let waiting = self.guidance.iter().filter(of_run).count();
        let known = self.guidance_given.map_or(0, |given| given as usize) + waiting;
        u32::try_from(known + 1).unwrap_or(u32::MAX)
    }

    /// Cancels the running request or call, and sends the model a new request with the guidance. If a delegate is working, the run stops
    /// it, and the delegate's findings become the result of the call.
    pub(super) fn redirect(
        &mut self,
        now: Timestamp,
        guidance: String,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.guidance.push(Guidance::OfRun(guidance));
        // A running call may be waiting for the user's answer to its question.
        self.answer_tool(now, None, commands);
        let pending = self.outstanding.iter().next();
        let Some((effect, pending)) = pending.map(|(effect, pending)| (effect, pending.clone())) else {
            return Err(Refusal::InvalidState {
                input: "immediate guidance",
                state: "the lead waits for neither its model nor a call".to_owned(),
            });
        };
        match pending {
            Pending::Model => {
                self.end_request(effect)?;
                commands.push(AgentCommand::Stop);
                // The cancelled request does not count as a turn.
                self.turns = self.turns.saturating_sub(1);
                self.ask(now, commands);
            }
            Pending::Tool { .. } if self.is_delegating() => self.redirected = true,
            Pending::Tool { .. } => {
                let (call, edited) = self.end_call(effect)?;
                commands.push(AgentCommand::Stop);
                self.redirected = true;
                self.handle_result(now, effect, call, edited, ToolResult::redirected(), commands);
            }
            Pending::User { .. } => self.withdraw_request(now, commands),
        }
        Ok(())
    }

    /// Announces that the lead begins to act, at its first call that delegates or is not safe to repeat (LEAD-3).
    pub(super) fn begin_acting(&mut self, call: &ToolCall, commands: &mut Commands) {
        let is_lead = self.brief.role == AgentRole::Lead;
        if !is_lead
            || self.acting
            || (self.delegation(call).is_none() && self.tools_for(call).is_safe_to_repeat(call))
        {
            return;
        }
        self.acting = true;
        commands.push(AgentCommand::BeginActing);
    }
}

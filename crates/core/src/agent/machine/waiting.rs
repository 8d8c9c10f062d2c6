//! Calls that wait for the user: for a decision (APPROVE-1) or for an answer (LEAD-4, or a tool's question during its call). While a call
//! waits, the agent does nothing else, and the waiting time does not count towards its time limit (LOOP-5). A request that is not answered in
//! time expires.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Agent, Commands, Edited, Pending, State};
use crate::agent::{AgentCommand, AgentInput, AgentTimer};
use crate::approval::Approval;
use crate::call::SUBMIT_PLAN;
use crate::id::EffectId;
use crate::machine::Refusal;
use crate::message::ToolCall;
use crate::question::{OpenQuestion, Question};
use crate::time::{Millis, Timestamp};
use crate::tool::ToolResult;

/// The request to the user that a call waits for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum UserRequest {
    Approval(Arc<Approval>),
    Question(Arc<OpenQuestion>),
    /// A question of a tool during its call. The call continues whether it is answered or not. The question has an id of its own, so that an
    /// answer counts for this question alone.
    ToolQuestion {
        question: Arc<OpenQuestion>,
        /// The id of the running call.
        of: EffectId,
        /// The approval of the running call, if one was needed.
        approved: Option<Arc<Approval>>,
    },
}

impl UserRequest {
    pub(super) fn effect(&self) -> EffectId {
        match self {
            UserRequest::Approval(approval) => approval.effect,
            UserRequest::Question(question) | UserRequest::ToolQuestion { question, .. } => question.effect,
        }
    }

    fn asked_at(&self) -> Timestamp {
        match self {
            UserRequest::Approval(approval) => approval.asked_at,
            UserRequest::Question(question) | UserRequest::ToolQuestion { question, .. } => question.asked_at,
        }
    }

    fn expires_at(&self) -> Option<Timestamp> {
        match self {
            UserRequest::Approval(approval) => approval.expires_at,
            UserRequest::Question(question) | UserRequest::ToolQuestion { question, .. } => {
                question.expires_at
            }
        }
    }

    fn extend_expiry(&mut self, by: Millis) {
        match self {
            UserRequest::Approval(approval) => Arc::make_mut(approval).extend_expiry(by),
            UserRequest::Question(question) | UserRequest::ToolQuestion { question, .. } => {
                Arc::make_mut(question).extend_expiry(by);
            }
        }
    }

    /// The result of a call whose request expired; `None` if the call is running, and continues without an answer.
    fn expired(&self) -> Option<ToolResult> {
        match self {
            UserRequest::Approval(_) => Some(ToolResult::approval_expired()),
            UserRequest::Question(_) => Some(ToolResult::not_answered("the user did not answer in time")),
            UserRequest::ToolQuestion { .. } => None,
        }
    }
}

impl Agent {
    /// The approval that the agent waits for, if any.
    pub fn approval(&self) -> Option<&Arc<Approval>> {
        match self.user_request()? {
            UserRequest::Approval(approval) => Some(approval),
            UserRequest::Question(_) | UserRequest::ToolQuestion { .. } => None,
        }
    }

    /// The question whose answer the agent waits for, if any.
    pub fn question(&self) -> Option<&Arc<OpenQuestion>> {
        match self.user_request()? {
            UserRequest::Question(question) | UserRequest::ToolQuestion { question, .. } => Some(question),
            UserRequest::Approval(_) => None,
        }
    }

    pub(super) fn user_request(&self) -> Option<&UserRequest> {
        self.outstanding.iter().find_map(|(_, pending)| match pending {
            Pending::User { request, .. } => Some(request),
            Pending::Model | Pending::Tool { .. } => None,
        })
    }

    /// The lead's plan that waits for approval; `None` if there is none.
    pub(super) fn waiting_plan(&self) -> Option<EffectId> {
        let approval = self.approval()?;
        (approval.tool == SUBMIT_PLAN).then_some(approval.effect)
    }

    /// Makes a request to the user. Its call waits until the user decides or answers.
    pub(super) fn await_user(&mut self, call: ToolCall, request: UserRequest, commands: &mut Commands) {
        self.put_request(request.effect(), call, request, Edited::No, commands);
    }

    fn put_request(
        &mut self,
        effect: EffectId,
        call: ToolCall,
        request: UserRequest,
        edited: Edited,
        commands: &mut Commands,
    ) {
        commands.extend(self.request_commands(&request));
        self.outstanding.put(
            effect,
            Pending::User {
                call,
                request,
                edited,
            },
        );
    }

    /// Returns the commands that set the timer of a request, and make the request.
    fn request_commands(&self, request: &UserRequest) -> impl Iterator<Item = AgentCommand> + use<> {
        request_timer(request)
            .into_iter()
            .chain([self.request_command(request)])
    }

    /// Returns the command that makes a request. It states how many patterns of allowed calls and, for a lead, how many of the run's
    /// guidance entries the agent knows.
    pub(super) fn request_command(&self, request: &UserRequest) -> AgentCommand {
        let guidance = self.guidance_given.map(|_| self.next_guidance() - 1);
        let allowed = u32::try_from(self.allowed.len()).unwrap_or(u32::MAX);
        match request {
            UserRequest::Approval(approval) => AgentCommand::AskApproval {
                approval: approval.clone(),
                guidance,
                allowed,
            },
            UserRequest::Question(question) | UserRequest::ToolQuestion { question, .. } => {
                AgentCommand::AskUser {
                    question: question.clone(),
                    guidance,
                    allowed,
                }
            }
        }
    }

    /// The id of the running call that waits for the user's answer to its question; `None` if there is none.
    pub(super) fn asking_call(&self) -> Option<EffectId> {
        match self.user_request()? {
            UserRequest::ToolQuestion { of, .. } => Some(*of),
            UserRequest::Approval(_) | UserRequest::Question(_) => None,
        }
    }

    /// Makes a running call wait for the user's answer to its question.
    pub(super) fn tool_asked(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        question: Question,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let is_delegating = self.is_delegating();
        let (call, edited, approved) = match self.outstanding.get(effect)? {
            // A delegate sends its own questions to the user.
            Pending::Tool { .. } if is_delegating => return Err(Refusal::Stale { effect }),
            Pending::Tool {
                call,
                started: true,
                edited,
                approved,
            } => (call.clone(), *edited, approved.clone()),
            Pending::Tool { .. } | Pending::User { .. } | Pending::Model => {
                return Err(Refusal::Stale { effect });
            }
        };
        self.outstanding.finish(effect)?;
        let agent = self.spec().name.clone();
        let asked = self.outstanding.next_effect();
        let question = OpenQuestion::of_agent(asked, agent, question, &self.run_spec.limits, now);
        let request = UserRequest::ToolQuestion {
            question: Arc::new(question),
            of: effect,
            approved,
        };
        self.put_request(asked, call, request, edited, commands);
        Ok(())
    }

    /// Gives a running call the user's answer to its question. `answer` is `None` if there is no answer. Does nothing if no running call
    /// has asked.
    pub(super) fn answer_tool(&mut self, now: Timestamp, answer: Option<String>, commands: &mut Commands) {
        let Some(UserRequest::ToolQuestion { approved, of, .. }) = self.user_request() else {
            return;
        };
        let (approved, effect) = (approved.clone(), *of);
        if let Some((_, call, edited)) = self.end_wait(now, commands) {
            let running = Pending::Tool {
                call,
                started: true,
                edited,
                approved,
            };
            self.outstanding.put(effect, running);
            commands.push(AgentCommand::AnswerTool { effect, answer });
        }
    }

    /// Handles the expiry of the request: its call is refused, and the calls that follow in the reply run.
    pub(super) fn request_expired(&mut self, now: Timestamp, commands: &mut Commands) -> Result<(), Refusal> {
        let request = self.user_request();
        let expired = request.filter(|request| request.expires_at().is_some_and(|at| now >= at));
        let Some(result) = expired.map(UserRequest::expired) else {
            return Err(self.invalid_state(&AgentInput::TimerFired {
                timer: AgentTimer::UserRequest,
            }));
        };
        let Some(result) = result else {
            self.answer_tool(now, None, commands);
            return Ok(());
        };
        if let Some((_, call, _)) = self.end_wait(now, commands) {
            self.answer_call(&call, &result);
            let rest = self.take_calls();
            self.next_call(now, rest, commands);
        }
        Ok(())
    }

    /// Withdraws the request, because immediate guidance arrived before the decision or answer.
    pub(super) fn withdraw_request(&mut self, now: Timestamp, commands: &mut Commands) {
        self.withdraw(now, &ToolResult::redirected(), commands);
    }

    /// Handles guidance while a request is pending. A plan or a question of the agent is withdrawn, because the user gave guidance instead;
    /// the next model request contains the guidance (LEAD-2, PAOR-8). A running call that has asked a question continues without an answer.
    /// A lead sends any other pending request again, so that the run learns that the guidance does not affect the request.
    pub(super) fn guided_while_waiting(&mut self, now: Timestamp, commands: &mut Commands) {
        let Some(request) = self.user_request() else {
            return;
        };
        match request {
            UserRequest::Approval(approval) if approval.tool == SUBMIT_PLAN => {
                self.withdraw(now, &ToolResult::plan_not_approved(), commands);
            }
            UserRequest::Question(_) => {
                let result = ToolResult::not_answered("the user gave guidance instead of an answer");
                self.withdraw(now, &result, commands);
            }
            UserRequest::ToolQuestion { .. } => self.answer_tool(now, None, commands),
            UserRequest::Approval(_) if self.guidance_given.is_some() => {
                commands.push(self.request_command(request));
            }
            UserRequest::Approval(_) => {}
        }
    }

    fn withdraw(&mut self, now: Timestamp, result: &ToolResult, commands: &mut Commands) {
        if let Some((_, call, _)) = self.end_wait(now, commands) {
            self.answer_call(&call, result);
            self.skip_remaining_calls(result);
            self.next_call(now, VecDeque::new(), commands);
        }
    }

    /// When the agent started to wait for the user or a delegate, which pauses its time limit; `None` if it does not wait.
    pub(super) fn waiting_since(&self) -> Option<Timestamp> {
        let asked_at = self.user_request().map(UserRequest::asked_at);
        asked_at.or(self.delegating_since)
    }

    /// Extends the request's expiry by the time in which no process owned the run.
    pub(super) fn extend_expiry(&mut self, by: Millis) {
        for pending in self.outstanding.values_mut() {
            match pending {
                Pending::User { request, .. } => request.extend_expiry(by),
                Pending::Model | Pending::Tool { .. } => {}
            }
        }
    }

    /// In a fork, asks the user again for open approvals and for answers to open questions. Calls that were approved but have not ended
    /// need a new approval, because decisions made in the source run are not valid in the fork (APPROVE-3). The waiting time so far does
    /// not count towards the time limit (LOOP-5).
    pub(super) fn renew_requests(&mut self, now: Timestamp) {
        let waiting_since = self.waiting_since();
        self.plan_guidance = None;
        for (effect, pending) in self.outstanding.iter_mut() {
            let (call, edited, request) =
                match pending {
                    Pending::User {
                        call,
                        request,
                        edited,
                    } => {
                        let renewed =
                            match &*request {
                                UserRequest::Approval(asked) => UserRequest::Approval(Arc::new(
                                    asked.renewed(effect, call, self.run_spec.limits.approval_timeout, now),
                                )),
                                UserRequest::Question(asked) => {
                                    UserRequest::Question(Arc::new(asked.renewed(&self.run_spec.limits, now)))
                                }
                                // The call is no longer running. If it is repeated, it asks again.
                                UserRequest::ToolQuestion { .. } => continue,
                            };
                        (call.clone(), *edited, renewed)
                    }
                    Pending::Tool {
                        call,
                        approved: Some(asked),
                        edited,
                        ..
                    } => {
                        let renewed = asked.renewed(effect, call, self.run_spec.limits.approval_timeout, now);
                        (call.clone(), *edited, UserRequest::Approval(Arc::new(renewed)))
                    }
                    Pending::Tool { approved: None, .. } | Pending::Model => continue,
                };
            *pending = Pending::User {
                call,
                request,
                edited,
            };
            if let Some(since) = waiting_since {
                self.deadline = self.deadline + (now - since);
            }
            self.delegating_since = None;
        }
    }

    /// Ends the wait for the user and returns the call; `None` if no call waits. The waiting time does not count towards the time limit
    /// (LOOP-5).
    pub(super) fn end_wait(
        &mut self,
        now: Timestamp,
        commands: &mut Commands,
    ) -> Option<(EffectId, ToolCall, Edited)> {
        let (effect, since) = self
            .user_request()
            .map(|request| (request.effect(), request.asked_at()))?;
        let Ok(Pending::User { call, edited, .. }) = self.outstanding.finish(effect) else {
            return None;
        };
        self.plan_guidance = None;
        self.deadline = self.deadline + (now - since);
        commands.push(AgentCommand::CallSettled { effect });
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
            self.answer_call(&call, result);
        }
    }
}

/// Returns the command that sets the timer for a request's expiry; `None` if the request never expires.
pub(super) fn request_timer(request: &UserRequest) -> Option<AgentCommand> {
    let at = request.expires_at()?;
    Some(AgentCommand::SetTimer {
        timer: AgentTimer::UserRequest,
        at,
    })
}

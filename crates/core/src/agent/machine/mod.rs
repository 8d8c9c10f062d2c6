//! The agent machine: its state, and what each input does to it. What becomes of a reply is in [`replying`], of a call and its
//! result in [`calling`]; [`asking`] sends the next request, within the model's context window.

mod approving;
mod asking;
mod calling;
mod conversation;
mod delegating;
mod findings;
mod repeats;
mod replying;
mod seen;

use std::collections::VecDeque;
use std::sync::Arc;

use conversation::Conversation;
use repeats::Repeats;

use super::{AgentCommand, AgentInput, AgentTimer};
use crate::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork};
use crate::approval::Approval;
use crate::brief::{AgentBrief, AgentRole};
use crate::budget::RequestSize;
use crate::call::{CallForm, ContextCalls};
use crate::id::{AgentId, EffectId, Scope};
use crate::machine::{Machine, Outstanding, Refusal};
use crate::message::{Message, ToolCall};
use crate::run_context::RunContext;
use crate::spec::{AgentSpec, AnswerForm};
use crate::time::{Millis, Timestamp};
use crate::tool::{SeenFiles, ToolResult, ToolSpec};

/// One agent's loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    id: AgentId,
    context: Arc<RunContext>,
    brief: Option<AgentBrief>,
    state: State,
    conversation: Conversation,
    repeats: Repeats,
    seen: Arc<SeenFiles>,
    /// That nothing moves any more (LOOP-10).
    stuck: Option<AgentFailure>,
    /// The calls of the present turn's reply that were taken up so far.
    calls_of_turn: u32,
    last_turn_announced: bool,
    compactions: u32,
    /// What the conversation's earlier turns were replaced by; empty where they were not.
    summary: String,
    /// Of its calls, those that failed.
    failed: u32,
    /// Tokens of a request that was too long for the model, whatever its context window is said to be.
    too_long: Option<u64>,
    outstanding: Outstanding<Pending>,
    guidance: Vec<String>,
    turns: u32,
    malformed: u32,
    /// Set once a reply with a call among words has gone back, until a call is carried out (CALL-7).
    asked_to_send_alone: bool,
    work: AgentWork,
    started_at: Timestamp,
    deadline: Timestamp,
    /// Since when another agent works for it.
    delegating_since: Option<Timestamp>,
    last_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Idle,
    Asking,
    /// The model is asked to summarise the earlier turns (LOOP-11), by this request.
    Summarising(Arc<Vec<Message>>),
    /// One call is under way, or waits for an approval, and these come after it.
    Calling(VecDeque<ToolCall>),
    Done(AgentReport),
}

#[derive(Clone, Debug, PartialEq)]
enum Pending {
    Model,
    Tool {
        call: ToolCall,
        started: bool,
        edited: Edited,
        /// What a person approved, where one was asked.
        approved: Option<Arc<Approval>>,
    },
    /// The call waits for a person (APPROVE-1), whose time does not count.
    Approval {
        call: ToolCall,
        approval: Arc<Approval>,
        edited: Edited,
    },
}

/// Whether a call has other parameters than the model gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edited {
    No,
    ByUser,
}

/// What an input leads to, gathered while the state changes.
type Commands = Vec<AgentCommand>;

impl Agent {
    /// An agent before its first input.
    pub fn new(id: AgentId, context: Arc<RunContext>) -> Self {
        Agent {
            id,
            context,
            brief: None,
            state: State::Idle,
            conversation: Conversation::default(),
            repeats: Repeats::default(),
            seen: Arc::default(),
            stuck: None,
            calls_of_turn: 0,
            last_turn_announced: false,
            compactions: 0,
            summary: String::new(),
            failed: 0,
            too_long: None,
            outstanding: Outstanding::new(Scope::Agent(id)),
            guidance: Vec::new(),
            turns: 0,
            malformed: 0,
            asked_to_send_alone: false,
            work: AgentWork::default(),
            started_at: Timestamp::default(),
            deadline: Timestamp::default(),
            delegating_since: None,
            last_at: Timestamp::default(),
        }
    }

    /// Its id in the run.
    pub fn id(&self) -> AgentId {
        self.id
    }

    /// What it looks things up in.
    pub fn context(&self) -> &Arc<RunContext> {
        &self.context
    }

    /// What it was started with; none before its first input.
    pub fn brief(&self) -> Option<&AgentBrief> {
        self.brief.as_ref()
    }

    /// Its spec; none before its first input.
    pub fn spec(&self) -> Option<&AgentSpec> {
        self.context.agent(&self.brief.as_ref()?.role)
    }

    /// What was said, without what was left out as it grew too long (LOOP-11).
    pub fn conversation(&self) -> &Arc<Vec<Message>> {
        self.conversation.messages()
    }

    /// What the present model request says. Shared: whoever sends it drops it before the reply comes in.
    pub fn request(&self) -> &Arc<Vec<Message>> {
        match &self.state {
            State::Summarising(request) => request,
            State::Idle | State::Asking | State::Calling(_) | State::Done(_) => self.conversation.messages(),
        }
    }

    /// How long the present model request is, with the definitions and the schema that go with it.
    pub fn request_size(&self) -> RequestSize {
        match &self.state {
            State::Summarising(request) => {
                let brief = self.brief.as_ref();
                let overhead = brief.map_or(0, |brief| self.context.request_overhead(brief));
                let messages: u64 = request.iter().map(Message::estimated_tokens).sum();
                RequestSize {
                    counted: 0,
                    estimated: messages.saturating_add(overhead),
                }
            }
            State::Idle | State::Asking | State::Calling(_) | State::Done(_) => self.conversation.size(),
        }
    }

    /// Whether the present model request asks for a summary, which is text, whatever form calls have.
    pub fn is_summarising(&self) -> bool {
        match &self.state {
            State::Summarising(_) => true,
            State::Idle | State::Asking | State::Calling(_) | State::Done(_) => false,
        }
    }

    /// Model requests so far.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Malformed replies in a row, the last one included; 0 where the last one was understood (LOOP-3).
    pub fn malformed(&self) -> u32 {
        self.malformed
    }

    /// What it has done so far.
    pub fn work(&self) -> &AgentWork {
        match &self.state {
            State::Done(report) => &report.work,
            State::Idle | State::Asking | State::Summarising(_) | State::Calling(_) => &self.work,
        }
    }

    /// How it ended, if it has.
    pub fn report(&self) -> Option<&AgentReport> {
        match &self.state {
            State::Done(report) => Some(report),
            State::Idle | State::Asking | State::Summarising(_) | State::Calling(_) => None,
        }
    }

    /// The call that is under way with that id.
    pub fn running_call(&self, effect: EffectId) -> Option<&ToolCall> {
        match self.outstanding.get(effect).ok()? {
            Pending::Tool { call, .. } => Some(call),
            Pending::Approval { .. } | Pending::Model => None,
        }
    }

    /// The call that it waits for, or for whose approval; none while it waits for its model.
    pub fn current_call(&self) -> Option<&ToolCall> {
        self.outstanding.iter().find_map(|(_, pending)| match pending {
            Pending::Tool { call, .. } | Pending::Approval { call, .. } => Some(call),
            Pending::Model => None,
        })
    }

    /// Whether another agent works for it.
    pub(crate) fn is_delegating(&self) -> bool {
        self.delegating_since.is_some()
    }

    /// The commands that have no result yet: after a replay, what is still to be done.
    pub fn outstanding(&self) -> Vec<AgentCommand> {
        if let State::Done(report) = &self.state {
            return vec![AgentCommand::Finish {
                report: report.clone(),
            }];
        }
        let mut commands: Commands = self
            .outstanding
            .iter()
            .map(|(effect, pending)| match pending {
                Pending::Model => AgentCommand::AskModel { effect },
                Pending::Tool { call, .. } => self.call_command(effect, call),
                Pending::Approval { approval, .. } => AgentCommand::AskApproval {
                    approval: approval.clone(),
                },
            })
            .collect();
        match (&self.state, self.approval()) {
            (State::Idle, _) => {}
            (_, Some(approval)) => commands.extend(approving::expiry(approval)),
            (_, None) if self.delegating_since.is_some() => {}
            (_, None) => commands.push(AgentCommand::SetTimer {
                timer: AgentTimer::Deadline,
                at: self.deadline,
            }),
        }
        commands
    }

    fn apply(&mut self, now: Timestamp, input: AgentInput) -> Result<Commands, Refusal> {
        match (&self.state, &input) {
            (State::Idle, AgentInput::Started { .. }) => {}
            (State::Idle | State::Done(_), _) => return Err(self.invalid_state(&input)),
            (State::Asking | State::Summarising(_) | State::Calling(_), _) => {}
        }
        let mut commands = Vec::new();
        match input {
            AgentInput::Started { ref brief } if self.state == State::Idle => {
                if self.context.agent(&brief.role).is_none() {
                    return Err(self.invalid_state(&input));
                }
                self.start(now, brief.clone(), &mut commands);
            }
            AgentInput::Started { .. } => return Err(self.invalid_state(&input)),
            AgentInput::ModelReplied { effect, reply } => {
                self.end_request(effect)?;
                if self.is_summarising() {
                    self.handle_summary(reply, &mut commands);
                } else {
                    self.handle_reply(now, reply, &mut commands);
                }
            }
            AgentInput::ModelFailed { effect, failure } => {
                self.end_request(effect)?;
                self.handle_model_failure(now, failure, &mut commands);
            }
            AgentInput::OverBudget {
                effect,
                budget_exceeded,
            } => {
                self.end_request(effect)?;
                self.finish(now, Err(AgentFailure::Budget { budget_exceeded }), &mut commands);
            }
            AgentInput::ToolStarted { effect } => match self.outstanding.get_mut(effect)? {
                Pending::Tool { started, .. } => *started = true,
                Pending::Model | Pending::Approval { .. } => return Err(Refusal::Stale { effect }),
            },
            AgentInput::ToolFinished { effect, result } => {
                let (call, edited) = self.end_call(effect)?;
                self.end_delegation(now, &mut commands);
                self.handle_result(now, effect, call, edited, result, &mut commands);
            }
            AgentInput::Decided { effect, decision } => self.decide(now, effect, decision, &mut commands)?,
            AgentInput::Guided { guidance } => self.guidance.push(guidance),
            AgentInput::TimerFired {
                timer: AgentTimer::Approval,
            } => self.approval_expired(now, &mut commands)?,
            AgentInput::TimerFired {
                timer: AgentTimer::Deadline,
            } if now < self.deadline || self.waiting_since().is_some() => {
                return Err(self.invalid_state(&input));
            }
            AgentInput::TimerFired {
                timer: AgentTimer::Deadline,
            } => {
                let timeout = self.limits_timeout();
                self.finish(now, Err(AgentFailure::TimeLimit { timeout }), &mut commands);
            }
            AgentInput::Resumed { last_seen, forked } => self.resume(now, last_seen, forked, &mut commands),
            AgentInput::Cancelled => self.finish(now, Err(AgentFailure::Cancelled), &mut commands),
        }
        Ok(commands)
    }

    fn start(&mut self, now: Timestamp, brief: AgentBrief, commands: &mut Commands) {
        let Some(spec) = self.context.agent(&brief.role) else {
            return;
        };
        let timeout = spec.limits.timeout;
        let overhead = self.context.request_overhead(&brief);
        let prompt = self.context.system_prompt(&brief).unwrap_or_default();
        let given = ContextCalls::new(&self.context.offered(&brief));
        self.conversation = Conversation::new(spec, prompt, brief.task.clone(), overhead, given);
        self.started_at = now;
        self.deadline = now + timeout;
        self.brief = Some(brief);
        self.state = State::Asking;
        commands.push(AgentCommand::SetTimer {
            timer: AgentTimer::Deadline,
            at: self.deadline,
        });
        self.ask(now, commands);
    }

    fn end_request(&mut self, effect: EffectId) -> Result<(), Refusal> {
        match self.outstanding.get(effect)? {
            Pending::Model => self.outstanding.finish(effect).map(drop),
            Pending::Tool { .. } | Pending::Approval { .. } => Err(Refusal::Stale { effect }),
        }
    }

    fn end_call(&mut self, effect: EffectId) -> Result<(ToolCall, Edited), Refusal> {
        match self.outstanding.get(effect)? {
            Pending::Model | Pending::Approval { .. } => return Err(Refusal::Stale { effect }),
            Pending::Tool { .. } => {}
        }
        match self.outstanding.finish(effect)? {
            Pending::Tool { call, edited, .. } => Ok((call, edited)),
            Pending::Model | Pending::Approval { .. } => Err(Refusal::Stale { effect }),
        }
    }

    /// The time that the process was away does not count, and what was under way is tried again where that is safe.
    fn resume(&mut self, now: Timestamp, last_seen: Timestamp, forked: bool, commands: &mut Commands) {
        let away = now - last_seen.max(self.last_at);
        match self.waiting_since() {
            // The whole wait will not count.
            Some(_) => self.extend_expiry(away),
            None => self.deadline = self.deadline + away,
        }
        // An approval keeps its handle, so that an answer counts which was given while no process was there to take it.
        self.outstanding.retry(|pending| match pending {
            Pending::Model | Pending::Tool { .. } => true,
            Pending::Approval { .. } => false,
        });
        let interrupted = self
            .outstanding
            .iter()
            .find_map(|(effect, pending)| match pending {
                Pending::Tool {
                    call,
                    started: true,
                    edited,
                    ..
                } if !self.tools_for(call).is_safe_to_repeat(call) => Some((effect, call.clone(), *edited)),
                Pending::Tool { .. } | Pending::Approval { .. } | Pending::Model => None,
            });
        match interrupted {
            Some((effect, call, edited)) => {
                // It was found a moment ago.
                let _ = self.outstanding.finish(effect);
                commands.push(AgentCommand::SetTimer {
                    timer: AgentTimer::Deadline,
                    at: self.deadline,
                });
                let result = ToolResult::interrupted(&call.tool);
                self.handle_result(now, effect, call, edited, result, commands);
            }
            None => {
                if forked {
                    self.renew_approvals(now);
                }
                *commands = self.outstanding();
            }
        }
    }

    fn finish(&mut self, now: Timestamp, result: Result<AgentAnswer, AgentFailure>, commands: &mut Commands) {
        let mut work = std::mem::take(&mut self.work);
        if result.is_err() {
            work.findings_so_far = self.findings_so_far();
        }
        let report = AgentReport {
            result,
            work,
            duration: now - self.started_at,
        };
        if let Some(approval) = self.approval() {
            commands.push(AgentCommand::ApprovalSettled {
                effect: approval.effect,
            });
        }
        self.outstanding.clear();
        self.state = State::Done(report.clone());
        commands.push(AgentCommand::Finish { report });
    }

    fn call_form(&self) -> CallForm {
        self.spec().map(|spec| spec.profile.calls).unwrap_or_default()
    }

    fn answer_form(&self) -> AnswerForm {
        self.spec().map_or(AnswerForm::Text, |spec| spec.answer)
    }

    /// What its model may call, its terminating tool included; nothing before its first input.
    pub fn offered(&self) -> Arc<Vec<ToolSpec>> {
        let brief = self.brief.as_ref();
        brief.map(|brief| self.context.offered(brief)).unwrap_or_default()
    }

    fn limits_timeout(&self) -> Millis {
        self.spec().map_or(Millis(0), |spec| spec.limits.timeout)
    }

    fn invalid_state(&self, input: &AgentInput) -> Refusal {
        let role = match self.brief.as_ref().map(|brief| &brief.role) {
            None => "agent".to_owned(),
            Some(AgentRole::Planner) => "planner".to_owned(),
            Some(AgentRole::Reflector) => "reflector".to_owned(),
            Some(AgentRole::Sub(name)) => format!("agent `{name}`"),
        };
        let doing = match &self.state {
            State::Idle => "has not started",
            State::Asking | State::Summarising(_) => "waits for its model",
            State::Calling(_) if self.approval().is_some() => "waits for an approval",
            State::Calling(_) => "waits for a tool",
            State::Done(_) => "has ended",
        };
        Refusal::InvalidState {
            input: input.name(),
            state: format!("the {role} {doing}"),
        }
    }
}

impl AgentInput {
    /// Its name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            AgentInput::Started { .. } => "Started",
            AgentInput::ModelReplied { .. } => "ModelReplied",
            AgentInput::ModelFailed { .. } => "ModelFailed",
            AgentInput::OverBudget { .. } => "OverBudget",
            AgentInput::ToolStarted { .. } => "ToolStarted",
            AgentInput::ToolFinished { .. } => "ToolFinished",
            AgentInput::Decided { .. } => "Decided",
            AgentInput::Guided { .. } => "Guided",
            AgentInput::TimerFired { .. } => "TimerFired",
            AgentInput::Resumed { .. } => "Resumed",
            AgentInput::Cancelled => "Cancelled",
        }
    }
}

impl Machine for Agent {
    type Input = AgentInput;
    type Command = AgentCommand;

    fn handle(&mut self, now: Timestamp, input: AgentInput) -> Result<Vec<AgentCommand>, Refusal> {
        let commands = self.apply(now, input)?;
        self.last_at = now;
        Ok(commands)
    }
}

//! The agent's state machine: its state and the handling of each input. [`replying`] handles replies, [`calling`] handles calls and their
//! results, and [`asking`] sends the next request within the model's context window.

mod approving;
mod asking;
mod asking_user;
mod calling;
mod calling_by_name;
mod confirming;
mod continuing;
mod conversation;
mod delegating;
mod findings;
mod repeats;
mod replying;
mod seen;
mod so_far;
mod tools_changing;
mod waiting;

use std::collections::VecDeque;
use std::sync::Arc;

use conversation::Conversation;
use repeats::Repeats;
use so_far::ChangeSoFar;
use waiting::UserRequest;

use super::{AgentCommand, AgentInput, AgentTimer};
use crate::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork};
use crate::agent_spec::{AgentSpec, AnswerForm};
use crate::approval::Approval;
use crate::brief::{AgentBrief, AgentRole};
use crate::budget::RequestSize;
use crate::call::{CallForm, ContextCalls};
use crate::id::{AgentId, EffectId, Scope};
use crate::machine::{Machine, Outstanding, Refusal};
use crate::message::{Message, ToolCall, Usage};
use crate::policy::CallPattern;
use crate::setup::{AgentIndex, OfferedTools};
use crate::spec::RunSpec;
use crate::time::{Millis, Timestamp};
use crate::tool::{SeenFiles, ToolResult, ToolSpec};
use crate::tools_change::ToolChanges;
use crate::turn::History;
use serde_json::Value;

/// The model ⇄ tools loop of one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    id: AgentId,
    run_spec: Arc<RunSpec>,
    /// The position of the agent's spec in the run's spec.
    index: AgentIndex,
    brief: AgentBrief,
    /// The beginning of the first user message, before the task.
    preamble: Arc<str>,
    state: State,
    conversation: Conversation,
    repeats: Repeats,
    seen: Arc<SeenFiles>,
    /// The failure with which the agent ends before its next call or request; set when the agent makes no progress (LOOP-10).
    stuck: Option<AgentFailure>,
    /// The number of calls of the current reply that were handled so far.
    calls_of_turn: u32,
    last_turn_announced: bool,
    compactions: u32,
    /// Set if the user asked to summarise the messages of earlier turns, until this is done.
    compacts_history: bool,
    /// The summary that replaced earlier turns; empty if no turns were replaced.
    summary: String,
    /// The number of failed calls since the agent started.
    failed: u32,
    /// The number of calls since the agent started that were not executed because of the user ([`ToolResult::was_withheld`]).
    withheld: u32,
    /// The estimated tokens of a request that the model refused as too long; `None` if none was refused. Later requests must be smaller,
    /// even if the configured context window is larger.
    too_long: Option<u64>,
    outstanding: Outstanding<Pending>,
    /// The calls of the last reply that had no result when the agent ended, beginning with the call that submitted the answer, or the interrupted call.
    open_calls: VecDeque<ToolCall>,
    /// The calls that the user has allowed since the run started.
    allowed: Vec<CallPattern>,
    /// The changes of services' tools since the run started.
    tool_changes: ToolChanges,
    /// What the next request will say about changed tools.
    tool_notices: Vec<String>,
    /// The user's guidance that the next request will contain.
    guidance: Vec<Guidance>,
    /// For a lead, the number of the run's guidance entries in its conversation.
    guidance_given: Option<u32>,
    /// For a lead, the number of sub-agents that its plan may start.
    agents_left: Option<u32>,
    /// How many times the lead was continued.
    continuations: u32,
    /// True once the lead has begun to act, since its start or its last continuation (LEAD-3).
    acting: bool,
    /// Set if immediate guidance came while a delegate was working: the calls that follow in the reply do not run.
    redirected: bool,
    turns: u32,
    malformed: u32,
    /// Set after the model was asked to send a call without other text, until it sends calls or a malformed reply (CALL-7).
    asked_to_send_alone: bool,
    work: AgentWork,
    /// The usage before the last continuation.
    earlier_usage: Usage,
    /// The number of calls before the last continuation.
    earlier_calls: usize,
    /// The changes before the last continuation.
    earlier_changes: Vec<ChangeSoFar>,
    started_at: Timestamp,
    deadline: Timestamp,
    /// When the delegate of the current call started; `None` if no delegate is working.
    delegating_since: Option<Timestamp>,
    /// The guidance with which the user answered the pending plan, until the run has passed the guidance on to the lead.
    plan_guidance: Option<String>,
    /// Whether the user changed the open plan before it was approved (LEAD-2).
    plan_edited: Edited,
    last_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Asking,
    /// The agent is waiting for the model's summary of earlier turns (LOOP-11). Contains the messages of the request.
    Summarising(Arc<Vec<Message>>),
    /// A call is running or waiting for the user. Contains the calls that follow it in the reply.
    Calling(VecDeque<ToolCall>),
    Done(Box<AgentReport>),
}

/// User guidance to add to the next model request.
#[derive(Clone, Debug, PartialEq)]
enum Guidance {
    /// Given to this agent alone.
    OfAgent(String),
    /// Given to the run, whose plans refer to the guidance by number (PAOR-8).
    OfRun(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Pending {
    Model,
    Tool {
        call: ToolCall,
        started: bool,
        edited: Edited,
        /// The approval that was granted, if one was needed.
        approved: Option<Arc<Approval>>,
    },
    /// A call that waits for the user: for a decision (APPROVE-1), or an answer (LEAD-4, or a tool's question during its call).
    User {
        call: ToolCall,
        request: UserRequest,
        edited: Edited,
    },
}

/// Whether the user changed the parameters of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edited {
    No,
    ByUser,
}

/// The commands that an input causes, collected while the state changes.
type Commands = Vec<AgentCommand>;

impl Agent {
    /// Starts an agent. Handles [`AgentInput::Started`], the first input of every agent.
    ///
    /// # Errors
    /// [`Refusal::InvalidState`] if the run has no agent with the brief's role.
    pub fn start(
        now: Timestamp,
        run_spec: Arc<RunSpec>,
        brief: AgentBrief,
    ) -> Result<(Self, Vec<AgentCommand>), Refusal> {
        let Some(index) = run_spec.setup.agent_index(&brief.role) else {
            return Err(Refusal::InvalidState {
                input: "the start of an agent",
                state: format!("the run has no agent `{}`", brief.role.name()),
            });
        };
        let spec = run_spec.setup.agent_at(index);
        let prompt = run_spec.system_prompt(spec, brief.depth);
        let offer = run_spec.offer(index, brief.depth);
        let given = ContextCalls::new(&offer.tools);
        let preamble = run_spec.preamble(&brief.role, spec);
        let history = match brief.role {
            AgentRole::Lead => run_spec.earlier_turns().map(|earlier| &earlier.history),
            AgentRole::Reflector | AgentRole::Sub(_) => None,
        };
        let compacts_history =
            history.is_some() && run_spec.earlier_turns().is_some_and(|earlier| earlier.compact);
        let new = history.map_or(&*preamble, |history| history.unknown_part(&preamble));
        let request = format!("{new}{}", brief.task);
        let conversation = Conversation::new(spec, prompt, history, request, offer.overhead, given);
        let seen = history.map(History::seen).unwrap_or_default();
        let deadline = now + spec.limits.timeout;
        let (id, guidance_given, agents_left) = (brief.agent, brief.guidance, brief.agents_left);
        let mut agent = Agent {
            id,
            run_spec,
            index,
            brief,
            preamble,
            state: State::Asking,
            conversation,
            repeats: Repeats::default(),
            seen: Arc::new(seen),
            stuck: None,
            calls_of_turn: 0,
            last_turn_announced: false,
            compactions: 0,
            compacts_history,
            summary: String::new(),
            failed: 0,
            withheld: 0,
            too_long: None,
            outstanding: Outstanding::new(Scope::Agent(id), 0),
            open_calls: VecDeque::new(),
            allowed: Vec::new(),
            tool_changes: ToolChanges::default(),
            tool_notices: Vec::new(),
            guidance: Vec::new(),
            guidance_given,
            agents_left,
            continuations: 0,
            acting: false,
            redirected: false,
            turns: 0,
            malformed: 0,
            asked_to_send_alone: false,
            work: AgentWork::default(),
            earlier_usage: Usage::default(),
            earlier_calls: 0,
            earlier_changes: Vec::new(),
            started_at: now,
            deadline,
            delegating_since: None,
            plan_guidance: None,
            plan_edited: Edited::No,
            last_at: now,
        };
        let mut commands = vec![AgentCommand::SetTimer {
            timer: AgentTimer::Deadline,
            at: deadline,
        }];
        agent.ask(now, &mut commands);
        Ok((agent, commands))
    }

    /// The agent's id in the run.
    pub fn id(&self) -> AgentId {
        self.id
    }

    /// The lookup context that all machines of the run share (spec, tool validators).
    pub fn run_spec(&self) -> &Arc<RunSpec> {
        &self.run_spec
    }

    /// The agent's brief.
    pub fn brief(&self) -> &AgentBrief {
        &self.brief
    }

    /// The beginning of the first user message, before the task: the description of the project and, for a sub-agent, the goal of the run
    /// (LEAD-4). Empty, or ends with a line break.
    pub fn preamble(&self) -> &str {
        &self.preamble
    }

    /// The agent's spec.
    pub fn spec(&self) -> &AgentSpec {
        self.run_spec.setup.agent_at(self.index)
    }

    /// The conversation, without parts that were removed to fit the model's context window (LOOP-11).
    pub fn conversation(&self) -> &Arc<Vec<Message>> {
        self.conversation.messages()
    }

    /// The messages of the current model request. The driver drops its clone before it delivers the reply, so that the machine can add
    /// messages without copying the others.
    pub fn request(&self) -> &Arc<Vec<Message>> {
        match &self.state {
            State::Summarising(request) => request,
            State::Asking | State::Calling(_) | State::Done(_) => self.conversation.messages(),
        }
    }

    /// The size of the current model request, with its tool definitions or reply schema.
    pub fn request_size(&self) -> RequestSize {
        match &self.state {
            State::Summarising(request) => {
                let overhead = self.offer().overhead;
                let messages: u64 = request.iter().map(Message::estimated_tokens).sum();
                RequestSize {
                    counted: 0,
                    estimated: messages.saturating_add(overhead),
                }
            }
            State::Asking | State::Calling(_) | State::Done(_) => self.conversation.size(),
        }
    }

    /// Returns true if the current request asks for a summary. The reply to it is text, whatever the model's call form.
    pub fn is_summarising(&self) -> bool {
        match &self.state {
            State::Summarising(_) => true,
            State::Asking | State::Calling(_) | State::Done(_) => false,
        }
    }

    /// The number of model requests so far, except requests for a summary and requests that were too long for the model. For a lead, since its
    /// last continuation.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// The time at which the agent reaches its time limit (LOOP-5), if it does not wait for a person or for other agents before then.
    pub fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// The number of malformed replies in a row, up to and including the last reply (LOOP-3).
    pub fn malformed(&self) -> u32 {
        self.malformed
    }

    /// The agent's total usage since it started; for a lead, this includes the work before its last continuation.
    pub fn usage(&self) -> Usage {
        let mut usage = self.earlier_usage;
        usage += self.work().usage;
        usage
    }

    /// The agent's work so far; for a lead, since its last continuation.
    pub fn work(&self) -> &AgentWork {
        match &self.state {
            State::Done(report) => &report.work,
            State::Asking | State::Summarising(_) | State::Calling(_) => &self.work,
        }
    }

    /// The agent's report; `None` until it has ended.
    pub fn report(&self) -> Option<&AgentReport> {
        match &self.state {
            State::Done(report) => Some(report),
            State::Asking | State::Summarising(_) | State::Calling(_) => None,
        }
    }

    /// The running call with this effect id; `None` if no such call is running.
    pub fn running_call(&self, effect: EffectId) -> Option<&ToolCall> {
        if self.asking_call() == Some(effect) {
            return self.current_call();
        }
        match self.outstanding.get(effect).ok()? {
            Pending::Tool { call, .. } => Some(call),
            Pending::User { .. } | Pending::Model => None,
        }
    }

    /// The call that runs or waits for the user; `None` while the agent waits for its model.
    pub fn current_call(&self) -> Option<&ToolCall> {
        self.outstanding.iter().find_map(|(_, pending)| match pending {
            Pending::Tool { call, .. } | Pending::User { call, .. } => Some(call),
            Pending::Model => None,
        })
    }

    /// Returns true while a delegate is working.
    pub(crate) fn is_delegating(&self) -> bool {
        self.delegating_since.is_some()
    }

    /// Returns the commands of all outstanding effects, which the driver must execute after a replay.
    pub fn outstanding(&self) -> Vec<AgentCommand> {
        if let State::Done(report) = &self.state {
            return vec![AgentCommand::Finish {
                report: AgentReport::clone(report),
            }];
        }
        let mut commands: Commands = self
            .outstanding
            .iter()
            .map(|(effect, pending)| match pending {
                Pending::Model => AgentCommand::AskModel { effect },
                Pending::Tool { call, .. } => self.call_command(effect, call),
                Pending::User { request, .. } => self.request_command(request),
            })
            .collect();
        if let (Some(guidance), Some(effect)) = (self.plan_guidance.clone(), self.waiting_plan()) {
            commands.push(AgentCommand::GuideRun { effect, guidance });
        }
        if self.acting {
            commands.push(AgentCommand::BeginActing);
        }
        match self.user_request() {
            Some(request) => commands.extend(waiting::request_timer(request)),
            None if self.delegating_since.is_some() => {}
            None => commands.push(AgentCommand::SetTimer {
                timer: AgentTimer::Deadline,
                at: self.deadline,
            }),
        }
        commands
    }

    fn apply(&mut self, now: Timestamp, input: AgentInput) -> Result<Commands, Refusal> {
        match (&self.state, &input) {
            (State::Done(_), AgentInput::Continued { .. }) => {}
            (State::Done(_), _) => return Err(self.invalid_state(&input)),
            (State::Asking | State::Summarising(_) | State::Calling(_), _) => {}
        }
        let mut commands = Vec::new();
        match input {
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
                Pending::Model | Pending::User { .. } => return Err(Refusal::Stale { effect }),
            },
            AgentInput::ToolAsked { effect, question } => {
                self.tool_asked(now, effect, question, &mut commands)?;
            }
            AgentInput::QuestionWithdrawn { effect } if self.asking_call() != Some(effect) => {
                return Err(Refusal::Stale { effect });
            }
            AgentInput::QuestionWithdrawn { .. } => self.answer_tool(now, None, &mut commands),
            AgentInput::ToolFinished { effect, result } => {
                if self.asking_call() == Some(effect) {
                    // The call no longer needs an answer.
                    self.answer_tool(now, None, &mut commands);
                }
                let (call, edited) = self.end_call(effect)?;
                self.end_delegation(now, &mut commands);
                self.handle_result(now, effect, call, edited, result, &mut commands);
            }
            AgentInput::Decided { effect, decision } => self.decide(now, effect, decision, &mut commands)?,
            AgentInput::UserAnswered { effect, answer } => {
                self.answered(now, effect, &answer, &mut commands)?;
            }
            AgentInput::Guided { guidance } => {
                self.guidance.push(Guidance::OfAgent(guidance));
                self.guided_while_waiting(now, &mut commands);
            }
            AgentInput::RunGuided { number, .. } | AgentInput::Redirected { number, .. }
                if number != self.next_guidance() =>
            {
                return Err(self.invalid_state(&input));
            }
            AgentInput::RunGuided { guidance, .. } => {
                self.guidance.push(Guidance::OfRun(guidance));
                self.guided_while_waiting(now, &mut commands);
            }
            AgentInput::Redirected { guidance, .. } => self.redirect(now, guidance, &mut commands)?,
            AgentInput::CallsAllowed { number, .. } if number as usize != self.allowed.len() + 1 => {
                return Err(self.invalid_state(&input));
            }
            AgentInput::CallsAllowed { calls, .. } => self.allow_calls(now, calls, &mut commands),
            AgentInput::ToolsChanged { number, .. } if number as usize != self.tool_changes.count() + 1 => {
                return Err(self.invalid_state(&input));
            }
            AgentInput::ToolsChanged { change, .. } => self.change_tools(change),
            AgentInput::Continued { ref continuation } if continuation.number != self.continuations + 1 => {
                return Err(self.invalid_state(&input));
            }
            AgentInput::Continued { continuation } => self.go_on(now, continuation, &mut commands),
            AgentInput::TimerFired {
                timer: AgentTimer::UserRequest,
            } => self.request_expired(now, &mut commands)?,
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

    fn end_request(&mut self, effect: EffectId) -> Result<(), Refusal> {
        match self.outstanding.get(effect)? {
            Pending::Model => self.outstanding.finish(effect).map(drop),
            Pending::Tool { .. } | Pending::User { .. } => Err(Refusal::Stale { effect }),
        }
    }

    fn end_call(&mut self, effect: EffectId) -> Result<(ToolCall, Edited), Refusal> {
        match self.outstanding.get(effect)? {
            Pending::Model | Pending::User { .. } => return Err(Refusal::Stale { effect }),
            Pending::Tool { .. } => {}
        }
        match self.outstanding.finish(effect)? {
            Pending::Tool { call, edited, .. } => Ok((call, edited)),
            Pending::Model | Pending::User { .. } => Err(Refusal::Stale { effect }),
        }
    }

    /// Resumes the agent in a new process. The time in which no process owned the run does not count towards the time limit. The
    /// outstanding effect is retried if that is safe.
    fn resume(&mut self, now: Timestamp, last_seen: Timestamp, forked: bool, commands: &mut Commands) {
        let last_active = last_seen.max(self.last_at);
        // A call that asked the user a question ended with its process.
        self.answer_tool(last_active, None, commands);
        let away = now - last_active;
        match self.waiting_since() {
            // While the agent waits, its time limit is paused, so only the request's expiry is extended.
            Some(_) => self.extend_expiry(away),
            None => self.deadline = self.deadline + away,
        }
        // A call that waits for the user keeps its attempt, so that a decision or answer given while no process owned the run stays valid.
        self.outstanding.retry(|pending| match pending {
            Pending::Model | Pending::Tool { .. } => true,
            Pending::User { .. } => false,
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
                Pending::Tool { .. } | Pending::User { .. } | Pending::Model => None,
            });
        match interrupted {
            Some((effect, call, edited)) => {
                // Cannot fail, because `outstanding` contains the effect.
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
                    self.renew_requests(now);
                }
                commands.extend(self.outstanding());
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
            guidance: self.guidance_given,
        };
        if let Some(request) = self.user_request() {
            commands.push(AgentCommand::CallSettled {
                effect: request.effect(),
            });
        }
        self.keep_open_calls();
        self.outstanding.clear();
        self.state = State::Done(Box::new(report.clone()));
        commands.push(AgentCommand::Finish { report });
    }

    fn call_form(&self) -> CallForm {
        self.spec().profile.calls
    }

    fn answer_form(&self) -> AnswerForm {
        self.spec().answer
    }

    /// The tools offered to the model, including the terminating tool.
    pub fn offered(&self) -> &Arc<Vec<ToolSpec>> {
        &self.offer().tools
    }

    /// The JSON Schema of the model's replies ([`CallForm::JsonSchema`]); `null` for any other form of calls.
    pub fn reply_schema(&self) -> &Arc<Value> {
        &self.offer().reply_schema
    }

    fn offer(&self) -> &OfferedTools {
        self.run_spec.offer(self.index, self.brief.depth)
    }

    fn limits_timeout(&self) -> Millis {
        self.spec().limits.timeout
    }

    fn invalid_state(&self, input: &AgentInput) -> Refusal {
        let role = match &self.brief.role {
            AgentRole::Lead => "lead".to_owned(),
            AgentRole::Reflector => "reflector".to_owned(),
            AgentRole::Sub(name) => format!("agent `{name}`"),
        };
        let doing = match &self.state {
            State::Asking | State::Summarising(_) => "waits for its model",
            State::Calling(_) if self.approval().is_some() => "waits for an approval",
            State::Calling(_) if self.question().is_some() => "waits for an answer",
            State::Calling(_) => "waits for a tool",
            State::Done(_) => "has ended",
        };
        Refusal::InvalidState {
            input: input.description(),
            state: format!("the {role} {doing}"),
        }
    }
}

impl AgentInput {
    /// The name of the input's variant, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            AgentInput::Started { .. } => "Started",
            AgentInput::ModelReplied { .. } => "ModelReplied",
            AgentInput::ModelFailed { .. } => "ModelFailed",
            AgentInput::OverBudget { .. } => "OverBudget",
            AgentInput::ToolStarted { .. } => "ToolStarted",
            AgentInput::ToolFinished { .. } => "ToolFinished",
            AgentInput::ToolAsked { .. } => "ToolAsked",
            AgentInput::QuestionWithdrawn { .. } => "QuestionWithdrawn",
            AgentInput::Decided { .. } => "Decided",
            AgentInput::UserAnswered { .. } => "UserAnswered",
            AgentInput::Guided { .. } => "Guided",
            AgentInput::RunGuided { .. } => "RunGuided",
            AgentInput::Redirected { .. } => "Redirected",
            AgentInput::CallsAllowed { .. } => "CallsAllowed",
            AgentInput::ToolsChanged { .. } => "ToolsChanged",
            AgentInput::Continued { .. } => "Continued",
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

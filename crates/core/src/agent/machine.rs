//! The agent machine: its state, and what each input does to it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::{
    AgentAnswer, AgentBrief, AgentCommand, AgentFailure, AgentInput, AgentReport, AgentRole, AgentTimer,
};
use crate::call::{Said, ToolCall, parse_after};
use crate::id::{AgentId, EffectId, Scope};
use crate::machine::{Machine, Outstanding, Refusal};
use crate::message::{Message, ModelReply};
use crate::observation::{AgentWork, CallDigest};
use crate::plan::{Plan, PlanRules, SUBMIT_PLAN};
use crate::prompt;
use crate::reflection::{Reflection, SUBMIT_REFLECTION};
use crate::spec::{AgentSpec, AnswerForm, RunContext};
use crate::time::{Millis, Timestamp};
use crate::tool::{Repeat, ToolOutcome, ToolResult};

/// Characters that one string of a call's parameters has in a digest.
const DIGEST_STRING: usize = 200;

/// One agent's loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    id: AgentId,
    context: Arc<RunContext>,
    brief: Option<AgentBrief>,
    state: State,
    conversation: Arc<Vec<Message>>,
    /// Those of the calls in the conversation.
    call_ids: BTreeSet<String>,
    outstanding: Outstanding<Pending>,
    guidance: Vec<String>,
    turns: u32,
    malformed: u32,
    work: AgentWork,
    started_at: Timestamp,
    deadline: Timestamp,
    last_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Idle,
    Asking,
    /// One call is under way, and these come after it.
    Calling(VecDeque<ToolCall>),
    Done(AgentReport),
}

#[derive(Clone, Debug, PartialEq)]
enum Pending {
    Model,
    Tool { call: ToolCall, started: bool },
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
            conversation: Arc::default(),
            call_ids: BTreeSet::new(),
            outstanding: Outstanding::new(Scope::Agent(id)),
            guidance: Vec::new(),
            turns: 0,
            malformed: 0,
            work: AgentWork::default(),
            started_at: Timestamp::default(),
            deadline: Timestamp::default(),
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

    /// What the next model request says. Shared: whoever sends it drops it before the reply comes in.
    pub fn conversation(&self) -> &Arc<Vec<Message>> {
        &self.conversation
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
            State::Idle | State::Asking | State::Calling(_) => &self.work,
        }
    }

    /// How it ended, if it has.
    pub fn report(&self) -> Option<&AgentReport> {
        match &self.state {
            State::Done(report) => Some(report),
            State::Idle | State::Asking | State::Calling(_) => None,
        }
    }

    /// The call that is under way with that id.
    pub fn running_call(&self, effect: EffectId) -> Option<&ToolCall> {
        match self.outstanding.get(effect).ok()? {
            Pending::Tool { call, .. } => Some(call),
            Pending::Model => None,
        }
    }

    /// The call that it waits for; none while it waits for its model.
    pub fn current_call(&self) -> Option<&ToolCall> {
        self.outstanding.iter().find_map(|(_, pending)| match pending {
            Pending::Tool { call, .. } => Some(call),
            Pending::Model => None,
        })
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
                Pending::Tool { call, .. } => AgentCommand::RunTool {
                    effect,
                    call: call.clone(),
                },
            })
            .collect();
        if self.state != State::Idle {
            commands.push(AgentCommand::SetTimer {
                timer: AgentTimer::Deadline,
                at: self.deadline,
            });
        }
        commands
    }

    fn apply(&mut self, now: Timestamp, input: AgentInput) -> Result<Commands, Refusal> {
        match (&self.state, &input) {
            (State::Idle, AgentInput::Started { .. }) => {}
            (State::Idle | State::Done(_), _) => return Err(self.misplaced(&input)),
            (State::Asking | State::Calling(_), _) => {}
        }
        let mut commands = Vec::new();
        match input {
            AgentInput::Started { ref brief } if self.state == State::Idle => {
                if self.context.agent(&brief.role).is_none() {
                    return Err(self.misplaced(&input));
                }
                self.start(now, brief.clone(), &mut commands);
            }
            AgentInput::Started { .. } => return Err(self.misplaced(&input)),
            AgentInput::ModelReplied { effect, reply } => {
                self.end_request(effect)?;
                self.read_reply(now, reply, &mut commands);
            }
            AgentInput::ModelFailed { effect, failure } => {
                self.end_request(effect)?;
                self.finish(now, Err(AgentFailure::Model { failure }), &mut commands);
            }
            AgentInput::OverBudget { effect, overdrawn } => {
                self.end_request(effect)?;
                self.finish(now, Err(AgentFailure::Budget { overdrawn }), &mut commands);
            }
            AgentInput::ToolStarted { effect } => match self.outstanding.get_mut(effect)? {
                Pending::Tool { started, .. } => *started = true,
                Pending::Model => return Err(Refusal::Stale { effect }),
            },
            AgentInput::ToolFinished { effect, result } => {
                let call = self.end_call(effect)?;
                self.read_result(now, effect, call, result, &mut commands);
            }
            AgentInput::Guided { guidance } => self.guidance.push(guidance),
            AgentInput::TimerFired {
                timer: AgentTimer::Deadline,
            } if now < self.deadline => {
                return Err(self.misplaced(&input));
            }
            AgentInput::TimerFired {
                timer: AgentTimer::Deadline,
            } => {
                let timeout = self.limits_timeout();
                self.finish(now, Err(AgentFailure::TimeLimit { timeout }), &mut commands);
            }
            AgentInput::Resumed { last_seen } => self.resume(now, last_seen, &mut commands),
            AgentInput::Cancelled => self.finish(now, Err(AgentFailure::Cancelled), &mut commands),
        }
        Ok(commands)
    }

    fn start(&mut self, now: Timestamp, brief: AgentBrief, commands: &mut Commands) {
        let Some(spec) = self.context.agent(&brief.role) else {
            return;
        };
        let (system, timeout) = (spec.system_prompt.clone(), spec.limits.timeout);
        self.started_at = now;
        self.deadline = now + timeout;
        self.conversation = Arc::new(vec![
            Message::System { content: system },
            Message::User {
                content: brief.task.clone(),
            },
        ]);
        self.brief = Some(brief);
        self.state = State::Asking;
        commands.push(AgentCommand::SetTimer {
            timer: AgentTimer::Deadline,
            at: self.deadline,
        });
        self.ask(now, commands);
    }

    /// The next model request, or the end where there may be none (LOOP-2).
    fn ask(&mut self, now: Timestamp, commands: &mut Commands) {
        for guidance in std::mem::take(&mut self.guidance) {
            self.say(Message::User {
                content: format!("The user says: {guidance}"),
            });
        }
        let max_turns = self.spec().map_or(0, |spec| spec.limits.max_turns);
        if self.turns >= max_turns {
            return self.finish(now, Err(AgentFailure::TurnLimit { max_turns }), commands);
        }
        self.turns += 1;
        self.state = State::Asking;
        let effect = self.outstanding.start(Pending::Model);
        commands.push(AgentCommand::AskModel { effect });
    }

    fn end_request(&mut self, effect: EffectId) -> Result<(), Refusal> {
        match self.outstanding.get(effect)? {
            Pending::Model => self.outstanding.finish(effect).map(drop),
            Pending::Tool { .. } => Err(Refusal::Stale { effect }),
        }
    }

    fn end_call(&mut self, effect: EffectId) -> Result<ToolCall, Refusal> {
        match self.outstanding.get(effect)? {
            Pending::Model => return Err(Refusal::Stale { effect }),
            Pending::Tool { .. } => {}
        }
        match self.outstanding.finish(effect)? {
            Pending::Tool { call, .. } => Ok(call),
            Pending::Model => Err(Refusal::Stale { effect }),
        }
    }

    fn read_reply(&mut self, now: Timestamp, reply: ModelReply, commands: &mut Commands) {
        // A reply that cannot be used was paid for all the same.
        self.work.usage += reply.counted();
        match (parse_after(&reply, &self.prompts()), self.answer()) {
            (Ok(Said::Calls(calls)), _) => {
                self.malformed = 0;
                let calls = self.with_ids(calls);
                self.say(Message::Assistant {
                    content: reply.content,
                    calls: calls.clone(),
                });
                self.next_call(now, calls.into(), commands);
            }
            (Ok(Said::Text(text)), _) if text.trim().is_empty() => {
                self.ask_again(now, reply, "it was empty".to_owned(), commands);
            }
            // LOOP-4; a planner's text answers the goal (SPEC, "Where the rules meet", 6).
            (Ok(Said::Text(text)), AnswerForm::Text | AnswerForm::Plan) => {
                self.malformed = 0;
                self.say(Message::Assistant {
                    content: reply.content,
                    calls: Vec::new(),
                });
                self.finish(now, Ok(AgentAnswer::Text(text)), commands);
            }
            (Ok(Said::Text(_)), AnswerForm::Reflection) => {
                let error =
                    format!("it has no tool call, but a judgement is submitted with `{SUBMIT_REFLECTION}`");
                self.ask_again(now, reply, error, commands);
            }
            (Err(malformed), _) => self.ask_again(now, reply, malformed.to_string(), commands),
        }
    }

    /// What the model was told before it said anything: its system prompt and its task, where examples of calls stand. Two
    /// messages, however long the conversation is.
    fn prompts(&self) -> [&str; 2] {
        [0, 1].map(|place| self.conversation.get(place).map_or("", Message::content))
    }

    /// LOOP-3.
    fn ask_again(&mut self, now: Timestamp, reply: ModelReply, error: String, commands: &mut Commands) {
        self.malformed += 1;
        let Some(spec) = self.spec() else { return };
        let (attempts, correction) = (spec.limits.max_malformed, prompt::malformed(&error, spec));
        if self.malformed >= attempts {
            let last_reply = prompt::shorten(&reply.content, 2_000, None).into_owned();
            let failure = AgentFailure::Malformed {
                attempts: self.malformed,
                error,
                last_reply,
            };
            return self.finish(now, Err(failure), commands);
        }
        // Some providers refuse a message without text.
        let content = if reply.content.is_empty() {
            "(no text)".to_owned()
        } else {
            reply.content
        };
        self.say(Message::Assistant {
            content,
            calls: Vec::new(),
        });
        self.say(Message::User { content: correction });
        self.ask(now, commands);
    }

    /// A call's result names it by its id, so each has one of its own in the whole conversation.
    fn with_ids(&mut self, mut calls: Vec<ToolCall>) -> Vec<ToolCall> {
        for (number, call) in (1..).zip(&mut calls) {
            let mut next: usize = number;
            while call.id.is_empty() || self.call_ids.contains(&call.id) {
                call.id = format!("call-{}-{next}", self.turns);
                next += 1;
            }
            self.call_ids.insert(call.id.clone());
        }
        calls
    }

    /// Runs the calls of a reply in the order given (LOOP-1); after the last the model is asked again.
    fn next_call(&mut self, now: Timestamp, mut calls: VecDeque<ToolCall>, commands: &mut Commands) {
        while let Some(call) = calls.pop_front() {
            match self.submitted(&call) {
                Some(Ok(answer)) => return self.finish(now, Ok(answer), commands),
                Some(Err(error)) => self.answer_call(&call, &ToolResult::failure(error)),
                None => match self.check(&call) {
                    Err(error) => self.answer_call(&call, &ToolResult::failure(error)),
                    Ok(()) => {
                        let effect = self.outstanding.start(Pending::Tool {
                            call: call.clone(),
                            started: false,
                        });
                        commands.push(AgentCommand::RunTool { effect, call });
                        self.state = State::Calling(calls);
                        return;
                    }
                },
            }
        }
        self.ask(now, commands);
    }

    /// CALL-6.
    fn check(&self, call: &ToolCall) -> Result<(), String> {
        let allowed = self.spec().map_or(&[][..], |spec| &spec.tools);
        self.context
            .tools()
            .check(call, allowed)
            .map_err(|fault| fault.to_string())
    }

    /// The answer that a terminating tool's call holds, or why it can't be accepted; none for any other call.
    fn submitted(&self, call: &ToolCall) -> Option<Result<AgentAnswer, String>> {
        type Read = fn(&Agent, &ToolCall) -> Result<AgentAnswer, String>;
        let (terminating, read): (_, Read) = match self.spec()?.answer {
            AnswerForm::Text => return None,
            AnswerForm::Plan => (SUBMIT_PLAN, |agent, call| {
                agent.check_plan(call).map(AgentAnswer::Plan)
            }),
            AnswerForm::Reflection => (SUBMIT_REFLECTION, |_, call| {
                Reflection::from_parameters(&call.parameters).map(AgentAnswer::Reflection)
            }),
        };
        if call.tool != terminating {
            return None;
        }
        let checked = self.context.submissions().check(call, &[terminating.to_owned()]);
        Some(
            checked
                .map_err(|fault| fault.to_string())
                .and_then(|()| read(self, call)),
        )
    }

    /// PAOR-4: a plan with faults goes back with every one of them named.
    fn check_plan(&self, call: &ToolCall) -> Result<Plan, String> {
        let plan = Plan::from_parameters(&call.parameters)?;
        let spec = self.context.spec();
        let faults = plan.faults(&PlanRules {
            agents: &spec.agents,
            tools: self.context.tools(),
            max_subtasks: spec.limits.max_subtasks,
            agents_left: self
                .brief
                .as_ref()
                .and_then(|brief| brief.agents_left)
                .unwrap_or(spec.limits.max_agents),
        });
        if faults.is_empty() {
            return Ok(plan);
        }
        let faults: Vec<String> = faults.iter().map(|fault| format!("- {fault}")).collect();
        Err(format!(
            "the plan was refused; submit it again with these mended:\n{}",
            faults.join("\n")
        ))
    }

    fn read_result(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        call: ToolCall,
        result: ToolResult,
        commands: &mut Commands,
    ) {
        self.work.usage.tool_calls = self.work.usage.tool_calls.saturating_add(1);
        self.work.calls.push(digest(effect, &call, &result));
        self.work.changes.extend(result.changes.iter().cloned());
        self.answer_call(&call, &result);
        match (&result.outcome, std::mem::replace(&mut self.state, State::Asking)) {
            // CALL-1: a terminating call that succeeds is the end; one that fails goes back (SPEC, "Where the rules meet", 1).
            // A plan or a judgement is submitted: no other call's result can stand for it.
            (ToolOutcome::Success { output }, _) if call.terminate && self.answer() == AnswerForm::Text => {
                let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
                self.finish(now, Ok(AgentAnswer::Text(text)), commands);
            }
            (ToolOutcome::Success { .. } | ToolOutcome::Failure { .. }, State::Calling(rest)) => {
                self.next_call(now, rest, commands);
            }
            (
                ToolOutcome::Success { .. } | ToolOutcome::Failure { .. },
                State::Idle | State::Asking | State::Done(_),
            ) => self.next_call(now, VecDeque::new(), commands),
        }
    }

    fn answer_call(&mut self, call: &ToolCall, result: &ToolResult) {
        self.say(Message::Tool {
            call_id: call.id.clone(),
            name: call.tool.clone(),
            content: result.for_model().to_string(),
        });
    }

    /// The time that the process was away does not count, and what was under way is tried again where that is safe.
    fn resume(&mut self, now: Timestamp, last_seen: Timestamp, commands: &mut Commands) {
        self.deadline = self.deadline + (now - last_seen.max(self.last_at));
        self.outstanding.retry_all();
        let interrupted = self
            .outstanding
            .iter()
            .find_map(|(effect, pending)| match pending {
                Pending::Tool { call, started: true } if !self.is_safe_to_repeat(call) => {
                    Some((effect, call.clone()))
                }
                Pending::Tool { .. } | Pending::Model => None,
            });
        match interrupted {
            Some((effect, call)) => {
                // It was found a moment ago.
                let _ = self.outstanding.finish(effect);
                commands.push(AgentCommand::SetTimer {
                    timer: AgentTimer::Deadline,
                    at: self.deadline,
                });
                let result = interrupted_result(&call);
                self.read_result(now, effect, call, result, commands);
            }
            None => *commands = self.outstanding(),
        }
    }

    fn is_safe_to_repeat(&self, call: &ToolCall) -> bool {
        self.context
            .tools()
            .get(&call.tool)
            .is_some_and(|tool| tool.repeat == Repeat::Safe)
    }

    fn finish(&mut self, now: Timestamp, result: Result<AgentAnswer, AgentFailure>, commands: &mut Commands) {
        let duration = now - self.started_at;
        let report = AgentReport {
            result,
            work: std::mem::take(&mut self.work),
            duration,
        };
        self.outstanding.clear();
        self.state = State::Done(report.clone());
        commands.push(AgentCommand::Finish { report });
    }

    fn say(&mut self, message: Message) {
        // In place: the request that shared the conversation is gone when its reply comes in.
        Arc::make_mut(&mut self.conversation).push(message);
    }

    fn answer(&self) -> AnswerForm {
        self.spec().map_or(AnswerForm::Text, |spec| spec.answer)
    }

    fn limits_timeout(&self) -> Millis {
        self.spec().map_or(Millis(0), |spec| spec.limits.timeout)
    }

    fn misplaced(&self, input: &AgentInput) -> Refusal {
        let role = match self.brief.as_ref().map(|brief| &brief.role) {
            None => "agent".to_owned(),
            Some(AgentRole::Planner) => "planner".to_owned(),
            Some(AgentRole::Reflector) => "reflector".to_owned(),
            Some(AgentRole::Sub(name)) => format!("agent `{name}`"),
        };
        let doing = match &self.state {
            State::Idle => "has not started",
            State::Asking => "waits for its model",
            State::Calling(_) => "waits for a tool",
            State::Done(_) => "has ended",
        };
        Refusal::Misplaced {
            input: input.name(),
            state: format!("the {role} {doing}"),
        }
    }
}

/// A call that was under way when the process ended and may have happened (HOST-2).
pub(crate) fn interrupted_result(call: &ToolCall) -> ToolResult {
    ToolResult::failure(format!(
        "`{}` was interrupted: the process ended while it ran, so it may or may not have happened. Look at the present \
         state before you decide whether to call it again",
        call.tool
    ))
}

fn digest(effect: EffectId, call: &ToolCall, result: &ToolResult) -> CallDigest {
    CallDigest {
        effect,
        tool: call.tool.clone(),
        parameters: prompt::shorten_value(&call.parameters, DIGEST_STRING, None),
        success: result.succeeded(),
        duration: result.duration,
        error: match &result.outcome {
            ToolOutcome::Success { .. } => None,
            ToolOutcome::Failure { error, .. } => {
                Some(prompt::shorten(error, DIGEST_STRING, None).into_owned())
            }
        },
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

//! The run's state machine: its state, and what each input does. Each phase has a module of its name.

mod acting;
mod approving;
mod delegating;
mod ending;
mod pending;
mod planning;
mod recovering;
mod redirecting;
mod reflecting;
mod resuming;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use approving::AwaitingUser;
use delegating::LastDelegation;
use pending::Pending;

use super::{Iteration, RunCommand, RunInput, RunTimer};
use crate::agent_report::{AgentReport, CallSummary};
use crate::brief::{AgentBrief, AgentRole};
use crate::budget::BudgetExceeded;
use crate::end_reason::EndReason;
use crate::id::{AgentId, EffectId, Scope};
use crate::machine::{Machine, Outstanding, Refusal};
use crate::message::{ToolCall, Usage};
use crate::observation::Observation;
use crate::phase::{Phase, Transition};
use crate::plan::SubTask;
use crate::prompt::{self, AnsweredQuestion, IterationContext, PastIteration, PastReflection};
use crate::question::Question;
use crate::run_context::RunContext;
use crate::spec::RunSpec;
use crate::time::{Millis, Timestamp};
use crate::tool::{ToolResult, code};

/// The Plan–Act–Observe–Reflect machine of one goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    context: Option<Arc<RunContext>>,
    phase: Phase,
    iteration: u32,
    iterations: Vec<Iteration>,
    guidance: Vec<String>,
    /// For each guidance entry, the iteration whose planner first received it.
    guidance_iterations: Vec<u32>,
    answers: Vec<AnsweredQuestion>,
    outstanding: Outstanding<Pending>,
    /// The effects outstanding when the run failed, until it is resumed.
    cut_off: Outstanding<Pending>,
    /// The outstanding effects that were told to stop, by step.
    stopping: BTreeSet<u32>,
    /// The reports of outstanding agents that have ended while their delegates still work, by step.
    awaiting_children: BTreeMap<u32, AgentReport>,
    /// The result of each agent's last delegation, until the agent shows that it has received it.
    last_delegations: BTreeMap<AgentId, LastDelegation>,
    /// For each running agent, the calls of the agents it delegated to. They become part of its report, for reflection.
    child_calls: BTreeMap<AgentId, Vec<CallSummary>>,
    /// Set while nothing new starts: the next plan is made once all running work has stopped (PAOR-8).
    redirecting: bool,
    /// The agents' calls that wait for approval, and since when.
    pending_approvals: BTreeMap<EffectId, Timestamp>,
    /// Set while all outstanding work waits for a person.
    awaiting_user: Option<AwaitingUser>,
    agents: u32,
    sub_agents: u32,
    usage: Usage,
    /// The limit that left an agent no room for another request.
    budget_exceeded: Option<BudgetExceeded>,
    answer: Option<String>,
    /// The reflector's question that was not asked, because no iteration is left for the answer.
    unasked: Option<Question>,
    end: Option<EndReason>,
    started_at: Timestamp,
    /// Time that does not count towards the run's time limit: waiting for people, and time without a process.
    excluded_time: Millis,
    last_at: Timestamp,
}

impl Default for Run {
    fn default() -> Self {
        Self::new()
    }
}

type Commands = Vec<RunCommand>;

impl Run {
    /// A run before its first input, in [`Phase::Idle`].
    pub fn new() -> Self {
        Run {
            context: None,
            phase: Phase::Idle,
            iteration: 0,
            iterations: Vec::new(),
            guidance: Vec::new(),
            guidance_iterations: Vec::new(),
            answers: Vec::new(),
            outstanding: Outstanding::new(Scope::Run),
            cut_off: Outstanding::new(Scope::Run),
            stopping: BTreeSet::new(),
            awaiting_children: BTreeMap::new(),
            last_delegations: BTreeMap::new(),
            child_calls: BTreeMap::new(),
            redirecting: false,
            pending_approvals: BTreeMap::new(),
            awaiting_user: None,
            agents: 0,
            sub_agents: 0,
            usage: Usage::default(),
            budget_exceeded: None,
            answer: None,
            unasked: None,
            end: None,
            started_at: Timestamp::default(),
            excluded_time: Millis(0),
            last_at: Timestamp::default(),
        }
    }

    /// The run's spec; `None` until started.
    pub fn spec(&self) -> Option<&Arc<RunSpec>> {
        self.context.as_ref().map(|context| context.spec())
    }

    /// The shared lookup context (spec, tool validators); `None` until started.
    pub fn context(&self) -> Option<&Arc<RunContext>> {
        self.context.as_ref()
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The number of the planning iteration, from 1; 0 until started.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// The iterations that have a plan, the current one last.
    pub fn iterations(&self) -> &[Iteration] {
        &self.iterations
    }

    /// The user's guidance so far, in order.
    pub fn guidance(&self) -> &[String] {
        &self.guidance
    }

    /// For each guidance entry that a planner has received, the iteration of that planner (PAOR-8).
    pub(crate) fn guidance_iterations(&self) -> &[u32] {
        &self.guidance_iterations
    }

    /// The usage of all agents and calls that have ended.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The planner's answer, if it answered the goal directly.
    pub fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    /// Why the run ended, or for [`EndReason::UserRequired`] why it waits.
    pub fn end(&self) -> Option<&EndReason> {
        self.end.as_ref()
    }

    /// When the run started.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// When the last input was accepted.
    pub fn last_at(&self) -> Timestamp {
        self.last_at
    }

    /// The agent whose report this effect waits for.
    pub fn agent_of(&self, effect: EffectId) -> Option<AgentId> {
        Some(self.outstanding.get(effect).ok()?.brief()?.agent)
    }

    /// The running tool call of a sub-task with this id.
    pub fn running_call(&self, effect: EffectId) -> Option<&ToolCall> {
        self.outstanding.get(effect).ok()?.running_call()
    }

    /// The steps of all outstanding effects.
    pub(crate) fn steps_under_way(&self) -> BTreeSet<u32> {
        self.outstanding.iter().map(|(effect, _)| effect.step).collect()
    }

    /// The sub-task whose first call has this id, running or waiting for approval.
    pub(crate) fn subtask_started_by(&self, effect: EffectId) -> Option<&SubTask> {
        let call_position = self.outstanding.get(effect).ok()?.call_position()?;
        let subtasks = &self.iterations.last()?.graph.plan().subtasks;
        subtasks
            .get(call_position.index)
            .filter(|_| call_position.position == 0)
    }

    /// The question that waits for the user, with its id.
    pub fn question(&self) -> Option<(EffectId, &Question)> {
        let mut pending = self.outstanding.iter();
        pending.find_map(|(effect, pending)| Some((effect, pending.question()?)))
    }

    /// The reflector's question that was not asked, because a limit left no iteration for the answer.
    pub fn unasked_question(&self) -> Option<&Question> {
        self.unasked.as_ref()
    }

    fn command(&self, effect: EffectId, pending: &Pending) -> RunCommand {
        match pending {
            Pending::Planner(brief)
            | Pending::Reflector(brief)
            | Pending::Abandoned(brief)
            | Pending::SubAgent { brief, .. }
            | Pending::Child { brief, .. } => RunCommand::StartAgent {
                effect,
                brief: brief.clone(),
            },
            Pending::Tool { index, call, .. } => RunCommand::RunTool {
                effect,
                // A call runs only within an iteration.
                subtask: self.iterations[self.iterations.len() - 1].graph.plan().subtasks[*index]
                    .id
                    .clone(),
                call: call.clone(),
            },
            Pending::Approval { approval, .. } => RunCommand::AskApproval {
                approval: approval.clone(),
            },
            Pending::Question { question, .. } => RunCommand::AskUser {
                effect,
                question: question.clone(),
            },
        }
    }

    fn apply(&mut self, now: Timestamp, input: RunInput) -> Result<Commands, Refusal> {
        let idle = self.phase == Phase::Idle;
        if idle != matches!(input, RunInput::Started { .. }) {
            return Err(self.invalid_state(&input));
        }
        if self.end.is_some() && !self.is_allowed_after_end(&input) {
            return Err(self.invalid_state(&input));
        }
        let mut commands = Vec::new();
        match input {
            RunInput::Started { spec } => self.start(now, spec, &mut commands)?,
            RunInput::AgentFinished { effect, report } => {
                self.agent_finished(now, effect, report, &mut commands)?;
            }
            RunInput::ToolStarted { effect } => {
                let Pending::Tool { started, .. } = self.outstanding.get_mut(effect)? else {
                    return Err(Refusal::Stale { effect });
                };
                *started = true;
            }
            RunInput::ToolFinished { effect, result } => self.end_call(now, effect, result, &mut commands)?,
            RunInput::Guided { guidance } => self.guidance.push(guidance),
            RunInput::Redirected { guidance } => self.redirect(now, guidance, &mut commands)?,
            RunInput::ApprovalAsked { effect } => self.approval_asked(now, effect, &mut commands)?,
            RunInput::ApprovalSettled { effect } => self.approval_settled(effect)?,
            RunInput::Decided { effect, decision } => self.decide(now, effect, decision, &mut commands)?,
            RunInput::Delegated { effect, agent, task } => {
                self.delegate(effect, agent, task, &mut commands)?;
            }
            RunInput::UserAnswered { effect, answer } => {
                self.accept_user_answer(now, effect, answer, &mut commands)?;
            }
            RunInput::UserAbsent { effect } => self.pause_for_user(effect, &mut commands)?,
            RunInput::TimerFired { timer } => self.timer_fired(now, timer, &mut commands)?,
            RunInput::Resumed {
                last_seen,
                forked,
                limits,
                cut_off,
            } => {
                self.check_resume(last_seen, limits.as_deref(), &cut_off)?;
                if let Some(limits) = limits {
                    self.set_limits(*limits);
                }
                if self.phase == Phase::Failed {
                    self.recover(now, last_seen, cut_off, &mut commands)?;
                } else {
                    self.resume(now, last_seen, forked, &mut commands)?;
                }
            }
            RunInput::Cancelled => self.finish(EndReason::Cancelled, &mut commands)?,
        }
        self.update_awaiting_user(now, &mut commands);
        Ok(commands)
    }

    /// Returns true if the run accepts the input after it has ended, or while it waits to be resumed.
    fn is_allowed_after_end(&self, input: &RunInput) -> bool {
        let is_resumable = self.end.as_ref().is_some_and(EndReason::is_resumable);
        match input {
            RunInput::Resumed { .. } => true,
            RunInput::Guided { .. } => is_resumable,
            RunInput::Cancelled => !self.phase.is_terminal(),
            RunInput::Started { .. }
            | RunInput::AgentFinished { .. }
            | RunInput::ToolStarted { .. }
            | RunInput::ToolFinished { .. }
            | RunInput::Redirected { .. }
            | RunInput::ApprovalAsked { .. }
            | RunInput::ApprovalSettled { .. }
            | RunInput::Decided { .. }
            | RunInput::Delegated { .. }
            | RunInput::UserAnswered { .. }
            | RunInput::UserAbsent { .. }
            | RunInput::TimerFired { .. } => false,
        }
    }

    fn timer_fired(
        &mut self,
        now: Timestamp,
        timer: RunTimer,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        match timer {
            RunTimer::Approval(step) => self.approval_expired(now, step, commands),
            RunTimer::Call(step) => match self.overdue_call(now, step) {
                Some(effect) => {
                    let timeout = self.call_timeout();
                    commands.push(RunCommand::StopTool { effect });
                    let result =
                        ToolResult::failure(format!("the call took longer than {timeout} and was stopped"))
                            .with_code(code::TIMED_OUT);
                    self.end_call(now, effect, result, commands)
                }
                None => Err(self.invalid_state(&RunInput::TimerFired { timer })),
            },
            RunTimer::Deadline => {
                // Waiting for a person does not count.
                if self.deadline().is_none_or(|deadline| now < deadline) || self.is_awaiting_user() {
                    return Err(self.invalid_state(&RunInput::TimerFired { timer }));
                }
                self.finish(EndReason::TimeLimit, commands)
            }
        }
    }

    fn start(&mut self, now: Timestamp, spec: Arc<RunSpec>, commands: &mut Commands) -> Result<(), Refusal> {
        self.started_at = now;
        self.context = Some(Arc::new(RunContext::new(spec)));
        commands.extend(self.deadline_timer());
        self.plan(commands)
    }

    /// The end of the run's time limit; `None` without a limit.
    fn deadline(&self) -> Option<Timestamp> {
        let timeout = self.spec()?.limits.timeout?;
        Some(self.started_at + self.excluded_time + timeout)
    }

    fn deadline_timer(&self) -> Option<RunCommand> {
        let at = self.deadline()?;
        let timer = RunTimer::Deadline;
        Some(RunCommand::SetTimer { timer, at })
    }

    fn extend_deadline(&mut self, by: Millis, commands: &mut Commands) {
        self.excluded_time += by;
        commands.extend(self.deadline_timer());
    }

    fn enter(&mut self, to: Phase, commands: &mut Commands) -> Result<(), Refusal> {
        let from = self.phase;
        self.phase = from.enter(to)?;
        commands.push(RunCommand::Announce {
            transition: Transition {
                from,
                to,
                iteration: self.iteration,
            },
        });
        Ok(())
    }

    fn brief(&mut self, role: AgentRole, task: String) -> AgentBrief {
        self.agents += 1;
        let depth = match role {
            AgentRole::Planner | AgentRole::Reflector => 0,
            AgentRole::Sub(_) => 1,
        };
        AgentBrief {
            agent: AgentId(self.agents),
            role,
            task,
            agents_left: None,
            guidance: None,
            depth,
            caller: None,
            changed: None,
        }
    }

    fn start_agent(&mut self, pending: Pending, commands: &mut Commands) {
        let effect = self.outstanding.start(pending.clone());
        commands.push(self.command(effect, &pending));
    }

    /// The context of a planner or a reflector, with the first `earlier` iterations. The observations of the last iteration are in the
    /// request itself.
    fn iteration_context<'a>(&'a self, spec: &'a RunSpec, earlier: usize) -> IterationContext<'a> {
        let in_short: Vec<(u32, &[Observation])> = self
            .iterations
            .iter()
            .take(self.iterations.len().saturating_sub(1))
            .map(|iteration| (iteration.number, &iteration.observations[..]))
            .collect();
        let observations = prompt::earlier_observations(&in_short).into_iter();
        let iterations = self.iterations[..earlier].iter();
        let iterations = iterations.zip(observations.chain(std::iter::repeat_with(Vec::new)));
        IterationContext {
            goal: &spec.goal,
            iteration: self.iteration,
            max_iterations: spec.limits.max_iterations,
            guidance: &self.guidance,
            answers: &self.answers,
            iterations: iterations
                .map(|(iteration, observations)| PastIteration {
                    iteration: iteration.number,
                    plan: iteration.graph.plan().summary.as_str().into(),
                    reflection: iteration.reflection.as_ref().map(PastReflection::from),
                    cut_off: iteration.cut_off.as_deref().map(Into::into),
                    observations,
                })
                .collect(),
        }
    }

    fn invalid_state(&self, input: &RunInput) -> Refusal {
        Refusal::InvalidState {
            input: input.name(),
            state: format!("the run is in {}", self.phase),
        }
    }
}

impl RunInput {
    /// The name of the input's variant, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            RunInput::Started { .. } => "Started",
            RunInput::AgentFinished { .. } => "AgentFinished",
            RunInput::ToolStarted { .. } => "ToolStarted",
            RunInput::ToolFinished { .. } => "ToolFinished",
            RunInput::Guided { .. } => "Guided",
            RunInput::Redirected { .. } => "Redirected",
            RunInput::ApprovalAsked { .. } => "ApprovalAsked",
            RunInput::ApprovalSettled { .. } => "ApprovalSettled",
            RunInput::Decided { .. } => "Decided",
            RunInput::Delegated { .. } => "Delegated",
            RunInput::UserAnswered { .. } => "UserAnswered",
            RunInput::UserAbsent { .. } => "UserAbsent",
            RunInput::TimerFired { .. } => "TimerFired",
            RunInput::Resumed { .. } => "Resumed",
            RunInput::Cancelled => "Cancelled",
        }
    }
}

impl Machine for Run {
    type Input = RunInput;
    type Command = RunCommand;

    fn handle(&mut self, now: Timestamp, input: RunInput) -> Result<Vec<RunCommand>, Refusal> {
        let commands = self.apply(now, input)?;
        self.last_at = now;
        Ok(commands)
    }
}

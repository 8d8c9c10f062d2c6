//! The run machine: its state, and what each input does to it. What a phase does is in the module of its name.

mod acting;
mod approving;
mod delegating;
mod planning;
mod redirecting;
mod reflecting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use approving::Still;
use delegating::Returned;

use super::{EndReason, Phase, Question, Round, RunCommand, RunInput, RunTimer, Transition};
use crate::agent::{AgentAnswer, AgentBrief, AgentFailure, AgentReport, AgentRole, interrupted_result};
use crate::approval::Approval;
use crate::budget::{BudgetKind, Overdrawn};
use crate::call::ToolCall;
use crate::id::{AgentId, EffectId, Scope};
use crate::machine::{Machine, Outstanding, Refusal};
use crate::message::Usage;
use crate::observation::Finding;
use crate::plan::{SubTask, Success};
use crate::prompt::{Answer, PastReflection, PastRound, RoundContext};
use crate::spec::{RunContext, RunSpec};
use crate::time::{Millis, Timestamp};
use crate::tool::{Repeat, ToolResult};

#[derive(Clone, Debug, PartialEq)]
enum Pending {
    Planner(Arc<AgentBrief>),
    Reflector(Arc<AgentBrief>),
    SubAgent {
        brief: Arc<AgentBrief>,
        index: usize,
    },
    /// Works for another agent, which made that call.
    Child {
        brief: Arc<AgentBrief>,
        call: EffectId,
    },
    /// A planner or a reflector that was stopped: its report only counts for what it used.
    Retired(Arc<AgentBrief>),
    Tool {
        index: usize,
        position: usize,
        call: ToolCall,
        started: bool,
        deadline: Timestamp,
    },
    /// A call waits for a person (APPROVE-1).
    Approval {
        index: usize,
        position: usize,
        call: ToolCall,
        approval: Arc<Approval>,
    },
    Question {
        question: Question,
        asked_at: Timestamp,
    },
}

impl Pending {
    /// What was started with it, where it is an agent.
    fn brief(&self) -> Option<&Arc<AgentBrief>> {
        match self {
            Pending::Planner(brief)
            | Pending::Reflector(brief)
            | Pending::Retired(brief)
            | Pending::SubAgent { brief, .. }
            | Pending::Child { brief, .. } => Some(brief),
            Pending::Tool { .. } | Pending::Approval { .. } | Pending::Question { .. } => None,
        }
    }
}

/// A goal being pursued.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    context: Option<Arc<RunContext>>,
    phase: Phase,
    iteration: u32,
    rounds: Vec<Round>,
    guidance: Vec<String>,
    /// How much of the guidance the last planner was given.
    guidance_planned: usize,
    answers: Vec<Answer>,
    outstanding: Outstanding<Pending>,
    /// What of it was told to stop, by step.
    stopping: BTreeSet<u32>,
    /// What of it has ended while others still worked for it, by step.
    held: BTreeMap<u32, AgentReport>,
    /// What came of the last delegation of each agent, as long as the agent may not know of it.
    returned: BTreeMap<AgentId, Returned>,
    /// Whether nothing new starts, as the next plan is made as soon as nothing is under way (PAOR-8).
    redirecting: bool,
    /// The agents' calls that wait for people, each since when.
    asked: BTreeMap<EffectId, Timestamp>,
    /// That nothing goes on without people.
    still: Option<Still>,
    agents: u32,
    sub_agents: u32,
    usage: Usage,
    /// The limit that left an agent no room for another request.
    overdrawn: Option<Overdrawn>,
    answer: Option<String>,
    /// What the last judgement would have asked, had the answer been of use.
    unasked: Option<Question>,
    end: Option<EndReason>,
    started_at: Timestamp,
    deadline: Option<Timestamp>,
    last_at: Timestamp,
}

impl Default for Run {
    fn default() -> Self {
        Self::new()
    }
}

type Commands = Vec<RunCommand>;

impl Run {
    /// A run before its first input: Idle.
    pub fn new() -> Self {
        Run {
            context: None,
            phase: Phase::Idle,
            iteration: 0,
            rounds: Vec::new(),
            guidance: Vec::new(),
            guidance_planned: 0,
            answers: Vec::new(),
            outstanding: Outstanding::new(Scope::Run),
            stopping: BTreeSet::new(),
            held: BTreeMap::new(),
            returned: BTreeMap::new(),
            redirecting: false,
            asked: BTreeMap::new(),
            still: None,
            agents: 0,
            sub_agents: 0,
            usage: Usage::default(),
            overdrawn: None,
            answer: None,
            unasked: None,
            end: None,
            started_at: Timestamp::default(),
            deadline: None,
            last_at: Timestamp::default(),
        }
    }

    /// What it was started with; none while Idle.
    pub fn spec(&self) -> Option<&Arc<RunSpec>> {
        self.context.as_ref().map(|context| context.spec())
    }

    /// What its agents look things up in; none while Idle.
    pub fn context(&self) -> Option<&Arc<RunContext>> {
        self.context.as_ref()
    }

    /// The phase it is in.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The planning round, from 1; 0 while Idle.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// The rounds whose plan has come, the present one last.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// The user's guidance so far.
    pub fn guidance(&self) -> &[String] {
        &self.guidance
    }

    /// What all its agents and tools have used, as far as they have ended.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The planner's answer, where it answered the goal at once.
    pub fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    /// Why it ended or, for [`EndReason::UserRequired`], why it stands still.
    pub fn end(&self) -> Option<&EndReason> {
        self.end.as_ref()
    }

    /// When it started.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// When its last input came.
    pub fn last_at(&self) -> Timestamp {
        self.last_at
    }

    /// The agent whose report that effect waits for.
    pub fn agent_of(&self, effect: EffectId) -> Option<AgentId> {
        Some(self.outstanding.get(effect).ok()?.brief()?.agent)
    }

    /// The call of a sub-task's sequence that is under way with that id.
    pub fn running_call(&self, effect: EffectId) -> Option<&ToolCall> {
        match self.outstanding.get(effect).ok()? {
            Pending::Tool { call, .. } => Some(call),
            Pending::Planner(_)
            | Pending::Reflector(_)
            | Pending::Retired(_)
            | Pending::SubAgent { .. }
            | Pending::Child { .. }
            | Pending::Approval { .. }
            | Pending::Question { .. } => None,
        }
    }

    /// The sub-task whose first call that is, under way or waiting for a person.
    pub(crate) fn begun_by(&self, effect: EffectId) -> Option<&SubTask> {
        match self.outstanding.get(effect).ok()? {
            Pending::Tool {
                index, position: 0, ..
            }
            | Pending::Approval {
                index, position: 0, ..
            } => self.rounds.last()?.graph.plan().subtasks.get(*index),
            Pending::Tool { .. }
            | Pending::Approval { .. }
            | Pending::Planner(_)
            | Pending::Reflector(_)
            | Pending::Retired(_)
            | Pending::SubAgent { .. }
            | Pending::Child { .. }
            | Pending::Question { .. } => None,
        }
    }

    /// The question that waits for the user.
    pub fn question(&self) -> Option<(EffectId, &Question)> {
        self.outstanding
            .iter()
            .find_map(|(effect, pending)| match pending {
                Pending::Question { question, .. } => Some((effect, question)),
                Pending::Planner(_)
                | Pending::Reflector(_)
                | Pending::Retired(_)
                | Pending::SubAgent { .. }
                | Pending::Child { .. }
                | Pending::Approval { .. }
                | Pending::Tool { .. } => None,
            })
    }

    /// The question that was not put to the user, as a limit left no round for the answer.
    pub fn unasked_question(&self) -> Option<&Question> {
        self.unasked.as_ref()
    }

    /// The commands that have no result yet: after a replay, what is still to be done.
    pub fn outstanding(&self) -> Vec<RunCommand> {
        let mut commands = Commands::new();
        for (effect, pending) in self.outstanding.iter() {
            if self.held.contains_key(&effect.step) {
                continue;
            }
            commands.push(self.command(effect, pending));
            if self.stopping.contains(&effect.step) {
                commands.push(match pending.brief() {
                    Some(_) => RunCommand::StopAgent { effect },
                    None => RunCommand::StopTool { effect },
                });
            }
        }
        for (effect, pending) in self.outstanding.iter() {
            match pending {
                Pending::Tool { deadline, .. } => commands.push(RunCommand::SetTimer {
                    timer: RunTimer::Call(effect.step),
                    at: *deadline,
                }),
                Pending::Approval { approval, .. } => commands.extend(approving::expiry(approval)),
                Pending::Planner(_)
                | Pending::Reflector(_)
                | Pending::Retired(_)
                | Pending::SubAgent { .. }
                | Pending::Child { .. }
                | Pending::Question { .. } => {}
            }
        }
        match (&self.end, &self.still, self.deadline) {
            (Some(reason), _, _) => commands.push(RunCommand::Finish {
                reason: reason.clone(),
            }),
            (None, Some(still), _) => commands.push(RunCommand::AwaitUser { effect: still.effect }),
            (None, None, Some(at)) => commands.push(RunCommand::SetTimer {
                timer: RunTimer::Deadline,
                at,
            }),
            (None, None, None) => {}
        }
        commands
    }

    fn command(&self, effect: EffectId, pending: &Pending) -> RunCommand {
        match pending {
            Pending::Planner(brief)
            | Pending::Reflector(brief)
            | Pending::Retired(brief)
            | Pending::SubAgent { brief, .. }
            | Pending::Child { brief, .. } => RunCommand::StartAgent {
                effect,
                brief: brief.clone(),
            },
            Pending::Tool { index, call, .. } => RunCommand::RunTool {
                effect,
                // A tool runs only within a round.
                subtask: self.rounds[self.rounds.len() - 1].graph.plan().subtasks[*index]
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
        if self.phase.is_terminal() || idle != matches!(input, RunInput::Started { .. }) {
            return Err(self.misplaced(&input));
        }
        if self.end.is_some() && !goes_on_from_standstill(&input) {
            return Err(self.misplaced(&input));
        }
        let mut commands = Vec::new();
        match input {
            RunInput::Started { spec } => self.start(now, spec, &mut commands)?,
            RunInput::AgentFinished { effect, report } => {
                let is_agent = self.outstanding.get(effect)?.brief().is_some();
                if !is_agent || self.held.contains_key(&effect.step) {
                    return Err(Refusal::Stale { effect });
                }
                if let Some(agent) = self.agent_of(effect) {
                    self.asked.retain(|asked, _| asked.scope != Scope::Agent(agent));
                }
                self.usage += report.work.usage;
                if let Err(AgentFailure::Budget { overdrawn }) = &report.result {
                    self.overdrawn = Some(*overdrawn);
                }
                self.end_or_hold(now, effect, report, &mut commands)?;
            }
            RunInput::ToolStarted { effect } => match self.outstanding.get_mut(effect)? {
                Pending::Tool { started, .. } => *started = true,
                Pending::Planner(_)
                | Pending::Reflector(_)
                | Pending::Retired(_)
                | Pending::SubAgent { .. }
                | Pending::Child { .. }
                | Pending::Approval { .. }
                | Pending::Question { .. } => {
                    return Err(Refusal::Stale { effect });
                }
            },
            RunInput::ToolFinished { effect, result } => self.end_call(now, effect, result, &mut commands)?,
            RunInput::Guided { guidance } => self.guidance.push(guidance),
            RunInput::Redirected { guidance } => self.redirect(now, guidance, &mut commands)?,
            RunInput::ApprovalAsked { effect } => self.approval_asked(now, effect)?,
            RunInput::ApprovalSettled { effect } => self.approval_settled(effect)?,
            RunInput::Decided { effect, decision } => self.decide(now, effect, decision, &mut commands)?,
            RunInput::TimerFired {
                timer: RunTimer::Approval(step),
            } => self.approval_expired(now, step, &mut commands)?,
            RunInput::Delegated { effect, agent, task } => {
                self.delegate(effect, agent, task, &mut commands)?;
            }
            RunInput::UserAnswered { effect, answer } => {
                self.read_answer(now, effect, answer, &mut commands)?
            }
            RunInput::UserAbsent { effect } => {
                self.check_awaited(effect)?;
                self.end = Some(EndReason::UserRequired);
                commands.push(RunCommand::Finish {
                    reason: EndReason::UserRequired,
                });
            }
            RunInput::TimerFired {
                timer: RunTimer::Call(step),
            } => match self.overdue_call(now, step) {
                Some(effect) => {
                    let timeout = self.call_timeout();
                    commands.push(RunCommand::StopTool { effect });
                    let result =
                        ToolResult::failure(format!("the call took longer than {timeout} and was stopped"));
                    self.end_call(now, effect, result, &mut commands)?;
                }
                None => return Err(self.misplaced(&input)),
            },
            RunInput::TimerFired {
                timer: RunTimer::Deadline,
            } => {
                // Waiting for a person does not count.
                if self.deadline.is_none_or(|deadline| now < deadline) || self.waits_for_people() {
                    return Err(self.misplaced(&input));
                }
                self.finish(EndReason::TimeLimit, &mut commands)?;
            }
            RunInput::Resumed { last_seen } => self.resume(now, last_seen, &mut commands)?,
            RunInput::Cancelled => self.finish(EndReason::Cancelled, &mut commands)?,
        }
        self.note_standstill(now, &mut commands);
        Ok(commands)
    }

    fn start(&mut self, now: Timestamp, spec: Arc<RunSpec>, commands: &mut Commands) -> Result<(), Refusal> {
        self.started_at = now;
        self.deadline = spec.limits.timeout.map(|timeout| now + timeout);
        if let Some(at) = self.deadline {
            commands.push(RunCommand::SetTimer {
                timer: RunTimer::Deadline,
                at,
            });
        }
        self.context = Some(Arc::new(RunContext::new(spec)));
        self.plan(commands)
    }

    fn end_agent(
        &mut self,
        now: Timestamp,
        pending: Pending,
        report: AgentReport,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        match (pending, report.result) {
            (Pending::Planner(_), Ok(AgentAnswer::Plan(plan))) => self.accept_plan(now, plan, commands),
            (Pending::Planner(_), Ok(AgentAnswer::Text(text))) => self.accept_answer(text, commands),
            (Pending::Reflector(_), Ok(AgentAnswer::Reflection(reflection))) => {
                self.accept_reflection(now, reflection, commands)
            }
            (Pending::SubAgent { brief, index }, result) => {
                let result = match result.map(AgentAnswer::into_text) {
                    Err(AgentFailure::Cancelled) if self.redirecting => Err(AgentFailure::Redirected),
                    result => result,
                };
                let success = if result.is_ok() {
                    Success::Succeeded
                } else {
                    Success::Failed
                };
                let name = match &brief.role {
                    AgentRole::Sub(name) => name.clone(),
                    AgentRole::Planner | AgentRole::Reflector => String::new(),
                };
                let finding = Finding::Agent {
                    agent: brief.agent,
                    name,
                    result,
                    work: report.work,
                };
                self.end_subtask(now, index, success, finding, commands)
            }
            (Pending::Planner(_), result) => self.give_up("planner", "a plan", result, commands),
            (Pending::Reflector(_), result) => self.give_up("reflector", "a judgement", result, commands),
            // The caller lets only agents in, and sees to these by itself.
            (
                Pending::Child { .. }
                | Pending::Retired(_)
                | Pending::Tool { .. }
                | Pending::Approval { .. }
                | Pending::Question { .. },
                _,
            ) => Ok(()),
        }
    }

    fn give_up(
        &mut self,
        who: &str,
        what: &str,
        result: Result<AgentAnswer, AgentFailure>,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        if self.overdrawn.is_some()
            && let Some(reason) = self.budget_exhausted()
        {
            return self.finish(reason, commands);
        }
        let error = match result {
            Err(failure) => format!("the {who} ended without {what}: {failure}"),
            Ok(_) => format!("the {who} ended with something else than {what}"),
        };
        self.finish(EndReason::Failed { error }, commands)
    }

    /// Asked wherever another round would begin (PAOR-3).
    fn iterations_exhausted(&self) -> Option<EndReason> {
        let max_iterations = self.spec()?.limits.max_iterations;
        (self.iteration >= max_iterations).then_some(EndReason::IterationLimit { max_iterations })
    }

    /// Asked wherever more would be started: what has ended counts, and what it achieved stays achieved (PAOR-12).
    fn budget_exhausted(&self) -> Option<EndReason> {
        if let Some(Overdrawn {
            budget, used, limit, ..
        }) = self.overdrawn
        {
            // Others have used more since, of what they had reserved.
            let used = used.max(budget.used(&self.usage));
            return Some(EndReason::BudgetExhausted { budget, used, limit });
        }
        let limits = &self.spec()?.limits;
        let limits = [
            (BudgetKind::Tokens, limits.max_tokens),
            (BudgetKind::Cost, limits.max_cost.map(|cost| cost.0)),
            (BudgetKind::ModelCalls, limits.max_model_calls.map(u64::from)),
        ];
        limits.into_iter().find_map(|(budget, limit)| {
            let used = budget.used(&self.usage);
            let limit = limit.filter(|limit| used >= *limit)?;
            Some(EndReason::BudgetExhausted { budget, used, limit })
        })
    }

    /// The time that the process was away does not count, and what was under way is tried again where that is safe.
    fn resume(
        &mut self,
        now: Timestamp,
        last_seen: Timestamp,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.end = None;
        let away = now - last_seen.max(self.last_at);
        let stood_still = self.still.take().map(|still| now - still.since);
        if self.question().is_none() {
            self.put_off_deadline(stood_still.unwrap_or(away), &mut Vec::new());
        }
        // Its agents ask again, each for itself.
        self.asked.clear();
        // An approval keeps its handle, so that an answer counts which was given while no process was there to take it.
        self.outstanding
            .retry(|pending| !matches!(pending, Pending::Approval { .. }));
        for pending in self.outstanding.values_mut() {
            match pending {
                Pending::Tool { deadline, .. } => *deadline = *deadline + away,
                Pending::Approval { approval, .. } => Arc::make_mut(approval).put_off(away),
                Pending::Planner(_)
                | Pending::Reflector(_)
                | Pending::Retired(_)
                | Pending::SubAgent { .. }
                | Pending::Child { .. }
                | Pending::Question { .. } => {}
            }
        }
        let interrupted: Vec<(EffectId, ToolResult)> = self
            .outstanding
            .iter()
            .filter_map(|(effect, pending)| match pending {
                Pending::Tool {
                    call, started: true, ..
                } if !self.is_safe_to_repeat(call) => Some((effect, interrupted_result(call))),
                // Nothing runs any more that could still be stopped.
                Pending::Tool { .. } if self.stopping.contains(&effect.step) => {
                    Some((effect, redirected_result()))
                }
                Pending::Tool { .. }
                | Pending::Planner(_)
                | Pending::Reflector(_)
                | Pending::Retired(_)
                | Pending::SubAgent { .. }
                | Pending::Child { .. }
                | Pending::Approval { .. }
                | Pending::Question { .. } => None,
            })
            .collect();
        *commands = self.outstanding();
        let is_interrupted = |step: u32| interrupted.iter().any(|(effect, _)| effect.step == step);
        commands.retain(|command| match command {
            RunCommand::RunTool { effect, .. } | RunCommand::StopTool { effect } => {
                !is_interrupted(effect.step)
            }
            RunCommand::SetTimer {
                timer: RunTimer::Call(step),
                ..
            } => !is_interrupted(*step),
            RunCommand::Announce { .. }
            | RunCommand::StartAgent { .. }
            | RunCommand::AskUser { .. }
            | RunCommand::StopAgent { .. }
            | RunCommand::ReturnFindings { .. }
            | RunCommand::AskApproval { .. }
            | RunCommand::AwaitUser { .. }
            | RunCommand::SetTimer {
                timer: RunTimer::Approval(_),
                ..
            }
            | RunCommand::SetTimer {
                timer: RunTimer::Deadline,
                ..
            }
            | RunCommand::Finish { .. } => true,
        });
        for (effect, result) in interrupted {
            self.end_call(now, effect, result, commands)?;
        }
        Ok(())
    }

    fn is_safe_to_repeat(&self, call: &ToolCall) -> bool {
        let tools = self.context.as_ref().map(|context| context.tools());
        tools
            .and_then(|tools| tools.get(&call.tool))
            .is_some_and(|tool| tool.repeat == Repeat::Safe)
    }

    fn put_off_deadline(&mut self, by: Millis, commands: &mut Commands) {
        if let Some(deadline) = &mut self.deadline {
            *deadline = *deadline + by;
            commands.push(RunCommand::SetTimer {
                timer: RunTimer::Deadline,
                at: *deadline,
            });
        }
    }

    fn finish(&mut self, reason: EndReason, commands: &mut Commands) -> Result<(), Refusal> {
        let phase = match reason {
            EndReason::GoalAchieved => Phase::Complete,
            EndReason::IterationLimit { .. }
            | EndReason::TimeLimit
            | EndReason::BudgetExhausted { .. }
            | EndReason::UserRequired
            | EndReason::Cancelled
            | EndReason::Failed { .. } => Phase::Failed,
        };
        self.enter(phase, commands)?;
        self.outstanding.clear();
        self.stopping.clear();
        self.redirecting = false;
        self.asked.clear();
        self.still = None;
        self.end = Some(reason.clone());
        commands.push(RunCommand::Finish { reason });
        Ok(())
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
            depth,
            caller: None,
            changed: None,
        }
    }

    fn start_agent(&mut self, pending: Pending, commands: &mut Commands) {
        let effect = self.outstanding.start(pending.clone());
        commands.push(self.command(effect, &pending));
    }

    fn round_context<'a>(&'a self, spec: &'a RunSpec, earlier: usize) -> RoundContext<'a> {
        RoundContext {
            goal: &spec.goal,
            round: self.iteration,
            max_rounds: spec.limits.max_iterations,
            guidance: &self.guidance,
            answers: &self.answers,
            rounds: self.rounds[..earlier]
                .iter()
                .map(|round| PastRound {
                    round: round.iteration,
                    plan: &round.graph.plan().summary,
                    reflection: round.reflection.as_ref().map(PastReflection::from),
                })
                .collect(),
        }
    }

    fn misplaced(&self, input: &RunInput) -> Refusal {
        Refusal::Misplaced {
            input: input.name(),
            state: format!("the run is in {}", self.phase),
        }
    }
}

/// A call of a plan's own that did not run to its end, or not at all, as the user's guidance could not wait (PAOR-8).
fn redirected_result() -> ToolResult {
    ToolResult::failure("it did not run to its end, as the user gave guidance that changes the plan")
}

/// Whether it may come in while the run stands still: anything else waits until it is resumed.
fn goes_on_from_standstill(input: &RunInput) -> bool {
    match input {
        RunInput::Guided { .. } | RunInput::Resumed { .. } | RunInput::Cancelled => true,
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

impl RunInput {
    /// Its name, for messages.
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

//! The run's state machine: its state and the handling of each input. The submodules handle the phases and other concerns.

mod acting;
mod approving;
mod delegating;
mod ending;
mod guiding;
mod planning;
mod recovering;
mod redirecting;
mod reflecting;
mod resuming;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;

use approving::AwaitingUser;
use ending::RunEnd;
use planning::Lead;
use work::{CallState, OutstandingWork, Pending, PlannedCall, Purpose, RunningAgent};

use super::{Iteration, RunCommand, RunInput, RunTimer};
use crate::brief::{AgentBrief, AgentRole};
use crate::budget::BudgetExceeded;
use crate::call::ToolSet;
use crate::end_reason::EndReason;
use crate::id::{AgentId, EffectId};
use crate::machine::{Machine, Refusal};
use crate::message::{ToolCall, Usage};
use crate::observation::Observation;
use crate::phase::{Phase, Transition};
use crate::plan::SubTask;
use crate::policy::CallPattern;
use crate::prompt::{self, AnsweredQuestion, IterationContext, PastIteration, PastReflection, TurnContext};
use crate::question::{OpenQuestion, Question};
use crate::spec::RunSpec;
use crate::time::{Millis, Timestamp};
use crate::tool::{ToolResult, ToolSpec, code};
use crate::tools_change::{ToolChanges, ToolsChange};

/// The Plan–Act–Observe–Reflect machine of one goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    spec: Arc<RunSpec>,
    phase: Phase,
    iteration: u32,
    iterations: Vec<Iteration>,
    guidance: Vec<String>,
    /// For each guidance entry, the iteration in which the lead first received it.
    guidance_iterations: Vec<u32>,
    /// The calls that the user has allowed since the run started.
    allowed: Vec<CallPattern>,
    /// The changes of services' tools since the run started.
    tool_changes: ToolChanges,
    /// The steps of the lead's plans that the user answered with guidance.
    guided_plans: BTreeSet<u32>,
    answers: Vec<AnsweredQuestion>,
    /// The lead; `None` until it is started.
    lead: Option<Lead>,
    work: OutstandingWork,
    /// True after immediate guidance until all running work has stopped. Until then nothing new starts; afterwards the next plan is made
    /// (PAOR-8).
    redirecting: bool,
    /// Set while all outstanding work waits for the user's decisions and answers.
    awaiting_user: Option<AwaitingUser>,
    /// The number of agents started so far, including those of the earlier turns of the conversation.
    agents: u32,
    /// The number of sub-agents started so far.
    sub_agents: u32,
    usage: Usage,
    /// The budget limit that prevented an agent's model request; `None` if none did.
    budget_exceeded: Option<BudgetExceeded>,
    end: Option<RunEnd>,
    started_at: Timestamp,
    /// Time that does not count towards the run's time limit: waiting for the user, and time in which no process owned the run.
    excluded_time: Millis,
    last_at: Timestamp,
}

type Commands = Vec<RunCommand>;

impl Run {
    /// Starts a run. Handles [`RunInput::Started`], the first input of every run.
    ///
    /// # Errors
    /// None in practice: the phase transitions that this function makes are always allowed.
    pub fn start(now: Timestamp, spec: Arc<RunSpec>) -> Result<(Self, Vec<RunCommand>), Refusal> {
        let usage = spec.preparation_usage();
        let (agents, steps) = spec
            .earlier_turns()
            .map_or((0, 0), |earlier| (earlier.agents, earlier.steps));
        let mut run = Run {
            spec,
            phase: Phase::Idle,
            iteration: 0,
            iterations: Vec::new(),
            guidance: Vec::new(),
            guidance_iterations: Vec::new(),
            allowed: Vec::new(),
            tool_changes: ToolChanges::default(),
            guided_plans: BTreeSet::new(),
            answers: Vec::new(),
            lead: None,
            work: OutstandingWork::after(steps),
            redirecting: false,
            awaiting_user: None,
            agents,
            sub_agents: 0,
            usage,
            budget_exceeded: None,
            end: None,
            started_at: now,
            excluded_time: Millis(0),
            last_at: now,
        };
        let mut commands = Commands::new();
        match run.spec.ready_answer() {
            Some(answer) => run.answer_at_once(answer.text.clone(), &mut commands)?,
            None => {
                commands.extend(run.deadline_timer());
                run.plan(&mut commands)?;
            }
        }
        Ok((run, commands))
    }

    /// The number of agents started so far, including those of the earlier turns of the conversation.
    pub(crate) fn agents_started(&self) -> u32 {
        self.agents
    }

    /// The run's spec.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// The tools of the run as they are now: those of its spec, with the changes since it started (MCP-2).
    pub fn tools(&self) -> &[ToolSpec] {
        self.tool_set().specs()
    }

    fn tool_set(&self) -> &ToolSet {
        self.tool_changes.tools(self.spec.tool_set())
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The number of the current planning iteration, counted from 1.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// The number that identifies an iteration of this run in handles. It is counted from the first turn of the conversation, so that
    /// handles are unique in the whole conversation.
    pub fn iteration_in_conversation(&self, iteration: u32) -> u32 {
        let earlier = self.spec.earlier_turns().map_or(0, |earlier| earlier.iterations);
        earlier.saturating_add(iteration)
    }

    /// The iterations that have a plan, or in which the lead acted itself; the current one last.
    pub fn iterations(&self) -> &[Iteration] {
        &self.iterations
    }

    /// The user's guidance so far, in order.
    pub fn guidance(&self) -> &[String] {
        &self.guidance
    }

    /// For each guidance entry that the lead has received, the iteration in which it first received the entry (PAOR-8).
    pub(crate) fn guidance_iterations(&self) -> &[u32] {
        &self.guidance_iterations
    }

    /// The usage of all agents and calls that have ended.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The lead's answer, if it answered the goal directly.
    pub fn answer(&self) -> Option<&str> {
        self.end.as_ref()?.answer.as_deref()
    }

    /// Why the run ended or, for [`EndReason::UserRequired`], why it waits; `None` while it is active.
    pub fn end(&self) -> Option<&EndReason> {
        self.end.as_ref().map(|end| &end.reason)
    }

    /// When the run started.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// When the last input was accepted.
    pub fn last_at(&self) -> Timestamp {
        self.last_at
    }

    /// Returns the agent whose report completes this effect; `None` if the run waits for no agent under this effect id.
    pub fn agent_of(&self, effect: EffectId) -> Option<AgentId> {
        Some(self.work.agent(effect).ok()?.brief.agent)
    }

    /// Returns the effect that this agent's report completes; `None` if the run does not wait for the agent.
    pub fn effect_of(&self, agent: AgentId) -> Option<EffectId> {
        self.work.by_id(agent).map(|(effect, _)| effect)
    }

    /// The step of the most recent effect; 0 if there is none.
    pub(crate) fn last_step(&self) -> u32 {
        self.work.next_effect().step - 1
    }

    /// Returns the running tool call of a sub-task with this effect id; `None` if there is no such call.
    pub fn running_call(&self, effect: EffectId) -> Option<&ToolCall> {
        let planned = self.work.call(effect).ok()?;
        match planned.state {
            CallState::Running { .. } => Some(&planned.call),
            CallState::AwaitingApproval(_) => None,
        }
    }

    /// Returns the sub-task that this effect started: the effect is the sub-task's agent or its first call. `None` for any other effect.
    pub(crate) fn subtask_started_by(&self, effect: EffectId) -> Option<&SubTask> {
        let index = match self.work.agent(effect) {
            Ok(RunningAgent {
                purpose: Purpose::SubTask(index),
                ..
            }) => *index,
            Ok(_) => return None,
            Err(_) => {
                let position = self.work.call(effect).ok()?.position;
                (position.call == 0).then_some(position.subtask)?
            }
        };
        self.iterations.last()?.graph.plan().subtasks.get(index)
    }

    /// The question that waits for the user's answer, with its effect id.
    pub fn question(&self) -> Option<(EffectId, &Question)> {
        let (effect, asked) = self.work.question()?;
        Some((effect, &asked.question))
    }

    /// The question that waits for the user's answer, as the reflector asked it.
    pub(crate) fn open_question(&self) -> Option<OpenQuestion> {
        let (effect, asked) = self.work.question()?;
        Some(OpenQuestion {
            effect,
            agent: None,
            question: asked.question.clone(),
            asked_at: asked.asked_at,
            expires_at: None,
        })
    }

    /// The reflector's question that was not asked, because a limit allows no further iteration.
    pub fn unasked_question(&self) -> Option<&Question> {
        self.end.as_ref()?.unasked.as_ref()
    }

    /// The current iteration.
    fn current_iteration(&self) -> Result<&Iteration, Refusal> {
        self.iterations.last().ok_or_else(|| self.no_plan())
    }

    fn current_iteration_mut(&mut self) -> Result<&mut Iteration, Refusal> {
        if self.iterations.is_empty() {
            return Err(self.no_plan());
        }
        let last = self.iterations.len() - 1;
        Ok(&mut self.iterations[last])
    }

    fn no_plan(&self) -> Refusal {
        Refusal::InvalidState {
            input: "the result of a sub-task",
            state: format!("the run is in phase {} without a plan", self.phase),
        }
    }

    fn command(&self, effect: EffectId, pending: &Pending) -> RunCommand {
        match pending {
            Pending::Agent(agent) => RunCommand::StartAgent {
                effect,
                brief: agent.brief.clone(),
                continuation: agent.continuation.clone(),
            },
            Pending::Call(planned) => match &planned.state {
                CallState::AwaitingApproval(approval) => RunCommand::AskApproval {
                    approval: approval.clone(),
                },
                CallState::Running { .. } => self.tool_command(effect, planned),
            },
            Pending::Diff => RunCommand::ReadDiff { effect },
            Pending::Question(asked) => RunCommand::AskUser {
                effect,
                question: asked.question.clone(),
            },
        }
    }

    fn tool_command(&self, effect: EffectId, planned: &PlannedCall) -> RunCommand {
        // Cannot panic: calls run only within an iteration.
        let plan = self.iterations[self.iterations.len() - 1].graph.plan();
        RunCommand::RunTool {
            effect,
            subtask: plan.subtasks[planned.position.subtask].id.clone(),
            call: planned.call.clone(),
        }
    }

    fn apply(&mut self, now: Timestamp, input: RunInput) -> Result<Commands, Refusal> {
        if self.end.is_some() && !self.is_allowed_after_end(&input) {
            return Err(self.invalid_state(&input));
        }
        let mut commands = Vec::new();
        match input {
            RunInput::Started { .. } => return Err(self.invalid_state(&input)),
            RunInput::AgentFinished { effect, report } => {
                self.agent_finished(now, effect, report, &mut commands)?;
            }
            RunInput::ToolStarted { effect } => self.call_started(effect)?,
            RunInput::ToolFinished { effect, result } => self.end_call(now, effect, result, &mut commands)?,
            RunInput::Guided { guidance } => self.guide(guidance, &mut commands),
            RunInput::Redirected { guidance } => self.redirect(now, guidance, &mut commands)?,
            RunInput::CallAwaitsUser {
                effect,
                guidance,
                request,
                allowed,
            } => self.call_awaits_user(now, effect, guidance, request, allowed, &mut commands)?,
            RunInput::CallSettled { effect } => self.work.settle_call(effect)?,
            RunInput::Decided { effect, decision } => self.decide(now, effect, decision, &mut commands)?,
            RunInput::PlanGuided { effect, guidance } => self.plan_guided(effect, guidance, &mut commands)?,
            RunInput::ActingBegan { effect } => self.begin_acting(effect, &mut commands)?,
            RunInput::Delegated { effect, agent, task } => {
                self.delegate(effect, agent, task, &mut commands)?;
            }
            RunInput::DiffRead { effect, diff } => self.diff_read(effect, &diff, &mut commands)?,
            RunInput::UserAnswered { effect, answer } => {
                self.accept_user_answer(now, effect, answer, &mut commands)?;
            }
            RunInput::UserAbsent { effect, guided } => {
                self.user_absent(now, effect, guided, &mut commands)?
            }
            RunInput::TimerFired { timer } => self.timer_fired(now, timer, &mut commands)?,
            RunInput::Resumed {
                last_seen,
                forked,
                limits,
                interrupted,
            } => {
                self.check_resume(last_seen, limits.as_deref(), &interrupted)?;
                if let Some(limits) = limits {
                    self.set_limits(*limits);
                }
                if self.phase == Phase::Failed {
                    self.recover(now, last_seen, interrupted, &mut commands)?;
                } else {
                    self.resume(now, last_seen, forked, &mut commands)?;
                }
            }
            RunInput::CallsAllowed { calls } => self.allow_calls(now, calls, &mut commands)?,
            RunInput::ToolsChanged { change } => self.change_tools(change, &mut commands),
            RunInput::WorkspaceShared { .. } => {}
            RunInput::Cancelled => self.finish(EndReason::Cancelled, &mut commands)?,
        }
        self.guide_askers(&mut commands);
        self.update_awaiting_user(now, &mut commands);
        Ok(commands)
    }

    /// Returns true if the run accepts the input after it has ended, or while it waits to be resumed.
    fn is_allowed_after_end(&self, input: &RunInput) -> bool {
        let is_resumable = self.end().is_some_and(EndReason::is_resumable);
        match input {
            RunInput::Resumed { .. } => true,
            RunInput::Guided { .. } | RunInput::PlanGuided { .. } => is_resumable,
            RunInput::Cancelled => !self.phase.is_terminal(),
            RunInput::Started { .. }
            | RunInput::AgentFinished { .. }
            | RunInput::ToolStarted { .. }
            | RunInput::ToolFinished { .. }
            | RunInput::Redirected { .. }
            | RunInput::CallAwaitsUser { .. }
            | RunInput::CallSettled { .. }
            | RunInput::Decided { .. }
            | RunInput::ActingBegan { .. }
            | RunInput::Delegated { .. }
            | RunInput::DiffRead { .. }
            | RunInput::UserAnswered { .. }
            | RunInput::UserAbsent { .. }
            | RunInput::TimerFired { .. }
            | RunInput::CallsAllowed { .. }
            | RunInput::ToolsChanged { .. }
            | RunInput::WorkspaceShared { .. } => false,
        }
    }

    /// Takes over a change of a service's tools, and passes it on to all agents under way.
    fn change_tools(&mut self, change: Arc<ToolsChange>, commands: &mut Commands) {
        self.tool_changes.add(self.spec.tool_set(), change);
        let agents = self.work.agents().map(|(_, agent)| agent.brief.agent);
        commands.extend(agents.filter_map(|agent| self.change_tools_again(agent).last()));
    }

    /// Returns the commands that tell an agent how tools have changed since the run started. The agent refuses those that it knows.
    fn change_tools_again(&self, agent: AgentId) -> impl Iterator<Item = RunCommand> {
        let changes = self.tool_changes.numbered();
        changes.map(move |(number, change)| RunCommand::ChangeTools {
            agent,
            number,
            change: change.clone(),
        })
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
                // Time spent waiting for the user does not count towards the time limit.
                if self.deadline().is_none_or(|deadline| now < deadline) || self.is_awaiting_user() {
                    return Err(self.invalid_state(&RunInput::TimerFired { timer }));
                }
                self.finish(EndReason::TimeLimit, commands)
            }
        }
    }

    /// The time at which the run reaches its time limit; `None` without a limit.
    fn deadline(&self) -> Option<Timestamp> {
        let timeout = self.spec().limits.timeout?;
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
            AgentRole::Lead | AgentRole::Reflector => 0,
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
        }
    }

    fn start_agent(&mut self, brief: AgentBrief, purpose: Purpose, commands: &mut Commands) {
        self.wait_for(
            RunningAgent::new(Arc::new(brief), purpose, self.guidance_given()),
            commands,
        );
    }

    /// Starts or continues an agent, and waits for its report.
    fn wait_for(&mut self, agent: RunningAgent, commands: &mut Commands) {
        let (effect, pending) = (self.work.next_effect(), Pending::Agent(agent));
        commands.push(self.command(effect, &pending));
        if let Pending::Agent(agent) = &pending {
            commands.extend(self.allow_again(agent.brief.agent));
            commands.extend(self.change_tools_again(agent.brief.agent));
        }
        self.work.insert(effect, pending);
    }

    /// Returns the prompt context of a lead's first request or of a reflector, with all iterations before the last one.
    fn iteration_context<'a>(&'a self, spec: &'a RunSpec) -> IterationContext<'a> {
        let earlier = &self.iterations[..self.iterations.len().saturating_sub(1)];
        let in_short: Vec<(u32, &[Observation])> = earlier
            .iter()
            .map(|iteration| {
                let number = self.iteration_in_conversation(iteration.number);
                (number, &iteration.observations[..])
            })
            .collect();
        let iterations = earlier.iter().zip(prompt::earlier_observations(&in_short));
        IterationContext {
            goal: &spec.goal,
            files: &spec.files,
            iteration: self.iteration,
            iteration_in_conversation: self.iteration_in_conversation(self.iteration),
            max_iterations: spec.limits.max_iterations,
            guidance: &self.guidance,
            answers: &self.answers,
            earlier_turns: spec.earlier_turns().map(|earlier| TurnContext {
                unanswered: earlier.unanswered.as_deref(),
                is_first_request: earlier.agents == 0,
            }),
            notes: spec
                .turn
                .as_ref()
                .and_then(|turn| prompt::user_notes(turn.notes.iter().map(String::as_str))),
            iterations: iterations
                .map(|(iteration, observations)| PastIteration {
                    iteration: iteration.number,
                    plan: iteration.graph.plan().summary.as_str().into(),
                    reflection: iteration.reflection.as_ref().map(PastReflection::from),
                    interrupted: iteration.interrupted.as_deref().map(Into::into),
                    observations,
                })
                .collect(),
        }
    }

    fn invalid_state(&self, input: &RunInput) -> Refusal {
        Refusal::InvalidState {
            input: input.description(),
            state: format!("the run is in phase {}", self.phase),
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
            RunInput::CallAwaitsUser { .. } => "CallAwaitsUser",
            RunInput::CallSettled { .. } => "CallSettled",
            RunInput::Decided { .. } => "Decided",
            RunInput::PlanGuided { .. } => "PlanGuided",
            RunInput::ActingBegan { .. } => "ActingBegan",
            RunInput::Delegated { .. } => "Delegated",
            RunInput::DiffRead { .. } => "DiffRead",
            RunInput::UserAnswered { .. } => "UserAnswered",
            RunInput::UserAbsent { .. } => "UserAbsent",
            RunInput::TimerFired { .. } => "TimerFired",
            RunInput::Resumed { .. } => "Resumed",
            RunInput::CallsAllowed { .. } => "CallsAllowed",
            RunInput::ToolsChanged { .. } => "ToolsChanged",
            RunInput::WorkspaceShared { .. } => "WorkspaceShared",
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

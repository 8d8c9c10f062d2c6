//! A run as watchers see it: the machines rebuilt from journal entries, and the events that these entries cause.
//!
//! Each watcher feeds entries to its own [`RunView`], during the run or later. The run does not know its watchers.

mod event;
mod usage_ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

pub use event::{Event, EventKind};
use serde_json::json;
use usage_ledger::{PreviousUsage, RecordedInput, UsageLedger};

use crate::agent::{Agent, AgentCommand, AgentInput, AgentTimer};
use crate::agent_report::AgentWork;
use crate::approval::{Approval, Digest};
use crate::id::{AgentId, EffectId, Scope};
use crate::journal::{Entry, Input};
use crate::machine::{Machine, Refusal};
use crate::message::{Message, ToolCall, Usage};
use crate::phase::Phase;
use crate::plan::Plan;
use crate::run::{Report, Run, RunCommand, RunInput, RunTimer, WaitingCall};
use crate::spec::DELEGATE;
use crate::text::shorten;
use crate::time::Timestamp;
use crate::usage::UsageReport;

/// Maximum length of a message in a transcript, in characters.
const TRANSCRIPT_MESSAGE: usize = 2_000;

/// The machines of a run, rebuilt from its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunView {
    run: Run,
    agents: BTreeMap<AgentId, Agent>,
    /// The agents whose reports the run has received.
    reported: BTreeSet<AgentId>,
    ledger: UsageLedger,
    last_at: Timestamp,
}

impl RunView {
    /// Creates a view without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the machines, with which the run can be resumed.
    pub fn into_machines(self) -> (Run, BTreeMap<AgentId, Agent>) {
        (self.run, self.agents)
    }

    /// Returns the run's machine.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the time at which the last entry of any machine was accepted.
    pub fn last_at(&self) -> Timestamp {
        self.last_at
    }

    /// Returns the machine of an agent; `None` if the agent has not started.
    pub fn agent(&self, agent: AgentId) -> Option<&Agent> {
        self.agents.get(&agent)
    }

    /// Returns all agents that have started, in the order of their ids.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }

    /// Returns the pending approvals of the run and its agents, oldest first (HOST-11).
    pub fn approvals(&self) -> Vec<Arc<Approval>> {
        if self.run.phase().is_terminal() {
            return Vec::new();
        }
        let of_agents = self
            .agents
            .iter()
            .filter(|(agent, _)| !self.reported.contains(agent))
            .filter_map(|(_, agent)| agent.approval());
        let mut approvals: Vec<_> = self.run.approvals().chain(of_agents).cloned().collect();
        approvals.sort_by_key(|approval| (approval.asked_at, approval.effect));
        approvals
    }

    /// Returns the run's report, with its [`UsageReport`] and the work of agents that have not reported. These agents are still running, or
    /// were interrupted by the end of the run.
    pub fn report(&self) -> Report {
        let delegated = self.unreported_delegated_work();
        let mut report = self.run.report_with(&self.unreported(&delegated));
        report.account = Some(self.usage_report_of(report.usage));
        report.waiting = self.waiting();
        report
    }

    /// Returns the calls that wait for approval, as in [`Report::waiting`].
    pub fn waiting(&self) -> Vec<WaitingCall> {
        self.run.waiting_calls(&self.approvals())
    }

    /// Returns the run's usage so far, including agents that are still running or were interrupted (HOST-10).
    pub fn usage_report(&self) -> UsageReport {
        self.usage_report_of(self.run.usage_with(&self.unreported(&[])))
    }

    fn usage_report_of(&self, usage: Usage) -> UsageReport {
        self.ledger.account(&self.run, &self.agents, usage, self.last_at)
    }

    /// Like [`Run::diff`], but includes the changes of agents that have not reported.
    pub fn diff(&self) -> String {
        let delegated = self.unreported_delegated_work();
        self.run.diff_with(&self.unreported(&delegated))
    }

    /// Returns the work of agents that have not reported, and the delegated work that is not in any caller's report.
    fn unreported<'a>(&'a self, delegated: &'a [AgentWork]) -> Vec<&'a AgentWork> {
        let agents = self.agents.iter();
        agents
            .filter(|(agent, _)| !self.reported.contains(agent))
            .map(|(_, agent)| agent.work())
            .chain(delegated)
            .collect()
    }

    fn unreported_delegated_work(&self) -> Vec<AgentWork> {
        self.run
            .unreported_delegated_work(|agent| self.agents.get(&agent).map(Agent::work))
    }

    /// Returns the work of the agents that were interrupted by the end of a failed run; empty for any other run.
    pub fn cut_off(&self) -> BTreeMap<AgentId, AgentWork> {
        if self.run.phase() != Phase::Failed {
            return BTreeMap::new();
        }
        let unreported = self.agents.iter().filter(|(id, _)| !self.reported.contains(id));
        unreported
            .map(|(id, agent)| (*id, agent.work().clone()))
            .collect()
    }

    /// Returns the conversations of all agents as readable text, with long messages shortened (PAOR-11).
    pub fn transcripts(&self) -> String {
        let mut text = String::new();
        for agent in self.agents.values() {
            let name = agent.spec().map_or("agent", |spec| spec.name.as_str());
            let _ = writeln!(text, "\n{} ({name})", agent.id());
            // Skip the system prompt: it is long, and the same for all agents with the same name.
            for message in agent.conversation().iter().skip(1) {
                let speaker = match message {
                    Message::System { .. } => "system".to_owned(),
                    Message::User { .. } => "task".to_owned(),
                    Message::Assistant { .. } => "model".to_owned(),
                    Message::Tool { name, .. } => name.clone(),
                };
                let content = shorten(message.content().trim(), TRANSCRIPT_MESSAGE, None);
                let _ = writeln!(text, "  {speaker}: {}", content.replace('\n', "\n    "));
            }
        }
        text
    }

    /// Applies the next journal entry and returns its events.
    ///
    /// # Errors
    /// [`Refusal`] if the current machines refuse the entry.
    pub fn apply(&mut self, entry: Entry) -> Result<Vec<Event>, Refusal> {
        let Entry {
            run,
            seq,
            at,
            scope,
            input,
        } = entry;
        let kinds = match (scope, input) {
            (Scope::Run, Input::Run(input)) => self.apply_run(at, input)?,
            (Scope::Agent(agent), Input::Agent(input)) => self.apply_agent(agent, at, input)?,
            (Scope::Run, Input::Agent(input)) => return Err(wrong_scope(input.name(), scope)),
            (Scope::Agent(_), Input::Run(input)) => return Err(wrong_scope(input.name(), scope)),
        };
        self.last_at = self.last_at.max(at);
        Ok(kinds
            .into_iter()
            .map(|kind| Event {
                run,
                seq,
                at,
                scope,
                kind,
            })
            .collect())
    }

    fn apply_run(&mut self, at: Timestamp, input: RunInput) -> Result<Vec<EventKind>, Refusal> {
        let mut events = self.events_of_run_input(&input);
        let (iterations, observed) = self.progress();
        let reporters: Vec<AgentId> = match &input {
            RunInput::AgentFinished { effect, .. } => self.run.agent_of(*effect).into_iter().collect(),
            RunInput::Resumed { cut_off, .. } => cut_off.keys().copied().collect(),
            RunInput::Started { .. }
            | RunInput::ToolStarted { .. }
            | RunInput::ToolFinished { .. }
            | RunInput::Guided { .. }
            | RunInput::Redirected { .. }
            | RunInput::ApprovalAsked { .. }
            | RunInput::ApprovalSettled { .. }
            | RunInput::Decided { .. }
            | RunInput::Delegated { .. }
            | RunInput::UserAnswered { .. }
            | RunInput::UserAbsent { .. }
            | RunInput::TimerFired { .. }
            | RunInput::Cancelled => Vec::new(),
        };
        let recorded = RecordedInput::from_run_input(&input);
        let asked: BTreeSet<Digest> = self
            .run
            .approvals()
            .map(|approval| approval.digest.clone())
            .collect();
        let under_way = self.run.steps_under_way();
        let commands = self.run.handle(at, input)?;
        self.ledger.record_run_input(
            self.last_at,
            at,
            &recorded,
            &commands,
            self.run.is_awaiting_user(),
        );
        self.reported.extend(reporters);
        for iteration in &self.run.iterations()[iterations..] {
            events.push(EventKind::PlanMade {
                plan: Plan::clone(iteration.graph.plan()),
            });
        }
        // A new iteration starts without observations, so all of its observations are new.
        let seen = if self.run.iterations().len() == iterations {
            observed
        } else {
            0
        };
        if let Some(iteration) = self.run.iterations().last() {
            let new = &iteration.observations[seen.min(iteration.observations.len())..];
            events.extend(new.iter().map(|seen| EventKind::SubTaskFinished {
                observation: seen.clone(),
            }));
        }
        for command in commands {
            match command {
                // An approval that is requested again after a restart is not a new event.
                RunCommand::AskApproval { approval } if asked.contains(&approval.digest) => {}
                command => {
                    events.extend(self.subtask_started(&command, &under_way));
                    events.extend(self.event_of_run_command(command));
                }
            }
        }
        Ok(events)
    }

    fn progress(&self) -> (usize, usize) {
        let iterations = self.run.iterations();
        (
            iterations.len(),
            iterations
                .last()
                .map_or(0, |iteration| iteration.observations.len()),
        )
    }

    /// Returns the events that follow from an input regardless of its commands.
    fn events_of_run_input(&self, input: &RunInput) -> Vec<EventKind> {
        match input {
            RunInput::Started { spec } => {
                vec![EventKind::RunStarted {
                    goal: spec.goal.clone(),
                    workspace: spec.workspace.clone(),
                }]
            }
            RunInput::ToolStarted { effect } => self
                .run_call(*effect)
                .map(|call| EventKind::tool_started(*effect, call))
                .into_iter()
                .collect(),
            RunInput::ToolFinished { effect, result } => self
                .run_call(*effect)
                .map(|call| EventKind::tool_finished(*effect, &call, result))
                .into_iter()
                .collect(),
            RunInput::Guided { guidance } => vec![EventKind::Guided {
                guidance: guidance.clone(),
                immediate: false,
            }],
            RunInput::Redirected { guidance } => vec![EventKind::Guided {
                guidance: guidance.clone(),
                immediate: true,
            }],
            RunInput::Decided { effect, decision } => vec![EventKind::ApprovalDecided {
                effect: *effect,
                decision: decision.clone(),
            }],
            RunInput::TimerFired {
                timer: RunTimer::Approval(step),
            } => {
                let mut expired = self
                    .run
                    .approvals()
                    .filter(|approval| approval.effect.step == *step);
                let expired = expired.next().map(|approval| EventKind::ApprovalExpired {
                    effect: approval.effect,
                });
                expired.into_iter().collect()
            }
            RunInput::UserAnswered { answer, .. } => vec![EventKind::QuestionAnswered {
                answer: answer.clone(),
            }],
            RunInput::Resumed { .. } => vec![EventKind::Resumed],
            RunInput::AgentFinished { .. }
            | RunInput::ApprovalAsked { .. }
            | RunInput::ApprovalSettled { .. }
            | RunInput::Delegated { .. }
            | RunInput::UserAbsent { .. }
            | RunInput::TimerFired {
                timer: RunTimer::Deadline | RunTimer::Call(_),
            }
            | RunInput::Cancelled => Vec::new(),
        }
    }

    fn run_call(&self, effect: EffectId) -> Option<ToolCall> {
        self.run.running_call(effect).cloned()
    }

    /// Returns the event for the sub-task that this command starts, if any. `under_way` contains the steps that were outstanding before the
    /// command.
    fn subtask_started(&self, command: &RunCommand, under_way: &BTreeSet<u32>) -> Option<EventKind> {
        let is_new = |effect: &EffectId| !under_way.contains(&effect.step);
        match command {
            RunCommand::StartAgent { effect, brief } if is_new(effect) => {
                let iteration = self.run.iterations().last()?;
                let (index, _) = iteration
                    .active()
                    .find(|(_, active)| active.agent == Some(brief.agent))?;
                let subtask = &iteration.graph.plan().subtasks[index];
                Some(EventKind::SubTaskStarted {
                    subtask: subtask.id.clone(),
                    title: subtask.title.clone(),
                    agent: Some(brief.agent),
                })
            }
            RunCommand::RunTool { effect, .. } if is_new(effect) => self.subtask_started_by_call(*effect),
            RunCommand::AskApproval { approval } if is_new(&approval.effect) => {
                self.subtask_started_by_call(approval.effect)
            }
            RunCommand::StartAgent { .. }
            | RunCommand::RunTool { .. }
            | RunCommand::AskApproval { .. }
            | RunCommand::Announce { .. }
            | RunCommand::StopTool { .. }
            | RunCommand::StopAgent { .. }
            | RunCommand::ReturnFindings { .. }
            | RunCommand::AwaitUser { .. }
            | RunCommand::AskUser { .. }
            | RunCommand::SetTimer { .. }
            | RunCommand::Finish { .. } => None,
        }
    }

    fn subtask_started_by_call(&self, effect: EffectId) -> Option<EventKind> {
        let subtask = self.run.subtask_started_by(effect)?;
        Some(EventKind::SubTaskStarted {
            subtask: subtask.id.clone(),
            title: subtask.title.clone(),
            agent: None,
        })
    }

    /// Returns the event for a command, if any. [`Self::subtask_started`] handles the start of a sub-task.
    fn event_of_run_command(&self, command: RunCommand) -> Option<EventKind> {
        match command {
            RunCommand::Announce { transition } => Some(EventKind::PhaseChanged { transition }),
            RunCommand::AskUser { effect, question } => Some(EventKind::QuestionAsked { effect, question }),
            RunCommand::Finish { reason } => Some(EventKind::RunFinished {
                reason,
                summary: self.run.summary(),
            }),
            RunCommand::AskApproval { approval } => Some(EventKind::ApprovalAsked { approval }),
            RunCommand::StartAgent { .. }
            | RunCommand::RunTool { .. }
            | RunCommand::StopTool { .. }
            | RunCommand::StopAgent { .. }
            | RunCommand::ReturnFindings { .. }
            | RunCommand::AwaitUser { .. }
            | RunCommand::SetTimer { .. } => None,
        }
    }

    fn apply_agent(
        &mut self,
        id: AgentId,
        at: Timestamp,
        input: AgentInput,
    ) -> Result<Vec<EventKind>, Refusal> {
        let Some(context) = self.run.context() else {
            return Err(wrong_scope(input.name(), Scope::Agent(id)));
        };
        let mut new = None;
        let agent = match self.agents.get_mut(&id) {
            Some(agent) => agent,
            None => new.insert(Agent::new(id, context.clone())),
        };
        let event = match &input {
            AgentInput::Started { brief } => Some(EventKind::AgentStarted {
                role: brief.role.clone(),
                caller: brief.caller,
            }),
            AgentInput::ModelReplied { reply, .. } => Some(EventKind::ModelReplied {
                turn: agent.turns(),
                content: reply.content.clone(),
                model: reply.model.clone(),
                usage: reply.metered_usage(),
            }),
            AgentInput::ModelFailed { failure, .. } => Some(EventKind::ModelFailed {
                error: failure.message.clone(),
            }),
            AgentInput::OverBudget { budget_exceeded, .. } => Some(EventKind::ModelFailed {
                error: budget_exceeded.to_string(),
            }),
            AgentInput::ToolStarted { effect } => agent
                .running_call(*effect)
                .map(|call| EventKind::tool_started(*effect, call.clone())),
            AgentInput::ToolFinished { effect, result } => agent
                .running_call(*effect)
                .map(|call| EventKind::tool_finished(*effect, call, result)),
            AgentInput::Decided { effect, decision } => Some(EventKind::ApprovalDecided {
                effect: *effect,
                decision: decision.clone(),
            }),
            AgentInput::Guided { guidance } => Some(EventKind::Guided {
                guidance: guidance.clone(),
                immediate: false,
            }),
            AgentInput::Resumed { .. } => Some(EventKind::Resumed),
            AgentInput::TimerFired {
                timer: AgentTimer::Approval,
            } => agent.approval().map(|approval| EventKind::ApprovalExpired {
                effect: approval.effect,
            }),
            AgentInput::TimerFired {
                timer: AgentTimer::Deadline,
            }
            | AgentInput::Cancelled => None,
        };
        let asked = agent.approval().map(|approval| approval.digest.clone());
        let delegating = agent.is_delegating();
        let (recorded, before) = (RecordedInput::from_agent_input(&input), PreviousUsage::new(agent));
        let commands = agent.handle(at, input)?;
        self.ledger
            .record_agent_input(agent, before, at, recorded, &commands);
        if let Some(agent) = new {
            self.agents.insert(id, agent);
        }
        let ended = commands.into_iter().find_map(|command| match command {
            AgentCommand::Finish { report } => Some(EventKind::AgentFinished {
                failure: report.result.err(),
                usage: report.work.usage,
                duration: report.duration,
            }),
            // The approval is requested again after a restart.
            AgentCommand::AskApproval { approval } if asked.as_ref() == Some(&approval.digest) => None,
            AgentCommand::AskApproval { approval } => Some(EventKind::ApprovalAsked { approval }),
            AgentCommand::AskModel { .. }
            | AgentCommand::RunTool { .. }
            | AgentCommand::ApprovalSettled { .. }
            | AgentCommand::SetTimer { .. } => None,
            // The start of a delegation has no input, so its first command is reported as its start. A restart repeats the command.
            AgentCommand::Delegate { effect, .. } if effect.attempt > 0 && delegating => None,
            AgentCommand::Delegate { effect, agent, task } => Some(EventKind::ToolStarted {
                effect,
                tool: DELEGATE.to_owned(),
                parameters: json!({"agent": agent, "task": task}),
            }),
        });
        Ok(event.into_iter().chain(ended).collect())
    }
}

fn wrong_scope(input: &'static str, scope: Scope) -> Refusal {
    Refusal::InvalidState {
        input,
        state: format!("the journal's scope is {scope}"),
    }
}

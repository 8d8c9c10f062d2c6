//! A run as watchers see it: the state machines rebuilt from journal entries, and the events that these entries cause.
//!
//! Each watcher feeds entries to its own [`RunView`], during the run or later. The run does not know its watchers.

mod event;
#[cfg(test)]
mod event_tests;
mod usage_ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use event::{Event, EventKind};

pub use crate::run::JSON_VERSION;
use serde_json::json;
use usage_ledger::{PreviousUsage, RecordedInput, UsageLedger};

use crate::agent::{Agent, AgentCommand, AgentInput, AgentTimer};
use crate::agent_report::AgentWork;
use crate::agent_spec::DELEGATE;
use crate::approval::{Approval, Digest};
use crate::call::SUBMIT_REFLECTION;
use crate::file_changes::command_changes;
use crate::id::{AgentId, EffectId, RunId, Scope};
use crate::journal::{Entry, Input};
use crate::machine::Refusal;
use crate::message::{ToolCall, Usage};
use crate::phase::Phase;
use crate::plan::{LEAD, Plan};
use crate::question::OpenQuestion;
use crate::reflection::Reflection;
use crate::route::Delivery;
use crate::run::{Report, Run, RunCommand, RunInput, RunTimer, WaitingCall};
use crate::run_tree::RunTree;
use crate::time::Timestamp;
use crate::undo::UndoPlan;
use crate::undo::calls::{CallEntry, Calls};
use crate::usage::UsageReport;

/// The machines of a run, rebuilt from its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    machines: RunTree,
    /// The agents whose reports the run has received.
    reported: BTreeSet<AgentId>,
    ledger: UsageLedger,
    calls: Calls,
    /// The calls of agents that did not run, as in [`Report::refused_calls`].
    refused: u32,
    last_at: Timestamp,
}

/// The number of an entry that the machines refuse, and the refusal.
pub type RefusedEntry = (u64, Refusal);

impl RunView {
    /// Starts a view with the first journal entry of a run, and returns the entry's events.
    ///
    /// # Errors
    /// [`Refusal`] if the entry is not the first entry of a run.
    pub fn start(entry: Entry) -> Result<(Self, Vec<Event>), Refusal> {
        let (Scope::Run, Input::Run(RunInput::Started { spec })) = (entry.scope, &entry.input) else {
            return Err(Refusal::InvalidState {
                input: entry.input.description(),
                state: "the run has not started".to_owned(),
            });
        };
        let instructions = spec.project.as_ref().map(|project| &project.instructions);
        let paths = instructions
            .into_iter()
            .flat_map(|instructions| &instructions.files);
        let mut kinds = vec![EventKind::RunStarted {
            goal: spec.goal.clone(),
            workspace: spec.workspace.clone(),
            worktree: spec.worktree.clone(),
            instructions: paths.map(|file| file.path.clone()).collect(),
            instruction_notes: instructions.map_or_else(Vec::new, |instructions| instructions.notes.clone()),
        }];
        let (machines, commands) = RunTree::start(entry.at, spec.clone())?;
        let view = RunView {
            machines,
            reported: BTreeSet::new(),
            ledger: UsageLedger::default(),
            calls: Calls::default(),
            refused: 0,
            last_at: entry.at,
        };
        kinds.extend(view.events_of_run_commands(commands, 0, &BTreeSet::new()));
        let events = EntryEvents::new(&entry).with(kinds);
        Ok((view, events))
    }

    /// Rebuilds a run from its journal entries. Returns the view and the events of all entries; `None` if there are no entries.
    ///
    /// # Errors
    /// The first entry that the machines refuse.
    pub fn replay(
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<Option<(Self, Vec<Event>)>, RefusedEntry> {
        let mut entries = entries.into_iter();
        let Some(first) = entries.next() else {
            return Ok(None);
        };
        let refused = |seq| move |refusal| (seq, refusal);
        let seq = first.seq;
        let (mut view, mut events) = RunView::start(first).map_err(refused(seq))?;
        for entry in entries {
            let seq = entry.seq;
            events.extend(view.apply(entry).map_err(refused(seq))?);
        }
        Ok(Some((view, events)))
    }

    /// The machines, for resuming the run.
    pub fn into_machines(self) -> RunTree {
        self.machines
    }

    /// The machines of the run and its agents.
    pub fn machines(&self) -> &RunTree {
        &self.machines
    }

    /// Returns the run's machine.
    pub fn run(&self) -> &Run {
        self.machines.run()
    }

    /// Returns the time at which the last entry of any machine was accepted.
    pub fn last_at(&self) -> Timestamp {
        self.last_at
    }

    /// Returns the machine of an agent; `None` if the agent has not started.
    pub fn agent(&self, agent: AgentId) -> Option<&Agent> {
        self.machines.agent(agent)
    }

    /// Returns all agents that have started, in the order of their ids.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.machines.agents().values()
    }

    /// Returns the pending approvals of the run and its agents, oldest first (HOST-11).
    pub fn approvals(&self) -> Vec<Arc<Approval>> {
        if self.run().phase().is_terminal() {
            return Vec::new();
        }
        let of_agents = self.unreported_agents().filter_map(Agent::approval);
        let mut approvals: Vec<_> = self.run().approvals().chain(of_agents).cloned().collect();
        approvals.sort_by_key(|approval| (approval.asked_at, approval.effect));
        approvals
    }

    /// Returns the open questions of the run and its agents, oldest first (HOST-11).
    pub fn questions(&self) -> Vec<OpenQuestion> {
        if self.run().phase().is_terminal() {
            return Vec::new();
        }
        let of_agents = self.unreported_agents().filter_map(Agent::question);
        let of_agents = of_agents.map(|asked| OpenQuestion::clone(asked));
        let mut questions: Vec<_> = self.run().open_question().into_iter().chain(of_agents).collect();
        questions.sort_by_key(|asked| (asked.asked_at, asked.effect));
        questions
    }

    /// Returns the run's report, with its [`UsageReport`] and the work of agents that have not reported. These agents are still running, or
    /// were interrupted by the end of the run.
    pub fn report(&self) -> Report {
        let delegated = self.unreported_delegated_work();
        let mut report = self.run().report_with(&self.unreported(&delegated));
        report.changed_during_commands = command_changes(&self.calls.during_commands(0));
        report.account = Some(self.usage_report_of(report.usage));
        report.refused_calls = self.refused;
        report.waiting = self.waiting();
        report.questions = self.questions();
        if let Some(oldest) = report.questions.first() {
            report.question = Some(oldest.question.clone());
        }
        report
    }

    /// Returns the calls that wait for approval, as in [`Report::waiting`].
    pub fn waiting(&self) -> Vec<WaitingCall> {
        self.run().waiting_calls(&self.approvals())
    }

    /// Returns the run's usage so far, including agents that are still running or were interrupted (HOST-10).
    pub fn usage_report(&self) -> UsageReport {
        self.usage_report_of(self.run().usage_with(&self.unreported(&[])))
    }

    fn usage_report_of(&self, usage: Usage) -> UsageReport {
        self.ledger.account(&self.machines, usage, self.last_at)
    }

    /// Returns how the changes of the run until now can be undone. The run's diff shows the same changes.
    pub fn undo_plan(&self) -> UndoPlan {
        UndoPlan::from_calls(&self.calls)
    }

    /// Returns the work of agents that have not reported, and the delegated work that is not in any caller's report.
    fn unreported<'a>(&'a self, delegated: &'a [AgentWork]) -> Vec<&'a AgentWork> {
        self.unreported_agents()
            .map(Agent::work)
            .chain(delegated)
            .collect()
    }

    /// The agents whose reports the run has not received.
    fn unreported_agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents().filter(|agent| !self.reported.contains(&agent.id()))
    }

    fn unreported_delegated_work(&self) -> Vec<AgentWork> {
        self.run()
            .unreported_delegated_work(|agent| self.agent(agent).map(Agent::work))
    }

    /// For a failed run, the work of the agents that were still running when the run ended; empty for any other run.
    pub fn interrupted_work(&self) -> BTreeMap<AgentId, AgentWork> {
        if self.run().phase() != Phase::Failed {
            return BTreeMap::new();
        }
        let interrupted = self.unreported_agents();
        interrupted
            .map(|agent| (agent.id(), agent.work().clone()))
            .collect()
    }

    /// Applies the next journal entry and returns its events.
    ///
    /// # Errors
    /// [`Refusal`] if the machines refuse the entry.
    pub fn apply(&mut self, entry: Entry) -> Result<Vec<Event>, Refusal> {
        let events = EntryEvents::new(&entry);
        let at = entry.at;
        let of_call = CallEntry::new(&entry);
        let kinds = match Delivery::try_from(entry)? {
            Delivery::Run(input) => self.apply_run_input(at, input)?,
            Delivery::Agent(agent, input) => self.apply_agent_input(agent, at, input)?,
        };
        if let Some(entry) = of_call {
            self.calls.record(entry);
        }
        self.last_at = self.last_at.max(at);
        Ok(events.with(kinds))
    }

    fn apply_run_input(&mut self, at: Timestamp, input: RunInput) -> Result<Vec<EventKind>, Refusal> {
        let mut events = self.events_of_run_input(&input);
        let (iterations, observed) = self.progress();
        let judged = self.judgements().count();
        let reporters: Vec<AgentId> = match &input {
            RunInput::AgentFinished { effect, .. } => self.run().agent_of(*effect).into_iter().collect(),
            RunInput::Resumed { interrupted, .. } => interrupted.keys().copied().collect(),
            RunInput::Started { .. }
            | RunInput::ToolStarted { .. }
            | RunInput::ToolFinished { .. }
            | RunInput::Guided { .. }
            | RunInput::Redirected { .. }
            | RunInput::CallAwaitsUser { .. }
            | RunInput::CallSettled { .. }
            | RunInput::Decided { .. }
            | RunInput::PlanGuided { .. }
            | RunInput::ActingBegan { .. }
            | RunInput::Delegated { .. }
            | RunInput::DiffRead { .. }
            | RunInput::UserAnswered { .. }
            | RunInput::UserAbsent { .. }
            | RunInput::TimerFired { .. }
            | RunInput::CallsAllowed { .. }
            | RunInput::ToolsChanged { .. }
            | RunInput::WorkspaceShared { .. }
            | RunInput::Cancelled => Vec::new(),
        };
        let recorded = RecordedInput::from_run_input(&input);
        // Only a resumed run requests approvals again.
        let known: BTreeSet<Digest> = match &input {
            RunInput::Resumed { .. } => {
                let approvals = self.run().approvals();
                approvals.map(|approval| approval.digest.clone()).collect()
            }
            _ => BTreeSet::new(),
        };
        let last_step = self.run().last_step();
        let commands = self.machines.handle_run_input(at, input)?;
        let awaits_user = self.run().is_awaiting_user();
        self.ledger
            .record_run_input(self.last_at, at, &recorded, &commands, awaits_user);
        self.reported.extend(reporters);
        for iteration in self.run().iterations()[iterations..]
            .iter()
            .filter(|new| new.has_plan())
        {
            events.push(EventKind::PlanMade {
                plan: Plan::clone(iteration.graph.plan()),
            });
        }
        // None of a new iteration's observations has caused an event yet.
        let seen = if self.run().iterations().len() == iterations {
            observed
        } else {
            0
        };
        if let Some(iteration) = self.run().iterations().last() {
            let new = &iteration.observations[seen.min(iteration.observations.len())..];
            // The lead's own work is not a sub-task; the event about the lead's end reports it.
            let of_plan = new.iter().filter(|seen| seen.subtask.0 != LEAD);
            events.extend(of_plan.map(|seen| EventKind::SubTaskFinished {
                observation: seen.clone(),
            }));
        }
        if self.judgements().count() > judged {
            events.extend(self.judgements().last().map(|reflection| EventKind::Reflected {
                reflection: reflection.clone(),
            }));
        }
        events.extend(self.events_of_run_commands(commands, last_step, &known));
        Ok(events)
    }

    /// Returns the judgements of iterations, in order.
    fn judgements(&self) -> impl Iterator<Item = &Reflection> {
        let iterations = self.run().iterations().iter();
        iterations.filter_map(|iteration| iteration.reflection.as_ref())
    }

    fn progress(&self) -> (usize, usize) {
        let iterations = self.run().iterations();
        (
            iterations.len(),
            iterations
                .last()
                .map_or(0, |iteration| iteration.observations.len()),
        )
    }

    /// Returns the events of the input itself. [`Self::events_of_run_commands`] returns the events of the commands that it causes.
    fn events_of_run_input(&self, input: &RunInput) -> Vec<EventKind> {
        match input {
            RunInput::ToolStarted { effect } => self
                .run_call(*effect)
                .map(|call| EventKind::tool_started(*effect, call, self.run().subtask_of_call(*effect)))
                .into_iter()
                .collect(),
            RunInput::ToolFinished { effect, result } => self
                .run_call(*effect)
                .map(|call| EventKind::tool_finished(*effect, &call, result))
                .into_iter()
                .collect(),
            RunInput::Guided { guidance } | RunInput::PlanGuided { guidance, .. } => {
                vec![EventKind::Guided {
                    guidance: guidance.clone(),
                    immediate: false,
                }]
            }
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
                    .run()
                    .approvals()
                    .filter(|approval| approval.effect.step == *step);
                let expired = expired.next().map(|approval| EventKind::ApprovalExpired {
                    effect: approval.effect,
                });
                expired.into_iter().collect()
            }
            RunInput::UserAnswered { effect, answer } => vec![EventKind::QuestionAnswered {
                effect: *effect,
                answer: answer.clone(),
            }],
            RunInput::Resumed { .. } => vec![EventKind::Resumed],
            RunInput::CallsAllowed { calls } => vec![EventKind::CallsAllowed {
                calls: calls.to_string(),
            }],
            RunInput::ToolsChanged { change } => vec![EventKind::tools_changed(change)],
            RunInput::WorkspaceShared { runs } => vec![EventKind::WorkspaceShared { runs: runs.clone() }],
            RunInput::Started { .. }
            | RunInput::AgentFinished { .. }
            | RunInput::CallAwaitsUser { .. }
            | RunInput::CallSettled { .. }
            | RunInput::ActingBegan { .. }
            | RunInput::Delegated { .. }
            | RunInput::DiffRead { .. }
            | RunInput::UserAbsent { .. }
            | RunInput::TimerFired {
                timer: RunTimer::Deadline | RunTimer::Call(_),
            }
            | RunInput::Cancelled => Vec::new(),
        }
    }

    fn run_call(&self, effect: EffectId) -> Option<ToolCall> {
        self.run().running_call(effect).cloned()
    }

    /// Returns the events of commands. `last_step` is the step of the run's last effect before these commands. Omits approval requests
    /// whose digest is in `known`, because they have already caused an event.
    fn events_of_run_commands(
        &self,
        commands: Vec<RunCommand>,
        last_step: u32,
        known: &BTreeSet<Digest>,
    ) -> Vec<EventKind> {
        let mut events = Vec::new();
        for command in commands {
            match &command {
                RunCommand::AskApproval { approval } if known.contains(&approval.digest) => continue,
                _ => events.extend(self.subtask_started(&command, last_step)),
            }
            events.extend(self.event_of_run_command(command));
        }
        events
    }

    /// Returns the event for the start of a sub-task, if this command starts one.
    fn subtask_started(&self, command: &RunCommand, last_step: u32) -> Option<EventKind> {
        let (effect, agent) = match command {
            RunCommand::StartAgent { effect, brief, .. } => (*effect, Some(brief.agent)),
            RunCommand::RunTool { effect, .. } => (*effect, None),
            RunCommand::AskApproval { approval } => (approval.effect, None),
            RunCommand::Announce { .. }
            | RunCommand::GuideLead { .. }
            | RunCommand::RedirectLead { .. }
            | RunCommand::GuideAgent { .. }
            | RunCommand::AllowCalls { .. }
            | RunCommand::ChangeTools { .. }
            | RunCommand::StopTool { .. }
            | RunCommand::StopAgent { .. }
            | RunCommand::ReturnFindings { .. }
            | RunCommand::ReadDiff { .. }
            | RunCommand::AwaitUser { .. }
            | RunCommand::AskUser { .. }
            | RunCommand::SetTimer { .. }
            | RunCommand::Finish { .. } => return None,
        };
        if effect.step <= last_step {
            return None;
        }
        let subtask = self.run().subtask_started_by(effect)?;
        Some(EventKind::SubTaskStarted {
            subtask: subtask.id.clone(),
            title: subtask.title.clone(),
            agent,
        })
    }

    /// Returns the event for a command, if any. [`Self::subtask_started`] handles the start of a sub-task.
    fn event_of_run_command(&self, command: RunCommand) -> Option<EventKind> {
        match command {
            RunCommand::Announce { transition } => Some(EventKind::PhaseChanged { transition }),
            RunCommand::AskUser { effect, question } => Some(EventKind::QuestionAsked {
                effect,
                agent: None,
                question,
            }),
            RunCommand::Finish { reason } => Some(EventKind::RunFinished {
                reason,
                summary: self.run().summary(),
            }),
            RunCommand::AskApproval { approval } => Some(EventKind::ApprovalAsked { approval }),
            RunCommand::StartAgent { .. }
            | RunCommand::GuideLead { .. }
            | RunCommand::RedirectLead { .. }
            | RunCommand::GuideAgent { .. }
            | RunCommand::AllowCalls { .. }
            | RunCommand::ChangeTools { .. }
            | RunCommand::RunTool { .. }
            | RunCommand::StopTool { .. }
            | RunCommand::StopAgent { .. }
            | RunCommand::ReturnFindings { .. }
            | RunCommand::ReadDiff { .. }
            | RunCommand::AwaitUser { .. }
            | RunCommand::SetTimer { .. } => None,
        }
    }

    fn apply_agent_input(
        &mut self,
        id: AgentId,
        at: Timestamp,
        input: AgentInput,
    ) -> Result<Vec<EventKind>, Refusal> {
        let agent = self.agent(id);
        let event = self.event_of_agent_input(agent, &input);
        let asked = agent
            .and_then(Agent::approval)
            .map(|approval| approval.digest.clone());
        let asked_question = agent
            .and_then(Agent::question)
            .map(|asked| (asked.effect, asked.asked_at));
        let is_delegating = agent.is_some_and(Agent::is_delegating);
        let before = agent.map(PreviousUsage::new).unwrap_or_default();
        let recorded = RecordedInput::from_agent_input(&input);
        let calls = agent.map_or(0, |agent| agent.work().calls.len());
        // The other inputs after which calls do not run have an event of their own.
        let has_own_event = !matches!(
            input,
            AgentInput::ModelReplied { .. } | AgentInput::ToolFinished { .. }
        );
        let is_continued = matches!(input, AgentInput::Continued { .. });
        let commands = self.machines.handle_agent_input(at, id, input)?;
        if is_continued {
            self.reported.remove(&id);
        }
        if let Some(agent) = self.machines.agent(id) {
            self.ledger
                .record_agent_input(agent, before, at, recorded, &commands);
        }
        let mut refused = self.refused_calls(id, calls);
        let count = u32::try_from(refused.len()).unwrap_or(u32::MAX);
        self.refused = self.refused.saturating_add(count);
        if has_own_event {
            refused.clear();
        }
        let commanded = commands.into_iter().find_map(|command| match command {
            AgentCommand::Finish { report } => Some(EventKind::AgentFinished {
                failure: report.result.err(),
                usage: report.work.usage,
                duration: report.duration,
            }),
            // After a restart, the same approval is requested again, which causes no further event.
            AgentCommand::AskApproval { approval, .. } if asked.as_ref() == Some(&approval.digest) => None,
            AgentCommand::AskApproval { approval, .. } => Some(EventKind::ApprovalAsked { approval }),
            AgentCommand::AskUser { question, .. }
                if asked_question == Some((question.effect, question.asked_at)) =>
            {
                None
            }
            AgentCommand::AskUser { question, .. } => Some(EventKind::QuestionAsked {
                effect: question.effect,
                agent: question.agent.clone(),
                question: question.question.clone(),
            }),
            AgentCommand::AskModel { .. }
            | AgentCommand::RunTool { .. }
            | AgentCommand::AnswerTool { .. }
            | AgentCommand::CallSettled { .. }
            | AgentCommand::GuideRun { .. }
            | AgentCommand::BeginActing
            | AgentCommand::Stop
            | AgentCommand::SetTimer { .. } => None,
            // No input reports the start of a delegation, so its first command counts as the start. A restart repeats the command.
            AgentCommand::Delegate { effect, .. } if effect.attempt > 0 && is_delegating => None,
            AgentCommand::Delegate { effect, agent, task } => Some(EventKind::ToolStarted {
                effect,
                tool: DELEGATE.to_owned(),
                parameters: json!({"agent": agent, "task": task}),
                subtask: self.run().subtask_of_call(effect),
            }),
        });
        Ok(event.into_iter().chain(refused).chain(commanded).collect())
    }

    /// Returns the events of refused calls among an agent's calls, beginning with that of this index.
    fn refused_calls(&self, agent: AgentId, from: usize) -> Vec<EventKind> {
        let calls = self.agent(agent).map_or(&[][..], |agent| &agent.work().calls);
        let new = calls.get(from..).unwrap_or_default().iter();
        let refused = new.filter(|call| call.effect.is_none() && !call.success);
        refused
            .map(|call| EventKind::ToolRefused {
                tool: call.tool.clone(),
                parameters: call.parameters.clone(),
                error: call.error.clone().unwrap_or_default(),
            })
            .collect()
    }

    /// Returns the event of an agent's input. `agent` is the agent's machine before the input; `None` for the first input.
    fn event_of_agent_input(&self, agent: Option<&Agent>, input: &AgentInput) -> Option<EventKind> {
        // A submission is not a tool call, although its check runs as one.
        let call = |effect| {
            let call = agent.and_then(|agent| agent.running_call(effect));
            call.filter(|call| call.tool != SUBMIT_REFLECTION)
        };
        match input {
            AgentInput::Started { brief } => Some(EventKind::AgentStarted {
                role: brief.role.clone(),
                caller: brief.caller,
            }),
            AgentInput::Continued { .. } => Some(EventKind::LeadContinued),
            AgentInput::ModelReplied { reply, .. } => Some(EventKind::ModelReplied {
                turn: agent.map_or(0, Agent::turns),
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
            AgentInput::ToolStarted { effect } => {
                let subtask = self.run().subtask_of_call(*effect);
                call(*effect).map(|call| EventKind::tool_started(*effect, call.clone(), subtask))
            }
            AgentInput::ToolFinished { effect, result } => {
                call(*effect).map(|call| EventKind::tool_finished(*effect, call, result))
            }
            AgentInput::Decided { effect, decision } => Some(EventKind::ApprovalDecided {
                effect: *effect,
                decision: decision.clone(),
            }),
            AgentInput::UserAnswered { effect, answer } => {
                let asked = agent.and_then(Agent::question);
                let chosen = asked.and_then(|asked| asked.question.choose(answer).ok());
                Some(EventKind::QuestionAnswered {
                    effect: *effect,
                    answer: chosen.unwrap_or_else(|| answer.clone()),
                })
            }
            AgentInput::Guided { guidance } => Some(EventKind::Guided {
                guidance: guidance.clone(),
                immediate: false,
            }),
            AgentInput::QuestionWithdrawn { .. } => {
                let effect = agent?.question()?.effect;
                Some(EventKind::QuestionExpired { effect })
            }
            AgentInput::Resumed { .. } => Some(EventKind::Resumed),
            AgentInput::TimerFired {
                timer: AgentTimer::UserRequest,
            } => match (agent?.approval(), agent?.question()) {
                (Some(approval), _) => Some(EventKind::ApprovalExpired {
                    effect: approval.effect,
                }),
                (None, Some(question)) => Some(EventKind::QuestionExpired {
                    effect: question.effect,
                }),
                (None, None) => None,
            },
            AgentInput::TimerFired {
                timer: AgentTimer::Deadline,
            }
            // The command that the question causes is the event.
            | AgentInput::ToolAsked { .. }
            // The run's own event already reports the guidance, the rule and the change.
            | AgentInput::RunGuided { .. }
            | AgentInput::CallsAllowed { .. }
            | AgentInput::ToolsChanged { .. }
            | AgentInput::Redirected { .. }
            | AgentInput::Cancelled => None,
        }
    }
}

/// The fields that all events of one journal entry have in common.
struct EntryEvents {
    run: RunId,
    seq: u64,
    at: Timestamp,
    scope: Scope,
}

impl EntryEvents {
    fn new(entry: &Entry) -> Self {
        EntryEvents {
            run: entry.run,
            seq: entry.seq,
            at: entry.at,
            scope: entry.scope,
        }
    }

    fn with(&self, kinds: Vec<EventKind>) -> Vec<Event> {
        let event = |kind| Event::new(self.run, self.seq, self.at, self.scope, kind);
        kinds.into_iter().map(event).collect()
    }
}

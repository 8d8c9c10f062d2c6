//! The data of a usage report that the state machines do not contain: waiting times, and the models that replied.

use std::collections::BTreeMap;

use crate::agent::{Agent, AgentCommand, AgentInput};
use crate::id::{AgentId, EffectId, Scope};
use crate::message::Usage;
use crate::run::{RunCommand, RunInput};
use crate::run_tree::RunTree;
use crate::time::{Millis, Timestamp};
use crate::usage::{AgentUsage, ModelUsage, UNKNOWN_MODEL, UsageReport, UsageTotals};

/// Waiting times and models, updated with each entry in constant time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UsageLedger {
    agents: BTreeMap<AgentId, AgentTotals>,
    /// Total time of the tool calls in plans, without the tool calls of agents.
    tool_time: Millis,
    /// Outstanding effects, by scope and step. Their times are measured with [`UsageLedger::clock`].
    waits: BTreeMap<(Scope, u32), PendingWait>,
    /// Total time in which no process owned the run.
    away: Millis,
    /// Total time in which all outstanding work waited for the user, measured with [`UsageLedger::clock`].
    user_wait: Millis,
    /// The time at which all outstanding work began to wait for the user; `None` unless all of it waits.
    user_wait_since: Option<Timestamp>,
}

/// Waiting times and models of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
struct AgentTotals {
    malformed: u32,
    model_time: Millis,
    tool_time: Millis,
    models: Vec<ModelUsage>,
    /// The index in `models` of the model that replied last.
    last: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct PendingWait {
    reason: WaitKind,
    since: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum WaitKind {
    Model,
    Tool,
}

/// The part of an input that the ledger needs. It is extracted before the machine consumes the input, and recorded after the machine has
/// accepted it.
pub(crate) enum RecordedInput {
    /// A model request ended with a reply of this model.
    Replied { effect: EffectId, model: String },
    /// An effect of any other kind ended.
    Ended { effect: EffectId },
    /// A new process resumed the run; the previous one was last active at `last_seen`.
    Resumed { last_seen: Timestamp },
    /// Nothing to record.
    Nothing,
}

/// The usage of an agent before an input.
#[derive(Clone, Copy, Default)]
pub(crate) struct PreviousUsage {
    usage: Usage,
    /// The number of malformed replies in a row.
    malformed: u32,
}

impl PreviousUsage {
    pub(crate) fn new(agent: &Agent) -> Self {
        PreviousUsage {
            usage: agent.usage(),
            malformed: agent.malformed(),
        }
    }
}

impl UsageLedger {
    /// Records an input that an agent's machine accepted at the time `at`, with the resulting commands. `before` is the agent's usage
    /// before the input.
    pub(crate) fn record_agent_input(
        &mut self,
        agent: &Agent,
        before: PreviousUsage,
        at: Timestamp,
        recorded: RecordedInput,
        commands: &[AgentCommand],
    ) {
        let (now, scope) = (self.clock(at), Scope::Agent(agent.id()));
        match recorded {
            RecordedInput::Replied { effect, model } => {
                let waited = self.end(effect, now);
                let malformed = u32::from(agent.malformed() > before.malformed);
                self.used(agent.id()).replied(&model, waited, malformed);
            }
            RecordedInput::Ended { effect } => {
                self.end(effect, now);
            }
            // Each outstanding effect either ends with this input or is requested again.
            RecordedInput::Resumed { .. } => self.end_all(Some(scope), now),
            RecordedInput::Nothing => {}
        }
        if let Some(totals) = self.used(agent.id()).last_model_totals() {
            totals.usage += agent.usage() - before.usage;
        }
        for command in commands {
            match command {
                AgentCommand::AskModel { effect } => self.begin(*effect, WaitKind::Model, now),
                AgentCommand::RunTool { effect, .. } => self.begin(*effect, WaitKind::Tool, now),
                AgentCommand::Stop | AgentCommand::Finish { .. } => self.end_all(Some(scope), now),
                AgentCommand::AskApproval { .. }
                | AgentCommand::AskUser { .. }
                | AgentCommand::AnswerTool { .. }
                | AgentCommand::CallSettled { .. }
                | AgentCommand::Delegate { .. }
                | AgentCommand::GuideRun { .. }
                | AgentCommand::BeginActing
                | AgentCommand::SetTimer { .. } => {}
            }
        }
    }

    /// Records an input that the run's machine accepted at the time `at`, with the resulting commands. `last_at` is the time of the
    /// previous entry of any machine.
    pub(crate) fn record_run_input(
        &mut self,
        last_at: Timestamp,
        at: Timestamp,
        recorded: &RecordedInput,
        commands: &[RunCommand],
        is_awaiting_user: bool,
    ) {
        match recorded {
            RecordedInput::Resumed { last_seen } => {
                self.away += at - last_at.max(*last_seen);
                self.end_all(Some(Scope::Run), self.clock(at));
            }
            RecordedInput::Replied { effect, .. } | RecordedInput::Ended { effect } => {
                self.end(*effect, self.clock(at));
            }
            RecordedInput::Nothing => {}
        }
        let now = self.clock(at);
        match (self.user_wait_since, is_awaiting_user) {
            (None, true) => self.user_wait_since = Some(now),
            (Some(_), false) => self.end_user_wait(now),
            (None, false) | (Some(_), true) => {}
        }
        for command in commands {
            match command {
                RunCommand::RunTool { effect, .. } => self.begin(*effect, WaitKind::Tool, now),
                RunCommand::StopTool { effect } => {
                    self.end(*effect, now);
                }
                // When the run finishes, it stops all outstanding work.
                RunCommand::Finish { .. } => self.end_all(None, now),
                RunCommand::Announce { .. }
                | RunCommand::StartAgent { .. }
                | RunCommand::GuideLead { .. }
                | RunCommand::RedirectLead { .. }
                | RunCommand::StopAgent { .. }
                | RunCommand::ReturnFindings { .. }
                | RunCommand::ReadDiff { .. }
                | RunCommand::GuideAgent { .. }
                | RunCommand::AllowCalls { .. }
                | RunCommand::ChangeTools { .. }
                | RunCommand::AskApproval { .. }
                | RunCommand::AwaitUser { .. }
                | RunCommand::AskUser { .. }
                | RunCommand::SetTimer { .. } => {}
            }
        }
    }

    /// Returns the usage report of a run with this total usage. `last_at` is the time of the run's last entry.
    pub(crate) fn account(&self, machines: &RunTree, usage: Usage, last_at: Timestamp) -> UsageReport {
        let mut whole = self.clone();
        let now = whole.clock(last_at);
        whole.end_all(None, now);
        whole.end_user_wait(now);
        let mut account = UsageReport {
            total: UsageTotals {
                tool_time: whole.tool_time,
                ..UsageTotals::default()
            },
            active_time: Millis(
                (now - machines.run().started_at())
                    .0
                    .saturating_sub(whole.user_wait.0),
            ),
            ..UsageReport::default()
        };
        for request in machines.run().spec().preparatory_requests() {
            let totals = UsageTotals {
                usage: request.usage,
                ..UsageTotals::default()
            };
            account.total += totals;
            let index = model_index(&mut account.models, &request.model);
            account.models[index].totals += totals;
        }
        for (id, used) in whole.agents {
            let Some(agent) = machines.agent(id) else { continue };
            let totals = UsageTotals {
                usage: agent.usage(),
                malformed: used.malformed,
                model_time: used.model_time,
                tool_time: used.tool_time,
            };
            account.total += totals;
            for model_usage in &used.models {
                let index = model_index(&mut account.models, &model_usage.model);
                account.models[index].totals += model_usage.totals;
            }
            account.agents.push(AgentUsage {
                agent: id,
                name: agent.spec().name.clone(),
                totals,
                models: used.models,
            });
        }
        account.total.usage = usage;
        account
    }

    /// Returns the time `at` minus the total time in which no process owned the run.
    fn clock(&self, at: Timestamp) -> Timestamp {
        Timestamp(at.0.saturating_sub(self.away.0))
    }

    fn end_user_wait(&mut self, now: Timestamp) {
        if let Some(since) = self.user_wait_since.take() {
            self.user_wait += now - since;
        }
    }

    fn begin(&mut self, effect: EffectId, reason: WaitKind, since: Timestamp) {
        self.waits
            .insert((effect.scope, effect.step), PendingWait { reason, since });
    }

    /// Ends a wait and returns its duration; zero if there is no wait for this effect.
    fn end(&mut self, effect: EffectId, now: Timestamp) -> Millis {
        match self.waits.remove(&(effect.scope, effect.step)) {
            Some(wait) => self.add(effect.scope, wait, now),
            None => Millis(0),
        }
    }

    /// Ends all waits of the scope; all waits of the run and its agents if the scope is `None`.
    fn end_all(&mut self, scope: Option<Scope>, now: Timestamp) {
        let ended = match scope {
            None => std::mem::take(&mut self.waits),
            Some(scope) => {
                let of_scope = (scope, 0)..=(scope, u32::MAX);
                self.waits.extract_if(of_scope, |_, _| true).collect()
            }
        };
        for ((scope, _), wait) in ended {
            self.add(scope, wait, now);
        }
    }

    fn add(&mut self, scope: Scope, wait: PendingWait, now: Timestamp) -> Millis {
        let span = now - wait.since;
        match scope {
            // The run machine sends no model requests, so this was a tool call.
            Scope::Run => self.tool_time += span,
            Scope::Agent(agent) => self.used(agent).waited(wait.reason, span),
        }
        span
    }

    fn used(&mut self, agent: AgentId) -> &mut AgentTotals {
        self.agents.entry(agent).or_default()
    }
}

impl AgentTotals {
    fn replied(&mut self, model: &str, waited: Millis, malformed: u32) {
        let index = model_index(&mut self.models, model);
        self.last = Some(index);
        let totals = &mut self.models[index].totals;
        totals.model_time += waited;
        totals.malformed += malformed;
        self.malformed += malformed;
    }

    fn waited(&mut self, reason: WaitKind, span: Millis) {
        match reason {
            // The reply names the model, so `replied` adds this time to the model's totals.
            WaitKind::Model => self.model_time += span,
            WaitKind::Tool => {
                self.tool_time += span;
                if let Some(totals) = self.last_model_totals() {
                    totals.tool_time += span;
                }
            }
        }
    }

    /// Returns the totals of the model that replied last.
    fn last_model_totals(&mut self) -> Option<&mut UsageTotals> {
        self.models
            .get_mut(self.last?)
            .map(|model_usage| &mut model_usage.totals)
    }
}

impl RecordedInput {
    pub(crate) fn from_agent_input(input: &AgentInput) -> RecordedInput {
        match input {
            AgentInput::ModelReplied { effect, reply } => RecordedInput::Replied {
                effect: *effect,
                model: reply.model.as_deref().unwrap_or(UNKNOWN_MODEL).to_owned(),
            },
            AgentInput::ModelFailed { effect, .. }
            | AgentInput::OverBudget { effect, .. }
            | AgentInput::ToolFinished { effect, .. } => RecordedInput::Ended { effect: *effect },
            AgentInput::Resumed { last_seen, .. } => RecordedInput::Resumed {
                last_seen: *last_seen,
            },
            AgentInput::Started { .. }
            | AgentInput::ToolStarted { .. }
            | AgentInput::ToolAsked { .. }
            | AgentInput::QuestionWithdrawn { .. }
            | AgentInput::Decided { .. }
            | AgentInput::UserAnswered { .. }
            | AgentInput::Guided { .. }
            | AgentInput::RunGuided { .. }
            | AgentInput::Redirected { .. }
            | AgentInput::CallsAllowed { .. }
            | AgentInput::ToolsChanged { .. }
            | AgentInput::Continued { .. }
            | AgentInput::TimerFired { .. }
            | AgentInput::Cancelled => RecordedInput::Nothing,
        }
    }

    pub(crate) fn from_run_input(input: &RunInput) -> RecordedInput {
        match input {
            RunInput::ToolFinished { effect, .. } => RecordedInput::Ended { effect: *effect },
            RunInput::Resumed { last_seen, .. } => RecordedInput::Resumed {
                last_seen: *last_seen,
            },
            RunInput::Started { .. }
            | RunInput::AgentFinished { .. }
            | RunInput::ToolStarted { .. }
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
            | RunInput::Cancelled => RecordedInput::Nothing,
        }
    }
}

/// Returns the index of the model, after appending the model if it is new.
fn model_index(models: &mut Vec<ModelUsage>, model: &str) -> usize {
    let known = models.iter().position(|model_usage| model_usage.model == model);
    known.unwrap_or_else(|| {
        models.push(ModelUsage {
            model: model.to_owned(),
            totals: UsageTotals::default(),
        });
        models.len() - 1
    })
}

//! What an account needs beyond the machines' states: who waited how long, and which model a reply came from.

use std::collections::BTreeMap;

use super::{Account, AgentAccount, ModelAccount, Tally, UNKNOWN_MODEL};
use crate::agent::{Agent, AgentCommand, AgentInput};
use crate::id::{AgentId, EffectId, Scope};
use crate::message::Usage;
use crate::run::{Run, RunCommand, RunInput};
use crate::time::{Millis, Timestamp};

/// Kept up entry by entry, with work that does not grow with the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    agents: BTreeMap<AgentId, Used>,
    /// Of the calls that the run's plans spelled out.
    tool_time: Millis,
    /// What is waited for, by scope and step. Times in it are [`Ledger::clock`]'s.
    waits: BTreeMap<(Scope, u32), Wait>,
    /// How long no process carried the run out.
    away: Millis,
    /// How long it waited for nothing but people. Like the next, in [`Ledger::clock`]'s time.
    people: Millis,
    /// Since when it does.
    people_since: Option<Timestamp>,
}

/// What one agent has used.
#[derive(Clone, Debug, Default, PartialEq)]
struct Used {
    malformed: u32,
    model_time: Millis,
    tool_time: Millis,
    models: Vec<ModelAccount>,
    /// Which of them gave its last reply.
    last: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Wait {
    reason: Reason,
    since: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reason {
    Model,
    Tool,
}

/// What an input says to the ledger; noted before its machine consumes it, told once the machine has accepted it.
pub(crate) enum Noted {
    /// The end of a request, and whose reply it brought.
    Replied { effect: EffectId, model: String },
    /// The end of something else that was waited for.
    Ended { effect: EffectId },
    /// A new process goes on; the one before was seen last then.
    Resumed { last_seen: Timestamp },
    /// Nothing.
    Nothing,
}

/// What an agent's machine had come to before an input.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    usage: Usage,
    /// Malformed replies in a row.
    malformed: u32,
}

impl Before {
    pub(crate) fn of(agent: &Agent) -> Self {
        Before {
            usage: agent.work().usage,
            malformed: agent.malformed(),
        }
    }
}

impl Ledger {
    /// An agent's machine, which was `before`, has taken an input at `at` and commanded that.
    pub(crate) fn agent_took(
        &mut self,
        agent: &Agent,
        before: Before,
        at: Timestamp,
        noted: Noted,
        commands: &[AgentCommand],
    ) {
        let (now, scope) = (self.clock(at), Scope::Agent(agent.id()));
        match noted {
            Noted::Replied { effect, model } => {
                let waited = self.end(effect, now);
                let malformed = u32::from(agent.malformed() > before.malformed);
                self.used(agent.id()).replied(&model, waited, malformed);
            }
            Noted::Ended { effect } => {
                self.end(effect, now);
            }
            // Whatever it waits for is commanded again, or has ended with this.
            Noted::Resumed { .. } => self.end_all(Some(scope), now),
            Noted::Nothing => {}
        }
        if let Some(tally) = self.used(agent.id()).last_tally() {
            tally.usage += agent.work().usage - before.usage;
        }
        for command in commands {
            match command {
                AgentCommand::AskModel { effect } => self.begin(*effect, Reason::Model, now),
                AgentCommand::RunTool { effect, .. } => self.begin(*effect, Reason::Tool, now),
                AgentCommand::Finish { .. } => self.end_all(Some(scope), now),
                AgentCommand::AskApproval { .. }
                | AgentCommand::ApprovalSettled { .. }
                | AgentCommand::Delegate { .. }
                | AgentCommand::SetTimer { .. } => {}
            }
        }
    }

    /// The run's machine has taken an input at `at`, commanded that, and waits for nothing but people or does not. The entry before, whichever machine's, came at
    /// `last_at`.
    pub(crate) fn run_took(
        &mut self,
        last_at: Timestamp,
        at: Timestamp,
        noted: &Noted,
        commands: &[RunCommand],
        waits_for_people: bool,
    ) {
        match noted {
            Noted::Resumed { last_seen } => {
                self.away += at - last_at.max(*last_seen);
                self.end_all(Some(Scope::Run), self.clock(at));
            }
            Noted::Replied { effect, .. } | Noted::Ended { effect } => {
                self.end(*effect, self.clock(at));
            }
            Noted::Nothing => {}
        }
        let now = self.clock(at);
        match (self.people_since, waits_for_people) {
            (None, true) => self.people_since = Some(now),
            (Some(_), false) => self.end_people(now),
            (None, false) | (Some(_), true) => {}
        }
        for command in commands {
            match command {
                RunCommand::RunTool { effect, .. } => self.begin(*effect, Reason::Tool, now),
                RunCommand::StopTool { effect } => {
                    self.end(*effect, now);
                }
                // Everything under way is stopped with it.
                RunCommand::Finish { .. } => self.end_all(None, now),
                RunCommand::Announce { .. }
                | RunCommand::StartAgent { .. }
                | RunCommand::StopAgent { .. }
                | RunCommand::ReturnFindings { .. }
                | RunCommand::AskApproval { .. }
                | RunCommand::AwaitUser { .. }
                | RunCommand::AskUser { .. }
                | RunCommand::SetTimer { .. } => {}
            }
        }
    }

    /// The account of a run that has used so much in all and whose last entry came at `last_at`.
    pub(crate) fn account(
        &self,
        run: &Run,
        agents: &BTreeMap<AgentId, Agent>,
        usage: Usage,
        last_at: Timestamp,
    ) -> Account {
        let mut whole = self.clone();
        let now = whole.clock(last_at);
        whole.end_all(None, now);
        whole.end_people(now);
        let mut account = Account {
            total: Tally {
                tool_time: whole.tool_time,
                ..Tally::default()
            },
            active_time: Millis((now - run.started_at()).0.saturating_sub(whole.people.0)),
            ..Account::default()
        };
        for (id, used) in whole.agents {
            let Some(agent) = agents.get(&id) else { continue };
            let tally = Tally {
                usage: agent.work().usage,
                malformed: used.malformed,
                model_time: used.model_time,
                tool_time: used.tool_time,
            };
            account.total += tally;
            for of_model in &used.models {
                let place = place_of(&mut account.models, &of_model.model);
                account.models[place].tally += of_model.tally;
            }
            account.agents.push(AgentAccount {
                agent: id,
                name: agent.spec().map_or_else(String::new, |spec| spec.name.clone()),
                tally,
                models: used.models,
            });
        }
        account.total.usage = usage;
        account
    }

    /// The time without what no process was there for, so that spans over it are those of work.
    fn clock(&self, at: Timestamp) -> Timestamp {
        Timestamp(at.0.saturating_sub(self.away.0))
    }

    fn end_people(&mut self, now: Timestamp) {
        if let Some(since) = self.people_since.take() {
            self.people += now - since;
        }
    }

    fn begin(&mut self, effect: EffectId, reason: Reason, since: Timestamp) {
        self.waits
            .insert((effect.scope, effect.step), Wait { reason, since });
    }

    /// Ends a wait, if there is one, and says how long it was.
    fn end(&mut self, effect: EffectId, now: Timestamp) -> Millis {
        match self.waits.remove(&(effect.scope, effect.step)) {
            Some(wait) => self.add(effect.scope, wait, now),
            None => Millis(0),
        }
    }

    /// Ends all that the scope waits for; without one, all there is.
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

    fn add(&mut self, scope: Scope, wait: Wait, now: Timestamp) -> Millis {
        let span = now - wait.since;
        match scope {
            // It asks no model.
            Scope::Run => self.tool_time += span,
            Scope::Agent(agent) => self.used(agent).waited(wait.reason, span),
        }
        span
    }

    fn used(&mut self, agent: AgentId) -> &mut Used {
        self.agents.entry(agent).or_default()
    }
}

impl Used {
    fn replied(&mut self, model: &str, waited: Millis, malformed: u32) {
        let place = place_of(&mut self.models, model);
        self.last = Some(place);
        let tally = &mut self.models[place].tally;
        tally.model_time += waited;
        tally.malformed += malformed;
        self.malformed += malformed;
    }

    fn waited(&mut self, reason: Reason, span: Millis) {
        match reason {
            // Which model's time it was shows once it has replied.
            Reason::Model => self.model_time += span,
            Reason::Tool => {
                self.tool_time += span;
                if let Some(tally) = self.last_tally() {
                    tally.tool_time += span;
                }
            }
        }
    }

    /// That of the model which gave the last reply.
    fn last_tally(&mut self) -> Option<&mut Tally> {
        self.models
            .get_mut(self.last?)
            .map(|of_model| &mut of_model.tally)
    }
}

impl Noted {
    pub(crate) fn of_agent(input: &AgentInput) -> Noted {
        match input {
            AgentInput::ModelReplied { effect, reply } => Noted::Replied {
                effect: *effect,
                model: reply.model.as_deref().unwrap_or(UNKNOWN_MODEL).to_owned(),
            },
            AgentInput::ModelFailed { effect, .. }
            | AgentInput::OverBudget { effect, .. }
            | AgentInput::ToolFinished { effect, .. } => Noted::Ended { effect: *effect },
            AgentInput::Resumed { last_seen, .. } => Noted::Resumed {
                last_seen: *last_seen,
            },
            AgentInput::Started { .. }
            | AgentInput::ToolStarted { .. }
            | AgentInput::Decided { .. }
            | AgentInput::Guided { .. }
            | AgentInput::TimerFired { .. }
            | AgentInput::Cancelled => Noted::Nothing,
        }
    }

    pub(crate) fn of_run(input: &RunInput) -> Noted {
        match input {
            RunInput::ToolFinished { effect, .. } => Noted::Ended { effect: *effect },
            RunInput::Resumed { last_seen, .. } => Noted::Resumed {
                last_seen: *last_seen,
            },
            RunInput::Started { .. }
            | RunInput::AgentFinished { .. }
            | RunInput::ToolStarted { .. }
            | RunInput::Guided { .. }
            | RunInput::Redirected { .. }
            | RunInput::ApprovalAsked { .. }
            | RunInput::ApprovalSettled { .. }
            | RunInput::Decided { .. }
            | RunInput::Delegated { .. }
            | RunInput::UserAnswered { .. }
            | RunInput::UserAbsent { .. }
            | RunInput::TimerFired { .. }
            | RunInput::Cancelled => Noted::Nothing,
        }
    }
}

/// Where that model stands among them; at the end if it is new.
fn place_of(models: &mut Vec<ModelAccount>, model: &str) -> usize {
    let known = models.iter().position(|of_model| of_model.model == model);
    known.unwrap_or_else(|| {
        models.push(ModelAccount {
            model: model.to_owned(),
            tally: Tally::default(),
        });
        models.len() - 1
    })
}

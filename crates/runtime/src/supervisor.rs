//! The actor of one run: it owns the run's machine, starts its agents, runs the tool calls of its plan, and sees to it
//! that whoever waits for the run gets an end.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dirigent_core::agent::{Agent, AgentBrief, AgentReport};
use dirigent_core::budget::Budget;
use dirigent_core::id::{AgentId, EffectId, RunId, Scope};
use dirigent_core::message::Usage;
use dirigent_core::run::{Report, Run, RunCommand, RunInput, RunTimer};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, ToolResult};
use dirigent_core::view::RunView;
use dirigent_store::{RunClaim, StoreError};
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::agent_actor::{AgentActor, AgentArguments, AgentMsg, RunShare};
use crate::broken_agent;
use crate::deltas::Listeners;
use crate::driver::{Driver, ending};
use crate::effects;
use crate::error::RuntimeError;
use crate::handle::{Door, Hearing, Steering, read_run};
use crate::orchestrator::{Services, UserPresence, blocking};
use crate::purse::Purse;

/// How long agents, requests and tools may take to end once the run is over (HOST-8: a second in all).
const CLOSING: Duration = Duration::from_millis(900);

/// How a run ended, for those who wait; none while it goes on.
pub(crate) type Outcome = Option<Result<Arc<Report>, RuntimeError>>;

pub(crate) struct RunSupervisor;

/// What a run is started or rebuilt with.
#[derive(Clone)]
pub(crate) struct SupervisorArguments {
    pub(crate) run: RunId,
    pub(crate) services: Arc<Services>,
    /// For as long as the orchestrator holds it.
    pub(crate) claim: Weak<RunClaim>,
    pub(crate) user: UserPresence,
    pub(crate) door: Arc<Door>,
    /// Cancelled when the run is over, however that came.
    pub(crate) cancel: CancellationToken,
    /// Everything that the run has going.
    pub(crate) tasks: TaskTracker,
    pub(crate) listeners: Listeners,
}

/// Where a supervisor begins.
pub(crate) enum Begin {
    /// A new run.
    New(Arc<RunSpec>),
    /// A run that has inputs in the journal.
    Resume {
        /// Its machines, which have taken them.
        view: Box<RunView>,
        /// The answer to the question that it stopped with: the first that it hears.
        answer: Option<String>,
    },
}

pub(crate) enum SupervisorMsg {
    Begin(Begin),
    Stored(Result<(), StoreError>),
    AgentEnded {
        effect: EffectId,
        report: AgentReport,
    },
    ToolEnded {
        effect: EffectId,
        result: ToolResult,
    },
    TimerFired(RunTimer),
    /// Something waits at the door.
    Steered,
    /// Everything that the run had going has ended.
    WorkEnded,
    /// The end is journaled.
    Closed(Result<(), StoreError>),
    /// What those who wait are told, with the work of agents that were cut off.
    Reported(Box<Report>),
    JournalFailed(StoreError),
}

/// What a supervisor that is ending does once its work has ended.
enum Closing {
    /// Journals the end that the machine has come to.
    End,
    /// Says why the run cannot go on.
    GiveUp(RuntimeError),
}

pub(crate) struct SupervisorState {
    driver: Driver<Run>,
    arguments: SupervisorArguments,
    share: Option<RunShare>,
    agents: HashMap<ActorId, (EffectId, ActorRef<AgentMsg>)>,
    /// The agents that a resumed run had, until they are started again.
    past: BTreeMap<AgentId, Agent>,
    /// When the run's last input before this process came, whichever machine's.
    last_seen: Timestamp,
    /// What its agents had used then.
    spent: Usage,
    calls: HashMap<EffectId, CancellationToken>,
    timers: HashMap<RunTimer, AbortHandle>,
    closing: Option<Closing>,
    /// Whether agents were at work when the run ended: the machine does not know what they did.
    cut_off: bool,
    /// For the orchestrator, which passes it on when the supervisor is gone and the run is free.
    pub(crate) outcome: Outcome,
    _stop_everything: DropGuard,
}

impl Actor for RunSupervisor {
    type Msg = SupervisorMsg;
    type State = SupervisorState;
    type Arguments = (SupervisorArguments, Begin);

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        (arguments, begin): (SupervisorArguments, Begin),
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let actor = myself.clone();
        let notify = Arc::new(move |stored| {
            // An actor that is gone needs no word.
            let _ = actor.send_message(SupervisorMsg::Stored(stored));
        });
        let journal = arguments.services.journal.clone();
        let (run, claim) = (arguments.run, arguments.claim.clone());
        let driver = Driver::new(Run::new(), run, Scope::Run, journal, claim, notify);
        let _ = myself.send_message(SupervisorMsg::Begin(begin));
        Ok(SupervisorState {
            driver,
            share: None,
            agents: HashMap::new(),
            past: BTreeMap::new(),
            last_seen: Timestamp::default(),
            spent: Usage::default(),
            calls: HashMap::new(),
            timers: HashMap::new(),
            closing: None,
            cut_off: false,
            outcome: None,
            _stop_everything: arguments.cancel.clone().drop_guard(),
            arguments,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMsg::Begin(begin) => state.begin(&myself, begin).await?,
            SupervisorMsg::Stored(Ok(())) => {
                let stored = state.driver.stored();
                for command in stored.commands {
                    state.carry_out(&myself, command).await?;
                }
                if let Some(effect) = stored.started {
                    state.run_tool(&myself, effect);
                }
            }
            SupervisorMsg::Stored(Err(error)) | SupervisorMsg::JournalFailed(error) => {
                state.give_up(&myself, error.into());
            }
            SupervisorMsg::AgentEnded { effect, report } => {
                state.dismiss_agent(effect);
                state.accept(RunInput::AgentFinished { effect, report });
            }
            SupervisorMsg::ToolEnded { effect, result } => {
                state.calls.remove(&effect);
                state.clear_timer(RunTimer::Call(effect.step));
                state.accept(RunInput::ToolFinished { effect, result });
            }
            SupervisorMsg::TimerFired(timer) => state.accept(RunInput::TimerFired { timer }),
            SupervisorMsg::Steered => state.steer(),
            SupervisorMsg::WorkEnded => state.work_ended(&myself),
            SupervisorMsg::Closed(Ok(())) if state.cut_off => state.report(&myself),
            SupervisorMsg::Closed(ended) => {
                let report = Arc::new(state.driver.machine.report());
                state.outcome = Some(ended.map(|()| report).map_err(RuntimeError::from));
                myself.stop(None);
            }
            SupervisorMsg::Reported(report) => {
                state.outcome = Some(Ok(Arc::new(*report)));
                myself.stop(None);
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(who, error) => state.agent_broke(&myself, &who, error.to_string()),
            SupervisionEvent::ActorTerminated(who, _, reason) => {
                let message = reason.unwrap_or_else(|| "it ended without a word".to_owned());
                state.agent_broke(&myself, &who, message);
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl SupervisorState {
    async fn begin(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        begin: Begin,
    ) -> Result<(), ActorProcessingErr> {
        match begin {
            Begin::New(spec) => {
                self.accept(RunInput::Started { spec });
                Ok(())
            }
            Begin::Resume { view, answer } => {
                self.last_seen = view.last_at();
                for agent in view.agents() {
                    self.spent += agent.work().usage;
                }
                let (machine, mut agents) = view.into_machines();
                let going = machine.outstanding();
                agents.retain(|agent, _| {
                    going.iter().any(
                        |command| matches!(command, RunCommand::StartAgent { brief, .. } if brief.agent == *agent),
                    )
                });
                (self.driver.machine, self.past) = (machine, agents);
                if self.driver.machine.spec().is_none() {
                    let run = self.arguments.run;
                    self.give_up(myself, RuntimeError::NeverBegan { run });
                } else if self.driver.machine.phase().is_terminal() {
                    for command in going {
                        self.carry_out(myself, command).await?;
                    }
                } else {
                    let last_seen = self.last_seen;
                    self.accept(RunInput::Resumed { last_seen });
                    if let (Some(answer), Some((effect, _))) = (answer, self.driver.machine.question()) {
                        self.accept(RunInput::UserAnswered { effect, answer });
                    }
                }
                Ok(())
            }
        }
    }

    fn accept(&mut self, input: RunInput) {
        let (now, name) = (self.arguments.services.clock.now(), input.name());
        let (door, closing) = (self.arguments.door.clone(), self.closing.is_some());
        let driver = &mut self.driver;
        let accepted = door.change(|| {
            let accepted = driver.accept(now, input);
            let hearing = match driver.machine.question() {
                _ if closing || driver.machine.end().is_some() => Hearing::Ending,
                Some((question, _)) => Hearing::Asking(question),
                None => Hearing::Nothing,
            };
            (hearing, accepted)
        });
        if let Err(refusal) = accepted {
            // A completion that came too late, or a timer that was put off.
            tracing::debug!(run = %self.arguments.run, input = name, %refusal, "input dropped");
        }
    }

    async fn carry_out(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        command: RunCommand,
    ) -> Result<(), ActorProcessingErr> {
        match command {
            RunCommand::Announce { transition } => {
                tracing::debug!(run = %self.arguments.run, from = %transition.from, to = %transition.to, "phase");
            }
            // Nothing is started any more.
            RunCommand::StartAgent { .. } | RunCommand::AskUser { .. } if self.closing.is_some() => {}
            RunCommand::StartAgent { effect, brief } => self.start_agent(myself, effect, brief).await?,
            // It runs once its start, which the driver has queued, is stored.
            RunCommand::RunTool { .. } => {}
            RunCommand::StopTool { effect } => {
                if let Some(call) = self.calls.remove(&effect) {
                    call.cancel();
                }
            }
            RunCommand::StopAgent { .. }
            | RunCommand::ReturnFindings { .. }
            | RunCommand::AskApproval { .. }
            | RunCommand::AwaitUser { .. } => {}
            RunCommand::AskUser { effect, .. } => self.ask_user(effect),
            RunCommand::SetTimer { timer, at } => self.set_timer(myself, timer, at),
            RunCommand::Finish { .. } => self.close(myself, Closing::End),
        }
        Ok(())
    }

    async fn start_agent(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        effect: EffectId,
        brief: Arc<AgentBrief>,
    ) -> Result<(), ActorProcessingErr> {
        let past = self.past.remove(&brief.agent);
        let arguments = AgentArguments {
            share: self.share(),
            supervisor: myself.clone(),
            effect,
            brief,
            past,
            last_seen: self.last_seen,
        };
        let (actor, ended) = Actor::spawn_linked(None, AgentActor, arguments, myself.get_cell()).await?;
        self.arguments.tasks.spawn(async move {
            let _ = ended.await;
        });
        self.agents.insert(actor.get_id(), (effect, actor));
        Ok(())
    }

    /// An agent whose report has come is not missed when it is gone.
    fn dismiss_agent(&mut self, effect: EffectId) {
        self.agents.retain(|_, (other, actor)| {
            let ended = *other == effect;
            if ended {
                actor.stop(None);
            }
            !ended
        });
    }

    /// PAOR-7: an agent that breaks down is an observation. What it did until then is in the journal.
    fn agent_broke(&mut self, myself: &ActorRef<SupervisorMsg>, who: &ActorCell, message: String) {
        let Some((effect, _)) = self.agents.remove(&who.get_id()) else {
            return;
        };
        let run = self.arguments.run;
        tracing::warn!(%run, %effect, message, "an agent broke down");
        let Some(agent) = self.driver.machine.agent_of(effect) else {
            return;
        };
        let (myself, services) = (myself.clone(), &self.arguments.services);
        let report = broken_agent::report(
            services.journal.clone(),
            run,
            agent,
            services.clock.now(),
            message,
        );
        self.arguments.tasks.spawn(async move {
            let report = report.await;
            let _ = myself.send_message(SupervisorMsg::AgentEnded { effect, report });
        });
    }

    /// The actor of an agent that is at work.
    fn agent(&self, agent: AgentId) -> Option<&ActorRef<AgentMsg>> {
        let mut agents = self.agents.values();
        let found = agents.find(|(effect, _)| self.driver.machine.agent_of(*effect) == Some(agent));
        found.map(|(_, actor)| actor)
    }

    /// Runs a call whose start is on record, unless it is no longer waited for.
    fn run_tool(&mut self, myself: &ActorRef<SupervisorMsg>, effect: EffectId) {
        if self.closing.is_some() {
            return;
        }
        let Some(call) = self.driver.machine.running_call(effect).cloned() else {
            return;
        };
        let share = self.share();
        let cancel = share.cancel.child_token();
        self.calls.insert(effect, cancel.clone());
        let context = share.tool_context(effect, Access::ReadWrite, cancel);
        let (myself, tools) = (myself.clone(), share.services.tools.clone());
        self.arguments.tasks.spawn(async move {
            let result = effects::run_tool(tools, context, call).await;
            let _ = myself.send_message(SupervisorMsg::ToolEnded { effect, result });
        });
    }

    fn ask_user(&mut self, effect: EffectId) {
        match self.arguments.user {
            // Refused where the answer has come already.
            UserPresence::Absent => self.accept(RunInput::UserAbsent { effect }),
            UserPresence::Present => {}
        }
    }

    fn set_timer(&mut self, myself: &ActorRef<SupervisorMsg>, timer: RunTimer, at: Timestamp) {
        let (myself, when) = (myself.clone(), self.arguments.services.clock.instant(at));
        let cancel = self.arguments.cancel.clone();
        let task = self.arguments.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep_until(when) => {
                    let _ = myself.send_message(SupervisorMsg::TimerFired(timer));
                }
                () = cancel.cancelled() => {}
            }
        });
        if let Some(earlier) = self.timers.insert(timer, task.abort_handle()) {
            earlier.abort();
        }
    }

    fn clear_timer(&mut self, timer: RunTimer) {
        if let Some(task) = self.timers.remove(&timer) {
            task.abort();
        }
    }

    /// What the user has to say. A run that is ending has nothing more to be told.
    fn steer(&mut self) {
        let Some(steering) = self.arguments.door.take() else {
            return;
        };
        if self.closing.is_some() {
            return;
        }
        match steering {
            Steering::Guide(guidance) => self.accept(RunInput::Guided { guidance }),
            Steering::GuideAgent(agent, guidance) => {
                if let Some(actor) = self.agent(agent) {
                    let _ = actor.send_message(AgentMsg::Guide(guidance));
                }
            }
            Steering::Answer(question, answer) => {
                // After a breakdown the same question is asked again, by its next try.
                if let Some((effect, _)) = self.driver.machine.question()
                    && effect.step == question.step
                {
                    self.accept(RunInput::UserAnswered { effect, answer });
                }
            }
            Steering::LeaveQuestion => {
                if let Some((effect, _)) = self.driver.machine.question() {
                    self.accept(RunInput::UserAbsent { effect });
                }
            }
            Steering::Cancel => self.accept(RunInput::Cancelled),
            #[cfg(test)]
            #[expect(clippy::panic, reason = "a breakdown on purpose, in tests alone")]
            Steering::Break => panic!("broken on purpose"),
            #[cfg(test)]
            Steering::BreakAgent(agent) => {
                if let Some(actor) = self.agent(agent) {
                    let _ = actor.send_message(AgentMsg::Break);
                }
            }
        }
    }

    /// The run cannot go on, and its journal cannot say so.
    fn give_up(&mut self, myself: &ActorRef<SupervisorMsg>, error: RuntimeError) {
        if self.closing.is_none() {
            tracing::error!(run = %self.arguments.run, %error, "the run stops");
            self.close(myself, Closing::GiveUp(error));
        }
    }

    /// Stops whatever is under way and waits for it. A run that stands still can be cancelled while it closes: it closes
    /// once, with the end that its machine has then.
    fn close(&mut self, myself: &ActorRef<SupervisorMsg>, closing: Closing) {
        if self.closing.is_some() {
            return;
        }
        self.arguments.door.close();
        self.stop_all();
        self.closing = Some(closing);
        let (arguments, myself) = (self.arguments.clone(), myself.clone());
        tokio::spawn(async move {
            wait_for_all(&arguments).await;
            let _ = myself.send_message(SupervisorMsg::WorkEnded);
        });
    }

    fn work_ended(&mut self, myself: &ActorRef<SupervisorMsg>) {
        match &self.closing {
            Some(Closing::End) => {}
            Some(Closing::GiveUp(error)) => {
                self.outcome = Some(Err(error.clone()));
                return myself.stop(None);
            }
            None => return,
        }
        let Some(reason) = self.driver.machine.end() else {
            return;
        };
        let (status, ending) = (serde_json::to_string(reason).unwrap_or_default(), ending(reason));
        let (actor, run) = (myself.clone(), self.arguments.run);
        let closed = move |ended: Result<(), StoreError>| {
            let _ = actor.send_message(SupervisorMsg::Closed(ended));
        };
        let services = &self.arguments.services;
        match self.arguments.claim.upgrade() {
            Some(claim) => services
                .journal
                .end(&claim, services.clock.now(), status, ending, closed),
            None => closed(Err(StoreError::NotHeld { run })),
        }
    }

    /// Looks into the journal for what agents did that were cut off.
    fn report(&self, myself: &ActorRef<SupervisorMsg>) {
        let (run, journal) = (self.arguments.run, self.arguments.services.journal.clone());
        let (myself, known) = (myself.clone(), self.driver.machine.report());
        tokio::spawn(async move {
            let read = blocking(move || Ok(read_run(&journal, run)?.0.report())).await;
            let report = read.map(Report::without_account).unwrap_or(known);
            let _ = myself.send_message(SupervisorMsg::Reported(Box::new(report)));
        });
    }

    fn stop_all(&mut self) {
        self.arguments.cancel.cancel();
        self.cut_off |= !self.agents.is_empty();
        for (_, (_, actor)) in self.agents.drain() {
            actor.stop(None);
        }
    }

    /// What agents and tools of this run have in common. The spec is known from the first input on.
    fn share(&mut self) -> RunShare {
        if let Some(share) = &self.share {
            return share.clone();
        }
        #[expect(
            clippy::expect_used,
            reason = "only a started machine commands anything, and it has its context"
        )]
        let context = self
            .driver
            .machine
            .context()
            .expect("a run that has started")
            .clone();
        let budget = Budget::new(&context.spec().limits, self.spent);
        let share = RunShare {
            run: self.arguments.run,
            context,
            services: self.arguments.services.clone(),
            claim: self.arguments.claim.clone(),
            cancel: self.arguments.cancel.clone(),
            tasks: self.arguments.tasks.clone(),
            purse: Arc::new(Purse::new(budget)),
            listeners: self.arguments.listeners.clone(),
        };
        self.share.insert(share).clone()
    }
}

/// Until every task and agent of the run has ended, or the second that HOST-8 allows is nearly over.
pub(crate) async fn wait_for_all(arguments: &SupervisorArguments) {
    arguments.tasks.close();
    if tokio::time::timeout(CLOSING, arguments.tasks.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            run = %arguments.run,
            left = arguments.tasks.len(),
            "the run has ended, but some of its work ignores that it was cancelled"
        );
    }
}

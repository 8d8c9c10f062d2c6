//! The actor of one run: it owns the run's machine, starts its agents, runs the tool calls of its plan, and sees to it
//! that whoever waits for the run gets an end.

mod closing;
mod dry_run;
mod messages;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use dirigent_core::agent::Agent;
use dirigent_core::agent_report::AgentReport;
use dirigent_core::id::{AgentId, EffectId, RunId, Scope};
use dirigent_core::limits::RunLimits;
use dirigent_core::machine::Refusal;
use dirigent_core::message::Usage;
use dirigent_core::run::{Report, Run, RunCommand, RunInput, RunTimer};
use dirigent_core::spec::RunSpec;
use dirigent_core::steering::Steering;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::ToolResult;
use dirigent_store::{RunClaim, StoreError};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::closing::Closing;
pub(crate) use self::closing::wait_for_all;
pub(crate) use self::dry_run::DryRun;
pub(crate) use self::messages::AgentMessage;
use crate::agent_actor::{AgentMsg, RunResources};
use crate::deltas::Listeners;
use crate::driver::Driver;
use crate::error::RuntimeError;
use crate::forking::ReplayedRun;
use crate::orchestrator::Services;
use crate::run_mailbox::{Ack, MailboxState, RunMailbox};

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
    pub(crate) mailbox: Arc<RunMailbox>,
    /// Cancelled when the run is over, however that came.
    pub(crate) cancel: CancellationToken,
    /// Everything that the run has going.
    pub(crate) tasks: TaskTracker,
    pub(crate) listeners: Listeners,
}

/// Where a supervisor begins.
pub(crate) enum StartMode {
    /// A new run.
    New(Arc<RunSpec>),
    /// A run that has inputs in the journal.
    Resume {
        /// Its machines, which have taken them.
        replayed: Box<ReplayedRun>,
        /// Whether a run that failed goes on; else it is only brought to its end, as the process ended before that was journaled.
        recovery: Recovery,
        /// The limits that hold from now on; `None` for those that it has.
        limits: Option<Box<RunLimits>>,
        /// The first that it hears.
        first_message: Option<Steering>,
    },
}

/// What becomes of a run that failed and can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// It plans again.
    Recover,
    /// It stays at its end.
    StayEnded,
}

pub(crate) enum SupervisorMsg {
    Start(StartMode),
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
    /// A call of an agent waits for an approval.
    ApprovalAsked(EffectId),
    /// It waits no longer.
    ApprovalSettled(EffectId),
    /// An agent has another one do something.
    Delegated {
        effect: EffectId,
        agent: String,
        task: String,
    },
    /// Something waits at the mailbox.
    MessageReceived,
    /// What another process said to the run was taken or refused.
    MessageSettled,
    /// Whether something that another process said waits for the run.
    InboxChecked {
        waiting: bool,
    },
    /// Everything that the run had going has ended.
    WorkEnded,
    /// The end is journaled.
    Closed(Result<(), StoreError>),
    /// What those who wait are told, with the work of agents that were cut off.
    Reported(Box<Report>),
    JournalFailed(StoreError),
}

pub(crate) struct SupervisorState {
    driver: Driver<Run>,
    arguments: SupervisorArguments,
    resources: Option<RunResources>,
    agents: HashMap<ActorId, (EffectId, ActorRef<AgentMsg>)>,
    /// The agents that a resumed run had, until they are started again.
    replayed: BTreeMap<AgentId, Agent>,
    /// The machines that have no past but that of the run that this one was forked off.
    inherited: BTreeSet<Scope>,
    /// When the run's last input before this process came, whichever machine's.
    last_seen: Timestamp,
    /// What its agents had used then.
    spent: Usage,
    calls: HashMap<EffectId, CancellationToken>,
    timers: HashMap<RunTimer, AbortHandle>,
    /// What was said to agents that are about to start.
    undelivered: Vec<AgentMessage>,
    /// The question or call for which nothing else goes on.
    awaited: Option<EffectId>,
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
    type Arguments = (SupervisorArguments, StartMode);

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        (arguments, begin): (SupervisorArguments, StartMode),
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let actor = myself.clone();
        let notify = Arc::new(move |stored| {
            // An actor that is gone needs no word.
            let _ = actor.send_message(SupervisorMsg::Stored(stored));
        });
        let journal = arguments.services.journal.clone();
        let (run, claim) = (arguments.run, arguments.claim.clone());
        let driver = Driver::new(Run::new(), run, Scope::Run, journal, claim, notify);
        let _ = myself.send_message(SupervisorMsg::Start(begin));
        Ok(SupervisorState {
            driver,
            resources: None,
            agents: HashMap::new(),
            replayed: BTreeMap::new(),
            inherited: BTreeSet::new(),
            last_seen: Timestamp::default(),
            spent: Usage::default(),
            calls: HashMap::new(),
            timers: HashMap::new(),
            undelivered: Vec::new(),
            awaited: None,
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
            SupervisorMsg::Start(begin) => state.begin(&myself, begin).await?,
            SupervisorMsg::Stored(Ok(())) => state.stored(&myself).await?,
            SupervisorMsg::Stored(Err(error)) | SupervisorMsg::JournalFailed(error) => {
                state.give_up(&myself, error.into());
            }
            SupervisorMsg::AgentEnded { effect, report } => {
                state.dismiss_agent(effect);
                state.accept(RunInput::AgentFinished { effect, report });
                state.send_undelivered();
            }
            SupervisorMsg::ToolEnded { effect, result } => {
                state.calls.remove(&effect);
                state.clear_timer(RunTimer::Call(effect.step));
                state.accept(RunInput::ToolFinished { effect, result });
            }
            SupervisorMsg::TimerFired(timer) => state.accept(RunInput::TimerFired { timer }),
            SupervisorMsg::ApprovalAsked(effect) => state.accept(RunInput::ApprovalAsked { effect }),
            SupervisorMsg::ApprovalSettled(effect) => state.accept(RunInput::ApprovalSettled { effect }),
            SupervisorMsg::Delegated { effect, agent, task } => {
                state.accept(RunInput::Delegated { effect, agent, task });
            }
            SupervisorMsg::MessageReceived => state.handle_next_message(&myself),
            SupervisorMsg::MessageSettled => state.check_user_presence(&myself),
            SupervisorMsg::InboxChecked { waiting: true } => {}
            SupervisorMsg::InboxChecked { waiting: false } => state.report_user_absent(),
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
            SupervisionEvent::ActorFailed(actor, error) => {
                state.agent_crashed(&myself, &actor, error.to_string())
            }
            SupervisionEvent::ActorTerminated(actor, _, reason) => {
                let message = reason.unwrap_or_else(|| "the actor stopped without a reason".to_owned());
                state.agent_crashed(&myself, &actor, message);
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
        begin: StartMode,
    ) -> Result<(), ActorProcessingErr> {
        match begin {
            StartMode::New(spec) => {
                self.accept(RunInput::Started { spec });
                Ok(())
            }
            StartMode::Resume {
                replayed,
                recovery,
                limits,
                first_message,
            } => {
                let recovers = recovery == Recovery::Recover;
                let ReplayedRun { view, inherited } = *replayed;
                let cut_off = view.cut_off();
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
                let forked = inherited.contains(&Scope::Run);
                (self.driver.machine, self.replayed, self.inherited) = (machine, agents, inherited);
                if self.driver.machine.spec().is_none() {
                    let run = self.arguments.run;
                    self.give_up(myself, RuntimeError::NeverBegan { run });
                } else if self.driver.machine.phase().is_terminal() && !recovers {
                    for command in going {
                        self.dispatch(myself, command).await?;
                    }
                } else {
                    let last_seen = self.last_seen;
                    self.accept(RunInput::Resumed {
                        last_seen,
                        forked,
                        limits,
                        cut_off,
                    });
                    if let Some(first_message) = first_message {
                        self.steer(first_message, Ack::default());
                    }
                }
                Ok(())
            }
        }
    }

    async fn stored(&mut self, myself: &ActorRef<SupervisorMsg>) -> Result<(), ActorProcessingErr> {
        let Some(stored) = self.driver.stored() else {
            return Ok(());
        };
        for command in stored.commands {
            self.dispatch(myself, command).await?;
        }
        if let Some(effect) = stored.started {
            self.run_tool(myself, effect);
        }
        stored.ack.accepted();
        Ok(())
    }

    fn accept(&mut self, input: RunInput) {
        let name = input.name();
        if let Err((refusal, _)) = self.accept_with_ack(input, Ack::default()) {
            // A completion that came too late, or a timer that was put off.
            tracing::debug!(run = %self.arguments.run, input = name, %refusal, "input dropped");
        }
    }

    /// Gives the machine an input, and whoever waits for it its ack once it is journaled. A refusal gives the ack back.
    fn accept_with_ack(&mut self, input: RunInput, ack: Ack) -> Result<(), (Refusal, Ack)> {
        let now = self.arguments.services.clock.now();
        let (mailbox, closing) = (self.arguments.mailbox.clone(), self.closing.is_some());
        let driver = &mut self.driver;
        mailbox.update(|| {
            let accepted = driver.accept_with_ack(now, input, ack);
            let mailbox_state = match driver.machine.question() {
                _ if closing || driver.machine.end().is_some() => MailboxState::Closed,
                Some((question, _)) => MailboxState::AwaitingAnswer(question),
                None => MailboxState::Open,
            };
            (mailbox_state, accepted)
        })
    }

    async fn dispatch(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        command: RunCommand,
    ) -> Result<(), ActorProcessingErr> {
        match command {
            RunCommand::Announce { transition } => {
                tracing::debug!(run = %self.arguments.run, from = %transition.from, to = %transition.to, "phase");
            }
            // Nothing is started any more, nor if the machine has heard by now that the run is over.
            RunCommand::StartAgent { .. } | RunCommand::AskUser { .. } | RunCommand::AwaitUser { .. }
                if self.closing.is_some() || self.driver.machine.phase().is_terminal() => {}
            RunCommand::StartAgent { effect, brief } => self.start_agent(myself, effect, brief).await?,
            // It runs once its start, which the driver has queued, is stored.
            RunCommand::RunTool { .. } => {}
            RunCommand::StopTool { effect } => {
                if let Some(call) = self.calls.remove(&effect) {
                    call.cancel();
                }
            }
            RunCommand::StopAgent { effect } => self.stop_agent(effect),
            RunCommand::ReturnFindings { effect, result } => self.return_findings(effect, result),
            // Those who can decide see it in the journal.
            RunCommand::AskApproval { .. } => {}
            RunCommand::AskUser { effect, .. } | RunCommand::AwaitUser { effect } => {
                self.await_user(myself, effect);
            }
            RunCommand::SetTimer { timer, at } => self.set_timer(myself, timer, at),
            RunCommand::Finish { .. } => self.close(myself, Closing::End),
        }
        Ok(())
    }
}

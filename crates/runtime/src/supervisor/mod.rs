//! The actor of one run: owns the run's state machine, starts its agents, runs the tool calls of its plan, and guarantees that everyone who waits
//! for the run gets an outcome.

mod closing;
mod messages;
mod state;
mod work;

use std::sync::Arc;

use dirigent_core::brief::AgentRole;
use dirigent_core::id::Scope;
use dirigent_core::message::Usage;
use dirigent_core::route::{Resumption, Route, RunEffect};
use dirigent_core::run::{Run, RunCommand, RunInput, RunTimer};
use dirigent_core::steering::Steering;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

pub(crate) use self::closing::wait_for_all;
use self::state::Closing;
pub(crate) use self::state::{
    Recovery, ResumedRun, StartMode, SupervisorArguments, SupervisorMsg, SupervisorState,
};
use crate::ack::Ack;
use crate::agent_actor::AgentEvent;
use crate::driver::Driver;
use crate::error::RuntimeError;
use crate::replayed_run::ReplayedRun;
use crate::run_mailbox::MailboxEvent;

pub(crate) struct RunSupervisor;

impl Actor for RunSupervisor {
    type Msg = SupervisorMsg;
    type State = SupervisorState;
    type Arguments = (SupervisorArguments, StartMode);

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        (arguments, mode): (SupervisorArguments, StartMode),
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let actor = myself.clone();
        let notify = Arc::new(move |stored| {
            // The actor may have ended.
            let _ = actor.send_message(SupervisorMsg::Stored(stored));
        });
        let now = arguments.services.clock.now();
        let (run, claim) = (arguments.run, arguments.claim.clone());
        let driver = |machine| Driver::new(machine, run, Scope::Run, claim, notify);
        match mode {
            StartMode::New(spec) => {
                let (machine, commands) = Run::start(now, spec.clone())?;
                let mut state = SupervisorState::new(arguments, driver(machine));
                state.driver.start(now, &RunInput::Started { spec }, commands);
                Ok(state)
            }
            StartMode::Resume(resume) => {
                let ResumedRun {
                    replayed,
                    recovery,
                    limits,
                    first_messages,
                } = *resume;
                let ReplayedRun { view, inherited } = replayed;
                let (last_seen, interrupted) = (view.last_at(), view.interrupted_work());
                let mut spent = Usage::default();
                view.agents().for_each(|agent| spent += agent.usage());
                let (machine, mut agents) = view.into_machines().into_machines();
                agents.retain(|id, agent| {
                    agent.brief().role == AgentRole::Lead || machine.effect_of(*id).is_some()
                });
                let forked = inherited.contains(&Scope::Run);
                let resumed = RunInput::Resumed {
                    last_seen,
                    forked,
                    limits,
                    interrupted,
                };
                let _ = myself.send_message(SupervisorMsg::Resume {
                    recovery,
                    resumed,
                    first_messages,
                });
                let mut state = SupervisorState::new(arguments, driver(machine));
                state.inactive = agents;
                state.resumption = Resumption { last_seen, inherited };
                state.spent = spent;
                Ok(state)
            }
        }
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMsg::Resume {
                recovery,
                resumed,
                first_messages,
            } => state.resume(&myself, recovery, resumed, first_messages).await?,
            SupervisorMsg::Stored(Ok(())) => state.stored(&myself).await?,
            SupervisorMsg::Stored(Err(error)) => state.give_up(&myself, error.into()),
            SupervisorMsg::Agent(event) => state.handle_agent_event(&myself, event),
            SupervisorMsg::Mailbox(MailboxEvent::MessageReceived) => state.handle_next_message(&myself),
            SupervisorMsg::Mailbox(MailboxEvent::MessageSettled) => state.check_user_presence(&myself),
            SupervisorMsg::ToolEnded { effect, result } => {
                state.calls.remove(&effect);
                state.clear_timer(RunTimer::Call(effect.step));
                state.accept(RunInput::ToolFinished { effect, result });
            }
            SupervisorMsg::DiffRead { effect, diff } => state.accept(RunInput::DiffRead { effect, diff }),
            SupervisorMsg::TimerFired(timer) => state.accept(RunInput::TimerFired { timer }),
            SupervisorMsg::InboxChecked { pending: true } => {}
            SupervisorMsg::InboxChecked { pending: false } => state.report_user_absent(),
            SupervisorMsg::WorkEnded => state.work_ended(&myself),
            SupervisorMsg::Closed(Ok(())) if state.agents_stopped => state.read_report(&myself),
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
    async fn resume(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        recovery: Recovery,
        resumed: RunInput,
        first_messages: Vec<Steering>,
    ) -> Result<(), ActorProcessingErr> {
        if recovery == Recovery::StayEnded && self.driver.machine.phase().is_terminal() {
            for command in self.driver.machine.outstanding() {
                self.dispatch(myself, command).await?;
            }
            return Ok(());
        }
        self.accept(resumed);
        for message in first_messages {
            self.steer(message, Ack::default());
        }
        Ok(())
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

    fn handle_agent_event(&mut self, myself: &ActorRef<SupervisorMsg>, event: AgentEvent) {
        match event {
            AgentEvent::Deliver(input) => {
                let ended = match &input {
                    RunInput::AgentFinished { effect, .. } => self.driver.machine.agent_of(*effect),
                    _ => None,
                };
                if let Some(agent) = ended {
                    self.dismiss_agent(agent);
                }
                self.accept(input);
                if ended.is_some() {
                    self.send_undelivered();
                }
            }
            AgentEvent::LeadEnded(machine) => {
                self.inactive.insert(machine.id(), *machine);
            }
            AgentEvent::JournalFailed(error) => self.give_up(myself, error.into()),
        }
    }

    async fn dispatch(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        command: RunCommand,
    ) -> Result<(), ActorProcessingErr> {
        if let RunCommand::Announce { transition } = &command {
            tracing::debug!(run = %self.arguments.run, from = %transition.from, to = %transition.to, "phase");
        }
        let effect = match command.route() {
            Route::Effect(effect) => effect,
            Route::Deliver(delivery) => {
                self.deliver(delivery);
                return Ok(());
            }
            Route::Watchers => return Ok(()),
        };
        match effect {
            // Nothing is started once the run is closing or its machine has ended.
            RunEffect::StartAgent { .. } | RunEffect::ReadDiff { .. } | RunEffect::AwaitUser { .. }
                if self.closing.is_some() || self.driver.machine.phase().is_terminal() => {}
            RunEffect::StartAgent {
                effect,
                brief,
                continuation,
            } => {
                self.start_agent(myself, effect, brief, continuation.as_deref())
                    .await?;
            }
            // The driver has queued the input that records the start of the call. The call runs once this
            // input is stored.
            RunEffect::RunTool { .. } => {}
            RunEffect::StopTool { effect } => {
                if let Some(call) = self.calls.remove(&effect) {
                    call.cancel();
                }
            }
            RunEffect::ReadDiff { effect } => self.read_diff(myself, effect),
            RunEffect::AwaitUser { effect } => self.await_user(myself, effect),
            RunEffect::SetTimer { timer, at } => self.set_timer(myself, timer, at),
            RunEffect::Finish { .. } => self.close(myself, Closing::End),
        }
        Ok(())
    }
}

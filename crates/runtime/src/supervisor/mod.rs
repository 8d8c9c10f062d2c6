//! The actor of one run: owns the run's machine, starts its agents, runs the tool calls of its plan, and guarantees an outcome for those who
//! wait for the run.

mod closing;
mod messages;
mod state;
mod work;

use std::sync::Arc;

use dirigent_core::id::Scope;
use dirigent_core::run::{Run, RunCommand, RunInput, RunTimer};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

pub(crate) use self::closing::wait_for_all;
use self::state::Closing;
pub(crate) use self::state::{Recovery, StartMode, SupervisorArguments, SupervisorMsg, SupervisorState};
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
            // The actor may be gone.
            let _ = actor.send_message(SupervisorMsg::Stored(stored));
        });
        let journal = arguments.services.journal.clone();
        let (run, claim) = (arguments.run, arguments.claim.clone());
        let driver = Driver::new(Run::new(), run, Scope::Run, journal, claim, notify);
        let _ = myself.send_message(SupervisorMsg::Start(mode));
        Ok(SupervisorState::new(arguments, driver))
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMsg::Start(mode) => state.start(&myself, mode).await?,
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
            SupervisorMsg::TimerFired(timer) => state.accept(RunInput::TimerFired { timer }),
            SupervisorMsg::InboxChecked { pending: true } => {}
            SupervisorMsg::InboxChecked { pending: false } => state.report_user_absent(),
            SupervisorMsg::WorkEnded => state.work_ended(&myself),
            SupervisorMsg::Closed(Ok(())) if state.cut_off => state.read_report(&myself),
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
    async fn start(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        mode: StartMode,
    ) -> Result<(), ActorProcessingErr> {
        match mode {
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
                let outstanding = machine.outstanding();
                agents.retain(|agent, _| {
                    outstanding.iter().any(
                        |command| matches!(command, RunCommand::StartAgent { brief, .. } if brief.agent == *agent),
                    )
                });
                let forked = inherited.contains(&Scope::Run);
                (self.driver.machine, self.replayed, self.inherited) = (machine, agents, inherited);
                if self.driver.machine.spec().is_none() {
                    let run = self.arguments.run;
                    self.give_up(myself, RuntimeError::NeverBegan { run });
                } else if self.driver.machine.phase().is_terminal() && !recovers {
                    for command in outstanding {
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

    fn handle_agent_event(&mut self, myself: &ActorRef<SupervisorMsg>, event: AgentEvent) {
        match event {
            AgentEvent::Ended { effect, report } => {
                self.dismiss_agent(effect);
                self.accept(RunInput::AgentFinished { effect, report });
                self.send_undelivered();
            }
            AgentEvent::ApprovalAsked(effect) => self.accept(RunInput::ApprovalAsked { effect }),
            AgentEvent::ApprovalSettled(effect) => self.accept(RunInput::ApprovalSettled { effect }),
            AgentEvent::Delegated { effect, agent, task } => {
                self.accept(RunInput::Delegated { effect, agent, task });
            }
            AgentEvent::JournalFailed(error) => self.give_up(myself, error.into()),
        }
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
            // Starts nothing once the run closes or its machine has ended.
            RunCommand::StartAgent { .. } | RunCommand::AskUser { .. } | RunCommand::AwaitUser { .. }
                if self.closing.is_some() || self.driver.machine.phase().is_terminal() => {}
            RunCommand::StartAgent { effect, brief } => self.start_agent(myself, effect, brief).await?,
            // The call runs once its start, which the driver has queued, is stored.
            RunCommand::RunTool { .. } => {}
            RunCommand::StopTool { effect } => {
                if let Some(call) = self.calls.remove(&effect) {
                    call.cancel();
                }
            }
            RunCommand::StopAgent { effect } => self.stop_agent(effect),
            RunCommand::ReturnFindings { effect, result } => self.return_findings(effect, result),
            // Watchers see the request in the journal.
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

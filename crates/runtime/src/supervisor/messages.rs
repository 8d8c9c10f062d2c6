//! Messages to the run: passes them to the machine that handles them, and stops the run if it waits for an absent user.

use dirigent_core::id::{AgentId, EffectId};
use dirigent_core::run::{RunCommand, RunInput};
use dirigent_core::steering::Steering;
use ractor::ActorRef;

use super::state::{SupervisorMsg, SupervisorState};
use crate::ack::Ack;
use crate::agent_actor::AgentMsg;
use crate::agent_message::AgentMessage;
use crate::blocking::blocking;
use crate::error::RuntimeError;
use crate::routing::{Route, rejected_by_run, route};
use crate::run_mailbox::{RunMessage, RunMessageBody};
use crate::user_presence::UserPresence;

impl SupervisorState {
    /// Handles the oldest message of the mailbox. A run that is closing rejects it.
    pub(super) fn handle_next_message(&mut self, myself: &ActorRef<SupervisorMsg>) {
        let Some(RunMessage { body, ack }) = self.arguments.mailbox.pop() else {
            return;
        };
        #[cfg(test)]
        #[expect(clippy::panic, reason = "a deliberate crash, in tests only")]
        if let RunMessageBody::Break = body {
            panic!("broken on purpose");
        }
        if self.closing.is_some() {
            let run = self.arguments.run;
            return ack.rejected(RuntimeError::Ended { run });
        }
        match body {
            RunMessageBody::Steering(steering) => self.steer(steering, ack),
            RunMessageBody::UserAbsent => self.check_user_presence(myself),
            #[cfg(test)]
            RunMessageBody::Break => {}
            #[cfg(test)]
            RunMessageBody::BreakAgent(agent) => {
                if let Some(actor) = self.agent(agent) {
                    let _ = actor.send_message(AgentMsg::Break);
                }
            }
        }
    }

    pub(super) fn steer(&mut self, steering: Steering, ack: Ack) {
        match route(self.arguments.run, &self.driver.machine, steering) {
            Ok(Route::Run(input)) => self.handle_run_input(input, ack),
            Ok(Route::Agent(agent, body)) => self.send_to_agent(AgentMessage { agent, body, ack }),
            Err(error) => ack.rejected(error),
        }
    }

    fn handle_run_input(&mut self, input: RunInput, ack: Ack) {
        let Err((refusal, ack)) = self.accept_with_ack(input, ack) else {
            return;
        };
        ack.rejected(rejected_by_run(
            self.arguments.run,
            refusal,
            self.driver.machine.end(),
        ));
    }

    fn send_to_agent(&mut self, message: AgentMessage) {
        if let Some(actor) = self.agent(message.agent) {
            // If the actor has just crashed, the dropped acknowledgement tells the sender.
            let _ = actor.send_message(AgentMsg::Message(message));
        } else if self.is_active(message.agent) {
            self.undelivered.push(message);
        } else {
            message.reject(self.arguments.run);
        }
    }

    /// Sends the messages to agents that had no actor before, after agents have started or ended.
    pub(super) fn send_undelivered(&mut self) {
        for message in std::mem::take(&mut self.undelivered) {
            self.send_to_agent(message);
        }
    }

    /// Returns true if the machine waits for the agent's report.
    fn is_active(&self, agent: AgentId) -> bool {
        let outstanding = self.driver.machine.outstanding();
        let mut started = outstanding.iter().filter_map(|command| match command {
            RunCommand::StartAgent { brief, .. } => Some(brief.agent),
            RunCommand::Announce { .. }
            | RunCommand::RunTool { .. }
            | RunCommand::StopTool { .. }
            | RunCommand::StopAgent { .. }
            | RunCommand::ReturnFindings { .. }
            | RunCommand::AskApproval { .. }
            | RunCommand::AwaitUser { .. }
            | RunCommand::AskUser { .. }
            | RunCommand::SetTimer { .. }
            | RunCommand::Finish { .. } => None,
        });
        started.any(|started| started == agent)
    }

    /// Notes that the whole run waits for the user to answer this question or decide about this call.
    pub(super) fn await_user(&mut self, myself: &ActorRef<SupervisorMsg>, effect: EffectId) {
        self.awaited = Some(effect);
        self.check_user_presence(myself);
    }

    /// If the run waits for an absent user, checks whether messages of other processes are pending, as one may be the awaited answer. Called
    /// again whenever such a message is settled.
    pub(super) fn check_user_presence(&mut self, myself: &ActorRef<SupervisorMsg>) {
        if self.awaited.is_none() || self.arguments.mailbox.user() == UserPresence::Present {
            return;
        }
        let (myself, run) = (myself.clone(), self.arguments.run);
        let (journal, mailbox) = (
            self.arguments.services.journal.clone(),
            self.arguments.mailbox.clone(),
        );
        self.arguments.tasks.spawn(async move {
            let pending = blocking(move || Ok(journal.has_pending_messages(run)?)).await;
            let pending = pending.unwrap_or_else(|error| {
                tracing::warn!(%run, %error, "cannot read the run's pending messages");
                false
            });
            // A message that was just accepted is no longer pending, but may not have reached the run yet.
            let pending = pending || mailbox.is_delivering();
            let _ = myself.send_message(SupervisorMsg::InboxChecked { pending });
        });
    }

    /// Tells the machine that the user is absent, as no pending message can be the answer.
    pub(super) fn report_user_absent(&mut self) {
        if let Some(effect) = self.awaited.take() {
            // The machine refuses this if the answer has come meanwhile.
            self.accept(RunInput::UserAbsent { effect });
        }
    }
}

//! Handles messages to the run: passes each message to the state machine that handles it, and stops the run if it
//! is waiting for an absent user.

use dirigent_core::id::EffectId;
use dirigent_core::route::Delivery;
use dirigent_core::run::RunInput;
use dirigent_core::steering::Steering;
use ractor::ActorRef;

use super::state::{SupervisorMsg, SupervisorState};
use crate::ack::Ack;
use crate::agent_actor::AgentMsg;
use crate::agent_message::AgentMessage;
use crate::blocking::blocking;
use crate::error::RuntimeError;
use crate::run_mailbox::{RunMessage, RunMessageBody};
use crate::user_presence::UserPresence;

impl SupervisorState {
    /// Handles the oldest message of the mailbox. A run that is closing rejects it.
    pub(super) fn handle_next_message(&mut self, myself: &ActorRef<SupervisorMsg>) {
        let Some(RunMessage { body, ack }) = self.arguments.mailbox.pop() else {
            return;
        };
        if self.closing.is_some() {
            let run = self.arguments.run;
            return ack.rejected(RuntimeError::Ended { run });
        }
        match body {
            RunMessageBody::Steering(steering) => self.steer(steering, ack),
            RunMessageBody::UserAbsent => self.check_user_presence(myself),
        }
    }

    pub(super) fn steer(&mut self, steering: Steering, ack: Ack) {
        let run = self.arguments.run;
        match steering.route(&self.driver.machine) {
            Ok(Delivery::Run(input)) => self.handle_run_input(input, ack),
            Ok(Delivery::Agent(agent, input)) => self.send_to_agent(AgentMessage { agent, input, ack }),
            Err(error) => ack.rejected(RuntimeError::steering(run, error)),
        }
    }

    fn handle_run_input(&mut self, input: RunInput, ack: Ack) {
        let Err((refusal, ack)) = self.accept_with_ack(input, ack) else {
            return;
        };
        let (run, end) = (self.arguments.run, self.driver.machine.end());
        ack.rejected(RuntimeError::rejected_by_run(run, refusal, end));
    }

    fn send_to_agent(&mut self, message: AgentMessage) {
        if let Some(actor) = self.agents.get(&message.agent) {
            // If the agent's actor has just crashed, the acknowledgement is dropped, which closes the sender's channel.
            let _ = actor.send_message(AgentMsg::Message(message));
        } else if self.driver.machine.effect_of(message.agent).is_some() {
            self.undelivered.push(message);
        } else {
            message.reject(self.arguments.run);
        }
    }

    /// Retries the messages to agents that had no actor before. Called after an agent has started or ended.
    pub(super) fn send_undelivered(&mut self) {
        for message in std::mem::take(&mut self.undelivered) {
            self.send_to_agent(message);
        }
    }

    /// Records that the whole run waits for the user to answer this question or decide about this call.
    pub(super) fn await_user(&mut self, myself: &ActorRef<SupervisorMsg>, effect: EffectId) {
        self.awaited = Some(effect);
        self.check_user_presence(myself);
    }

    /// For a run that is waiting for an absent user, checks whether messages from other processes are
    /// pending. One of these messages may be the awaited answer. Called again whenever such a message has
    /// been accepted or rejected.
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

    /// Tells the machine that the user is absent. Called once no pending message can be the awaited answer.
    pub(super) fn report_user_absent(&mut self) {
        if let Some(effect) = self.awaited.take() {
            // The machine refuses this input if the answer arrived in the meantime.
            let absent = self.driver.machine.user_absent_input(effect);
            self.accept(absent);
        }
    }
}

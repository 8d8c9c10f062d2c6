//! What people say to a run, given to the machine that it is for; and whether anybody is there whom the run could ask.

use dirigent_core::agent::AgentInput;
use dirigent_core::approval::{Decision, DecisionError};
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{AgentId, EffectId, RunId, Scope};
use dirigent_core::machine::Refusal;
use dirigent_core::run::{Run, RunCommand, RunInput};
use dirigent_core::steering::Steering;
use ractor::ActorRef;

use super::{SupervisorMsg, SupervisorState};
use crate::agent_actor::AgentMsg;
use crate::error::RuntimeError;
use crate::orchestrator::{UserPresence, blocking};
use crate::run_mailbox::{Ack, RunMessage, RunMessageBody};

/// Something that is said to an agent.
pub(crate) struct AgentMessage {
    pub(crate) agent: AgentId,
    pub(crate) said: AgentMessageBody,
    pub(crate) ack: Ack,
}

pub(crate) enum AgentMessageBody {
    Guidance(String),
    Decision(EffectId, Decision),
}

impl SupervisorState {
    /// Takes what has waited longest at the mailbox. A run that is ending has nothing more to be told.
    pub(super) fn handle_next_message(&mut self, myself: &ActorRef<SupervisorMsg>) {
        let Some(RunMessage { said, ack }) = self.arguments.mailbox.pop() else {
            return;
        };
        #[cfg(test)]
        #[expect(clippy::panic, reason = "a breakdown on purpose, in tests alone")]
        if let RunMessageBody::Break = said {
            panic!("broken on purpose");
        }
        if self.closing.is_some() {
            let run = self.arguments.run;
            return ack.rejected(RuntimeError::Ended { run });
        }
        match said {
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
            Ok(Route::Agent(agent, said)) => self.send_to_agent(AgentMessage { agent, said, ack }),
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
            // Without an ack where it has just broken down.
            let _ = actor.send_message(AgentMsg::Message(message));
        } else if self.is_at_work(message.agent) {
            self.undelivered.push(message);
        } else {
            message.reject(self.arguments.run);
        }
    }

    /// Agents have come or gone: what was said to one that had no actor yet may be heard now.
    pub(super) fn send_undelivered(&mut self) {
        for message in std::mem::take(&mut self.undelivered) {
            self.send_to_agent(message);
        }
    }

    /// Whether the machine waits for that agent's report.
    fn is_at_work(&self, agent: AgentId) -> bool {
        let going = self.driver.machine.outstanding();
        let mut started = going.iter().filter_map(|command| match command {
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

    /// Only a person can answer that question or decide about that call, and nothing else goes on.
    pub(super) fn await_user(&mut self, myself: &ActorRef<SupervisorMsg>, effect: EffectId) {
        self.awaited = Some(effect);
        self.check_user_presence(myself);
    }

    /// Where nobody is there, what other processes have said comes first: it may be what the run waits for. Called again whenever one
    /// of those messages is settled.
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
            let waiting = blocking(move || Ok(journal.has_pending_messages(run)?)).await;
            let waiting = waiting.unwrap_or_else(|error| {
                tracing::warn!(%run, %error, "whether anything was said to the run is not known");
                false
            });
            // One that was just taken waits no longer, but whoever took it may not have told the run yet.
            let waiting = waiting || mailbox.is_delivering();
            let _ = myself.send_message(SupervisorMsg::InboxChecked { waiting });
        });
    }

    /// Nobody is there, and nothing waits that could be the answer.
    pub(super) fn report_user_absent(&mut self) {
        if let Some(effect) = self.awaited.take() {
            // Refused where the answer has come already.
            self.accept(RunInput::UserAbsent { effect });
        }
    }
}

/// Which machine something that is said is for, as its input.
pub(super) enum Route {
    Run(RunInput),
    Agent(AgentId, AgentMessageBody),
}

/// The machine that it is for, given the run's own.
pub(super) fn route(run: RunId, machine: &Run, steering: Steering) -> Result<Route, RuntimeError> {
    Ok(match steering {
        Steering::Guide { guidance } => Route::Run(RunInput::Guided { guidance }),
        Steering::Redirect { guidance } => Route::Run(RunInput::Redirected { guidance }),
        Steering::GuideAgent { agent, guidance } => Route::Agent(agent, AgentMessageBody::Guidance(guidance)),
        Steering::Decide { effect, decision } => match effect.scope {
            Scope::Run => Route::Run(RunInput::Decided { effect, decision }),
            Scope::Agent(agent) => Route::Agent(agent, AgentMessageBody::Decision(effect, decision)),
        },
        Steering::Answer { effect, answer } => match machine.question() {
            // After a restart the same question is asked again, by its next try.
            Some((asked, question)) if asked.step == effect.step => {
                let chosen = question.choose(&answer);
                let answer = chosen.map_err(|fault| RuntimeError::Answer { run, fault })?;
                let effect = asked;
                Route::Run(RunInput::UserAnswered { effect, answer })
            }
            Some(_) | None => return Err(RuntimeError::NoQuestion { run }),
        },
        Steering::Cancel => Route::Run(RunInput::Cancelled),
    })
}

/// What to tell where the run's machine, which has come to that end by now, does not take it.
pub(super) fn rejected_by_run(run: RunId, refusal: Refusal, end: Option<&EndReason>) -> RuntimeError {
    match (refusal, end) {
        (Refusal::Decision(fault), _) => RuntimeError::Decision { run, fault },
        (Refusal::Answer(fault), _) => RuntimeError::Answer { run, fault },
        (_, Some(_)) => RuntimeError::Ended { run },
        (refusal, None) => {
            let reason = refusal.to_string();
            RuntimeError::MessageRejected { run, reason }
        }
    }
}

impl AgentMessage {
    /// It does not count, as the agent has ended or never was.
    fn reject(self, run: RunId) {
        let error = self.said.undeliverable(run, self.agent);
        self.ack.rejected(error);
    }
}

impl AgentMessageBody {
    /// What to tell where the agent has ended or never was.
    pub(crate) fn undeliverable(&self, run: RunId, agent: AgentId) -> RuntimeError {
        match self {
            AgentMessageBody::Guidance(_) => RuntimeError::NoAgent { run, agent },
            AgentMessageBody::Decision(effect, _) => RuntimeError::Decision {
                run,
                fault: DecisionError::NotPending { effect: *effect },
            },
        }
    }
}

impl From<AgentMessageBody> for AgentInput {
    fn from(said: AgentMessageBody) -> Self {
        match said {
            AgentMessageBody::Guidance(guidance) => AgentInput::Guided { guidance },
            AgentMessageBody::Decision(effect, decision) => AgentInput::Decided { effect, decision },
        }
    }
}

//! What people say to a run, given to the machine that it is for; and whether anybody is there whom the run could ask.

use dirigent_core::agent::AgentInput;
use dirigent_core::approval::{Decision, DecisionFault};
use dirigent_core::id::{AgentId, EffectId, RunId, Scope};
use dirigent_core::machine::Refusal;
use dirigent_core::run::{EndReason, Run, RunCommand, RunInput};
use dirigent_core::steering::Steering;
use ractor::ActorRef;

use super::{SupervisorMsg, SupervisorState};
use crate::agent_actor::AgentMsg;
use crate::door::{Receipt, Said, Word};
use crate::error::RuntimeError;
use crate::orchestrator::{UserPresence, blocking};

/// Something that is said to an agent.
pub(crate) struct AgentWord {
    pub(crate) agent: AgentId,
    pub(crate) said: SaidToAgent,
    pub(crate) receipt: Receipt,
}

pub(crate) enum SaidToAgent {
    Guidance(String),
    Decision(EffectId, Decision),
}

impl SupervisorState {
    /// Takes what has waited longest at the door. A run that is ending has nothing more to be told.
    pub(super) fn hear_next(&mut self, myself: &ActorRef<SupervisorMsg>) {
        let Some(Word { said, receipt }) = self.arguments.door.take() else {
            return;
        };
        #[cfg(test)]
        #[expect(clippy::panic, reason = "a breakdown on purpose, in tests alone")]
        if let Said::Break = said {
            panic!("broken on purpose");
        }
        if self.closing.is_some() {
            let run = self.arguments.run;
            return receipt.refused(RuntimeError::Ended { run });
        }
        match said {
            Said::Steering(steering) => self.steer(steering, receipt),
            Said::Left => self.look_for_user(myself),
            #[cfg(test)]
            Said::Break => {}
            #[cfg(test)]
            Said::BreakAgent(agent) => {
                if let Some(actor) = self.agent(agent) {
                    let _ = actor.send_message(AgentMsg::Break);
                }
            }
        }
    }

    pub(super) fn steer(&mut self, steering: Steering, receipt: Receipt) {
        match addressed(self.arguments.run, &self.driver.machine, steering) {
            Ok(Addressed::Run(input)) => self.take(input, receipt),
            Ok(Addressed::Agent(agent, said)) => self.tell_agent(AgentWord { agent, said, receipt }),
            Err(error) => receipt.refused(error),
        }
    }

    fn take(&mut self, input: RunInput, receipt: Receipt) {
        let Err((refusal, receipt)) = self.accept_from(input, receipt) else {
            return;
        };
        receipt.refused(refused_by_run(
            self.arguments.run,
            refusal,
            self.driver.machine.end(),
        ));
    }

    fn tell_agent(&mut self, word: AgentWord) {
        if let Some(actor) = self.agent(word.agent) {
            // Without a receipt where it has just broken down.
            let _ = actor.send_message(AgentMsg::Told(word));
        } else if self.is_at_work(word.agent) {
            self.unheard.push(word);
        } else {
            word.refuse(self.arguments.run);
        }
    }

    /// Agents have come or gone: what was said to one that had no actor yet may be heard now.
    pub(super) fn tell_agents(&mut self) {
        for word in std::mem::take(&mut self.unheard) {
            self.tell_agent(word);
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
        self.look_for_user(myself);
    }

    /// Where nobody is there, what other processes have said comes first: it may be what the run waits for. Called again whenever one
    /// of those messages is settled.
    pub(super) fn look_for_user(&mut self, myself: &ActorRef<SupervisorMsg>) {
        if self.awaited.is_none() || self.arguments.door.user() == UserPresence::Present {
            return;
        }
        let (myself, run) = (myself.clone(), self.arguments.run);
        let (journal, door) = (
            self.arguments.services.journal.clone(),
            self.arguments.door.clone(),
        );
        self.arguments.tasks.spawn(async move {
            let waiting = blocking(move || Ok(journal.has_messages(run)?)).await;
            let waiting = waiting.unwrap_or_else(|error| {
                tracing::warn!(%run, %error, "whether anything was said to the run is not known");
                false
            });
            // One that was just taken waits no longer, but whoever took it may not have told the run yet.
            let waiting = waiting || door.is_bringing();
            let _ = myself.send_message(SupervisorMsg::LookedIntoInbox { waiting });
        });
    }

    /// Nobody is there, and nothing waits that could be the answer.
    pub(super) fn miss_user(&mut self) {
        if let Some(effect) = self.awaited.take() {
            // Refused where the answer has come already.
            self.accept(RunInput::UserAbsent { effect });
        }
    }
}

/// Which machine something that is said is for, as its input.
pub(super) enum Addressed {
    Run(RunInput),
    Agent(AgentId, SaidToAgent),
}

/// The machine that it is for, given the run's own.
pub(super) fn addressed(run: RunId, machine: &Run, steering: Steering) -> Result<Addressed, RuntimeError> {
    Ok(match steering {
        Steering::Guide { guidance } => Addressed::Run(RunInput::Guided { guidance }),
        Steering::Redirect { guidance } => Addressed::Run(RunInput::Redirected { guidance }),
        Steering::GuideAgent { agent, guidance } => Addressed::Agent(agent, SaidToAgent::Guidance(guidance)),
        Steering::Decide { effect, decision } => match effect.scope {
            Scope::Run => Addressed::Run(RunInput::Decided { effect, decision }),
            Scope::Agent(agent) => Addressed::Agent(agent, SaidToAgent::Decision(effect, decision)),
        },
        Steering::Answer { effect, answer } => match machine.question() {
            // After a restart the same question is asked again, by its next try.
            Some((asked, question)) if asked.step == effect.step => {
                let chosen = question.choose(&answer);
                let answer = chosen.map_err(|fault| RuntimeError::Answer { run, fault })?;
                let effect = asked;
                Addressed::Run(RunInput::UserAnswered { effect, answer })
            }
            Some(_) | None => return Err(RuntimeError::NoQuestion { run }),
        },
        Steering::Cancel => Addressed::Run(RunInput::Cancelled),
    })
}

/// What to tell where the run's machine, which has come to that end by now, does not take it.
pub(super) fn refused_by_run(run: RunId, refusal: Refusal, end: Option<&EndReason>) -> RuntimeError {
    match (refusal, end) {
        (Refusal::Decision(fault), _) => RuntimeError::Decision { run, fault },
        (Refusal::Answer(fault), _) => RuntimeError::Answer { run, fault },
        (_, Some(_)) => RuntimeError::Ended { run },
        (refusal, None) => {
            let reason = refusal.to_string();
            RuntimeError::Refused { run, reason }
        }
    }
}

impl AgentWord {
    /// It does not count, as the agent has ended or never was.
    fn refuse(self, run: RunId) {
        let error = self.said.unheard(run, self.agent);
        self.receipt.refused(error);
    }
}

impl SaidToAgent {
    /// What to tell where the agent has ended or never was.
    pub(crate) fn unheard(&self, run: RunId, agent: AgentId) -> RuntimeError {
        match self {
            SaidToAgent::Guidance(_) => RuntimeError::NoAgent { run, agent },
            SaidToAgent::Decision(effect, _) => RuntimeError::Decision {
                run,
                fault: DecisionFault::NotPending { effect: *effect },
            },
        }
    }
}

impl From<SaidToAgent> for AgentInput {
    fn from(said: SaidToAgent) -> Self {
        match said {
            SaidToAgent::Guidance(guidance) => AgentInput::Guided { guidance },
            SaidToAgent::Decision(effect, decision) => AgentInput::Decided { effect, decision },
        }
    }
}

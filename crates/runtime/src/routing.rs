//! Routing of steering to the machine that handles it.

use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::machine::Refusal;
use dirigent_core::run::{Run, RunInput};
use dirigent_core::steering::Steering;

use crate::agent_message::AgentMessageBody;
use crate::error::RuntimeError;

/// The machine that handles a steering message, with its input.
pub(crate) enum Route {
    Run(RunInput),
    Agent(AgentId, AgentMessageBody),
}

/// Finds the machine for a steering message. `machine` is the run's own.
pub(crate) fn route(run: RunId, machine: &Run, steering: Steering) -> Result<Route, RuntimeError> {
    Ok(match steering {
        Steering::Guide { guidance } => Route::Run(RunInput::Guided { guidance }),
        Steering::Redirect { guidance } => Route::Run(RunInput::Redirected { guidance }),
        Steering::GuideAgent { agent, guidance } => Route::Agent(agent, AgentMessageBody::Guidance(guidance)),
        Steering::Decide { effect, decision } => match effect.scope {
            Scope::Run => Route::Run(RunInput::Decided { effect, decision }),
            Scope::Agent(agent) => Route::Agent(agent, AgentMessageBody::Decision(effect, decision)),
        },
        Steering::Answer { effect, answer } => match machine.question() {
            // After a restart the same question is asked again, with a higher attempt.
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

/// The error for a message that the run's machine refused. `end` is the machine's end, if it has come to one.
pub(crate) fn rejected_by_run(run: RunId, refusal: Refusal, end: Option<&EndReason>) -> RuntimeError {
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

//! Routes the commands of a run's state machines: to another machine of the run as an input, or to the driver as an effect.
//!
//! [`RunCommand::route`] and [`AgentCommand::route`] translate each command. Drivers only deliver the resulting inputs and execute the
//! resulting effects. Delivered inputs are journaled like all others, because only the journal determines their order.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agent::{Agent, AgentCommand, AgentInput, AgentTimer};
use crate::approval::DecisionError;
use crate::brief::{AgentBrief, Continuation};
use crate::end_reason::EndReason;
use crate::id::{AgentId, EffectId, Scope};
use crate::journal::{Entry, Input};
use crate::machine::Refusal;
use crate::question::AnswerError;
use crate::run::{Run, RunCommand, RunInput, RunTimer};
use crate::steering::Steering;
use crate::time::Timestamp;
use crate::user_request::UserRequestKind;

/// An input and the machine that must handle it.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// An input for the run's machine.
    Run(RunInput),
    /// An input for an agent's machine.
    Agent(AgentId, AgentInput),
}

impl TryFrom<Entry> for Delivery {
    type Error = Refusal;

    /// Converts a journal entry to its input and the machine of its scope.
    ///
    /// # Errors
    /// [`Refusal::InvalidState`] if the scope is the run but the input is for an agent, or vice versa.
    fn try_from(entry: Entry) -> Result<Self, Refusal> {
        match (entry.scope, entry.input) {
            (Scope::Run, Input::Run(input)) => Ok(Delivery::Run(input)),
            (Scope::Agent(agent), Input::Agent(input)) => Ok(Delivery::Agent(agent, input)),
            (scope @ (Scope::Run | Scope::Agent(_)), input) => Err(Refusal::InvalidState {
                input: input.description(),
                state: format!("the scope of its journal entry is {scope}"),
            }),
        }
    }
}

/// The destination of a command. `E` is the type of the effects.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a route is matched immediately and never stored"
)]
pub enum Route<E> {
    /// The command becomes an input of another machine.
    Deliver(Delivery),
    /// The command becomes an effect, which the driver executes.
    Effect(E),
    /// Only watchers of the run see the command.
    Watchers,
}

/// An effect that [`Run`] requests from its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEffect {
    /// Start or resume an agent with the input that [`start_agent`] returns.
    StartAgent {
        /// The id that the agent's report must carry.
        effect: EffectId,
        /// The agent's role and task.
        brief: Arc<AgentBrief>,
        /// The run's message to a lead that continues; `None` for a first start.
        continuation: Option<Arc<Continuation>>,
    },
    /// Journal the start of the call that [`Run::running_call`] returns, then run it.
    RunTool {
        /// The call's id.
        effect: EffectId,
    },
    /// Stop a call whose result no longer matters.
    StopTool {
        /// The call's id.
        effect: EffectId,
    },
    /// Read the run's net diff, and send [`RunInput::DiffRead`].
    ReadDiff {
        /// The id that the diff must carry.
        effect: EffectId,
    },
    /// Wait for the user's answer or decision. If no user is available, the driver sends [`RunInput::UserAbsent`].
    AwaitUser {
        /// The id of the question or the call.
        effect: EffectId,
    },
    /// Set a timer, replacing any earlier setting of the same timer.
    SetTimer {
        /// The timer to set.
        timer: RunTimer,
        /// When the timer expires.
        at: Timestamp,
    },
    /// End the run and stop all running work. For [`EndReason::UserRequired`], only pause the run until it is resumed.
    Finish {
        /// Why the run ends.
        reason: EndReason,
    },
}

/// An effect that [`Agent`] requests from its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEffect {
    /// Send the request that [`Agent::request`] returns to the model.
    AskModel {
        /// The id that the reply must carry.
        effect: EffectId,
    },
    /// Journal the start of the call that [`Agent::running_call`] returns, then run it.
    RunTool {
        /// The call's id.
        effect: EffectId,
    },
    /// Give a running call the user's answer to its question.
    AnswerTool {
        /// The call's id.
        effect: EffectId,
        /// The answer; `None` if there is none.
        answer: Option<String>,
    },
    /// Cancel the running request or call. Its completion is refused as stale.
    Stop,
    /// Set a timer, replacing any earlier setting of the same timer.
    SetTimer {
        /// The timer to set.
        timer: AgentTimer,
        /// When the timer expires.
        at: Timestamp,
    },
}

impl RunCommand {
    /// Returns the destination of the command.
    pub fn route(self) -> Route<RunEffect> {
        match self {
            RunCommand::StopAgent { agent } => Route::Deliver(Delivery::Agent(agent, AgentInput::Cancelled)),
            RunCommand::ReturnFindings { effect, result } => match effect.scope {
                Scope::Agent(agent) => {
                    let input = AgentInput::ToolFinished { effect, result };
                    Route::Deliver(Delivery::Agent(agent, input))
                }
                // Only agents delegate.
                Scope::Run => Route::Watchers,
            },
            RunCommand::StartAgent {
                effect,
                brief,
                continuation,
            } => Route::Effect(RunEffect::StartAgent {
                effect,
                brief,
                continuation,
            }),
            RunCommand::GuideLead {
                agent,
                number,
                guidance,
            } => Route::Deliver(Delivery::Agent(agent, AgentInput::RunGuided { number, guidance })),
            RunCommand::RedirectLead {
                agent,
                number,
                guidance,
            } => Route::Deliver(Delivery::Agent(
                agent,
                AgentInput::Redirected { number, guidance },
            )),
            RunCommand::GuideAgent { agent, guidance } => {
                Route::Deliver(Delivery::Agent(agent, AgentInput::Guided { guidance }))
            }
            RunCommand::AllowCalls { agent, number, calls } => {
                Route::Deliver(Delivery::Agent(agent, AgentInput::CallsAllowed { number, calls }))
            }
            RunCommand::ChangeTools {
                agent,
                number,
                change,
            } => Route::Deliver(Delivery::Agent(
                agent,
                AgentInput::ToolsChanged { number, change },
            )),
            RunCommand::RunTool { effect, .. } => Route::Effect(RunEffect::RunTool { effect }),
            RunCommand::StopTool { effect } => Route::Effect(RunEffect::StopTool { effect }),
            RunCommand::ReadDiff { effect } => Route::Effect(RunEffect::ReadDiff { effect }),
            RunCommand::AskUser { effect, .. } | RunCommand::AwaitUser { effect } => {
                Route::Effect(RunEffect::AwaitUser { effect })
            }
            RunCommand::SetTimer { timer, at } => Route::Effect(RunEffect::SetTimer { timer, at }),
            RunCommand::Finish { reason } => Route::Effect(RunEffect::Finish { reason }),
            RunCommand::Announce { .. } | RunCommand::AskApproval { .. } => Route::Watchers,
        }
    }
}

impl AgentCommand {
    /// Returns the destination of the command. `effect` is the effect with which the run started the agent.
    pub fn route(self, effect: EffectId) -> Route<AgentEffect> {
        let input = match self {
            AgentCommand::AskModel { effect } => return Route::Effect(AgentEffect::AskModel { effect }),
            AgentCommand::RunTool { effect, .. } => return Route::Effect(AgentEffect::RunTool { effect }),
            AgentCommand::AnswerTool { effect, answer } => {
                return Route::Effect(AgentEffect::AnswerTool { effect, answer });
            }
            AgentCommand::SetTimer { timer, at } => {
                return Route::Effect(AgentEffect::SetTimer { timer, at });
            }
            AgentCommand::AskApproval {
                approval,
                guidance,
                allowed,
            } => RunInput::CallAwaitsUser {
                effect: approval.effect,
                guidance,
                request: UserRequestKind::Decision,
                allowed,
            },
            AgentCommand::AskUser {
                question,
                guidance,
                allowed,
            } => RunInput::CallAwaitsUser {
                effect: question.effect,
                guidance,
                request: UserRequestKind::Answer,
                allowed,
            },
            AgentCommand::Stop => return Route::Effect(AgentEffect::Stop),
            AgentCommand::GuideRun { effect, guidance } => RunInput::PlanGuided { effect, guidance },
            AgentCommand::BeginActing => RunInput::ActingBegan { effect },
            AgentCommand::CallSettled { effect } => RunInput::CallSettled { effect },
            AgentCommand::Delegate { effect, agent, task } => RunInput::Delegated { effect, agent, task },
            AgentCommand::Finish { report } => RunInput::AgentFinished { effect, report },
        };
        Route::Deliver(Delivery::Run(input))
    }
}

/// The state of a run when a new process resumes it.
#[derive(Clone, Debug, Default)]
pub struct Resumption {
    /// The time of the last journal entry of any machine of the run.
    pub last_seen: Timestamp,
    /// The machines of a fork that have handled only inputs copied from the source run (APPROVE-3). Empty if the run is not a fork.
    pub inherited: BTreeSet<Scope>,
}

/// Returns the input for [`RunEffect::StartAgent`]. `machine` is the agent's machine; `None` if the journal has no entries of the agent.
/// The input starts, continues or resumes the agent or, if the agent has already ended, delivers its report to the run again.
pub fn start_agent(
    machine: Option<&Agent>,
    effect: EffectId,
    brief: &AgentBrief,
    continuation: Option<&Continuation>,
    resumption: &Resumption,
) -> Delivery {
    let agent = brief.agent;
    if let (Some(machine), Some(continuation)) = (machine, continuation)
        && machine.continuations() < continuation.number
    {
        let continuation = continuation.clone();
        return Delivery::Agent(agent, AgentInput::Continued { continuation });
    }
    match machine.map(Agent::report) {
        None => Delivery::Agent(agent, AgentInput::Started { brief: brief.clone() }),
        Some(None) => {
            let input = AgentInput::Resumed {
                last_seen: resumption.last_seen,
                forked: resumption.inherited.contains(&Scope::Agent(agent)),
            };
            Delivery::Agent(agent, input)
        }
        Some(Some(report)) => Delivery::Run(RunInput::AgentFinished {
            effect,
            report: report.clone(),
        }),
    }
}

/// The reason why a message to a run cannot be delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteeringError {
    /// The question is not open.
    #[error(
        "there is no such open question: it was answered, has expired, was withdrawn by guidance, or was never asked"
    )]
    NoQuestion,
    /// The text does not answer the run's question (PAOR-9).
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The agent has ended or never existed.
    #[error("{agent} is not active: it has ended or never existed")]
    NoAgent {
        /// The id of the agent.
        agent: AgentId,
    },
    /// The call does not wait for approval.
    #[error(transparent)]
    Decision(#[from] DecisionError),
}

impl Steering {
    /// Returns the machine that handles the message, and its input.
    ///
    /// # Errors
    /// [`SteeringError::NoQuestion`] or [`SteeringError::Answer`] if the message is an answer that the run does not accept.
    pub fn route(self, run: &Run) -> Result<Delivery, SteeringError> {
        let input = match self {
            Steering::Guide { guidance } => RunInput::Guided { guidance },
            Steering::Redirect { guidance } => RunInput::Redirected { guidance },
            Steering::GuideAgent { agent, guidance } => {
                return Ok(Delivery::Agent(agent, AgentInput::Guided { guidance }));
            }
            Steering::Decide { effect, decision } => match effect.scope {
                Scope::Run => RunInput::Decided { effect, decision },
                Scope::Agent(agent) => {
                    return Ok(Delivery::Agent(agent, AgentInput::Decided { effect, decision }));
                }
            },
            Steering::Answer { effect, answer } => match (effect.scope, run.question()) {
                // The agent's machine checks the answer.
                (Scope::Agent(agent), _) => {
                    return Ok(Delivery::Agent(
                        agent,
                        AgentInput::UserAnswered { effect, answer },
                    ));
                }
                // After a restart, the run asks the same question again with a higher attempt.
                (Scope::Run, Some((asked, question))) if asked.step == effect.step => {
                    RunInput::UserAnswered {
                        effect: asked,
                        answer: question.choose(&answer)?,
                    }
                }
                (Scope::Run, Some(_) | None) => return Err(SteeringError::NoQuestion),
            },
            Steering::AllowCalls { calls } => RunInput::CallsAllowed { calls },
            Steering::ChangeTools { change } => RunInput::ToolsChanged { change },
            Steering::ShareWorkspace { runs } => RunInput::WorkspaceShared { runs },
            Steering::Cancel => RunInput::Cancelled,
        };
        Ok(Delivery::Run(input))
    }
}

impl AgentInput {
    /// Returns the error for a user's message that cannot be delivered because the agent is not active.
    pub fn undeliverable(&self, agent: AgentId) -> SteeringError {
        match self {
            AgentInput::Decided { effect, .. } => DecisionError::NotPending { effect: *effect }.into(),
            AgentInput::UserAnswered { .. } => SteeringError::NoQuestion,
            AgentInput::Started { .. }
            | AgentInput::ModelReplied { .. }
            | AgentInput::ModelFailed { .. }
            | AgentInput::OverBudget { .. }
            | AgentInput::ToolStarted { .. }
            | AgentInput::ToolAsked { .. }
            | AgentInput::QuestionWithdrawn { .. }
            | AgentInput::ToolFinished { .. }
            | AgentInput::Guided { .. }
            | AgentInput::RunGuided { .. }
            | AgentInput::Redirected { .. }
            | AgentInput::CallsAllowed { .. }
            | AgentInput::ToolsChanged { .. }
            | AgentInput::Continued { .. }
            | AgentInput::TimerFired { .. }
            | AgentInput::Resumed { .. }
            | AgentInput::Cancelled => SteeringError::NoAgent { agent },
        }
    }
}

//! The actor of one agent: owns the agent's machine, sends its model requests and runs its tool calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentCommand, AgentInput, AgentTimer};
use dirigent_core::agent_report::{AgentFailure, AgentReport};
use dirigent_core::brief::AgentBrief;
use dirigent_core::budget::{BudgetExceeded, ExpectedUsage};
use dirigent_core::call::CallForm;
use dirigent_core::id::{EffectId, Scope};
use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, ToolResult};
use dirigent_model::{ChatRequest, DeltaSink, ReplyFormat};
use dirigent_store::StoreError;
use dirigent_tools::ToolContext;
use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef};
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::agent_message::AgentMessage;
use crate::deltas::Delta;
use crate::driver::Driver;
use crate::effects;
use crate::run_resources::RunResources;

pub(crate) struct AgentActor;

pub(crate) struct AgentArguments {
    pub(crate) resources: RunResources,
    pub(crate) supervisor: DerivedActorRef<AgentEvent>,
    /// The effect that the agent's report answers.
    pub(crate) effect: EffectId,
    pub(crate) brief: Arc<AgentBrief>,
    /// The agent's machine after its journal entries; `None` for a new agent.
    pub(crate) replayed: Option<Agent>,
    /// Set if the agent has no entries of its own, only those of the run that this one was forked from.
    pub(crate) forked: bool,
    /// The time of the last input of any of the run's machines before this process.
    pub(crate) last_seen: Timestamp,
}

/// An agent's message to its run.
#[derive(Debug)]
pub(crate) enum AgentEvent {
    Ended {
        effect: EffectId,
        report: AgentReport,
    },
    /// A call of the agent waits for an approval.
    ApprovalAsked(EffectId),
    /// The call no longer waits.
    ApprovalSettled(EffectId),
    /// The agent delegates a task to another agent.
    Delegated {
        effect: EffectId,
        agent: String,
        task: String,
    },
    JournalFailed(StoreError),
}

pub(crate) enum AgentMsg {
    /// Starts the machine, or resumes it if it has inputs.
    Start {
        last_seen: Timestamp,
        forked: bool,
    },
    Stored(Result<(), StoreError>),
    ModelEnded {
        effect: EffectId,
        result: Result<ModelReply, ModelFailure>,
    },
    /// The request does not fit the run's budget.
    OverBudget {
        effect: EffectId,
        budget_exceeded: BudgetExceeded,
    },
    ToolEnded {
        effect: EffectId,
        result: ToolResult,
    },
    TimerFired(AgentTimer),
    /// A message of the user.
    Message(AgentMessage),
    /// The run no longer needs the agent's answer.
    Stop,
    #[cfg(test)]
    Break,
}

pub(crate) struct AgentState {
    driver: Driver<Agent>,
    resources: RunResources,
    supervisor: DerivedActorRef<AgentEvent>,
    effect: EffectId,
    brief: Arc<AgentBrief>,
    cancel: CancellationToken,
    timers: BTreeMap<AgentTimer, AbortHandle>,
    _stop_tasks: DropGuard,
}

impl Actor for AgentActor {
    type Msg = AgentMsg;
    type State = AgentState;
    type Arguments = AgentArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<AgentMsg>,
        arguments: AgentArguments,
    ) -> Result<AgentState, ActorProcessingErr> {
        let AgentArguments {
            resources,
            supervisor,
            effect,
            brief,
            replayed,
            forked,
            last_seen,
        } = arguments;
        let cancel = resources.cancel.child_token();
        let machine = replayed.unwrap_or_else(|| Agent::new(brief.agent, resources.context.clone()));
        let actor = myself.clone();
        let notify = Arc::new(move |stored| {
            // The actor may be gone.
            let _ = actor.send_message(AgentMsg::Stored(stored));
        });
        let journal = resources.services.journal.clone();
        let driver = Driver::new(
            machine,
            resources.run,
            Scope::Agent(brief.agent),
            journal,
            resources.claim.clone(),
            notify,
        );
        let _ = myself.send_message(AgentMsg::Start { last_seen, forked });
        Ok(AgentState {
            driver,
            resources,
            supervisor,
            effect,
            brief,
            _stop_tasks: cancel.clone().drop_guard(),
            cancel,
            timers: BTreeMap::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<AgentMsg>,
        message: AgentMsg,
        state: &mut AgentState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            AgentMsg::Start { last_seen, forked } => state.start(&myself, last_seen, forked),
            AgentMsg::Stored(Ok(())) => state.stored(&myself),
            AgentMsg::Stored(Err(error)) => state.send_to_run(AgentEvent::JournalFailed(error)),
            AgentMsg::ModelEnded { effect, result } => state.accept(match result {
                Ok(reply) => AgentInput::ModelReplied { effect, reply },
                Err(failure) => AgentInput::ModelFailed { effect, failure },
            }),
            AgentMsg::OverBudget {
                effect,
                budget_exceeded,
            } => state.accept(AgentInput::OverBudget {
                effect,
                budget_exceeded,
            }),
            AgentMsg::ToolEnded { effect, result } => {
                state.accept(AgentInput::ToolFinished { effect, result })
            }
            AgentMsg::TimerFired(timer) => state.accept(AgentInput::TimerFired { timer }),
            AgentMsg::Message(message) => state.handle_message(message),
            AgentMsg::Stop => state.accept(AgentInput::Cancelled),
            #[cfg(test)]
            #[expect(clippy::panic, reason = "a deliberate crash, in tests only")]
            AgentMsg::Break => panic!("broken on purpose"),
        }
        Ok(())
    }
}

impl AgentState {
    /// Starts the machine, or resumes it if it has inputs.
    fn start(&mut self, myself: &ActorRef<AgentMsg>, last_seen: Timestamp, forked: bool) {
        let machine = &self.driver.machine;
        if machine.spec().is_none() {
            let brief = AgentBrief::clone(&self.brief);
            self.accept(AgentInput::Started { brief });
        } else if machine.report().is_some() {
            for command in machine.outstanding() {
                self.dispatch(myself, command);
            }
        } else {
            self.accept(AgentInput::Resumed { last_seen, forked });
        }
    }

    /// Executes the commands of a stored input, then acknowledges it.
    fn stored(&mut self, myself: &ActorRef<AgentMsg>) {
        let Some(stored) = self.driver.stored() else {
            return;
        };
        for command in stored.commands {
            self.dispatch(myself, command);
        }
        if let Some(effect) = stored.started {
            self.run_tool(myself, effect);
        }
        stored.ack.accepted();
    }

    fn accept(&mut self, input: AgentInput) {
        let (now, name) = (self.resources.services.clock.now(), input.name());
        if let Err(refusal) = self.driver.accept(now, input) {
            // A completion that came too late, or a timer that was postponed.
            tracing::debug!(run = %self.resources.run, agent = %self.brief.agent, input = name, %refusal, "input dropped");
        }
    }

    /// Handles a message of the user. An agent that has ended rejects it.
    fn handle_message(&mut self, message: AgentMessage) {
        let AgentMessage { agent, body, ack } = message;
        let (now, run) = (self.resources.services.clock.now(), self.resources.run);
        let undeliverable = body.undeliverable(run, agent);
        if let Err((refusal, ack)) = self.driver.accept_with_ack(now, body.into(), ack) {
            ack.rejected(undeliverable.or_refusal(run, refusal));
        }
    }

    fn dispatch(&mut self, myself: &ActorRef<AgentMsg>, command: AgentCommand) {
        match command {
            AgentCommand::AskModel { effect } => self.ask_model(myself, effect),
            // The call runs once its start, which the driver has queued, is stored.
            AgentCommand::RunTool { .. } => {}
            AgentCommand::SetTimer { timer, at } => self.set_timer(myself, timer, at),
            AgentCommand::AskApproval { approval } => {
                self.send_to_run(AgentEvent::ApprovalAsked(approval.effect));
            }
            AgentCommand::ApprovalSettled { effect } => {
                self.send_to_run(AgentEvent::ApprovalSettled(effect));
            }
            AgentCommand::Delegate { effect, agent, task } => {
                self.send_to_run(AgentEvent::Delegated { effect, agent, task });
            }
            AgentCommand::Finish { report } => self.finish(report),
        }
    }

    fn send_to_run(&self, event: AgentEvent) {
        // A supervisor that is gone takes its agents with it.
        let _ = self.supervisor.send_message(event);
    }

    fn set_timer(&mut self, myself: &ActorRef<AgentMsg>, timer: AgentTimer, at: Timestamp) {
        let (myself, when) = (myself.clone(), self.resources.services.clock.instant(at));
        let cancel = self.cancel.clone();
        let task = self.resources.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep_until(when) => {
                    let _ = myself.send_message(AgentMsg::TimerFired(timer));
                }
                () = cancel.cancelled() => {}
            }
        });
        if let Some(earlier) = self.timers.insert(timer, task.abort_handle()) {
            earlier.abort();
        }
    }

    fn ask_model(&self, myself: &ActorRef<AgentMsg>, effect: EffectId) {
        let Some((request, expected)) = self.request() else {
            return;
        };
        let (myself, cancel, budget) = (myself.clone(), self.cancel.clone(), self.resources.budget.clone());
        let model = self.resources.services.model.clone();
        self.resources.tasks.spawn(async move {
            let ask = async {
                let permit = match budget.reserve(&expected).await {
                    Ok(permit) => permit,
                    Err(budget_exceeded) => {
                        return AgentMsg::OverBudget {
                            effect,
                            budget_exceeded,
                        };
                    }
                };
                let request = permit.limit_request(request);
                // The request shares the conversation, and is dropped before the reply is processed.
                let result = permit.track(effects::ask_model(model, request)).await;
                AgentMsg::ModelEnded { effect, result }
            };
            tokio::select! {
                ended = ask => {
                    let _ = myself.send_message(ended);
                }
                () = cancel.cancelled() => {}
            }
        });
    }

    /// Builds the machine's current request and estimates its usage; `None` before the machine has started.
    fn request(&self) -> Option<(ChatRequest, ExpectedUsage)> {
        let machine = &self.driver.machine;
        let spec = machine.spec()?;
        let profile = &spec.profile;
        let mut request = ChatRequest::new(machine.request().clone())
            .model(spec.model.clone())
            .call_form(profile.calls);
        match profile.calls {
            CallForm::Native => request = request.tools(machine.offered()),
            CallForm::JsonSchema if !machine.is_summarising() => {
                request = request.format(ReplyFormat::JsonSchema {
                    name: "reply".to_owned(),
                    schema: machine.context().reply_schema(&self.brief),
                });
            }
            CallForm::Json | CallForm::JsonSchema | CallForm::ToolCall | CallForm::Auto => {}
        }
        if let Some(listeners) = self.resources.listeners.sender() {
            let (agent, turn) = (machine.id(), machine.turns());
            request = request.deltas(DeltaSink::new(move |text| {
                let text = text.into();
                // The listeners may be gone.
                let _ = listeners.send(Delta { agent, turn, text });
            }));
        }
        let expected = ExpectedUsage {
            model: spec.model.clone(),
            size: machine.request_size(),
            max_output_tokens: profile.max_output_tokens,
            price: profile.price,
        };
        Some((request, expected))
    }

    /// Runs a call whose start is recorded, unless the machine no longer waits for it.
    fn run_tool(&self, myself: &ActorRef<AgentMsg>, effect: EffectId) {
        let Some(call) = self.driver.machine.running_call(effect).cloned() else {
            return;
        };
        let access = self
            .driver
            .machine
            .spec()
            .map_or(Access::ReadOnly, |spec| spec.access);
        let context = ToolContext {
            seen: Some(self.driver.machine.seen().clone()),
            ..self
                .resources
                .tool_context(effect, access, self.cancel.child_token())
        };
        let (myself, tools) = (myself.clone(), self.resources.services.tools.clone());
        self.resources.tasks.spawn(async move {
            let result = effects::run_tool(tools, context, call).await;
            let _ = myself.send_message(AgentMsg::ToolEnded { effect, result });
        });
    }

    fn finish(&mut self, report: AgentReport) {
        self.cancel.cancel();
        if let Err(failure @ (AgentFailure::TurnLimit { .. } | AgentFailure::TimeLimit { .. })) =
            &report.result
        {
            tracing::warn!(run = %self.resources.run, agent = %self.brief.agent, "{failure}");
        }
        // The supervisor stops this actor once it has the report.
        self.send_to_run(AgentEvent::Ended {
            effect: self.effect,
            report,
        });
    }
}

//! The actor of one agent: it owns the agent's machine, asks the model and runs the tools.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use dirigent_core::agent::{Agent, AgentCommand, AgentInput, AgentTimer};
use dirigent_core::agent_report::{AgentFailure, AgentReport};
use dirigent_core::brief::AgentBrief;
use dirigent_core::budget::{BudgetExceeded, ExpectedUsage};
use dirigent_core::call::CallForm;
use dirigent_core::id::{EffectId, RunId, Scope};
use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_core::run_context::RunContext;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, ToolResult};
use dirigent_model::{ChatRequest, DeltaSink, ReplyFormat};
use dirigent_store::{RunClaim, StoreError};
use dirigent_tools::ToolContext;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::content_recorder::ContentRecorder;
use crate::deltas::{Delta, Listeners};
use crate::driver::Driver;
use crate::effects;
use crate::orchestrator::Services;
use crate::shared_budget::SharedBudget;
use crate::supervisor::{AgentMessage, SupervisorMsg};

pub(crate) struct AgentActor;

/// What the run gives each of its agents.
#[derive(Clone)]
pub(crate) struct RunResources {
    pub(crate) run: RunId,
    pub(crate) context: Arc<RunContext>,
    pub(crate) services: Arc<Services>,
    pub(crate) claim: Weak<RunClaim>,
    pub(crate) cancel: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) budget: Arc<SharedBudget>,
    pub(crate) listeners: Listeners,
}

pub(crate) struct AgentArguments {
    pub(crate) resources: RunResources,
    pub(crate) supervisor: ActorRef<SupervisorMsg>,
    /// Which start the report answers.
    pub(crate) effect: EffectId,
    pub(crate) brief: Arc<AgentBrief>,
    /// Its machine as its journal leaves it, where it goes on.
    pub(crate) replayed: Option<Agent>,
    /// Whether its run was forked off another, and all of that past is the other one's.
    pub(crate) forked: bool,
    /// When the run's last input before this process came, whichever machine's.
    pub(crate) last_seen: Timestamp,
}

pub(crate) enum AgentMsg {
    /// It starts or, where its machine has taken inputs, goes on; with when the run's last input before this process came.
    Start {
        last_seen: Timestamp,
        forked: bool,
    },
    Stored(Result<(), StoreError>),
    ModelEnded {
        effect: EffectId,
        result: Result<ModelReply, ModelFailure>,
    },
    /// There was no room for the request in the run's budget.
    OverBudget {
        effect: EffectId,
        budget_exceeded: BudgetExceeded,
    },
    ToolEnded {
        effect: EffectId,
        result: ToolResult,
    },
    TimerFired(AgentTimer),
    /// What the user has to say to it.
    Message(AgentMessage),
    /// The run wants no answer any more.
    Stop,
    #[cfg(test)]
    Break,
}

pub(crate) struct AgentState {
    driver: Driver<Agent>,
    resources: RunResources,
    supervisor: ActorRef<SupervisorMsg>,
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
            // An actor that is gone needs no word.
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
            AgentMsg::Start { last_seen, forked } => state.begin(&myself, last_seen, forked),
            AgentMsg::Stored(Ok(())) => state.stored(&myself),
            AgentMsg::Stored(Err(error)) => {
                let _ = state.supervisor.send_message(SupervisorMsg::JournalFailed(error));
            }
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
            #[expect(clippy::panic, reason = "a breakdown on purpose, in tests alone")]
            AgentMsg::Break => panic!("broken on purpose"),
        }
        Ok(())
    }
}

impl AgentState {
    /// Starts, or goes on where the machine is.
    fn begin(&mut self, myself: &ActorRef<AgentMsg>, last_seen: Timestamp, forked: bool) {
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

    /// The run is told what follows before whoever said it is told that it counts.
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
            // A completion that came too late, or a timer that was put off.
            tracing::debug!(run = %self.resources.run, agent = %self.brief.agent, input = name, %refusal, "input dropped");
        }
    }

    /// What a person says to it. One that has ended by itself does not hear it.
    fn handle_message(&mut self, message: AgentMessage) {
        let AgentMessage { agent, said, ack } = message;
        let (now, run) = (self.resources.services.clock.now(), self.resources.run);
        let undelivered = said.undeliverable(run, agent);
        if let Err((refusal, ack)) = self.driver.accept_with_ack(now, said.into(), ack) {
            ack.rejected(undelivered.or_decision(run, refusal));
        }
    }

    fn dispatch(&mut self, myself: &ActorRef<AgentMsg>, command: AgentCommand) {
        match command {
            AgentCommand::AskModel { effect } => self.ask_model(myself, effect),
            // It runs once its start, which the driver has queued, is stored.
            AgentCommand::RunTool { .. } => {}
            AgentCommand::SetTimer { timer, at } => self.set_timer(myself, timer, at),
            AgentCommand::AskApproval { approval } => {
                self.send_to_run(SupervisorMsg::ApprovalAsked(approval.effect));
            }
            AgentCommand::ApprovalSettled { effect } => {
                self.send_to_run(SupervisorMsg::ApprovalSettled(effect));
            }
            AgentCommand::Delegate { effect, agent, task } => {
                self.send_to_run(SupervisorMsg::Delegated { effect, agent, task });
            }
            AgentCommand::Finish { report } => self.finish(report),
        }
    }

    fn send_to_run(&self, message: SupervisorMsg) {
        // A supervisor that is gone takes its agents with it.
        let _ = self.supervisor.send_message(message);
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
                // The request shares the conversation; it is gone before the reply is read.
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

    /// The present request of the machine, and what it is expected to use. None before the machine has started.
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
                // Nobody may be listening any more.
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

    /// Runs a call whose start is on record, unless it is no longer waited for.
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
        // The supervisor ends this actor once it has the report.
        self.send_to_run(SupervisorMsg::AgentEnded {
            effect: self.effect,
            report,
        });
    }
}

impl RunResources {
    pub(crate) fn tool_context(
        &self,
        effect: EffectId,
        access: Access,
        cancel: CancellationToken,
    ) -> ToolContext {
        ToolContext {
            workspace: std::path::PathBuf::from(&self.context.spec().workspace),
            access,
            run: self.run,
            effect,
            seen: None,
            content_store: Some(Arc::new(ContentRecorder::new(
                &self.services.journal,
                self.run,
                effect,
            ))),
            cancel,
        }
    }
}

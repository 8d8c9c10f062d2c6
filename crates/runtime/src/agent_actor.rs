//! The actor of one agent: it owns the agent's machine, asks the model and runs the tools.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use dirigent_core::agent::{
    Agent, AgentBrief, AgentCommand, AgentFailure, AgentInput, AgentReport, AgentTimer,
};
use dirigent_core::budget::{Expected, Overdrawn};
use dirigent_core::call::CallForm;
use dirigent_core::id::{EffectId, RunId, Scope};
use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_core::spec::RunContext;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, ToolResult};
use dirigent_model::{ChatRequest, Deltas, ReplyFormat};
use dirigent_store::{RunClaim, StoreError};
use dirigent_tools::ToolContext;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::deltas::{Delta, Listeners};
use crate::driver::Driver;
use crate::effects;
use crate::keeper::Keeper;
use crate::orchestrator::Services;
use crate::purse::Purse;
use crate::supervisor::{AgentWord, SupervisorMsg};

pub(crate) struct AgentActor;

/// What the run gives each of its agents.
#[derive(Clone)]
pub(crate) struct RunShare {
    pub(crate) run: RunId,
    pub(crate) context: Arc<RunContext>,
    pub(crate) services: Arc<Services>,
    pub(crate) claim: Weak<RunClaim>,
    pub(crate) cancel: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) purse: Arc<Purse>,
    pub(crate) listeners: Listeners,
}

pub(crate) struct AgentArguments {
    pub(crate) share: RunShare,
    pub(crate) supervisor: ActorRef<SupervisorMsg>,
    /// Which start the report answers.
    pub(crate) effect: EffectId,
    pub(crate) brief: Arc<AgentBrief>,
    /// Its machine as its journal leaves it, where it goes on.
    pub(crate) past: Option<Agent>,
    /// Whether its run was forked off another, and all of that past is the other one's.
    pub(crate) forked: bool,
    /// When the run's last input before this process came, whichever machine's.
    pub(crate) last_seen: Timestamp,
}

pub(crate) enum AgentMsg {
    /// It starts or, where its machine has taken inputs, goes on; with when the run's last input before this process came.
    Begin {
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
        overdrawn: Overdrawn,
    },
    ToolEnded {
        effect: EffectId,
        result: ToolResult,
    },
    TimerFired(AgentTimer),
    /// What the user has to say to it.
    Told(AgentWord),
    /// The run wants no answer any more.
    Stop,
    #[cfg(test)]
    Break,
}

pub(crate) struct AgentState {
    driver: Driver<Agent>,
    share: RunShare,
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
            share,
            supervisor,
            effect,
            brief,
            past,
            forked,
            last_seen,
        } = arguments;
        let cancel = share.cancel.child_token();
        let machine = past.unwrap_or_else(|| Agent::new(brief.agent, share.context.clone()));
        let actor = myself.clone();
        let notify = Arc::new(move |stored| {
            // An actor that is gone needs no word.
            let _ = actor.send_message(AgentMsg::Stored(stored));
        });
        let journal = share.services.journal.clone();
        let driver = Driver::new(
            machine,
            share.run,
            Scope::Agent(brief.agent),
            journal,
            share.claim.clone(),
            notify,
        );
        let _ = myself.send_message(AgentMsg::Begin { last_seen, forked });
        Ok(AgentState {
            driver,
            share,
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
            AgentMsg::Begin { last_seen, forked } => state.begin(&myself, last_seen, forked),
            AgentMsg::Stored(Ok(())) => state.stored(&myself),
            AgentMsg::Stored(Err(error)) => {
                let _ = state.supervisor.send_message(SupervisorMsg::JournalFailed(error));
            }
            AgentMsg::ModelEnded { effect, result } => state.accept(match result {
                Ok(reply) => AgentInput::ModelReplied { effect, reply },
                Err(failure) => AgentInput::ModelFailed { effect, failure },
            }),
            AgentMsg::OverBudget { effect, overdrawn } => {
                state.accept(AgentInput::OverBudget { effect, overdrawn })
            }
            AgentMsg::ToolEnded { effect, result } => {
                state.accept(AgentInput::ToolFinished { effect, result })
            }
            AgentMsg::TimerFired(timer) => state.accept(AgentInput::TimerFired { timer }),
            AgentMsg::Told(word) => state.hear(word),
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
                self.carry_out(myself, command);
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
            self.carry_out(myself, command);
        }
        if let Some(effect) = stored.started {
            self.run_tool(myself, effect);
        }
        stored.receipt.taken();
    }

    fn accept(&mut self, input: AgentInput) {
        let (now, name) = (self.share.services.clock.now(), input.name());
        if let Err(refusal) = self.driver.accept(now, input) {
            // A completion that came too late, or a timer that was put off.
            tracing::debug!(run = %self.share.run, agent = %self.brief.agent, input = name, %refusal, "input dropped");
        }
    }

    /// What a person says to it. One that has ended by itself does not hear it.
    fn hear(&mut self, word: AgentWord) {
        let AgentWord { agent, said, receipt } = word;
        let (now, run) = (self.share.services.clock.now(), self.share.run);
        let unheard = said.unheard(run, agent);
        if let Err((refusal, receipt)) = self.driver.accept_from(now, said.into(), receipt) {
            receipt.refused(unheard.or_decision(run, refusal));
        }
    }

    fn carry_out(&mut self, myself: &ActorRef<AgentMsg>, command: AgentCommand) {
        match command {
            AgentCommand::AskModel { effect } => self.ask_model(myself, effect),
            // It runs once its start, which the driver has queued, is stored.
            AgentCommand::RunTool { .. } => {}
            AgentCommand::SetTimer { timer, at } => self.set_timer(myself, timer, at),
            AgentCommand::AskApproval { approval } => {
                self.tell_run(SupervisorMsg::ApprovalAsked(approval.effect));
            }
            AgentCommand::ApprovalSettled { effect } => {
                self.tell_run(SupervisorMsg::ApprovalSettled(effect));
            }
            AgentCommand::Delegate { effect, agent, task } => {
                self.tell_run(SupervisorMsg::Delegated { effect, agent, task });
            }
            AgentCommand::Finish { report } => self.finish(report),
        }
    }

    fn tell_run(&self, message: SupervisorMsg) {
        // A supervisor that is gone takes its agents with it.
        let _ = self.supervisor.send_message(message);
    }

    fn set_timer(&mut self, myself: &ActorRef<AgentMsg>, timer: AgentTimer, at: Timestamp) {
        let (myself, when) = (myself.clone(), self.share.services.clock.instant(at));
        let cancel = self.cancel.clone();
        let task = self.share.tasks.spawn(async move {
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
        let (myself, cancel, purse) = (myself.clone(), self.cancel.clone(), self.share.purse.clone());
        let model = self.share.services.model.clone();
        self.share.tasks.spawn(async move {
            let ask = async {
                let leave = match purse.reserve(&expected).await {
                    Ok(leave) => leave,
                    Err(overdrawn) => return AgentMsg::OverBudget { effect, overdrawn },
                };
                let request = leave.bound(request);
                // The request shares the conversation; it is gone before the reply is read.
                let result = leave.spend(effects::ask_model(model, request)).await;
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
    fn request(&self) -> Option<(ChatRequest, Expected)> {
        let machine = &self.driver.machine;
        let spec = machine.spec()?;
        let profile = &spec.profile;
        let mut request = ChatRequest::new(machine.request().clone())
            .model(spec.model.clone())
            .calls(profile.calls);
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
        if let Some(listeners) = self.share.listeners.sender() {
            let (agent, turn) = (machine.id(), machine.turns());
            request = request.deltas(Deltas::new(move |text| {
                let text = text.into();
                // Nobody may be listening any more.
                let _ = listeners.send(Delta { agent, turn, text });
            }));
        }
        let expected = Expected {
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
            ..self.share.tool_context(effect, access, self.cancel.child_token())
        };
        let (myself, tools) = (myself.clone(), self.share.services.tools.clone());
        self.share.tasks.spawn(async move {
            let result = effects::run_tool(tools, context, call).await;
            let _ = myself.send_message(AgentMsg::ToolEnded { effect, result });
        });
    }

    fn finish(&mut self, report: AgentReport) {
        self.cancel.cancel();
        if let Err(failure @ (AgentFailure::TurnLimit { .. } | AgentFailure::TimeLimit { .. })) =
            &report.result
        {
            tracing::warn!(run = %self.share.run, agent = %self.brief.agent, "{failure}");
        }
        // The supervisor ends this actor once it has the report.
        self.tell_run(SupervisorMsg::AgentEnded {
            effect: self.effect,
            report,
        });
    }
}

impl RunShare {
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
            contents: Some(Arc::new(Keeper::new(&self.services.journal, self.run, effect))),
            cancel,
        }
    }
}

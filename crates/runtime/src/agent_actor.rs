//! The actor of one agent: owns the agent's state machine, sends its model requests and runs its tool calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dirigent_core::agent::{Agent, AgentCommand, AgentInput, AgentTimer};
use dirigent_core::agent_report::{AgentFailure, AgentReport};
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::budget::ExpectedUsage;
use dirigent_core::call::CallForm;
use dirigent_core::id::{EffectId, Scope};
use dirigent_core::question::Question;
use dirigent_core::route::{AgentEffect, Delivery, Route};
use dirigent_core::run::RunInput;
use dirigent_core::time::Timestamp;
use dirigent_model::{ChatRequest, DeltaSink, ReplyFormat};
use dirigent_tools::{AskUser, ToolContext};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Span;

use crate::agent_message::AgentMessage;
use crate::deltas::Delta;
use crate::driver::Driver;
use crate::effects;
use crate::error::RuntimeError;
use crate::run_log::RunLogError;
use crate::run_resources::RunResources;
use crate::spans;
use crate::user_presence::UserPresence;

pub(crate) struct AgentActor;

pub(crate) struct AgentArguments {
    pub(crate) resources: RunResources,
    pub(crate) supervisor: DerivedActorRef<AgentEvent>,
    /// The run's effect that this agent's report completes.
    pub(crate) effect: EffectId,
    pub(crate) brief: Arc<AgentBrief>,
    /// The agent's machine, and the input that resumes or continues it; `None` for a new agent.
    pub(crate) resumed: Option<(Agent, AgentInput)>,
    pub(crate) span: Span,
}

/// An agent's message to its run.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the small variant is sent at most once by an agent"
)]
pub(crate) enum AgentEvent {
    /// An input for the run's machine, caused by a command of the agent's machine.
    Deliver(RunInput),
    /// The lead has reported. The run may continue the lead with this machine.
    LeadEnded(Box<Agent>),
    JournalFailed(RunLogError),
}

/// The channel on which a tool waits for the answer to its question. Dropping it means that there is no answer.
type AnswerSender = oneshot::Sender<Option<String>>;

pub(crate) enum AgentMsg {
    /// An input for the machine: the result of an effect, or an input that the run's machine caused.
    Input(AgentInput),
    Stored(Result<(), RunLogError>),
    /// A message from the user.
    Message(AgentMessage),
    /// A tool's question to the user during its call.
    ToolAsked {
        effect: EffectId,
        question: Question,
        answer: AnswerSender,
    },
}

/// Asks the user on behalf of a call.
#[derive(Debug)]
struct UserOfCall {
    actor: ActorRef<AgentMsg>,
    effect: EffectId,
}

impl AskUser for UserOfCall {
    fn ask(&self, question: Question) -> BoxFuture<'static, Option<String>> {
        let (answer, wait) = oneshot::channel();
        let asked = AgentMsg::ToolAsked {
            effect: self.effect,
            question,
            answer,
        };
        // If the actor has ended, the channel is closed.
        let _ = self.actor.send_message(asked);
        let waiting = WaitingTool {
            actor: Some(self.actor.clone()),
            effect: self.effect,
        };
        async move {
            let answer = wait.await.ok().flatten();
            waiting.end();
            answer
        }
        .boxed()
    }
}

/// A tool that waits for the answer to its question. If it is dropped before, the question is withdrawn.
struct WaitingTool {
    /// The agent's actor; `None` once the wait has ended.
    actor: Option<ActorRef<AgentMsg>>,
    effect: EffectId,
}

impl WaitingTool {
    fn end(mut self) {
        self.actor = None;
    }
}

impl Drop for WaitingTool {
    fn drop(&mut self) {
        if let Some(actor) = self.actor.take() {
            let effect = self.effect;
            // If the actor has ended, so has the question.
            let _ = actor.send_message(AgentMsg::Input(AgentInput::QuestionWithdrawn { effect }));
        }
    }
}

pub(crate) struct AgentState {
    driver: Driver<Agent>,
    resources: RunResources,
    supervisor: DerivedActorRef<AgentEvent>,
    effect: EffectId,
    brief: Arc<AgentBrief>,
    span: Span,
    /// Cancels everything that the agent started.
    cancel: CancellationToken,
    /// Cancels the running request or call. A child of `cancel`.
    work: CancellationToken,
    timers: BTreeMap<AgentTimer, AbortHandle>,
    /// The call that has asked the user, and the channel on which it waits for the answer.
    asked: Option<(EffectId, AnswerSender)>,
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
            resumed,
            span,
        } = arguments;
        let now = resources.services.clock.now();
        let (machine, first, commands) = match resumed {
            Some((mut machine, input)) => {
                if let AgentInput::Continued { .. } = input {
                    machine.set_run_spec(resources.spec.clone());
                }
                (machine, input, None)
            }
            None => {
                let brief = AgentBrief::clone(&brief);
                let (machine, commands) = Agent::start(now, resources.spec.clone(), brief.clone())?;
                (machine, AgentInput::Started { brief }, Some(commands))
            }
        };
        let actor = myself.clone();
        let notify = Arc::new(move |stored| {
            // The actor may have ended.
            let _ = actor.send_message(AgentMsg::Stored(stored));
        });
        let (scope, claim) = (Scope::Agent(brief.agent), resources.claim.clone());
        let mut driver = Driver::new(machine, resources.run, scope, claim, notify);
        match commands {
            Some(commands) => driver.start(now, &first, commands),
            None => drop(myself.send_message(AgentMsg::Input(first))),
        }
        let cancel = resources.cancel.child_token();
        Ok(AgentState {
            driver,
            resources,
            supervisor,
            effect,
            brief,
            span,
            work: cancel.child_token(),
            _stop_tasks: cancel.clone().drop_guard(),
            cancel,
            timers: BTreeMap::new(),
            asked: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<AgentMsg>,
        message: AgentMsg,
        state: &mut AgentState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            AgentMsg::Input(input) => state.accept(input),
            AgentMsg::Stored(Ok(())) => state.stored(&myself),
            AgentMsg::Stored(Err(error)) => state.send_to_run(AgentEvent::JournalFailed(error)),
            AgentMsg::Message(message) => state.handle_message(message),
            AgentMsg::ToolAsked {
                effect,
                question,
                answer,
            } => state.handle_question(effect, question, answer),
        }
        Ok(())
    }
}

impl AgentState {
    /// Executes the commands that a stored input caused, then acknowledges the input.
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
        self.try_accept(input);
    }

    /// Returns true if the machine has accepted the input.
    fn try_accept(&mut self, input: AgentInput) -> bool {
        let (now, name) = (self.resources.services.clock.now(), input.name());
        if let Err(refusal) = self.driver.accept(now, input) {
            // Not an error: the input is a completion that came too late, or a timer that was postponed.
            tracing::debug!(run = %self.resources.run, agent = %self.brief.agent, input = name, %refusal, "input dropped");
            return false;
        }
        true
    }

    /// Handles a tool's question. Without a user who is there to answer, the call continues at once.
    fn handle_question(&mut self, effect: EffectId, question: Question, answer: AnswerSender) {
        let is_present = match self.resources.mailbox.user() {
            UserPresence::Present => true,
            UserPresence::Absent => false,
        };
        if is_present && self.try_accept(AgentInput::ToolAsked { effect, question }) {
            self.asked = Some((effect, answer));
        }
    }

    /// Handles a message from the user. An agent that has ended rejects it.
    fn handle_message(&mut self, message: AgentMessage) {
        let AgentMessage { agent, input, ack } = message;
        let (now, run) = (self.resources.services.clock.now(), self.resources.run);
        let undeliverable = input.undeliverable(agent);
        if let Err((refusal, ack)) = self.driver.accept_with_ack(now, input, ack) {
            ack.rejected(RuntimeError::steering(run, undeliverable).or_refusal(run, refusal));
        }
    }

    fn dispatch(&mut self, myself: &ActorRef<AgentMsg>, command: AgentCommand) {
        match command.route(self.effect) {
            Route::Effect(AgentEffect::AskModel { effect }) => self.ask_model(myself, effect),
            // The driver has queued the input that records the start of the call. The call runs once this
            // input is stored.
            Route::Effect(AgentEffect::RunTool { .. }) => {}
            Route::Effect(AgentEffect::AnswerTool { effect, answer }) => {
                if let Some((_, sender)) = self.asked.take_if(|(asked, _)| *asked == effect) {
                    // The call may have ended.
                    let _ = sender.send(answer);
                }
            }
            Route::Effect(AgentEffect::Stop) => {
                self.work.cancel();
                self.work = self.cancel.child_token();
            }
            Route::Effect(AgentEffect::SetTimer { timer, at }) => self.set_timer(myself, timer, at),
            Route::Deliver(Delivery::Run(input)) => {
                if let RunInput::AgentFinished { report, .. } = &input {
                    self.finish(report);
                    if self.brief.role == AgentRole::Lead {
                        let machine = Box::new(self.driver.machine.clone());
                        self.send_to_run(AgentEvent::LeadEnded(machine));
                    }
                }
                self.send_to_run(AgentEvent::Deliver(input));
            }
            // The commands of an agent cause inputs only in the run's machine.
            Route::Deliver(Delivery::Agent(..)) | Route::Watchers => {}
        }
    }

    fn send_to_run(&self, event: AgentEvent) {
        // If the supervisor has ended, it has also stopped this agent, so the event is not needed.
        let _ = self.supervisor.send_message(event);
    }

    fn set_timer(&mut self, myself: &ActorRef<AgentMsg>, timer: AgentTimer, at: Timestamp) {
        let (myself, when) = (myself.clone(), self.resources.services.clock.instant(at));
        let cancel = self.cancel.clone();
        let task = self.resources.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep_until(when) => {
                    let _ = myself.send_message(AgentMsg::Input(AgentInput::TimerFired { timer }));
                }
                () = cancel.cancelled() => {}
            }
        });
        if let Some(earlier) = self.timers.insert(timer, task.abort_handle()) {
            earlier.abort();
        }
    }

    fn ask_model(&self, myself: &ActorRef<AgentMsg>, effect: EffectId) {
        let (request, expected) = self.request();
        let (myself, cancel, budget) = (myself.clone(), self.work.clone(), self.resources.budget.clone());
        let model = self.resources.services.model.clone();
        let span = spans::chat(&self.span, effect, self.driver.machine.spec().model.as_deref());
        self.resources.tasks.spawn(async move {
            let ask = async {
                let permit = match budget.reserve(&expected).await {
                    Ok(permit) => permit,
                    Err(budget_exceeded) => {
                        return AgentInput::OverBudget {
                            effect,
                            budget_exceeded,
                        };
                    }
                };
                let request = permit.limit_request(request);
                // The request shares the conversation with the machine. It is dropped before the machine handles the reply, so the machine
                // can append without a copy.
                match permit.track(effects::ask_model(model, request, span)).await {
                    Ok(reply) => AgentInput::ModelReplied { effect, reply },
                    Err(failure) => AgentInput::ModelFailed { effect, failure },
                }
            };
            tokio::select! {
                input = ask => {
                    let _ = myself.send_message(AgentMsg::Input(input));
                }
                () = cancel.cancelled() => {}
            }
        });
    }

    /// Builds the machine's current request and estimates its usage.
    fn request(&self) -> (ChatRequest, ExpectedUsage) {
        let machine = &self.driver.machine;
        let spec = machine.spec();
        let profile = &spec.profile;
        let mut request = ChatRequest::new(machine.request().clone())
            .model(spec.model.clone())
            .call_form(profile.calls);
        match profile.calls {
            CallForm::Native | CallForm::AutoNative => request = request.tools(machine.offered().clone()),
            CallForm::JsonSchema if !machine.is_summarising() => {
                request = request.format(ReplyFormat::JsonSchema {
                    name: "reply".to_owned(),
                    schema: machine.reply_schema().clone(),
                });
            }
            CallForm::Json | CallForm::JsonSchema | CallForm::ToolCall | CallForm::Auto => {}
        }
        if let Some(listeners) = self.resources.listeners.sender() {
            let (agent, turn) = (machine.id(), machine.turns());
            let sent = AtomicUsize::new(0);
            request = request.deltas(DeltaSink::new(move |text| {
                let delta = Delta {
                    agent,
                    turn,
                    start: sent.fetch_add(text.len(), Ordering::Relaxed),
                    text: text.into(),
                };
                // The listeners may be gone.
                let _ = listeners.send(delta);
            }));
        }
        let expected = ExpectedUsage {
            model: spec.model.clone(),
            size: machine.request_size(),
            max_output_tokens: profile.max_output_tokens,
            price: profile.price,
        };
        (request, expected)
    }

    /// Runs a call whose start is recorded, unless the machine is no longer waiting for it.
    fn run_tool(&self, myself: &ActorRef<AgentMsg>, effect: EffectId) {
        let Some(call) = self.driver.machine.running_call(effect).cloned() else {
            return;
        };
        let (access, deadline) = (self.driver.machine.spec().access, self.driver.machine.deadline());
        let context = ToolContext {
            seen: Some(self.driver.machine.seen().clone()),
            user: Some(Arc::new(UserOfCall {
                actor: myself.clone(),
                effect,
            })),
            ..self
                .resources
                .tool_context(effect, access, deadline, self.work.child_token())
        };
        let (myself, tool) = (myself.clone(), self.resources.services.tool(&call.tool));
        let span = spans::tool(&self.span, effect, &call.tool);
        self.resources.tasks.spawn(async move {
            let result = effects::run_tool(tool, context, call, span).await;
            let _ = myself.send_message(AgentMsg::Input(AgentInput::ToolFinished { effect, result }));
        });
    }

    /// Stops all running work of an agent that has ended. Once the supervisor has the report, it stops this
    /// actor.
    fn finish(&self, report: &AgentReport) {
        self.cancel.cancel();
        spans::record_report(&self.span, report);
        if let Err(failure @ (AgentFailure::TurnLimit { .. } | AgentFailure::TimeLimit { .. })) =
            &report.result
        {
            tracing::warn!(run = %self.resources.run, agent = %self.brief.agent, "{failure}");
        }
    }
}

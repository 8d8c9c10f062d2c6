//! Executes the run's commands: starts agents, runs the tool calls of the plan and sets timers.

use std::sync::Arc;

use dirigent_core::brief::{AgentBrief, Continuation};
use dirigent_core::budget::Budget;
use dirigent_core::id::{AgentId, EffectId, Scope};
use dirigent_core::route::{Delivery, start_agent};
use dirigent_core::run::{RunInput, RunTimer};
use dirigent_core::run_diff::ReflectorDiff;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::Access;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tracing::Span;

use super::state::{SupervisorMsg, SupervisorState};
use crate::agent_actor::{AgentActor, AgentArguments, AgentEvent, AgentMsg};
use crate::blocking::blocking;
use crate::crashed_agent;
use crate::effects;
use crate::run_diff::read_diff;
use crate::run_resources::RunResources;
use crate::shared_budget::SharedBudget;
use crate::spans;

impl SupervisorState {
    pub(super) async fn start_agent(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        effect: EffectId,
        brief: Arc<AgentBrief>,
        continuation: Option<&Continuation>,
    ) -> Result<(), ActorProcessingErr> {
        let agent = brief.agent;
        let known = self.inactive.get(&agent);
        let resumed = match start_agent(known, effect, &brief, continuation, &self.resumption) {
            // The agent had ended before this process took over the run, so its report is delivered at once.
            Delivery::Run(report) => {
                self.accept(report);
                return Ok(());
            }
            Delivery::Agent(_, input) => self.inactive.remove(&agent).map(|machine| (machine, input)),
        };
        let span = self.agent_span(&brief);
        let arguments = AgentArguments {
            resources: self.resources(),
            supervisor: myself.get_derived(),
            effect,
            brief,
            resumed,
            span: span.clone(),
        };
        let (actor, ended) = Actor::spawn_linked(None, AgentActor, arguments, myself.get_cell()).await?;
        self.arguments.tasks.spawn(async move {
            let _ = ended.await;
        });
        self.agent_ids.insert(actor.get_id(), agent);
        self.agents.insert(agent, actor);
        self.agent_spans.insert(agent, span);
        self.send_undelivered();
        Ok(())
    }

    /// Creates the span of a new agent, within the span of the agent that delegated to it. If no agent
    /// delegated to it, the span is within the span of the iteration.
    fn agent_span(&mut self, brief: &AgentBrief) -> Span {
        let caller = brief.caller.and_then(|effect| match effect.scope {
            Scope::Agent(agent) => self.agent_spans.get(&agent).cloned(),
            Scope::Run => None,
        });
        let parent = caller.unwrap_or_else(|| self.iteration_span().clone());
        spans::agent(&parent, self.arguments.run, brief)
    }

    fn iteration_span(&mut self) -> &Span {
        let number = self.driver.machine.iteration();
        let (current, span) = &mut self.iteration_span;
        if *current != number {
            (*current, *span) = (number, spans::iteration(&self.arguments.span, number));
        }
        span
    }

    /// Sends an agent an input that was caused by a command of the run's machine. Does nothing if the agent has ended.
    pub(super) fn deliver(&self, delivery: Delivery) {
        if let Delivery::Agent(agent, input) = delivery
            && let Some(actor) = self.agents.get(&agent)
        {
            let _ = actor.send_message(AgentMsg::Input(input));
        }
    }

    /// Stops the actor of an agent that has reported, once it has handled the messages in its queue.
    pub(super) fn dismiss_agent(&mut self, agent: AgentId) {
        self.agent_spans.remove(&agent);
        if let Some(actor) = self.agents.remove(&agent) {
            self.agent_ids.remove(&actor.get_id());
            if actor.drain().is_err() {
                actor.stop(None);
            }
        }
    }

    /// Reports a crashed agent to the run's machine, which turns the failure into an observation (PAOR-7). The journal has the agent's work
    /// before the crash.
    pub(super) fn agent_crashed(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        actor: &ActorCell,
        message: String,
    ) {
        let Some(agent) = self.agent_ids.remove(&actor.get_id()) else {
            return;
        };
        self.agents.remove(&agent);
        self.agent_spans.remove(&agent);
        let run = self.arguments.run;
        tracing::warn!(%run, %agent, message, "an agent crashed");
        let Some(effect) = self.driver.machine.effect_of(agent) else {
            return;
        };
        let (myself, services) = (myself.clone(), &self.arguments.services);
        let report = crashed_agent::report(
            services.journal.clone(),
            run,
            agent,
            services.clock.now(),
            message,
        );
        self.arguments.tasks.spawn(async move {
            let report = report.await;
            let input = RunInput::AgentFinished { effect, report };
            let _ = myself.send_message(AgentEvent::Deliver(input).into());
        });
    }

    /// Runs a call whose start is recorded, unless the machine is no longer waiting for it.
    pub(super) fn run_tool(&mut self, myself: &ActorRef<SupervisorMsg>, effect: EffectId) {
        if self.closing.is_some() {
            return;
        }
        let Some(call) = self.driver.machine.running_call(effect).cloned() else {
            return;
        };
        let resources = self.resources();
        let cancel = resources.cancel.child_token();
        self.calls.insert(effect, cancel.clone());
        let deadline = resources.services.clock.now() + resources.spec.limits.call_timeout;
        let context = resources.tool_context(effect, Access::ReadWrite, deadline, cancel);
        let (myself, tool) = (myself.clone(), resources.services.tool(&call.tool));
        let span = spans::tool(self.iteration_span(), effect, &call.tool);
        self.arguments.tasks.spawn(async move {
            let result = effects::run_tool(tool, context, call, span).await;
            let _ = myself.send_message(SupervisorMsg::ToolEnded { effect, result });
        });
    }

    /// Reads the run's net diff. A failure, including a panic, results in a diff that contains the error.
    pub(super) fn read_diff(&self, myself: &ActorRef<SupervisorMsg>, effect: EffectId) {
        let (myself, run) = (myself.clone(), self.arguments.run);
        let journal = self.arguments.services.journal.clone();
        self.arguments.tasks.spawn(async move {
            let read = blocking(move || Ok(read_diff(&*journal, run))).await;
            let diff = read.unwrap_or_else(|error| ReflectorDiff::unreadable(error.to_string()));
            let _ = myself.send_message(SupervisorMsg::DiffRead { effect, diff });
        });
    }

    pub(super) fn set_timer(&mut self, myself: &ActorRef<SupervisorMsg>, timer: RunTimer, at: Timestamp) {
        let (myself, when) = (myself.clone(), self.arguments.services.clock.instant(at));
        let cancel = self.arguments.cancel.clone();
        let task = self.arguments.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep_until(when) => {
                    let _ = myself.send_message(SupervisorMsg::TimerFired(timer));
                }
                () = cancel.cancelled() => {}
            }
        });
        if let Some(earlier) = self.timers.insert(timer, task.abort_handle()) {
            earlier.abort();
        }
    }

    pub(super) fn clear_timer(&mut self, timer: RunTimer) {
        if let Some(task) = self.timers.remove(&timer) {
            task.abort();
        }
    }

    /// Returns the resources of the run, which are created on first use.
    pub(super) fn resources(&mut self) -> RunResources {
        if let Some(resources) = &self.resources {
            return resources.clone();
        }
        let spec = self.driver.machine.spec().clone();
        let mut spent = spec.preparation_usage();
        spent += self.spent;
        let budget = Budget::new(&spec.limits, spent);
        let resources = RunResources {
            run: self.arguments.run,
            spec,
            services: self.arguments.services.clone(),
            claim: self.arguments.claim.clone(),
            cancel: self.arguments.cancel.clone(),
            tasks: self.arguments.tasks.clone(),
            budget: Arc::new(SharedBudget::new(budget)),
            listeners: self.arguments.listeners.clone(),
            mailbox: self.arguments.mailbox.clone(),
        };
        self.resources.insert(resources).clone()
    }
}

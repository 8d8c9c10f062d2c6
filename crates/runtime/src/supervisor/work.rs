//! Executing the run's commands: its agents, the tool calls of its plan, and its timers.

use std::sync::Arc;

use dirigent_core::brief::AgentBrief;
use dirigent_core::budget::Budget;
use dirigent_core::id::{AgentId, EffectId, Scope};
use dirigent_core::run::RunTimer;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, ToolResult};
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};

use super::state::{SupervisorMsg, SupervisorState};
use crate::agent_actor::{AgentActor, AgentArguments, AgentEvent, AgentMsg};
use crate::crashed_agent;
use crate::effects;
use crate::run_resources::RunResources;
use crate::shared_budget::SharedBudget;

impl SupervisorState {
    pub(super) async fn start_agent(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        effect: EffectId,
        brief: Arc<AgentBrief>,
    ) -> Result<(), ActorProcessingErr> {
        let replayed = self.replayed.remove(&brief.agent);
        let arguments = AgentArguments {
            resources: self.resources(),
            supervisor: myself.get_derived(),
            effect,
            forked: self.inherited.contains(&Scope::Agent(brief.agent)),
            brief,
            replayed,
            last_seen: self.last_seen,
        };
        let (actor, ended) = Actor::spawn_linked(None, AgentActor, arguments, myself.get_cell()).await?;
        self.arguments.tasks.spawn(async move {
            let _ = ended.await;
        });
        self.agents.insert(actor.get_id(), (effect, actor));
        self.send_undelivered();
        Ok(())
    }

    /// Stops an agent, which then reports its work. The report of an agent without an actor is on its way.
    pub(super) fn stop_agent(&self, effect: EffectId) {
        let mut agents = self.agents.values();
        if let Some((_, actor)) = agents.find(|(other, _)| *other == effect) {
            let _ = actor.send_message(AgentMsg::Stop);
        }
    }

    /// Returns the findings of a delegated task to the delegating agent, unless that agent has ended.
    pub(super) fn return_findings(&self, effect: EffectId, result: ToolResult) {
        if let Scope::Agent(agent) = effect.scope
            && let Some(actor) = self.agent(agent)
        {
            let _ = actor.send_message(AgentMsg::ToolEnded { effect, result });
        }
    }

    /// Stops the actor of an agent that has reported, once it has answered the messages in its queue.
    pub(super) fn dismiss_agent(&mut self, effect: EffectId) {
        self.agents.retain(|_, (other, actor)| {
            let ended = *other == effect;
            if ended && actor.drain().is_err() {
                actor.stop(None);
            }
            !ended
        });
    }

    /// Reports a crashed agent as an observation (PAOR-7). Its work until then is in the journal.
    pub(super) fn agent_crashed(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        actor: &ActorCell,
        message: String,
    ) {
        let Some((effect, _)) = self.agents.remove(&actor.get_id()) else {
            return;
        };
        let run = self.arguments.run;
        tracing::warn!(%run, %effect, message, "an agent crashed");
        let Some(agent) = self.driver.machine.agent_of(effect) else {
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
            let _ = myself.send_message(AgentEvent::Ended { effect, report }.into());
        });
    }

    /// The actor of an active agent.
    pub(super) fn agent(&self, agent: AgentId) -> Option<&ActorRef<AgentMsg>> {
        let mut agents = self.agents.values();
        let found = agents.find(|(effect, _)| self.driver.machine.agent_of(*effect) == Some(agent));
        found.map(|(_, actor)| actor)
    }

    /// Runs a call whose start is recorded, unless the machine no longer waits for it.
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
        let context = resources.tool_context(effect, Access::ReadWrite, cancel);
        let (myself, tools) = (myself.clone(), resources.services.tools.clone());
        self.arguments.tasks.spawn(async move {
            let result = effects::run_tool(tools, context, call).await;
            let _ = myself.send_message(SupervisorMsg::ToolEnded { effect, result });
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

    /// The resources of the run, which are created when its first command is executed.
    pub(super) fn resources(&mut self) -> RunResources {
        if let Some(resources) = &self.resources {
            return resources.clone();
        }
        #[expect(
            clippy::expect_used,
            reason = "only a started machine commands anything, and it has its context"
        )]
        let context = self
            .driver
            .machine
            .context()
            .expect("a run that has started")
            .clone();
        let budget = Budget::new(&context.spec().limits, self.spent);
        let resources = RunResources {
            run: self.arguments.run,
            context,
            services: self.arguments.services.clone(),
            claim: self.arguments.claim.clone(),
            cancel: self.arguments.cancel.clone(),
            tasks: self.arguments.tasks.clone(),
            budget: Arc::new(SharedBudget::new(budget)),
            listeners: self.arguments.listeners.clone(),
        };
        self.resources.insert(resources).clone()
    }
}

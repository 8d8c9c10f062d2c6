//! The work that a run's machine commands: its agents, the tool calls of its plan, and its timers.

use std::sync::Arc;

use dirigent_core::brief::AgentBrief;
use dirigent_core::budget::Budget;
use dirigent_core::id::{AgentId, EffectId, Scope};
use dirigent_core::run::RunTimer;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, ToolResult};
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};

use super::{SupervisorMsg, SupervisorState};
use crate::agent_actor::{AgentActor, AgentArguments, AgentMsg, RunResources};
use crate::crashed_agent;
use crate::effects;
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
            supervisor: myself.clone(),
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

    /// It reports what it did until then. One that has no actor any more is about to be reported anyway.
    pub(super) fn stop_agent(&self, effect: EffectId) {
        let mut agents = self.agents.values();
        if let Some((_, actor)) = agents.find(|(other, _)| *other == effect) {
            let _ = actor.send_message(AgentMsg::Stop);
        }
    }

    /// What an agent had another one do has ended; where it has ended itself, nobody wants that any more.
    pub(super) fn return_findings(&self, effect: EffectId, result: ToolResult) {
        if let Scope::Agent(agent) = effect.scope
            && let Some(actor) = self.agent(agent)
        {
            let _ = actor.send_message(AgentMsg::ToolEnded { effect, result });
        }
    }

    /// An agent whose report has come is not missed when it is gone. It answers first what was said to it until then.
    pub(super) fn dismiss_agent(&mut self, effect: EffectId) {
        self.agents.retain(|_, (other, actor)| {
            let ended = *other == effect;
            if ended && actor.drain().is_err() {
                actor.stop(None);
            }
            !ended
        });
    }

    /// PAOR-7: an agent that breaks down is an observation. What it did until then is in the journal.
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
        tracing::warn!(%run, %effect, message, "an agent broke down");
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
            let _ = myself.send_message(SupervisorMsg::AgentEnded { effect, report });
        });
    }

    /// The actor of an agent that is at work.
    pub(super) fn agent(&self, agent: AgentId) -> Option<&ActorRef<AgentMsg>> {
        let mut agents = self.agents.values();
        let found = agents.find(|(effect, _)| self.driver.machine.agent_of(*effect) == Some(agent));
        found.map(|(_, actor)| actor)
    }

    /// Runs a call whose start is on record, unless it is no longer waited for.
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

    /// What agents and tools of this run have in common. The spec is known from the first input on.
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

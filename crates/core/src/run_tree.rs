//! The machines of a run: its own and those of its agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::agent::{Agent, AgentCommand, AgentInput};
use crate::id::AgentId;
use crate::machine::{Machine, Refusal};
use crate::route::{AgentEffect, Delivery, Resumption, Route, RunEffect, start_agent};
use crate::run::{Run, RunCommand, RunInput};
use crate::spec::RunSpec;
use crate::time::Timestamp;

/// The machines of a run. Replay, watchers, dry runs and tests use them together; actors have one machine each.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTree {
    run: Run,
    agents: BTreeMap<AgentId, Agent>,
}

/// An effect of any machine of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum TreeEffect {
    /// Of the run's machine; [`RunEffect::StartAgent`] is delivered instead.
    Run(RunEffect),
    /// Of an agent's machine.
    Agent(AgentId, AgentEffect),
}

impl RunTree {
    /// Starts a run: the effect of its first input, [`RunInput::Started`].
    ///
    /// # Errors
    /// As [`Run::start`].
    pub fn start(now: Timestamp, spec: Arc<RunSpec>) -> Result<(Self, Vec<RunCommand>), Refusal> {
        let (run, commands) = Run::start(now, spec)?;
        let agents = BTreeMap::new();
        Ok((RunTree { run, agents }, commands))
    }

    /// The run's machine.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The machine of an agent; `None` if the agent has not started.
    pub fn agent(&self, agent: AgentId) -> Option<&Agent> {
        self.agents.get(&agent)
    }

    /// The machines of all agents that have started, by id.
    pub fn agents(&self) -> &BTreeMap<AgentId, Agent> {
        &self.agents
    }

    /// The run's machine, and those of its agents.
    pub fn into_machines(self) -> (Run, BTreeMap<AgentId, Agent>) {
        (self.run, self.agents)
    }

    /// Handles an input of the run's machine.
    ///
    /// # Errors
    /// [`Refusal`] if the machine refuses the input.
    pub fn handle_run_input(&mut self, now: Timestamp, input: RunInput) -> Result<Vec<RunCommand>, Refusal> {
        self.run.handle(now, input)
    }

    /// Handles an input of an agent's machine; [`AgentInput::Started`] creates it.
    ///
    /// # Errors
    /// [`Refusal`] if the agent has not started, or its machine refuses the input.
    pub fn handle_agent_input(
        &mut self,
        now: Timestamp,
        id: AgentId,
        input: AgentInput,
    ) -> Result<Vec<AgentCommand>, Refusal> {
        match (self.agents.get_mut(&id), input) {
            (Some(agent), input) => agent.handle(now, input),
            (None, AgentInput::Started { brief }) if brief.agent == id => {
                let (agent, commands) = Agent::start(now, self.run.spec().clone(), brief)?;
                self.agents.insert(id, agent);
                Ok(commands)
            }
            (None, input) => Err(Refusal::InvalidState {
                input: input.name(),
                state: format!("agent {id} has not started"),
            }),
        }
    }

    /// Handles an input, and returns the destinations of the commands. The caller handles the deliveries among them in the same way.
    ///
    /// # Errors
    /// [`Refusal`] if the machine refuses the input. An actor only drops a delivered input that is refused.
    pub fn handle(
        &mut self,
        now: Timestamp,
        delivery: Delivery,
        resumption: &Resumption,
    ) -> Result<Vec<Route<TreeEffect>>, Refusal> {
        match delivery {
            Delivery::Run(input) => {
                let commands = self.handle_run_input(now, input)?;
                Ok(self.route(commands, resumption))
            }
            Delivery::Agent(id, input) => {
                let commands = self.handle_agent_input(now, id, input)?;
                // An agent that the run no longer waits for reports to nobody.
                let Some(effect) = self.run.effect_of(id) else {
                    return Ok(Vec::new());
                };
                let routes = commands.into_iter().map(|command| match command.route(effect) {
                    Route::Deliver(delivery) => Route::Deliver(delivery),
                    Route::Effect(effect) => Route::Effect(TreeEffect::Agent(id, effect)),
                    Route::Watchers => Route::Watchers,
                });
                Ok(routes.collect())
            }
        }
    }

    /// Returns the destinations of commands of the run's machine.
    pub fn route(&self, commands: Vec<RunCommand>, resumption: &Resumption) -> Vec<Route<TreeEffect>> {
        let route = |command: RunCommand| match command.route() {
            Route::Effect(RunEffect::StartAgent { effect, brief }) => {
                let machine = self.agents.get(&brief.agent);
                Route::Deliver(start_agent(machine, effect, &brief, resumption))
            }
            Route::Effect(effect) => Route::Effect(TreeEffect::Run(effect)),
            Route::Deliver(delivery) => Route::Deliver(delivery),
            Route::Watchers => Route::Watchers,
        };
        commands.into_iter().map(route).collect()
    }
}

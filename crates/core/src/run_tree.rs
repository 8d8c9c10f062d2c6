//! The run's state machine and the machines of its agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::agent::{Agent, AgentCommand, AgentInput};
use crate::id::AgentId;
use crate::machine::{Machine, Refusal};
use crate::route::{AgentEffect, Delivery, Resumption, Route, RunEffect, start_agent};
use crate::run::{Run, RunCommand, RunInput};
use crate::spec::RunSpec;
use crate::time::Timestamp;

/// All state machines of a run, for replay, watchers, dry runs and tests. At run time, each actor owns one machine instead.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTree {
    run: Run,
    agents: BTreeMap<AgentId, Agent>,
}

/// An effect that a machine of a run requests.
#[derive(Clone, Debug, PartialEq)]
pub enum TreeEffect {
    /// An effect of the run's machine. Never [`RunEffect::StartAgent`], which becomes a delivery.
    Run(RunEffect),
    /// An effect of an agent's machine.
    Agent(AgentId, AgentEffect),
}

impl RunTree {
    /// Starts a run. Handles [`RunInput::Started`], the first input of every run.
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

    /// The machine of the lead; `None` if it has not started.
    pub fn lead(&self) -> Option<&Agent> {
        self.agent(self.run.lead_id()?)
    }

    /// The machines of all agents that have started, by id.
    pub fn agents(&self) -> &BTreeMap<AgentId, Agent> {
        &self.agents
    }

    /// Returns the run's machine and the machines of its agents.
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
            (Some(agent), input) => {
                if let AgentInput::Continued { .. } = input {
                    agent.set_run_spec(self.run.spec().clone());
                }
                agent.handle(now, input)
            }
            (None, AgentInput::Started { brief }) if brief.agent == id => {
                let (agent, commands) = Agent::start(now, self.run.spec().clone(), brief)?;
                self.agents.insert(id, agent);
                Ok(commands)
            }
            (None, input) => Err(Refusal::InvalidState {
                input: input.description(),
                state: format!("agent {id} has not started"),
            }),
        }
    }

    /// Handles an input, and returns the destinations of the resulting commands. The caller must pass each delivery to this function, too.
    ///
    /// # Errors
    /// [`Refusal`] if the machine refuses the input. In contrast, an actor drops a refused delivery without an error.
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
                // The run no longer waits for the agent, so its commands are dropped.
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

    /// Returns the destinations of these commands of the run's machine.
    pub fn route(&self, commands: Vec<RunCommand>, resumption: &Resumption) -> Vec<Route<TreeEffect>> {
        let route = |command: RunCommand| match command.route() {
            Route::Effect(RunEffect::StartAgent {
                effect,
                brief,
                continuation,
            }) => {
                let machine = self.agents.get(&brief.agent);
                let started = start_agent(machine, effect, &brief, continuation.as_deref(), resumption);
                Route::Deliver(started)
            }
            Route::Effect(effect) => Route::Effect(TreeEffect::Run(effect)),
            Route::Deliver(delivery) => Route::Deliver(delivery),
            Route::Watchers => Route::Watchers,
        };
        commands.into_iter().map(route).collect()
    }
}

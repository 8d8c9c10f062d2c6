//! A dry run: an unowned run's machines handle its pending messages as they would when resumed, but no command is executed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentCommand, AgentInput};
use dirigent_core::brief::AgentBrief;
use dirigent_core::id::{AgentId, EffectId, RunId, Scope};
use dirigent_core::machine::{Machine as _, Refusal};
use dirigent_core::run::{Run, RunCommand, RunInput};
use dirigent_core::steering::Steering;
use dirigent_core::time::Timestamp;

use crate::error::RuntimeError;
use crate::replayed_run::ReplayedRun;
use crate::routing::{Route, rejected_by_run, route};

/// The machines of a run as they would be once it is resumed.
pub(crate) struct DryRun {
    run: RunId,
    now: Timestamp,
    last_seen: Timestamp,
    inherited: BTreeSet<Scope>,
    machine: Run,
    replayed: BTreeMap<AgentId, Agent>,
    /// The active agents, each with the effect that its report answers.
    agents: BTreeMap<AgentId, (EffectId, Agent)>,
}

impl DryRun {
    /// Resumes a copy of the run at `now`.
    ///
    /// # Errors
    /// [`RuntimeError::NeverBegan`] and [`RuntimeError::Ended`].
    pub(crate) fn new(run: RunId, replayed: ReplayedRun, now: Timestamp) -> Result<Self, RuntimeError> {
        let ReplayedRun { view, inherited } = replayed;
        let last_seen = view.last_at();
        let (machine, replayed) = view.into_machines();
        if machine.spec().is_none() {
            return Err(RuntimeError::NeverBegan { run });
        }
        if machine.phase().is_terminal() {
            return Err(RuntimeError::Ended { run });
        }
        let forked = inherited.contains(&Scope::Run);
        let agents = BTreeMap::new();
        let mut dry_run = DryRun {
            run,
            now,
            last_seen,
            inherited,
            machine,
            replayed,
            agents,
        };
        let resumed = dry_run.send_to_run(RunInput::Resumed {
            last_seen,
            forked,
            limits: None,
            cut_off: BTreeMap::new(),
        });
        resumed.map_err(|refusal| rejected_by_run(run, refusal, None))?;
        Ok(dry_run)
    }

    /// Handles a message, and returns the error with which the run would reject it.
    ///
    /// # Errors
    /// As [`crate::RunHandle::steer`].
    pub(crate) fn handle(&mut self, steering: Steering) -> Result<(), RuntimeError> {
        let run = self.run;
        if self.machine.end().is_some() {
            let reason = "an earlier pending message ends the run".to_owned();
            return Err(RuntimeError::MessageRejected { run, reason });
        }
        match route(run, &self.machine, steering)? {
            Route::Run(input) => {
                let handled = self.send_to_run(input);
                handled.map_err(|refusal| rejected_by_run(run, refusal, self.machine.end()))
            }
            Route::Agent(agent, body) => {
                let is_active =
                    |(effect, _): &(EffectId, Agent)| self.machine.agent_of(*effect) == Some(agent);
                let undeliverable = body.undeliverable(run, agent);
                if !self.agents.get(&agent).is_some_and(is_active) {
                    return Err(undeliverable);
                }
                let handled = self.send_to_agent(agent, body.into());
                handled.map_err(|refusal| undeliverable.or_refusal(run, refusal))
            }
        }
    }

    fn send_to_run(&mut self, input: RunInput) -> Result<(), Refusal> {
        for command in self.machine.handle(self.now, input)? {
            // A machine's refusal of a follow-up input only drops that input, as in a real run.
            let _ = match command {
                RunCommand::StartAgent { effect, brief } => self.start_agent(effect, &brief),
                RunCommand::StopAgent { effect } => {
                    let mut agents = self.agents.iter();
                    let stopped = agents.find(|(_, (other, _))| *other == effect);
                    match stopped.map(|(agent, _)| *agent) {
                        Some(agent) => self.send_to_agent(agent, AgentInput::Cancelled),
                        None => Ok(()),
                    }
                }
                RunCommand::ReturnFindings { effect, result } => match effect.scope {
                    Scope::Agent(agent) => {
                        self.send_to_agent(agent, AgentInput::ToolFinished { effect, result })
                    }
                    Scope::Run => Ok(()),
                },
                RunCommand::Announce { .. }
                | RunCommand::RunTool { .. }
                | RunCommand::StopTool { .. }
                | RunCommand::AskApproval { .. }
                | RunCommand::AwaitUser { .. }
                | RunCommand::AskUser { .. }
                | RunCommand::SetTimer { .. }
                | RunCommand::Finish { .. } => Ok(()),
            };
        }
        Ok(())
    }

    /// Starts or resumes an agent as its actor does.
    fn start_agent(&mut self, effect: EffectId, brief: &Arc<AgentBrief>) -> Result<(), Refusal> {
        let (id, last_seen) = (brief.agent, self.last_seen);
        let forked = self.inherited.contains(&Scope::Agent(id));
        let replayed = self.replayed.remove(&id);
        let Some(agent) = replayed.or_else(|| Some(Agent::new(id, self.machine.context()?.clone()))) else {
            return Ok(());
        };
        let (started, ended) = (agent.spec().is_some(), agent.report().cloned());
        self.agents.insert(id, (effect, agent));
        match (started, ended) {
            (_, Some(report)) => self.forward_command(id, AgentCommand::Finish { report }),
            (true, None) => self.send_to_agent(id, AgentInput::Resumed { last_seen, forked }),
            (false, None) => {
                let brief = AgentBrief::clone(brief);
                self.send_to_agent(id, AgentInput::Started { brief })
            }
        }
    }

    fn send_to_agent(&mut self, id: AgentId, input: AgentInput) -> Result<(), Refusal> {
        let Some((_, agent)) = self.agents.get_mut(&id) else {
            return Ok(());
        };
        for command in agent.handle(self.now, input)? {
            let _ = self.forward_command(id, command);
        }
        Ok(())
    }

    /// Passes on to the run the effect of an agent's command.
    fn forward_command(&mut self, id: AgentId, command: AgentCommand) -> Result<(), Refusal> {
        match command {
            AgentCommand::AskApproval { approval } => self.send_to_run(RunInput::ApprovalAsked {
                effect: approval.effect,
            }),
            AgentCommand::ApprovalSettled { effect } => {
                self.send_to_run(RunInput::ApprovalSettled { effect })
            }
            AgentCommand::Delegate { effect, agent, task } => {
                self.send_to_run(RunInput::Delegated { effect, agent, task })
            }
            AgentCommand::Finish { report } => match self.agents.remove(&id) {
                Some((effect, _)) => self.send_to_run(RunInput::AgentFinished { effect, report }),
                None => Ok(()),
            },
            AgentCommand::AskModel { .. } | AgentCommand::RunTool { .. } | AgentCommand::SetTimer { .. } => {
                Ok(())
            }
        }
    }
}

//! Immediate guidance: the run stops its running work and makes the next plan (PAOR-8).
//!
//! Stopped sub-tasks end as usual and are observed, so that the next plan can use their results. Nothing new starts until all of them have
//! ended. A reflector is stopped as well, but the run does not wait for it: only the usage in its report counts. A lead that is working
//! receives the guidance at once, in the same conversation (LEAD-1).

use super::work::{CallState, Pending, Purpose};
use super::{Commands, Run};
use crate::machine::Refusal;
use crate::observation::SubTaskResult;
use crate::phase::Phase;
use crate::run::RunCommand;
use crate::time::Timestamp;
use crate::tool::ToolResult;

impl Run {
    pub(super) fn redirect(
        &mut self,
        now: Timestamp,
        guidance: String,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.guidance.push(guidance.clone());
        // Once the delegates of an ended lead have stopped, its report decides whether a plan with the guidance follows.
        if self.outstanding_lead().is_some_and(|lead| lead.report.is_some()) {
            return Ok(());
        }
        if let Some(agent) = self.working_lead() {
            let number = self.guidance_given();
            self.work.outdate_request(agent);
            commands.push(RunCommand::RedirectLead {
                agent,
                number,
                guidance,
            });
            return self.stop_delegates(agent, commands);
        }
        match self.phase {
            Phase::Acting | Phase::Observing => {
                self.redirecting = true;
                self.stop_subtasks(now, commands)?;
                self.replan_once_stopped(now, commands)
            }
            Phase::Reflecting => {
                self.abandon_reflector(commands)?;
                self.end_question(now, commands)?;
                self.plan(commands)
            }
            // These phases have nothing to redirect.
            Phase::Idle | Phase::Planning | Phase::Complete | Phase::Failed => Ok(()),
        }
    }

    /// Stops the reflector or, if it has not started, the wait for the diff. Only the usage in the reflector's later report counts.
    fn abandon_reflector(&mut self, commands: &mut Commands) -> Result<(), Refusal> {
        if let Some(effect) = self.work.diff() {
            return self.work.remove_diff(effect);
        }
        let active = self.work.agents().find(|(_, agent)| match agent.purpose {
            Purpose::Reflection => true,
            Purpose::Lead | Purpose::SubTask(_) | Purpose::Delegation(_) | Purpose::Abandoned => false,
        });
        let Some((effect, _)) = active else {
            return Ok(());
        };
        self.work
            .update_agent(effect, |agent| agent.purpose = Purpose::Abandoned)?;
        self.stop_agent(effect, commands)
    }

    fn stop_subtasks(&mut self, now: Timestamp, commands: &mut Commands) -> Result<(), Refusal> {
        let (mut agents, mut running, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        for (effect, pending) in self.work.iter() {
            match pending {
                Pending::Agent(agent) => match agent.purpose {
                    Purpose::SubTask(_) => agents.push(effect),
                    // Delegates are stopped with their callers.
                    Purpose::Delegation(_) | Purpose::Lead | Purpose::Reflection | Purpose::Abandoned => {}
                },
                Pending::Call(planned) => match planned.state {
                    CallState::Running { stopping: false, .. } => running.push(effect),
                    CallState::Running { stopping: true, .. } => {}
                    CallState::AwaitingApproval(_) => waiting.push(effect),
                },
                Pending::Diff | Pending::Question(_) => {}
            }
        }
        for effect in running {
            self.work.update_call(effect, |planned| planned.stop())?;
            commands.push(RunCommand::StopTool { effect });
        }
        for effect in agents {
            self.stop_agent(effect, commands)?;
        }
        for effect in waiting {
            let (effect, position, call) = self.end_approval(effect)?;
            let result = ToolResult::redirected();
            self.finish_unexecuted(now, effect, position, call, result, commands)?;
        }
        Ok(())
    }

    /// Makes the next plan once all running work has stopped. Skips sub-tasks that have not started, and the reflection, because the user
    /// has already decided how to continue.
    pub(super) fn replan_once_stopped(
        &mut self,
        now: Timestamp,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        if self.current_iteration()?.graph.running() > 0 {
            return Ok(());
        }
        self.redirecting = false;
        let iteration = self.current_iteration_mut()?;
        for index in iteration.graph.skip_rest() {
            iteration.observe(index, now, SubTaskResult::Skipped { because: None });
        }
        if self.phase == Phase::Acting {
            self.enter(Phase::Observing, commands)?;
        }
        self.enter(Phase::Reflecting, commands)?;
        self.plan(commands)
    }
}

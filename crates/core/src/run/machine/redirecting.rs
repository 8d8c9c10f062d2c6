//! Guidance that cannot wait: running work is stopped, and the next plan is made (PAOR-8).
//!
//! Running sub-tasks end as usual and are observed, so the next plan knows their results; nothing new starts until the last of them has
//! ended. A planner or reflector is stopped without waiting for it: its answer no longer matters, and only the usage in its report counts.

use super::{Commands, Pending, Run};
use crate::id::EffectId;
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
        self.guidance.push(guidance);
        match self.phase {
            Phase::Planning => {
                self.abandon_planner_or_reflector(commands);
                match self.budget_exhausted() {
                    Some(reason) => self.finish(reason, commands),
                    None => {
                        self.start_planner(commands);
                        Ok(())
                    }
                }
            }
            Phase::Acting | Phase::Observing => {
                self.redirecting = true;
                self.stop_subtasks(now, commands)?;
                self.replan_once_stopped(now, commands)
            }
            Phase::Reflecting => {
                self.abandon_planner_or_reflector(commands);
                self.withdraw_question(now, commands)?;
                self.plan(commands)
            }
            // These phases have nothing to redirect.
            Phase::Idle | Phase::Complete | Phase::Failed => Ok(()),
        }
    }

    /// Stops the planner or reflector, whose report is still expected for its usage.
    fn abandon_planner_or_reflector(&mut self, commands: &mut Commands) {
        let mut stopped: Vec<EffectId> = Vec::new();
        for (effect, pending) in self.outstanding.iter() {
            match pending {
                Pending::Planner(_) | Pending::Reflector(_) => stopped.push(effect),
                Pending::SubAgent { .. }
                | Pending::Child { .. }
                | Pending::Abandoned(_)
                | Pending::Tool { .. }
                | Pending::Approval { .. }
                | Pending::Question { .. } => {}
            }
        }
        for effect in stopped {
            if let Ok(pending) = self.outstanding.get_mut(effect)
                && let Some(brief) = pending.brief().cloned()
            {
                *pending = Pending::Abandoned(brief);
            }
            self.stop_agent(effect, commands);
        }
    }

    fn stop_subtasks(&mut self, now: Timestamp, commands: &mut Commands) -> Result<(), Refusal> {
        let (mut agents, mut waiting) = (Vec::new(), Vec::new());
        for (effect, pending) in self.outstanding.iter() {
            match pending {
                Pending::SubAgent { .. } => agents.push(effect),
                Pending::Tool { .. } => {
                    if self.stopping.insert(effect.step) {
                        commands.push(RunCommand::StopTool { effect });
                    }
                }
                Pending::Approval { .. } => waiting.push(effect),
                // Delegates are stopped with their callers.
                Pending::Child { .. }
                | Pending::Planner(_)
                | Pending::Reflector(_)
                | Pending::Abandoned(_)
                | Pending::Question { .. } => {}
            }
        }
        for effect in agents {
            self.stop_agent(effect, commands);
        }
        for effect in waiting {
            if let Some((effect, call_position, call)) = self.end_approval(effect) {
                self.finish_unexecuted(
                    now,
                    effect,
                    call_position,
                    call,
                    ToolResult::redirected(),
                    commands,
                )?;
            }
        }
        Ok(())
    }

    /// Makes the next plan once all running work has stopped. Sub-tasks that have not started are skipped, and no reflector is asked, as
    /// the user has decided what follows.
    pub(super) fn replan_once_stopped(
        &mut self,
        now: Timestamp,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let Some(iteration) = self.iterations.last_mut() else {
            return Ok(());
        };
        if iteration.graph.running() > 0 {
            return Ok(());
        }
        self.redirecting = false;
        for index in iteration.graph.skip_rest() {
            iteration.observe(index, now, SubTaskResult::Skipped { because: None });
        }
        if self.phase == Phase::Acting {
            self.enter(Phase::Observing, commands)?;
        }
        self.enter(Phase::Reflecting, commands)?;
        self.plan(commands)
    }

    fn withdraw_question(&mut self, now: Timestamp, commands: &mut Commands) -> Result<(), Refusal> {
        let asked = self.question().map(|(effect, _)| effect);
        if let Some(effect) = asked
            && let Pending::Question { asked_at, .. } = self.outstanding.finish(effect)?
        {
            self.extend_deadline(now - asked_at, commands);
        }
        Ok(())
    }
}

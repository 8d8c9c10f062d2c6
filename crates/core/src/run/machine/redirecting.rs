//! Guidance that cannot wait: what is under way is stopped, and the next plan is made (PAOR-8).
//!
//! Sub-tasks under way end as any other, and are observed, so that the next plan knows what they had come to; until the last of them has
//! ended nothing new starts. A planner or a reflector is stopped and not waited for: what it says no longer matters, and its report only
//! counts for what it used.

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
            // It has no phase to be redirected in.
            Phase::Idle | Phase::Complete | Phase::Failed => Ok(()),
        }
    }

    /// Stops the planner or the reflector; its report is still to come, for what it used.
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
                // Those that work for others are stopped with them.
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

    /// Makes the next plan once nothing is under way any more: what has not started never does, and no reflector is asked, as the user
    /// has said what follows.
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

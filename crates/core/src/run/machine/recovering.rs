//! Resuming a run that failed at a limit or because no model could be reached (PAOR-1, PAOR-3).
//!
//! The run first records the interrupted work as observations. Then it makes the next plan, under the new limits, if any.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ending::budgets;
use super::work::{CallState, OutstandingWork, Pending, Purpose};
use super::{Commands, Run};
use crate::agent_report::{AgentFailure, AgentReport, AgentWork};
use crate::end_reason::EndReason;
use crate::id::{AgentId, EffectId};
use crate::limits::RunLimits;
use crate::machine::Refusal;
use crate::message::Usage;
use crate::run::report::remaining;
use crate::spec::RunSpec;
use crate::time::{Millis, Timestamp};
use crate::tool::ToolResult;

impl Run {
    /// Checks that the run can be resumed with these limits or, if `limits` is `None`, with its current limits. `last_seen` is the time of
    /// its last journal entry. `interrupted` is the work of the agents that were still running when the run ended.
    ///
    /// # Errors
    /// [`Refusal::Finished`] if the run cannot be resumed; [`Refusal::AtLimit`] if it has already reached one of the limits.
    pub fn check_resume(
        &self,
        last_seen: Timestamp,
        limits: Option<&RunLimits>,
        interrupted: &BTreeMap<AgentId, AgentWork>,
    ) -> Result<(), Refusal> {
        let Some(reason) = self.end() else {
            return Ok(());
        };
        if !reason.is_resumable() {
            let reason = reason.clone();
            return Err(Refusal::Finished { reason });
        }
        if *reason == EndReason::UserRequired {
            return Ok(());
        }
        let mut usage = self.usage;
        interrupted.values().for_each(|work| usage += work.usage);
        let limits = limits.unwrap_or(&self.spec().limits);
        match self.limit_reached(reason, limits, &usage, last_seen) {
            Some(reason) => Err(Refusal::AtLimit { reason }),
            None => Ok(()),
        }
    }

    fn limit_reached(
        &self,
        ended: &EndReason,
        limits: &RunLimits,
        usage: &Usage,
        last_seen: Timestamp,
    ) -> Option<EndReason> {
        let max_iterations = limits.max_iterations;
        if self.completed_iterations() >= max_iterations {
            return Some(EndReason::IterationLimit { max_iterations });
        }
        if limits
            .timeout
            .is_some_and(|timeout| self.time_used(last_seen) >= timeout)
        {
            return Some(EndReason::TimeLimit);
        }
        budgets(limits).find_map(|(budget, limit)| {
            let used = budget.used(usage);
            // The last request exceeded what was left of the old limit, and the new limit is not higher.
            let found_no_room = matches!(ended, EndReason::BudgetExhausted { budget: of, limit: old, .. }
                if *of == budget && limit <= *old);
            (used >= limit || found_no_room).then_some(EndReason::BudgetExhausted { budget, used, limit })
        })
    }

    /// The number of completed iterations: those with a plan, or in which the lead acted. If the last iteration ended before reaching that
    /// point, it is planned again and not counted.
    fn completed_iterations(&self) -> u32 {
        match self.iterations.last() {
            Some(iteration) if iteration.number == self.iteration => self.iteration,
            Some(_) | None => self.iteration.saturating_sub(1),
        }
    }

    /// The time that counts towards the run's time limit.
    fn time_used(&self, last_seen: Timestamp) -> Millis {
        last_seen.max(self.last_at) - (self.started_at + self.excluded_time)
    }

    /// Replaces the run's limits.
    pub(super) fn set_limits(&mut self, limits: RunLimits) {
        let spec = RunSpec {
            limits,
            ..RunSpec::clone(self.spec())
        };
        self.spec = Arc::new(spec);
    }

    /// Resumes a failed run that [`Self::check_resume`] accepts.
    pub(super) fn recover(
        &mut self,
        now: Timestamp,
        last_seen: Timestamp,
        interrupted: BTreeMap<AgentId, AgentWork>,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.extend_deadline(now - last_seen.max(self.last_at), commands);
        let Some(end) = &mut self.end else {
            return Ok(());
        };
        let reason = end.reason.clone();
        self.work = std::mem::replace(&mut end.interrupted, OutstandingWork::new());
        // The run is still in phase Failed, so that nothing new starts.
        self.observe_interrupted(now, interrupted)?;
        self.end = None;
        let unfinished = remaining(&self.iterations);
        if let Some(iteration) = self.iterations.last_mut()
            && iteration.number == self.iteration
            && iteration.reflection.is_none()
        {
            iteration.interrupted = Some(if unfinished.is_empty() {
                format!("the run ended before this iteration was evaluated: {reason}")
            } else {
                format!(
                    "the run ended before this plan was completed: {reason}. Remaining: {}",
                    unfinished.join("; ")
                )
            });
        }
        self.iteration = self.completed_iterations();
        self.budget_exceeded = None;
        self.plan(commands)
    }

    /// Records as ended all work that the end of the run interrupted.
    fn observe_interrupted(
        &mut self,
        now: Timestamp,
        mut agent_work: BTreeMap<AgentId, AgentWork>,
    ) -> Result<(), Refusal> {
        let effects: Vec<EffectId> = self.work.iter().map(|(effect, _)| effect).collect();
        for effect in effects {
            // Ending a delegate may already have ended its caller.
            let Some(pending) = self.work.get(effect) else {
                continue;
            };
            match pending {
                Pending::Agent(agent) if agent.report.is_some() => {}
                Pending::Agent(agent) => {
                    let work = agent_work.remove(&agent.brief.agent).unwrap_or_default();
                    self.observe_interrupted_agent(now, effect, work)?;
                }
                Pending::Call(planned) => match planned.state {
                    CallState::Running { .. } => {
                        self.end_call(now, effect, ToolResult::run_ended(), &mut Commands::new())?;
                    }
                    CallState::AwaitingApproval(_) => {
                        let (effect, position, call) = self.end_approval(effect)?;
                        let (result, commands) = (ToolResult::undecided(), &mut Commands::new());
                        self.finish_unexecuted(now, effect, position, call, result, commands)?;
                    }
                },
                // The next reflection reads the diff, and may ask the question again.
                Pending::Diff | Pending::Question(_) => self.work.remove(effect).map(drop)?,
            }
        }
        Ok(())
    }

    fn observe_interrupted_agent(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        work: AgentWork,
    ) -> Result<(), Refusal> {
        self.work.update_agent(effect, |agent| match agent.purpose {
            Purpose::Reflection => agent.purpose = Purpose::Abandoned,
            Purpose::Lead | Purpose::SubTask(_) | Purpose::Delegation(_) | Purpose::Abandoned => {}
        })?;
        let report = AgentReport {
            result: Err(AgentFailure::RunEnded),
            work,
            duration: Millis(0),
            guidance: None,
        };
        self.agent_finished(now, effect, report, &mut Commands::new())
    }
}

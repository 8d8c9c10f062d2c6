//! What the end of an agent leads to, and the end of the run itself (PAOR-12).

use super::{Commands, Pending, Run};
use crate::agent_report::{AgentAnswer, AgentFailure, AgentReport};
use crate::brief::AgentRole;
use crate::budget::{BudgetExceeded, BudgetKind};
use crate::end_reason::{EndReason, FailureCause};
use crate::id::{EffectId, Scope};
use crate::limits::RunLimits;
use crate::machine::Refusal;
use crate::message::ModelFailureKind;
use crate::observation::SubTaskResult;
use crate::phase::Phase;
use crate::plan::SubTaskOutcome;
use crate::run::RunCommand;
use crate::time::Timestamp;

impl Run {
    /// Handles the report of an outstanding agent of any role.
    pub(super) fn agent_finished(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        report: AgentReport,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let brief = self.outstanding.get(effect)?.brief();
        let agent = brief.map(|brief| brief.agent);
        let Some(agent) = agent.filter(|_| !self.awaiting_children.contains_key(&effect.step)) else {
            return Err(Refusal::Stale { effect });
        };
        self.pending_approvals
            .retain(|asked, _| asked.scope != Scope::Agent(agent));
        self.usage += report.work.usage;
        if let Err(AgentFailure::Budget { budget_exceeded }) = &report.result {
            self.budget_exceeded = Some(*budget_exceeded);
        }
        self.finish_or_defer(now, effect, report, commands)
    }

    pub(super) fn end_agent(
        &mut self,
        now: Timestamp,
        pending: Pending,
        report: AgentReport,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        match (pending, report.result) {
            (Pending::Planner(_), Ok(AgentAnswer::Plan(plan))) => self.accept_plan(now, plan, commands),
            (Pending::Planner(_), Ok(AgentAnswer::Text(text))) => self.accept_answer(text, commands),
            (Pending::Reflector(_), Ok(AgentAnswer::Reflection(reflection))) => {
                self.accept_reflection(now, reflection, commands)
            }
            (Pending::SubAgent { brief, index }, result) => {
                let result = match result.map(AgentAnswer::into_text) {
                    Err(AgentFailure::Cancelled) if self.redirecting => Err(AgentFailure::Redirected),
                    result => result,
                };
                let success = if result.is_ok() {
                    SubTaskOutcome::Succeeded
                } else {
                    SubTaskOutcome::Failed
                };
                let name = match &brief.role {
                    AgentRole::Sub(name) => name.clone(),
                    AgentRole::Planner | AgentRole::Reflector => String::new(),
                };
                let finding = SubTaskResult::Agent {
                    agent: brief.agent,
                    name,
                    result,
                    work: report.work,
                };
                self.end_subtask(now, index, success, finding, commands)
            }
            (Pending::Planner(_), result) => self.fail_without_answer("planner", "a plan", result, commands),
            (Pending::Reflector(_), result) => {
                self.fail_without_answer("reflector", "a judgement", result, commands)
            }
            // Callers pass only agents, and handle these kinds themselves.
            (
                Pending::Child { .. }
                | Pending::Abandoned(_)
                | Pending::Tool { .. }
                | Pending::Approval { .. }
                | Pending::Question { .. },
                _,
            ) => Ok(()),
        }
    }

    fn fail_without_answer(
        &mut self,
        role: &str,
        expected: &str,
        result: Result<AgentAnswer, AgentFailure>,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        if self.budget_exceeded.is_some()
            && let Some(reason) = self.budget_exhausted()
        {
            return self.finish(reason, commands);
        }
        let cause = match &result {
            Err(failure) => cause(failure),
            Ok(_) => FailureCause::Unrecoverable,
        };
        let error = match result {
            Err(failure) => format!("the {role} ended without {expected}: {failure}"),
            Ok(_) => format!("the {role} ended with something else than {expected}"),
        };
        self.finish(EndReason::Failed { error, cause }, commands)
    }

    /// The reason to end the run if no further iteration is allowed (PAOR-3).
    pub(super) fn iterations_exhausted(&self) -> Option<EndReason> {
        let max_iterations = self.spec()?.limits.max_iterations;
        (self.iteration >= max_iterations).then_some(EndReason::IterationLimit { max_iterations })
    }

    /// The reason to end the run if its budget is used up. Checked before anything new starts, so what was achieved stays achieved
    /// (PAOR-12).
    pub(super) fn budget_exhausted(&self) -> Option<EndReason> {
        if let Some(BudgetExceeded {
            budget, used, limit, ..
        }) = self.budget_exceeded
        {
            // Other agents have used more of their reservations since.
            let used = used.max(budget.used(&self.usage));
            return Some(EndReason::BudgetExhausted { budget, used, limit });
        }
        budgets(&self.spec()?.limits).find_map(|(budget, limit)| {
            let used = budget.used(&self.usage);
            (used >= limit).then_some(EndReason::BudgetExhausted { budget, used, limit })
        })
    }

    /// Pauses the run, as no user is there to answer or to decide; it continues when it is resumed.
    pub(super) fn pause_for_user(
        &mut self,
        effect: EffectId,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.check_awaited(effect)?;
        let reason = EndReason::UserRequired;
        self.end = Some(reason.clone());
        commands.push(RunCommand::Finish { reason });
        Ok(())
    }

    pub(super) fn finish(&mut self, reason: EndReason, commands: &mut Commands) -> Result<(), Refusal> {
        let phase = match reason {
            EndReason::GoalAchieved => Phase::Complete,
            EndReason::IterationLimit { .. }
            | EndReason::TimeLimit
            | EndReason::BudgetExhausted { .. }
            | EndReason::UserRequired
            | EndReason::Cancelled
            | EndReason::Failed { .. } => Phase::Failed,
        };
        self.enter(phase, commands)?;
        self.cut_off = self.outstanding.take();
        self.stopping.clear();
        self.redirecting = false;
        self.pending_approvals.clear();
        self.awaiting_user = None;
        self.end = Some(reason.clone());
        commands.push(RunCommand::Finish { reason });
        Ok(())
    }
}

/// The limits that bound the run's budget (HOST-6).
pub(super) fn budgets(limits: &RunLimits) -> impl Iterator<Item = (BudgetKind, u64)> {
    let budgets = [
        (BudgetKind::Tokens, limits.max_tokens),
        (BudgetKind::Cost, limits.max_cost.map(|cost| cost.0)),
        (BudgetKind::ModelCalls, limits.max_model_calls.map(u64::from)),
    ];
    budgets
        .into_iter()
        .filter_map(|(budget, limit)| Some((budget, limit?)))
}

/// Whether a run can be resumed after its planner or reflector failed like this.
fn cause(failure: &AgentFailure) -> FailureCause {
    match failure {
        AgentFailure::TurnLimit { .. } | AgentFailure::TimeLimit { .. } | AgentFailure::Stuck { .. } => {
            FailureCause::AgentLimit
        }
        AgentFailure::Model { failure } => match failure.kind {
            ModelFailureKind::Unavailable { .. } | ModelFailureKind::Configuration => {
                FailureCause::ModelUnavailable
            }
            ModelFailureKind::TooLong | ModelFailureKind::Rejected | ModelFailureKind::Panicked => {
                FailureCause::Unrecoverable
            }
        },
        AgentFailure::Malformed { .. }
        | AgentFailure::Filtered
        | AgentFailure::Oversized
        | AgentFailure::Budget { .. }
        | AgentFailure::Rejected { .. }
        | AgentFailure::Redirected
        | AgentFailure::RunEnded
        | AgentFailure::Cancelled
        | AgentFailure::Panicked { .. } => FailureCause::Unrecoverable,
    }
}

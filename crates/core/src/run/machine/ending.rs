//! Handles the end of agents and the end of the run itself (PAOR-12).

use super::work::{OutstandingWork, Purpose, RunningAgent};
use super::{Commands, Run};
use crate::agent_report::{AgentAnswer, AgentFailure, AgentReport};
use crate::budget::{BudgetExceeded, BudgetKind};
use crate::end_reason::{EndReason, FailureCause};
use crate::id::EffectId;
use crate::limits::RunLimits;
use crate::machine::Refusal;
use crate::message::ModelFailureKind;
use crate::observation::SubTaskResult;
use crate::phase::Phase;
use crate::question::Question;
use crate::reflection::Reflection;
use crate::run::{RunCommand, RunInput};
use crate::time::Timestamp;

/// The end of a run or, if the reason is [`EndReason::UserRequired`], its pause.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RunEnd {
    pub(super) reason: EndReason,
    /// The lead's answer, if it answered the goal directly.
    pub(super) answer: Option<String>,
    /// The reflector's question that was not asked, because a limit allows no further iteration.
    pub(super) unasked: Option<Question>,
    /// The work that the end interrupted, until the run is resumed.
    pub(super) interrupted: OutstandingWork,
}

impl Run {
    /// Handles the report of an agent of any role.
    pub(super) fn agent_finished(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        report: AgentReport,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        let agent = self.work.agent(effect)?;
        if agent.report.is_some() {
            return Err(Refusal::Stale { effect });
        }
        if let Some(call) = agent.awaited_call() {
            self.work.settle_call(call)?;
        }
        self.usage += report.work.usage;
        if let Err(AgentFailure::Budget { budget_exceeded }) = &report.result {
            self.budget_exceeded = Some(*budget_exceeded);
        }
        self.finish_or_defer(now, effect, report, commands)
    }

    /// Handles the end of an agent whose delegates have all ended.
    pub(super) fn end_agent(
        &mut self,
        now: Timestamp,
        agent: RunningAgent,
        report: AgentReport,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        match (agent.purpose, report.result) {
            (Purpose::Lead, result) => self.end_lead(now, AgentReport { result, ..report }, commands),
            (Purpose::Reflection, Ok(AgentAnswer::Reflection(reflection))) => {
                self.accept_reflection(now, reflection, commands)
            }
            (Purpose::Reflection, Ok(AgentAnswer::Text(words))) => {
                self.accept_reflection(now, Reflection::from_words(&words), commands)
            }
            (Purpose::Reflection, result) => {
                self.fail_without_answer("reflector", "a reflection", result, commands)
            }
            (Purpose::SubTask(index), result) => {
                let result = match result.map(AgentAnswer::into_text) {
                    Err(AgentFailure::Cancelled) if self.redirecting => Err(AgentFailure::Redirected),
                    result => result,
                };
                let finding = SubTaskResult::Agent {
                    agent: agent.brief.agent,
                    name: agent.brief.role.name().to_owned(),
                    result,
                    work: report.work,
                };
                self.end_subtask(now, index, finding, commands)
            }
            (Purpose::Delegation(call), result) => {
                let report = AgentReport { result, ..report };
                self.end_delegate(now, &agent.brief, call, report, commands)
            }
            (Purpose::Abandoned, _) => Ok(()),
        }
    }

    pub(super) fn fail_without_answer(
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
            Ok(_) => format!("the {role}'s answer is not {expected}"),
        };
        self.finish(EndReason::Failed { error, cause }, commands)
    }

    /// The reason to end the run if no further iteration is allowed (PAOR-3).
    pub(super) fn iterations_exhausted(&self) -> Option<EndReason> {
        let max_iterations = self.spec().limits.max_iterations;
        (self.iteration >= max_iterations).then_some(EndReason::IterationLimit { max_iterations })
    }

    /// The reason to end the run if its budget is used up. Checked only before new work starts, so that a run that has reached its goal
    /// still ends as achieved (PAOR-12).
    pub(super) fn budget_exhausted(&self) -> Option<EndReason> {
        if let Some(BudgetExceeded {
            budget, used, limit, ..
        }) = self.budget_exceeded
        {
            // Other agents may have used more of the budget since the request was refused.
            let used = used.max(budget.used(&self.usage));
            return Some(EndReason::BudgetExhausted { budget, used, limit });
        }
        budgets(&self.spec().limits).find_map(|(budget, limit)| {
            let used = budget.used(&self.usage);
            (used >= limit).then_some(EndReason::BudgetExhausted { budget, used, limit })
        })
    }

    /// Returns the input that tells the run that no user is available for this question or call, for which the whole run waits.
    pub fn user_absent_input(&self, effect: EffectId) -> RunInput {
        let guided = self.question().is_some() && self.has_unplanned_guidance();
        RunInput::UserAbsent { effect, guided }
    }

    /// Pauses the run until it is resumed, because no user is available to answer or to decide. If the lead has not received all guidance,
    /// this guidance replaces the answer to the run's question, and the run plans again instead.
    pub(super) fn user_absent(
        &mut self,
        now: Timestamp,
        effect: EffectId,
        guided: bool,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.check_awaited(effect)?;
        if guided && self.question().is_some() {
            self.end_question(now, commands)?;
            return self.plan(commands);
        }
        let reason = EndReason::UserRequired;
        self.end = Some(RunEnd {
            reason: reason.clone(),
            answer: None,
            unasked: None,
            interrupted: OutstandingWork::new(),
        });
        commands.push(RunCommand::Finish { reason });
        Ok(())
    }

    /// Ends the run as achieved, with the lead's answer.
    pub(super) fn finish_with_answer(
        &mut self,
        answer: String,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.end_run(EndReason::GoalAchieved, Some(answer), None, commands)
    }

    /// Ends the run with a question that is not asked, because a limit allows no further iteration.
    pub(super) fn finish_unasked(
        &mut self,
        reason: EndReason,
        question: Question,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
        self.end_run(reason, None, Some(question), commands)
    }

    pub(super) fn finish(&mut self, reason: EndReason, commands: &mut Commands) -> Result<(), Refusal> {
        self.end_run(reason, None, None, commands)
    }

    fn end_run(
        &mut self,
        reason: EndReason,
        answer: Option<String>,
        unasked: Option<Question>,
        commands: &mut Commands,
    ) -> Result<(), Refusal> {
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
        self.redirecting = false;
        self.awaiting_user = None;
        self.end = Some(RunEnd {
            reason: reason.clone(),
            answer,
            unasked,
            interrupted: self.work.take(),
        });
        commands.push(RunCommand::Finish { reason });
        Ok(())
    }
}

/// Returns the configured limits of the run's budget (HOST-6).
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

/// Returns the cause of a run's failure, given the failure of its lead or reflector.
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
        | AgentFailure::GaveUp { .. }
        | AgentFailure::Rejected { .. }
        | AgentFailure::Redirected
        | AgentFailure::RunEnded
        | AgentFailure::Cancelled
        | AgentFailure::Panicked { .. } => FailureCause::Unrecoverable,
    }
}

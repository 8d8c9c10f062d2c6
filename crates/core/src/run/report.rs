//! The data of a run's report: the summary (PAOR-10) and every step (PAOR-11). Computed only from the run's state.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::iteration::changes;
use super::rejections::{guided, rejections};
use super::{Iteration, Run};
use crate::agent_report::AgentWork;
use crate::approval::Approval;
use crate::confirmation::Confirmation;
use crate::end_reason::EndReason;
use crate::file_changes::{ChangedFile, CommandChanges, changed_files, database_changes};
use crate::id::SubTaskId;
use crate::message::Usage;
use crate::observation::{Observation, SubTaskResult};
use crate::phase::Phase;
use crate::plan::{LEAD, Plan, PlanGraph, SubTaskState};
use crate::policy::CallPattern;
use crate::question::{OpenQuestion, Question};
use crate::reflection::Reflection;
use crate::time::Millis;
use crate::tool::StateChange;
use crate::usage::UsageReport;

/// The version of the JSON form of [`Event`](crate::view::Event) and [`Report`]. New events and new fields do not change it, so readers
/// must ignore unknown events and fields. The version is increased when an event or a field is removed, renamed or changes its meaning.
pub const JSON_VERSION: u32 = 1;

/// The report of a run that has ended or is still in progress.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of the JSON form: [`JSON_VERSION`].
    pub version: u32,
    /// The goal in the user's words.
    pub goal: String,
    /// The run's phase.
    pub phase: Phase,
    /// Why the run ended or waits; `None` while it runs.
    #[serde(flatten)]
    pub end: Option<EndReason>,
    /// The outcome: the lead's answer, the last reflection's summary or the error of a failed run; empty if there is none.
    pub summary: String,
    /// The lead's answer, if the reflector then judged the goal achieved (LEAD-3), so that `summary` is the reflector's summary. `None` if
    /// `summary` is the lead's answer itself, or there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The oldest question that waits for the user's answer, or a question that was not asked because a limit allows no further iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// The questions that wait for the user's answer, oldest first. Questions of agents are included only in
    /// [`RunView::report`](crate::view::RunView::report).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<OpenQuestion>,
    /// The calls that wait for approval, oldest first. Calls of agents are included only in
    /// [`RunView::report`](crate::view::RunView::report).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingCall>,
    /// The files that file tools changed, with their net changes over the whole run.
    pub changed: Vec<ChangedFile>,
    /// The files that changed while commands were running, except changes by file tools (PAOR-10). The command or something else may have
    /// changed them. Empty in [`Run::report`]; computed by [`RunView::report`](crate::view::RunView::report), which knows which calls ran
    /// at the same time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed_during_commands: Vec<CommandChanges>,
    /// The tables that were created, dropped or whose rows changed, in the order of the first changes, with all rows of a table added up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed_databases: Vec<StateChange>,
    /// The calls that the last reflection names as confirmations, if it judged the goal achieved.
    pub confirmed_by: Vec<Confirmation>,
    /// The rejected calls that ended a sub-task, each with its sub-task and the user's reason (APPROVE-2).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// The calls that the user did not approve but answered with guidance, each with its sub-task and the guidance (APPROVE-2).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guided: Vec<String>,
    /// The user's guidance entries, each with the iteration in which the lead received it (PAOR-8).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<GuidanceStatus>,
    /// The sub-tasks of the last plan that are not done, each with the reason.
    pub remaining: Vec<String>,
    /// The number of planning iterations.
    pub iteration_count: u32,
    /// The tokens, cost and calls of the run.
    pub usage: Usage,
    /// The calls of agents that did not run, because they were refused or not approved. They are not part of `usage`. 0 in [`Run::report`];
    /// counted by [`RunView::report`](crate::view::RunView::report).
    #[serde(skip_serializing_if = "is_zero")]
    pub refused_calls: u32,
    /// The usage and times of each agent and each model. `None` in [`Run::report`]; computed by
    /// [`RunView::report`](crate::view::RunView::report).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<UsageReport>,
    /// Time from the start to the last input.
    pub duration: Millis,
    /// Every iteration with its plan and observations.
    pub iterations: Vec<IterationReport>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A guidance entry of the user, with the iteration that takes it into account. JSON: `{"guidance": "…", "iteration": 2}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GuidanceStatus {
    /// The guidance, in the user's words.
    pub guidance: String,
    /// The iteration in which the lead first received the guidance; `None` until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
}

/// A call that waits for approval, and the work that it blocks. JSON: the fields of [`Approval`], `"subtask"`, `"dependents"` and
/// `"suggestions"`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitingCall {
    /// The approval to decide about.
    #[serde(flatten)]
    pub approval: Arc<Approval>,
    /// The sub-task that the call blocks; `None` for a call of the lead or the reflector, which blocks the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtask: Option<SubTaskId>,
    /// The number of sub-tasks that depend on the blocked sub-task, directly or indirectly.
    pub dependents: usize,
    /// Patterns with which the user can allow the call, and calls like it from now on, as in [`Approval::suggestions`]. JSON: their texts.
    #[serde(serialize_with = "as_texts")]
    pub suggestions: Vec<CallPattern>,
}

fn as_texts<S: Serializer>(patterns: &[CallPattern], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(patterns.iter().map(ToString::to_string))
}

/// One iteration of a report.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct IterationReport {
    /// The iteration's number, from 1.
    pub iteration: u32,
    /// The iteration's plan.
    pub plan: Plan,
    /// The states of the plan's sub-tasks, in plan order.
    pub states: Vec<SubTaskState>,
    /// The observations of ended sub-tasks, in the order in which they ended.
    pub observations: Vec<Observation>,
    /// The reflector's evaluation of the iteration; `None` until it exists.
    pub reflection: Option<Reflection>,
}

impl Run {
    /// Returns the run's report. Omits the work of agents that have not reported yet.
    pub fn report(&self) -> Report {
        self.report_with(&[])
    }

    /// Like [`Run::report`], but includes the `unreported` work of agents that have not reported yet.
    pub(crate) fn report_with(&self, unreported: &[&AgentWork]) -> Report {
        Report {
            version: JSON_VERSION,
            goal: self.spec().goal.clone(),
            phase: self.phase(),
            end: self.end().cloned(),
            summary: self.summary(),
            answer: self.judged_answer().map(str::to_owned),
            question: self
                .question()
                .map(|(_, question)| question)
                .or(self.unasked_question())
                .cloned(),
            questions: self.open_question().into_iter().collect(),
            waiting: self.waiting_calls(&self.approvals().cloned().collect::<Vec<_>>()),
            changed: changed_files(changes(self.iterations(), unreported)),
            changed_during_commands: Vec::new(),
            changed_databases: database_changes(changes(self.iterations(), unreported)),
            confirmed_by: self.confirmations(),
            rejected: rejections(self.iterations()),
            guided: guided(self.iterations()),
            guidance: self.guidance_status(),
            remaining: remaining(self.iterations()),
            iteration_count: self.iteration(),
            usage: self.usage_with(unreported),
            refused_calls: 0,
            account: None,
            duration: self.last_at() - self.started_at(),
            iterations: self
                .iterations()
                .iter()
                .map(|iteration| IterationReport {
                    iteration: iteration.number,
                    plan: Plan::clone(iteration.graph.plan()),
                    states: (0..iteration.graph.plan().subtasks.len())
                        .map(|index| iteration.graph.state(index))
                        .collect(),
                    observations: iteration.observations.clone(),
                    reflection: iteration.reflection.clone(),
                })
                .collect(),
        }
    }

    fn guidance_status(&self) -> Vec<GuidanceStatus> {
        let iterations = self.guidance_iterations();
        let given = self.guidance().iter().enumerate();
        given
            .map(|(place, guidance)| GuidanceStatus {
                guidance: guidance.clone(),
                iteration: iterations.get(place).copied(),
            })
            .collect()
    }

    /// Returns the calls that wait for these approvals, each with the work that it blocks.
    pub(crate) fn waiting_calls(&self, approvals: &[Arc<Approval>]) -> Vec<WaitingCall> {
        let waiting = |approval: &Arc<Approval>| {
            let blocked = self.blocked_subtask(approval.effect);
            let blocked = blocked.and_then(|index| Some((&self.iterations().last()?.graph, index)));
            WaitingCall {
                approval: approval.clone(),
                subtask: blocked.map(|(graph, index)| graph.plan().subtasks[index].id.clone()),
                dependents: blocked.map_or(0, |(graph, index)| all_dependents(graph, index)),
                suggestions: approval.suggestions(&self.spec().setup.policy),
            }
        };
        approvals.iter().map(waiting).collect()
    }

    /// Like [`Run::usage`], but includes the usage of agents that have not reported yet.
    pub(crate) fn usage_with(&self, unreported: &[&AgentWork]) -> Usage {
        let mut usage = self.usage();
        unreported.iter().for_each(|work| usage += work.usage);
        usage
    }

    /// Returns the outcome: the lead's answer, the last reflection's summary or the error of a failed run; empty if there is none.
    pub fn summary(&self) -> String {
        let reflected = self
            .iterations()
            .iter()
            .rev()
            .find_map(|iteration| iteration.reflection.as_ref());
        match (self.answer(), self.end(), reflected) {
            (Some(answer), _, _) => answer.to_owned(),
            (None, _, Some(reflection)) => reflection.summary.clone(),
            (None, Some(EndReason::Failed { error, .. }), None) => error.clone(),
            (None, _, None) => String::new(),
        }
    }

    /// The lead's answer with which the reflector of the current iteration judged the goal achieved; `None` if the reflector judged a plan,
    /// or if the answer equals the summary.
    fn judged_answer(&self) -> Option<&str> {
        let judged = self
            .achieved_iteration()
            .filter(|iteration| !iteration.has_plan())?;
        let own = judged.observations.iter().find(|seen| seen.subtask.0 == LEAD)?;
        let summary = &judged.reflection.as_ref()?.summary;
        match &own.finding {
            SubTaskResult::Agent {
                result: Ok(answer), ..
            } => (answer.trim() != summary.trim()).then_some(answer.as_str()),
            SubTaskResult::Agent { result: Err(_), .. }
            | SubTaskResult::Calls { .. }
            | SubTaskResult::Skipped { .. } => None,
        }
    }

    /// The current iteration, if its reflector judged the goal achieved.
    fn achieved_iteration(&self) -> Option<&Iteration> {
        let current = self.iterations().last();
        current.filter(|iteration| iteration.number == self.iteration() && iteration.is_achieved())
    }

    /// The confirmations of the result: only those that the reflector of the current iteration lists (PAOR-10).
    fn confirmations(&self) -> Vec<Confirmation> {
        let reflection = self
            .achieved_iteration()
            .and_then(|iteration| iteration.reflection.as_ref());
        reflection.map_or_else(Vec::new, |reflection| reflection.confirmed_by.clone())
    }
}

/// Returns the number of sub-tasks that depend on this one, directly or indirectly.
fn all_dependents(graph: &PlanGraph, index: usize) -> usize {
    let (mut found, mut next) = (BTreeSet::new(), vec![index]);
    while let Some(index) = next.pop() {
        next.extend(
            graph
                .dependents(index)
                .filter(|dependent| found.insert(*dependent)),
        );
    }
    found.len()
}

pub(super) fn remaining(iterations: &[Iteration]) -> Vec<String> {
    let Some(iteration) = iterations.last() else {
        return Vec::new();
    };
    let subtasks = &iteration.graph.plan().subtasks;
    subtasks
        .iter()
        .enumerate()
        .filter_map(|(index, subtask)| {
            let why = match iteration.graph.state(index) {
                SubTaskState::Succeeded => return None,
                SubTaskState::Failed
                    if iteration
                        .observation(index)
                        .is_some_and(Observation::failed_as_allowed) =>
                {
                    return None;
                }
                SubTaskState::Failed => "failed".to_owned(),
                SubTaskState::Skipped => match iteration.observation(index).map(|seen| &seen.finding) {
                    Some(SubTaskResult::Skipped {
                        because: Some(because),
                    }) => {
                        format!("skipped because `{because}` failed")
                    }
                    Some(SubTaskResult::Skipped { because: None }) => {
                        "skipped because of your guidance".to_owned()
                    }
                    Some(SubTaskResult::Calls { .. } | SubTaskResult::Agent { .. }) | None => {
                        "skipped".to_owned()
                    }
                },
                SubTaskState::Waiting | SubTaskState::Ready => "not started".to_owned(),
                SubTaskState::Running => "not finished".to_owned(),
            };
            Some(format!("{} ({why})", subtask.title))
        })
        .collect()
}

impl Report {
    /// Returns the report without [`Report::account`].
    pub fn without_account(self) -> Self {
        Report {
            account: None,
            ..self
        }
    }

    /// Returns true if the goal was reached.
    pub fn is_achieved(&self) -> bool {
        self.end == Some(EndReason::GoalAchieved)
    }
}

//! What a user reads of a run: the concise summary (PAOR-10), and with every step on request (PAOR-11). Computed from
//! the run's state, so from its journal, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::changes::{ChangedFile, changed_files, changes, confirmations, diff};
use super::rejections::{guided, rejections};
use super::{Iteration, Run};
use crate::agent_report::AgentWork;
use crate::approval::Approval;
use crate::end_reason::EndReason;
use crate::id::SubTaskId;
use crate::message::Usage;
use crate::observation::{Observation, SubTaskResult};
use crate::phase::Phase;
use crate::plan::{Plan, PlanGraph, SubTaskState};
use crate::question::Question;
use crate::reflection::Reflection;
use crate::time::Millis;
use crate::usage::UsageReport;

/// A run as far as it is.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The user's goal.
    pub goal: String,
    /// The phase it is in.
    pub phase: Phase,
    /// Why it ended or stands still; none while it goes on.
    #[serde(flatten)]
    pub end: Option<EndReason>,
    /// What came of it, in the reflector's or the planner's words.
    pub summary: String,
    /// The question that waits for the user, or that a limit left no iteration to ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// The calls that wait for a person, what has waited longest first. Of agents' calls only
    /// [`RunView::report`](crate::view::RunView::report) knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingCall>,
    /// The files that are not what they were.
    pub changed: Vec<ChangedFile>,
    /// Commands that succeeded after the last change of a file.
    pub confirmed_by: Vec<String>,
    /// The calls that the user rejected and that ended a sub-task by it, each with its sub-task and the reason (APPROVE-2).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<String>,
    /// The calls of plans and agents that did not run, as the user had other words, each with its sub-task and those words (APPROVE-2).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guided: Vec<String>,
    /// The user's guidance, each with the iteration whose plan answers it (PAOR-8).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<GuidanceStatus>,
    /// What was planned in the last iteration and not done, each with why.
    pub remaining: Vec<String>,
    /// Planning iterations.
    pub iteration_count: u32,
    /// What was used.
    pub usage: Usage,
    /// The same for each agent and each model, with the times. [`RunView::report`](crate::view::RunView::report) has it; the
    /// run alone does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<UsageReport>,
    /// From its start to its last input.
    pub duration: Millis,
    /// Every iteration with its plan and observations.
    pub iterations: Vec<IterationReport>,
}

/// What the user had to say. JSON: `{"guidance": "…", "iteration": 2}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuidanceStatus {
    /// The user's words.
    pub guidance: String,
    /// The iteration whose plan answers it; none while no planner was given it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
}

/// A call that waits for a person, and what waits with it. JSON: an [`Approval`]'s fields, `"subtask"` and `"dependents"`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitingCall {
    /// What is to be decided about.
    #[serde(flatten)]
    pub approval: Arc<Approval>,
    /// The sub-task that waits; none for a planner's or a reflector's call, where the whole run does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtask: Option<SubTaskId>,
    /// How many sub-tasks can't start before that one has succeeded.
    pub dependents: usize,
}

/// An iteration with all that was observed.
#[derive(Clone, Debug, Serialize)]
pub struct IterationReport {
    /// Its number, from 1.
    pub iteration: u32,
    /// The plan.
    pub plan: Plan,
    /// The states of the plan's sub-tasks, in its order.
    pub states: Vec<SubTaskState>,
    /// How they ended, in that order.
    pub observations: Vec<Observation>,
    /// The judgement, once there is one.
    pub reflection: Option<Reflection>,
}

impl Run {
    /// The run as far as it is; of agents, what they have reported.
    pub fn report(&self) -> Report {
        self.report_with(&[])
    }

    /// As [`Run::report`], with the work of agents whose reports have not come.
    pub(crate) fn report_with(&self, unreported: &[&AgentWork]) -> Report {
        Report {
            goal: self.spec().map_or_else(String::new, |spec| spec.goal.clone()),
            phase: self.phase(),
            end: self.end().cloned(),
            summary: self.summary(),
            question: self
                .question()
                .map(|(_, question)| question)
                .or(self.unasked_question())
                .cloned(),
            waiting: self.waiting_calls(&self.approvals().cloned().collect::<Vec<_>>()),
            changed: changed_files(changes(self.iterations(), unreported)),
            confirmed_by: confirmations(changes(self.iterations(), unreported)),
            rejected: rejections(self.iterations()),
            guided: guided(self.iterations()),
            guidance: self.guidance_status(),
            remaining: remaining(self.iterations()),
            iteration_count: self.iteration(),
            usage: self.usage_with(unreported),
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

    /// What waits with calls of the run and its agents.
    pub(crate) fn waiting_calls(&self, approvals: &[Arc<Approval>]) -> Vec<WaitingCall> {
        let waiting = |approval: &Arc<Approval>| {
            let blocked = self.blocked_subtask(approval.effect);
            let blocked = blocked.and_then(|index| Some((&self.iterations().last()?.graph, index)));
            WaitingCall {
                approval: approval.clone(),
                subtask: blocked.map(|(graph, index)| graph.plan().subtasks[index].id.clone()),
                dependents: blocked.map_or(0, |(graph, index)| all_dependents(graph, index)),
            }
        };
        approvals.iter().map(waiting).collect()
    }

    /// As [`Run::usage`], with that of agents whose reports have not come.
    pub(crate) fn usage_with(&self, unreported: &[&AgentWork]) -> Usage {
        let mut usage = self.usage();
        unreported.iter().for_each(|work| usage += work.usage);
        usage
    }

    /// What came of it, in the reflector's or the planner's words; empty while there is nothing to say.
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

    /// The changes of the whole run as one text of unified diffs, in the order in which they were made.
    pub fn diff(&self) -> String {
        self.diff_with(&[])
    }

    /// As [`Run::diff`], with those of agents whose reports have not come.
    pub(crate) fn diff_with(&self, unreported: &[&AgentWork]) -> String {
        diff(changes(self.iterations(), unreported))
    }
}

/// How many sub-tasks depend on that one, directly or by others.
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
                SubTaskState::Failed => "failed".to_owned(),
                SubTaskState::Skipped => match iteration.observation(index).map(|seen| &seen.finding) {
                    Some(SubTaskResult::Skipped {
                        because: Some(because),
                    }) => {
                        format!("skipped, as `{because}` failed")
                    }
                    Some(SubTaskResult::Skipped { because: None }) => "skipped for your guidance".to_owned(),
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
    /// The same without the account, which only readers of the journal have.
    pub fn without_account(self) -> Self {
        Report {
            account: None,
            ..self
        }
    }

    /// Whether the goal was reached.
    pub fn is_achieved(&self) -> bool {
        self.end == Some(EndReason::GoalAchieved)
    }
}

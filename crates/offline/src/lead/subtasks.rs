//! Parts of plans that several goals share.

use dirigent_core::id::SubTaskId;
use dirigent_core::observation::ObservationStatus;
use dirigent_core::plan::{PlannedCall, SubTask, Work};

use crate::checks::{self, Check};
use crate::conversation::{Call, Conversation};
use crate::empty_plan::EmptyPlan;
use crate::prompt_sections::{PastSummaries, Sections, find_observation, since_last_undo};
use crate::requirements::Requirements;
use crate::role_texts::NO_CHECKS;
use crate::sub_agent_task::SubAgentTask;
use crate::tools;

/// Input of a lead.
pub(super) struct PlanningContext<'a> {
    pub conversation: &'a Conversation<'a>,
    pub sections: &'a Sections<'a>,
    pub requirements: Requirements,
}

/// A plan. `Err` is a call to make first.
pub(super) type DraftOrCall = Result<Draft, Call>;

/// A plan without the list of guidance that it follows.
pub(super) struct Draft {
    pub summary: String,
    pub subtasks: Vec<SubTask>,
}

impl From<EmptyPlan> for Draft {
    fn from(why: EmptyPlan) -> Self {
        Draft {
            summary: why.to_string(),
            subtasks: Vec::new(),
        }
    }
}

impl PlanningContext<'_> {
    /// Returns the project's checks that cover these files, except checks whose program is not installed.
    pub fn checks(&self, covered: &[String]) -> Result<Vec<Check>, Call> {
        let iterations = self.sections.iterations();
        let is_missing = |program: &str| {
            iterations
                .iter()
                .any(|iteration| iteration.missing_program() == Some(program))
        };
        let mut checks = checks::project_checks(self.conversation, covered)?;
        checks.retain(|check| check.command.first().is_none_or(|program| !is_missing(program)));
        Ok(checks)
    }

    /// Returns true if an earlier iteration has worked on the goal. In this case, files may have changed even if no change is recorded.
    pub fn has_begun(&self) -> bool {
        since_last_undo(&self.sections.iterations())
            .iter()
            .any(PastSummaries::had_subtasks)
    }

    /// Returns the sub-task that checks the project before any change; `None` if there are no checks, the checks have passed before, or
    /// files may have changed.
    pub fn baseline(&self, checks: &[Check]) -> Option<SubTask> {
        let observations = self.sections.observations();
        let is_due = match find_observation(&observations, "baseline") {
            // Edits depend on the baseline: if the baseline did not succeed, no file was changed.
            Some(baseline) => baseline.status != ObservationStatus::Succeeded,
            None => !self.has_begun(),
        };
        let title = "Check the project before any change";
        checks_subtask("baseline", title, Vec::new(), checks).filter(|_| is_due)
    }

    /// Returns a plan that confirms a change that earlier iterations have completed. The plan includes the checks if the last iteration ran
    /// checks, or if the last iteration's observations are missing.
    pub fn confirmation_plan(&self, done: &str, covered: &[String], verify: SubTask) -> DraftOrCall {
        let observations = self.sections.observations();
        let had_checks = observations.is_empty()
            || ["baseline", "check"]
                .iter()
                .any(|subtask| find_observation(&observations, subtask).is_some());
        let checks = if had_checks {
            self.checks(covered)?
        } else {
            Vec::new()
        };
        Ok(Draft {
            summary: format!("{done} already; confirm it. {}", checks_note(&checks)),
            subtasks: confirmation_subtasks(Vec::new(), &checks, verify),
        })
    }
}

/// Returns the sub-tasks that confirm edits: the checks, then `verify`.
pub(super) fn confirmation_subtasks(
    edits: Vec<SubTaskId>,
    checks: &[Check],
    verify: SubTask,
) -> Vec<SubTask> {
    let check = checks_subtask("check", "Build and test the project", edits.clone(), checks);
    let depends_on = check.as_ref().map_or(edits, |check| vec![check.id.clone()]);
    let verify = SubTask { depends_on, ..verify };
    check.into_iter().chain([verify]).collect()
}

/// Returns a sub-task that runs the checks; `None` without checks.
fn checks_subtask(id: &str, title: &str, depends_on: Vec<SubTaskId>, checks: &[Check]) -> Option<SubTask> {
    let calls: Vec<_> = checks
        .iter()
        .map(|check| tools::command(&check.command))
        .collect();
    (!calls.is_empty()).then(|| calls_subtask(id, title.to_owned(), depends_on, calls))
}

/// Returns the sentence about checks in a plan's summary.
pub(super) fn checks_note(checks: &[Check]) -> String {
    if checks.is_empty() {
        return NO_CHECKS.to_owned();
    }
    let commands: Vec<String> = checks
        .iter()
        .map(|check| format!("`{}`", check.command.join(" ")))
        .collect();
    format!("Checked before and after by {}.", commands.join(" and "))
}

/// Returns a sub-task that a sub-agent executes.
pub(super) fn agent_subtask(
    id: &str,
    title: String,
    depends_on: Vec<SubTaskId>,
    agent: &str,
    task: &SubAgentTask,
) -> SubTask {
    SubTask {
        id: id.into(),
        title,
        depends_on,
        may_fail: false,
        work: Work::Agent {
            agent: agent.to_owned(),
            task: task.to_string(),
        },
    }
}

/// Returns a sub-task that consists of calls, without a sub-agent.
pub(super) fn calls_subtask(
    id: &str,
    title: String,
    depends_on: Vec<SubTaskId>,
    calls: Vec<PlannedCall>,
) -> SubTask {
    SubTask {
        id: id.into(),
        title,
        depends_on,
        may_fail: false,
        work: Work::Calls { calls },
    }
}

/// Splits files into at most `parts` groups, in order. The sizes of the groups differ by at most one.
pub(super) fn split_evenly(files: &[String], parts: usize) -> Vec<Vec<String>> {
    let parts = parts.min(files.len());
    let mut groups = Vec::with_capacity(parts);
    let mut rest = files;
    for remaining in (1..=parts).rev() {
        let (group, after) = rest.split_at(rest.len().div_ceil(remaining));
        groups.push(group.to_vec());
        rest = after;
    }
    groups
}

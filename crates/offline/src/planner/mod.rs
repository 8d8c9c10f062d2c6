//! The planner: from a goal and what was seen to a graph of sub-tasks.
//!
//! It looks before it plans, and a look that no result shows yet is its reply (`Err` with the call). It never plans what
//! it has no evidence for: where there is nothing to work on, the plan has no sub-tasks and says why.

mod query;
mod rename;
mod repair;
mod replace;
mod undo;

use dirigent_core::call::SUBMIT_PLAN;
use dirigent_core::id::SubTaskId;
use dirigent_core::plan::{Plan, PlannedCall, SubTask, Work};
use serde_json::json;

use super::checks::{self, Check};
use super::conversation::{Call, Conversation};
use super::empty_plan::EmptyPlan;
use super::goal::Goal;
use super::location::shortened;
use super::prompt_sections::{
    PastIteration, Sections, Status, UNDO_SUMMARY, find_observation, since_last_undo,
};
use super::requirements::Requirements;
use super::sub_agent_task::SubAgentTask;
use super::{tools, unsupported};
pub(crate) use rename::BY_NAME;

/// What a planner works from.
pub(crate) struct PlanningContext<'a> {
    /// What it has seen.
    pub conversation: &'a Conversation<'a>,
    /// What it was told.
    pub sections: Sections<'a>,
    /// What the user wants.
    pub requirements: Requirements,
}

impl PlanningContext<'_> {
    /// The checks that tell something about these files, but for those whose program was found missing.
    pub fn checks(&self, about: &[String]) -> Result<Vec<Check>, Call> {
        let iterations = self.sections.iterations();
        let is_missing = |program: &str| {
            iterations
                .iter()
                .any(|iteration| iteration.missing_program() == Some(program))
        };
        let mut checks = checks::project_checks(self.conversation, about)?;
        checks.retain(|check| check.command.first().is_none_or(|program| !is_missing(program)));
        Ok(checks)
    }
}

/// A look that is needed first, in place of the plan.
pub(crate) type DraftOrCall = Result<Draft, Call>;

/// A plan in the making.
pub(crate) struct Draft {
    /// Its idea.
    pub summary: String,
    /// Its sub-tasks.
    pub subtasks: Vec<SubTask>,
}

/// The next call of a planner: a look, or the plan.
pub(crate) fn next(conversation: &Conversation<'_>) -> Call {
    let sections = Sections(conversation.request);
    if let Some(rejection) = conversation.rejection {
        let why = format!("the plan was not accepted: {}", shortened(rejection, 600));
        return submit(EmptyPlan::Impossible(why).into(), &Requirements::parse(sections));
    }
    let context = PlanningContext {
        conversation,
        sections,
        requirements: Requirements::parse(sections),
    };
    match plan(&context) {
        Ok(draft) => submit(draft, &context.requirements),
        Err(look) => look,
    }
}

fn plan(context: &PlanningContext<'_>) -> DraftOrCall {
    if let Some(why) = undo::is_due(context) {
        return Ok(undo::plan(context, &why));
    }
    match &context.requirements.goal {
        Goal::Rename(goal) => rename::plan(context, goal),
        Goal::Replace { old, new, scope } => replace::plan(context, old, new, scope),
        Goal::FindUsages { symbol, scope } => Ok(query::find_usages(symbol, scope)),
        Goal::Check { check, .. } => query::check(context, check),
        Goal::Count { target, scope } => Ok(query::count(target, scope)),
        Goal::Unsupported => Ok(EmptyPlan::Impossible(unsupported()).into()),
    }
}

/// The call that submits the draft. Guidance that is not followed is named, so that nobody takes it for answered; to put files back follows
/// none.
fn submit(draft: Draft, requirements: &Requirements) -> Call {
    let mut summary = draft.summary;
    let is_undo = summary.starts_with(UNDO_SUMMARY);
    if !requirements.unsupported_guidance.is_empty() && !is_undo {
        let numbers: Vec<String> = requirements
            .unsupported_guidance
            .iter()
            .map(u32::to_string)
            .collect();
        summary.push_str(&format!(" {UNSUPPORTED_GUIDANCE}{}.", numbers.join(", ")));
    }
    let plan = Plan {
        summary,
        answers_guidance: if is_undo {
            Vec::new()
        } else {
            requirements.followed_guidance.clone()
        },
        subtasks: draft.subtasks,
    };
    Call::terminating(SUBMIT_PLAN, json!(plan))
}

/// How a plan names guidance that it does not follow.
pub(crate) const UNSUPPORTED_GUIDANCE: &str = "Beyond the offline model, so not followed: guidance ";

impl From<EmptyPlan> for Draft {
    fn from(why: EmptyPlan) -> Self {
        Draft {
            summary: why.to_string(),
            subtasks: Vec::new(),
        }
    }
}

fn ids(names: &[&str]) -> Vec<SubTaskId> {
    names.iter().map(|&name| SubTaskId::from(name)).collect()
}

/// A sub-task for a sub-agent.
fn agent_subtask(
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
        work: Work::Agent {
            agent: agent.to_owned(),
            task: task.to_string(),
        },
    }
}

/// A sub-task of known calls.
fn calls_subtask(id: &str, title: String, depends_on: Vec<SubTaskId>, calls: Vec<PlannedCall>) -> SubTask {
    SubTask {
        id: id.into(),
        title,
        depends_on,
        work: Work::Calls { calls },
    }
}

/// Whether an earlier iteration has worked on the goal. Files may be changed then, whatever is recorded of it.
fn has_begun(context: &PlanningContext<'_>) -> bool {
    since_last_undo(&context.sections.iterations())
        .iter()
        .any(PastIteration::had_subtasks)
}

/// The checks before any change; none where they have passed already, or where files may be changed.
fn baseline(context: &PlanningContext<'_>, checks: &[Check]) -> Option<SubTask> {
    let observations = context.sections.observations();
    let is_due = match find_observation(&observations, "baseline") {
        // Edits wait for it, so where it did not pass nothing was changed.
        Some(baseline) => baseline.status != Status::Succeeded,
        None => !has_begun(context),
    };
    let title = "Check the project before any change";
    checks_subtask("baseline", title, Vec::new(), checks).filter(|_| is_due)
}

/// The plan where nothing is left to change, but earlier iterations have worked: that it looks done is no proof that it holds.
/// It is checked if they checked, and verified.
fn confirmation_plan(
    context: &PlanningContext<'_>,
    done: &str,
    about: &[String],
    title: String,
    task: &SubAgentTask,
) -> DraftOrCall {
    let observations = context.sections.observations();
    let had_checks = observations.is_empty()
        || ["baseline", "check"]
            .iter()
            .any(|subtask| find_observation(&observations, subtask).is_some());
    let checks = if had_checks {
        context.checks(about)?
    } else {
        Vec::new()
    };
    Ok(Draft {
        summary: format!("{done} already; see that it holds. {}", checks_note(&checks)),
        subtasks: confirmation_subtasks(Vec::new(), &checks, title, task),
    })
}

/// The sub-tasks that confirm edits: the checks, then a look at what is left.
fn confirmation_subtasks(
    edits: Vec<SubTaskId>,
    checks: &[Check],
    title: String,
    task: &SubAgentTask,
) -> Vec<SubTask> {
    let check = checks_subtask("check", "Build and test the project", edits.clone(), checks);
    let after = check.as_ref().map_or(edits, |check| vec![check.id.clone()]);
    let verify = agent_subtask("verify", title, after, "verify", task);
    check.into_iter().chain([verify]).collect()
}

/// A sub-task that runs the project's checks; none where there are none.
fn checks_subtask(id: &str, title: &str, depends_on: Vec<SubTaskId>, checks: &[Check]) -> Option<SubTask> {
    let calls: Vec<_> = checks
        .iter()
        .map(|check| tools::command(&check.command))
        .collect();
    (!calls.is_empty()).then(|| calls_subtask(id, title.to_owned(), depends_on, calls))
}

/// What a plan says of its checks.
fn checks_note(checks: &[Check]) -> String {
    if checks.is_empty() {
        return NO_CHECKS.to_owned();
    }
    let lines: Vec<String> = checks
        .iter()
        .map(|check| format!("`{}`", check.command.join(" ")))
        .collect();
    format!("Checked before and after by {}.", lines.join(" and "))
}

/// What a plan without checks says, and its reflection again.
pub(crate) const NO_CHECKS: &str =
    "There is nothing here to build or test these files with, so only a search confirms it.";

/// Deals out files into at most `parts` groups whose sizes differ by one at most, in order.
fn split_evenly(files: &[String], parts: usize) -> Vec<Vec<String>> {
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

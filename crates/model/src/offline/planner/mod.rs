//! The planner: from a goal and what was seen to a graph of sub-tasks.
//!
//! It looks before it plans, and a look that no result shows yet is its reply (`Err` with the call). It never plans what
//! it has no evidence for: where there is nothing to work on, the plan has no sub-tasks and says why.

mod ask;
mod put_back;
mod rename;
mod repair;
mod replace;

use dirigent_core::id::SubTaskId;
use dirigent_core::plan::{Plan, PlannedCall, SUBMIT_PLAN, SubTask, Work};
use serde_json::json;

use super::brief::Brief;
use super::checks::{self, Check};
use super::conversation::{Call, Conversation};
use super::goal::Goal;
use super::no_work::NoWork;
use super::place::shortened;
use super::reading::{PUTS_BACK, Round, Sections, Status, observed, since_put_back};
use super::wishes::Wishes;
use super::{beyond, tools};
pub(super) use rename::BY_NAME;

/// What a planner works from.
pub(super) struct Planning<'a> {
    /// What it has seen.
    pub conversation: &'a Conversation<'a>,
    /// What it was told.
    pub sections: Sections<'a>,
    /// What the user wants.
    pub wishes: Wishes,
}

impl Planning<'_> {
    /// The checks that tell something about these files, but for those whose program was found missing.
    pub fn checks(&self, about: &[String]) -> Result<Vec<Check>, Call> {
        let rounds = self.sections.rounds();
        let is_missing = |program: &str| {
            rounds
                .iter()
                .any(|round| round.missing_program() == Some(program))
        };
        let mut checks = checks::of_project(self.conversation, about)?;
        checks.retain(|check| check.command.first().is_none_or(|program| !is_missing(program)));
        Ok(checks)
    }
}

/// A look that is needed first, in place of the plan.
pub(super) type Planned = Result<Draft, Call>;

/// A plan in the making.
pub(super) struct Draft {
    /// Its idea.
    pub summary: String,
    /// Its sub-tasks.
    pub subtasks: Vec<SubTask>,
}

/// The next call of a planner: a look, or the plan.
pub(super) fn next(conversation: &Conversation<'_>) -> Call {
    let sections = Sections(conversation.request);
    if let Some(refusal) = conversation.refusal {
        let why = format!("the plan was not accepted: {}", shortened(refusal, 600));
        return submit(NoWork::Impossible(why).into(), &Wishes::read(sections));
    }
    let planning = Planning {
        conversation,
        sections,
        wishes: Wishes::read(sections),
    };
    match plan(&planning) {
        Ok(draft) => submit(draft, &planning.wishes),
        Err(look) => look,
    }
}

fn plan(planning: &Planning<'_>) -> Planned {
    if let Some(why) = put_back::is_due(planning) {
        return Ok(put_back::plan(planning, &why));
    }
    match &planning.wishes.goal {
        Goal::Rename(wanted) => rename::plan(planning, wanted),
        Goal::Replace { old, new, scope } => replace::plan(planning, old, new, scope),
        Goal::FindUsages { symbol, scope } => Ok(ask::find_usages(symbol, scope)),
        Goal::Check { check, .. } => ask::check(planning, check),
        Goal::Count { what, scope } => Ok(ask::count(what, scope)),
        Goal::Beyond => Ok(NoWork::Impossible(beyond()).into()),
    }
}

/// The call that submits the draft. Guidance that is not followed is named, so that nobody takes it for answered; to put files back follows
/// none.
fn submit(draft: Draft, wishes: &Wishes) -> Call {
    let mut summary = draft.summary;
    let puts_back = summary.starts_with(PUTS_BACK);
    if !wishes.beyond.is_empty() && !puts_back {
        let numbers: Vec<String> = wishes.beyond.iter().map(u32::to_string).collect();
        summary.push_str(&format!(" {BEYOND_GUIDANCE}{}.", numbers.join(", ")));
    }
    let plan = Plan {
        summary,
        answers_guidance: if puts_back {
            Vec::new()
        } else {
            wishes.followed.clone()
        },
        subtasks: draft.subtasks,
    };
    Call::last(SUBMIT_PLAN, json!(plan))
}

/// How a plan names guidance that it does not follow.
pub(super) const BEYOND_GUIDANCE: &str = "Beyond the offline model, so not followed: guidance ";

impl From<NoWork> for Draft {
    fn from(why: NoWork) -> Self {
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
fn for_agent(id: &str, title: String, depends_on: Vec<SubTaskId>, agent: &str, brief: &Brief) -> SubTask {
    SubTask {
        id: id.into(),
        title,
        depends_on,
        work: Work::Agent {
            agent: agent.to_owned(),
            task: brief.to_string(),
        },
    }
}

/// A sub-task of known calls.
fn of_calls(id: &str, title: String, depends_on: Vec<SubTaskId>, calls: Vec<PlannedCall>) -> SubTask {
    SubTask {
        id: id.into(),
        title,
        depends_on,
        work: Work::Calls { calls },
    }
}

/// Whether an earlier round has worked on the goal. Files may be changed then, whatever is recorded of it.
fn has_begun(planning: &Planning<'_>) -> bool {
    since_put_back(&planning.sections.rounds())
        .iter()
        .any(Round::had_work)
}

/// The checks before any change; none where they have passed already, or where files may be changed.
fn baseline(planning: &Planning<'_>, checks: &[Check]) -> Option<SubTask> {
    let observations = planning.sections.observations();
    let is_due = match observed(&observations, "baseline") {
        // Edits wait for it, so where it did not pass nothing was changed.
        Some(baseline) => baseline.status != Status::Succeeded,
        None => !has_begun(planning),
    };
    let title = "Check the project before any change";
    of_checks("baseline", title, Vec::new(), checks).filter(|_| is_due)
}

/// The plan where nothing is left to change, but earlier rounds have worked: that it looks done is no proof that it holds.
/// It is checked if they checked, and verified.
fn confirmation(
    planning: &Planning<'_>,
    done: &str,
    about: &[String],
    title: String,
    brief: &Brief,
) -> Planned {
    let observations = planning.sections.observations();
    let had_checks = observations.is_empty()
        || ["baseline", "check"]
            .iter()
            .any(|subtask| observed(&observations, subtask).is_some());
    let checks = if had_checks {
        planning.checks(about)?
    } else {
        Vec::new()
    };
    Ok(Draft {
        summary: format!("{done} already; see that it holds. {}", checked_by(&checks)),
        subtasks: confirming(Vec::new(), &checks, title, brief),
    })
}

/// The sub-tasks that confirm edits: the checks, then a look at what is left.
fn confirming(edits: Vec<SubTaskId>, checks: &[Check], title: String, brief: &Brief) -> Vec<SubTask> {
    let check = of_checks("check", "Build and test the project", edits.clone(), checks);
    let after = check.as_ref().map_or(edits, |check| vec![check.id.clone()]);
    let verify = for_agent("verify", title, after, "verify", brief);
    check.into_iter().chain([verify]).collect()
}

/// A sub-task that runs the project's checks; none where there are none.
fn of_checks(id: &str, title: &str, depends_on: Vec<SubTaskId>, checks: &[Check]) -> Option<SubTask> {
    let calls: Vec<_> = checks
        .iter()
        .map(|check| tools::command(&check.command))
        .collect();
    (!calls.is_empty()).then(|| of_calls(id, title.to_owned(), depends_on, calls))
}

/// What a plan says of its checks.
fn checked_by(checks: &[Check]) -> String {
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
pub(super) const NO_CHECKS: &str =
    "There is nothing here to build or test these files with, so only a search confirms it.";

/// Deals out files into at most `parts` groups whose sizes differ by one at most, in order.
fn dealt(files: &[String], parts: usize) -> Vec<Vec<String>> {
    let parts = parts.min(files.len());
    let mut groups = Vec::with_capacity(parts);
    let mut rest = files;
    for left in (1..=parts).rev() {
        let (group, after) = rest.split_at(rest.len().div_ceil(left));
        groups.push(group.to_vec());
        rest = after;
    }
    groups
}

//! The lead: converts a goal and observations to a graph of sub-tasks.
//!
//! It inspects the workspace before it plans: as long as it needs the result of a call, it replies with this call. If there is nothing
//! to do, the plan has no sub-tasks, and its summary gives the reason.

mod create;
mod query;
mod rename;
mod repair;
mod replace;
mod subtasks;
mod undo;

use dirigent_core::call::SUBMIT_PLAN;
use dirigent_core::plan::Plan;
use serde_json::json;

use super::capabilities::unsupported_goal;
use super::conversation::{Call, Conversation};
use super::empty_plan::EmptyPlan;
use super::goal::Goal;
use super::requirements::Requirements;
use super::role_texts::UNDO_SUMMARY;
use super::text::shortened;
use subtasks::{Draft, DraftOrCall, PlanningContext};

/// Returns the next call of a lead: a call that inspects the workspace, or the call that submits the plan.
pub(crate) fn next(conversation: &Conversation<'_>) -> Call {
    let sections = &conversation.sections;
    let requirements = Requirements::parse(sections);
    if let Some(rejection) = conversation.rejection {
        let why = format!("the plan was not accepted: {}", shortened(rejection, 600));
        return submit(EmptyPlan::Impossible(why).into(), &requirements);
    }
    let context = PlanningContext {
        conversation,
        sections,
        requirements,
    };
    match plan(&context) {
        Ok(draft) => submit(draft, &context.requirements),
        Err(look) => look,
    }
}

fn plan(context: &PlanningContext<'_>) -> DraftOrCall {
    if let Some(why) = undo::due_reason(context) {
        return Ok(undo::plan(context, &why));
    }
    match &context.requirements.goal {
        Goal::Rename(goal) => rename::plan(context, goal),
        Goal::Replace { old, new, scope } => replace::plan(context, old, new, scope),
        Goal::CreateProject(project) => create::plan(context, project),
        Goal::FindUsages { symbol, scope } => Ok(query::find_usages(symbol, scope)),
        Goal::Check { check, .. } => query::check(context, check),
        Goal::Count { target, scope } => Ok(query::count(target, scope)),
        Goal::Unsupported => Ok(EmptyPlan::Impossible(unsupported_goal()).into()),
    }
}

/// Returns the call that submits a plan. The summary names guidance that the plan does not follow. A plan that undoes changes
/// ignores all guidance.
fn submit(draft: Draft, requirements: &Requirements) -> Call {
    let mut plan = Plan {
        summary: draft.summary,
        answers_guidance: Vec::new(),
        subtasks: draft.subtasks,
    };
    if !plan.summary.starts_with(UNDO_SUMMARY) {
        plan.answers_guidance = requirements.followed_guidance.clone();
        let numbers = requirements.unsupported_guidance.iter();
        let numbers: Vec<String> = numbers.map(u32::to_string).collect();
        if !numbers.is_empty() {
            plan.summary.push_str(&format!(
                " Guidance entries not followed: {}. The offline model does not understand them.",
                numbers.join(", ")
            ));
        }
    }
    Call::terminating(SUBMIT_PLAN, json!(plan))
}

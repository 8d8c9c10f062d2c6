//! The reflector: judges an iteration only by its observations.
//!
//! A goal is achieved only if an observation confirms it. Otherwise it has failed, or another iteration follows.

mod change;
mod query;
mod undo;
mod verdicts;

use dirigent_core::call::SUBMIT_REFLECTION;
use dirigent_core::confirmation::Confirmation;
use dirigent_core::reflection::{Reflection, ReflectionVerdict};
use serde_json::json;

use super::capabilities::unsupported_goal;
use super::conversation::{Call, Conversation};
use super::empty_plan::EmptyPlan;
use super::goal::{CheckSelection, Goal};
use super::outputs::CommandOutput;
use super::prompt_sections::{calls, find_observation, interrupted_call, result};
use super::report::command_line;
use super::requirements::{Requirements, UserDecision};
use super::role_texts::{INTERRUPTED, INTERRUPTED_CHANGE};
use super::text::{capitalized, shortened};
use verdicts::{ReflectionContext, achieved, ask_user, continue_with, failed};

/// The text that replaces the middle of a shortened output.
const LEFT_OUT: &str = " characters left out: ";

/// Returns the call that submits the reflection.
pub(crate) fn next(conversation: &Conversation<'_>) -> Call {
    let sections = &conversation.sections;
    let reflection = match (conversation.rejection, sections.plan()) {
        (Some(rejection), _) => failed(format!(
            "The judgement was not accepted: {}",
            shortened(rejection, 600)
        )),
        (None, None) => failed("The plan of this iteration can't be read, so it can't be judged.".to_owned()),
        (None, Some(plan)) => reflect(&ReflectionContext {
            requirements: Requirements::parse(sections),
            plan,
            observations: sections.observations(),
            iterations: sections.iterations(),
            changed: sections.changed_files(),
        }),
    };
    Call::terminating(SUBMIT_REFLECTION, json!(reflection))
}

fn reflect(context: &ReflectionContext) -> Reflection {
    let judgement = undo::unless_kept(context, judge(context));
    // Guidance that came during the iteration applies to the next one (PAOR-8).
    let late: Vec<String> = context
        .requirements
        .followed_guidance
        .iter()
        .filter(|number| !context.plan.answers_guidance.contains(number))
        .map(u32::to_string)
        .collect();
    let judgement = Reflection {
        confirmed_by: match judgement.verdict {
            ReflectionVerdict::Achieved => confirmations(context),
            ReflectionVerdict::Continue | ReflectionVerdict::AskUser | ReflectionVerdict::Failed => {
                Vec::new()
            }
        },
        ..judgement
    };
    match judgement.verdict {
        ReflectionVerdict::Achieved | ReflectionVerdict::AskUser | ReflectionVerdict::Failed
            if !late.is_empty() && undo::reason(&context.plan).is_none() =>
        {
            continue_with(format!(
                "Guidance {} came after this plan was made, so another plan follows. So far: {}",
                late.join(", "),
                judgement.summary
            ))
        }
        ReflectionVerdict::Achieved
        | ReflectionVerdict::AskUser
        | ReflectionVerdict::Failed
        | ReflectionVerdict::Continue => judgement,
    }
}

/// Returns the checks that passed, each with the line of its output that shows it.
fn confirmations(context: &ReflectionContext) -> Vec<Confirmation> {
    let Some(check) = find_observation(&context.observations, "check") else {
        return Vec::new();
    };
    let passed = calls(check).iter().filter_map(|call| {
        let result = result(call).filter(|result| result.success)?;
        Some(Confirmation {
            call: call.handle.as_ref()?.parse().ok()?,
            command: String::new(),
            exit_code: None,
            failed_before: None,
            line: result_line(&CommandOutput::from(&result).text),
        })
    });
    passed.collect()
}

/// The last line that counts passed tests; if there is none, the last line. `None` if the output is empty.
fn result_line(output: &str) -> Option<String> {
    let lines = output.lines().rev().map(str::trim);
    let mut whole = lines.filter(|line| !line.is_empty() && !line.contains(LEFT_OUT));
    let counts = |line: &&str| line.contains(" passed") && !line.contains(" 0 passed");
    let line = whole.clone().find(counts).or_else(|| whole.next())?;
    Some(line.to_owned())
}

fn judge(context: &ReflectionContext) -> Reflection {
    if context.plan.subtasks.is_empty() {
        return judge_empty_plan(context);
    }
    if let Some(reflection) = judge_interrupted(context) {
        return reflection;
    }
    if let Some(why) = undo::reason(&context.plan) {
        return undo::judge(context, why);
    }
    match &context.requirements.goal {
        Goal::Rename(goal) => change::judge_rename(context, goal),
        Goal::Replace { old, new, scope } => change::judge_replacement(context, old, new, scope),
        Goal::CreateProject(project) => change::judge_created(context, project),
        Goal::FindUsages { .. } => query::judge_usages(context),
        Goal::Check { expectation, .. } => query::judge_check(context, *expectation),
        Goal::Count { target, scope } => query::judge_count(context, target, scope),
        Goal::Unsupported => failed(capitalized(&unsupported_goal())),
    }
}

/// Judges an iteration with an interrupted call; `None` if no call was interrupted. The iteration is repeated, because the call's result is
/// unknown. Exception: a command from the user's goal is not repeated, and the goal fails.
fn judge_interrupted(context: &ReflectionContext) -> Option<Reflection> {
    let (observation, call) = context
        .observations
        .iter()
        .find_map(|observation| Some((observation, interrupted_call(observation)?)))?;
    let command = command_line(call);
    if let Goal::Check {
        check: CheckSelection::Command(_),
        ..
    } = context.requirements.goal
    {
        return Some(failed(format!(
            "`{command}` was interrupted, so its result is unknown, and it may have done a part of its work. It \
             was not run again: start the goal again if that is safe."
        )));
    }
    let is_edit = ["edit-", "repair-", "undo"]
        .iter()
        .any(|prefix| observation.subtask.0.starts_with(prefix));
    let interrupted = match (is_edit, command.is_empty()) {
        (true, _) => INTERRUPTED_CHANGE.to_owned(),
        (false, true) => format!("{INTERRUPTED}`{}`", call.tool),
        (false, false) => format!("{INTERRUPTED}`{command}`"),
    };
    Some(continue_with(format!(
        "{interrupted} was under way when the run stopped, so another iteration repeats it."
    )))
}

/// Judges a plan without sub-tasks, whose summary gives the reason.
fn judge_empty_plan(context: &ReflectionContext) -> Reflection {
    let summary = &context.plan.summary;
    match EmptyPlan::parse(summary).unwrap_or_else(|| EmptyPlan::Impossible(summary.clone())) {
        EmptyPlan::NothingToDo(why) => achieved(format!("Nothing to do: {why}")),
        EmptyPlan::Impossible(why) => failed(capitalized(&why)),
        EmptyPlan::NeedsUser(why) => match context.requirements.decision {
            UserDecision::NameNeeded => {
                let question = format!("Only you can decide {why} What should it be?");
                ask_user(capitalized(&why), question, &[])
            }
            UserDecision::Continue | UserDecision::Stop => {
                let question = format!("{why} Use another name (which one?), rename anyway, or stop?");
                let choices = ["use another name", "rename anyway", "stop"];
                ask_user(capitalized(&why), question, &choices)
            }
        },
    }
}

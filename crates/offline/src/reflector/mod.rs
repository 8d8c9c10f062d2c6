//! The reflector: judges an iteration by what was observed, and by nothing else.
//!
//! It never calls a goal achieved that no observation confirms: where the confirmation is missing, the iteration failed or is
//! to be gone on with.

mod change;
mod query;
mod undo;

use dirigent_core::call::SUBMIT_REFLECTION;
use dirigent_core::plan::Plan;
use dirigent_core::reflection::{Reflection, ReflectionVerdict};
use serde_json::json;

use super::conversation::{Call, Conversation};
use super::empty_plan::EmptyPlan;
use super::goal::{CheckSelection, Goal};
use super::location::shortened;
use super::prompt_sections::{INTERRUPTED, Observation, PastIteration, Sections};
use super::report::command_line;
use super::requirements::{Requirements, UserDecision};

/// What a reflector judges by.
pub(crate) struct ReflectionContext {
    /// What the user wants.
    pub requirements: Requirements,
    /// What was planned.
    pub plan: Plan,
    /// What came of it.
    pub observations: Vec<Observation>,
    /// The iterations before.
    pub iterations: Vec<PastIteration>,
    /// The files that the run has changed.
    pub changed: Vec<String>,
}

/// The call that submits the judgement.
pub(crate) fn next(conversation: &Conversation<'_>) -> Call {
    let sections = Sections(conversation.request);
    let reflection = match (conversation.rejection, sections.plan()) {
        (Some(rejection), _) => failed(format!(
            "The judgement was not accepted: {}",
            shortened(rejection, 600)
        )),
        (None, None) => {
            failed("The plan of this iteration can't be read, so nothing can be said of it.".to_owned())
        }
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
    // Guidance that came while the iteration was under way has a say in the next one (PAOR-8).
    let late: Vec<String> = context
        .requirements
        .followed_guidance
        .iter()
        .filter(|number| !context.plan.answers_guidance.contains(number))
        .map(u32::to_string)
        .collect();
    let judgement = Reflection {
        changed_files: (judgement.verdict == ReflectionVerdict::Achieved).then(|| context.changed.clone()),
        ..judgement
    };
    match judgement.verdict {
        ReflectionVerdict::Achieved | ReflectionVerdict::AskUser | ReflectionVerdict::Failed
            if !late.is_empty() && undo::reason(&context.plan).is_none() =>
        {
            continue_with(format!(
                "Guidance {} came after this plan was made, so it is planned again. So far: {}",
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

fn judge(context: &ReflectionContext) -> Reflection {
    if context.plan.subtasks.is_empty() {
        return judge_empty_plan(context);
    }
    if let Some(reflection) = interrupted(context) {
        return reflection;
    }
    if let Some(why) = undo::reason(&context.plan) {
        return undo::judge(context, why);
    }
    match &context.requirements.goal {
        Goal::Rename(goal) => change::judge_rename(context, goal),
        Goal::Replace { old, new, scope } => change::judge_replacement(context, old, new, scope),
        Goal::FindUsages { .. } => query::judge_usages(context),
        Goal::Check { expectation, .. } => query::judge_check(context, *expectation),
        Goal::Count { target, scope } => query::judge_count(context, target, scope),
        Goal::Unsupported => failed(capitalized(&super::unsupported())),
    }
}

/// An interrupted call says nothing of the project, so the iteration is made again; only a command of the user's own is not
/// run twice unasked.
fn interrupted(context: &ReflectionContext) -> Option<Reflection> {
    let (observation, call) = context
        .observations
        .iter()
        .find_map(|observation| Some((observation, observation.interrupted_call()?)))?;
    let command = command_line(call);
    if let Goal::Check {
        check: CheckSelection::Command(_),
        ..
    } = context.requirements.goal
    {
        return Some(failed(format!(
            "`{command}` was interrupted, so how it would have ended is unknown, and it may have done a part of its work. It \
             was not run again: start the goal again if that is safe."
        )));
    }
    let is_edit = ["edit-", "repair-", "undo"]
        .iter()
        .any(|prefix| observation.subtask.starts_with(prefix));
    let what = match (is_edit, command.is_empty()) {
        (true, _) => INTERRUPTED_CHANGE.to_owned(),
        (false, true) => format!("{INTERRUPTED}`{}`", call.tool),
        (false, false) => format!("{INTERRUPTED}`{command}`"),
    };
    Some(continue_with(format!(
        "{what} was under way when the process ended, so it is seen to again."
    )))
}

/// How the reflection of an iteration begins in which an edit was interrupted.
const INTERRUPTED_CHANGE: &str = "Interrupted: a change";

/// Judges a plan that says why there is nothing to execute.
fn judge_empty_plan(context: &ReflectionContext) -> Reflection {
    match EmptyPlan::parse_or_impossible(&context.plan.summary) {
        EmptyPlan::NothingToDo(why) => achieved(format!("Nothing to do: {why}")),
        EmptyPlan::Impossible(why) => failed(capitalized(&why)),
        EmptyPlan::NeedsUser(what) => {
            let (question, choices) = match context.requirements.decision {
                UserDecision::NameNeeded => (
                    format!("Only you can say {what} What shall it be called?"),
                    Vec::new(),
                ),
                UserDecision::Continue | UserDecision::Stop => (
                    format!(
                        "{what} Shall it get another name (write which), be renamed anyway, or stay as it is?"
                    ),
                    vec![
                        "use another name".to_owned(),
                        "rename anyway".to_owned(),
                        "stop".to_owned(),
                    ],
                ),
            };
            Reflection {
                verdict: ReflectionVerdict::AskUser,
                summary: capitalized(&what),
                question: Some(question),
                choices,
                changed_files: None,
            }
        }
    }
}

fn reflection(verdict: ReflectionVerdict, summary: String) -> Reflection {
    Reflection {
        verdict,
        summary,
        question: None,
        choices: Vec::new(),
        changed_files: None,
    }
}

fn achieved(summary: String) -> Reflection {
    reflection(ReflectionVerdict::Achieved, summary)
}

fn failed(summary: String) -> Reflection {
    reflection(ReflectionVerdict::Failed, summary)
}

fn continue_with(summary: String) -> Reflection {
    reflection(ReflectionVerdict::Continue, summary)
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

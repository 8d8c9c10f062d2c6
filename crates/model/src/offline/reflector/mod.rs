//! The reflector: judges a round by what was observed, and by nothing else.
//!
//! It never calls a goal achieved that no observation confirms: where the confirmation is missing, the round failed or is
//! to be gone on with.

mod ask;
mod change;
mod put_back;

use dirigent_core::plan::Plan;
use dirigent_core::reflection::{Reflection, SUBMIT_REFLECTION, Verdict};
use serde_json::json;

use super::conversation::{Call, Conversation};
use super::goal::{Goal, Wanted};
use super::no_work::NoWork;
use super::place::shortened;
use super::reading::{INTERRUPTED, Observation, Round, Sections};
use super::report::command_line;
use super::wishes::{Decision, Wishes};

/// What a reflector judges by.
pub(super) struct Judging {
    /// What the user wants.
    pub wishes: Wishes,
    /// What was planned.
    pub plan: Plan,
    /// What came of it.
    pub observations: Vec<Observation>,
    /// The rounds before.
    pub rounds: Vec<Round>,
    /// The files that the run has changed.
    pub changed: Vec<String>,
}

/// The call that submits the judgement.
pub(super) fn next(conversation: &Conversation<'_>) -> Call {
    let sections = Sections(conversation.request);
    let reflection = match (conversation.refusal, sections.plan()) {
        (Some(refusal), _) => failed(format!(
            "The judgement was not accepted: {}",
            shortened(refusal, 600)
        )),
        (None, None) => {
            failed("The plan of this round can't be read, so nothing can be said of it.".to_owned())
        }
        (None, Some(plan)) => reflect(&Judging {
            wishes: Wishes::read(sections),
            plan,
            observations: sections.observations(),
            rounds: sections.rounds(),
            changed: sections.changed_files(),
        }),
    };
    Call::last(SUBMIT_REFLECTION, json!(reflection))
}

fn reflect(judging: &Judging) -> Reflection {
    let judgement = put_back::unless_kept(judging, judge(judging));
    // Guidance that came while the round was under way has a say in the next one (PAOR-8).
    let late: Vec<String> = judging
        .wishes
        .followed
        .iter()
        .filter(|number| !judging.plan.answers_guidance.contains(number))
        .map(u32::to_string)
        .collect();
    let judgement = Reflection {
        changed_files: (judgement.verdict == Verdict::Achieved).then(|| judging.changed.clone()),
        ..judgement
    };
    match judgement.verdict {
        Verdict::Achieved | Verdict::AskUser | Verdict::Failed
            if !late.is_empty() && put_back::why(&judging.plan).is_none() =>
        {
            going_on(format!(
                "Guidance {} came after this plan was made, so it is planned again. So far: {}",
                late.join(", "),
                judgement.summary
            ))
        }
        Verdict::Achieved | Verdict::AskUser | Verdict::Failed | Verdict::Continue => judgement,
    }
}

fn judge(judging: &Judging) -> Reflection {
    if judging.plan.subtasks.is_empty() {
        return no_work(judging);
    }
    if let Some(reflection) = interrupted(judging) {
        return reflection;
    }
    if let Some(why) = put_back::why(&judging.plan) {
        return put_back::judge(judging, why);
    }
    match &judging.wishes.goal {
        Goal::Rename(wanted) => change::renamed(judging, wanted),
        Goal::Replace { old, new, scope } => change::replaced(judging, old, new, scope),
        Goal::FindUsages { .. } => ask::usages(judging),
        Goal::Check { expectation, .. } => ask::checked(judging, *expectation),
        Goal::Count { what, scope } => ask::counted(judging, what, scope),
        Goal::Beyond => failed(capitalized(&super::beyond())),
    }
}

/// An interrupted call says nothing of the project, so the round is made again; only a command of the user's own is not
/// run twice unasked.
fn interrupted(judging: &Judging) -> Option<Reflection> {
    let (observation, call) = judging
        .observations
        .iter()
        .find_map(|observation| Some((observation, observation.interrupted_call()?)))?;
    let command = command_line(call);
    if let Goal::Check {
        check: Wanted::Command(_),
        ..
    } = judging.wishes.goal
    {
        return Some(failed(format!(
            "`{command}` was interrupted, so how it would have ended is unknown, and it may have done a part of its work. It \
             was not run again: start the goal again if that is safe."
        )));
    }
    let is_edit = ["edit-", "repair-", "put-back"]
        .iter()
        .any(|prefix| observation.subtask.starts_with(prefix));
    let what = match (is_edit, command.is_empty()) {
        (true, _) => INTERRUPTED_CHANGE.to_owned(),
        (false, true) => format!("{INTERRUPTED}`{}`", call.tool),
        (false, false) => format!("{INTERRUPTED}`{command}`"),
    };
    Some(going_on(format!(
        "{what} was under way when the process ended, so it is seen to again."
    )))
}

/// How the reflection of a round begins in which an edit was interrupted.
const INTERRUPTED_CHANGE: &str = "Interrupted: a change";

/// Judges a plan that says why there is nothing to carry out.
fn no_work(judging: &Judging) -> Reflection {
    match NoWork::parse(&judging.plan.summary) {
        NoWork::NothingToDo(why) => achieved(format!("Nothing to do: {why}")),
        NoWork::Impossible(why) => failed(capitalized(&why)),
        NoWork::Undecided(what) => {
            let (question, choices) = match judging.wishes.decision {
                Decision::NameNeeded => (
                    format!("Only you can say {what} What shall it be called?"),
                    Vec::new(),
                ),
                Decision::GoOn | Decision::Stop => (
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
                verdict: Verdict::AskUser,
                summary: capitalized(&what),
                question: Some(question),
                choices,
                changed_files: None,
            }
        }
    }
}

fn reflection(verdict: Verdict, summary: String) -> Reflection {
    Reflection {
        verdict,
        summary,
        question: None,
        choices: Vec::new(),
        changed_files: None,
    }
}

fn achieved(summary: String) -> Reflection {
    reflection(Verdict::Achieved, summary)
}

fn failed(summary: String) -> Reflection {
    reflection(Verdict::Failed, summary)
}

fn going_on(summary: String) -> Reflection {
    reflection(Verdict::Continue, summary)
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

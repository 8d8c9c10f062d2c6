//! Judging a change that comes to nothing: it has failed once the files are as they were.

use dirigent_core::plan::Plan;
use dirigent_core::reflection::{Reflection, Verdict};
use serde::Deserialize;

use super::{Judging, change, failed, going_on};
use crate::offline::goal::Goal;
use crate::offline::place::enumerated;
use crate::offline::reading::{GIVEN_UP, PUTS_BACK, Status, observed};
use crate::offline::tools::read_output;
use crate::offline::wishes::Leftovers;

/// Files that a summary names.
const FILES: usize = 8;

/// Why the change was given up, where this plan puts the files back.
pub(super) fn why(plan: &Plan) -> Option<&str> {
    plan.summary
        .strip_prefix(PUTS_BACK)
        .filter(|_| !plan.subtasks.is_empty())
}

/// What `undo` says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Undone {
    undone: Vec<String>,
    left: Vec<Left>,
    by_commands: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Left {
    path: String,
    because: String,
}

/// Judges the round that puts the files back. The goal has failed in any case.
pub(super) fn judge(judging: &Judging, why: &str) -> Reflection {
    let observation = observed(&judging.observations, "put-back");
    let result = observation.and_then(|round| round.calls.first()?.result.as_ref());
    let told: Undone = result
        .map(|result| read_output(&result.output))
        .unwrap_or_default();
    if observation.is_some_and(|round| round.status == Status::Succeeded) {
        let files = match told.undone.as_slice() {
            [] => "Every file is as it was before".to_owned(),
            files => format!(
                "What was changed was put back: {} as before",
                enumerated(files, FILES)
            ),
        };
        let by_commands = match told.by_commands.as_slice() {
            [] => String::new(),
            files => format!(
                " What commands made or changed stays: {}.",
                enumerated(files, FILES)
            ),
        };
        return failed(format!("{why}\n{files}.{by_commands} {HOW_TO_KEEP}"));
    }
    let left: Vec<String> = told
        .left
        .iter()
        .map(|Left { path, because }| format!("\n- {path}: {because}"))
        .collect();
    let error = match (left.as_slice(), result.and_then(|result| result.error.as_deref())) {
        ([], Some(error)) => format!("\n{error}"),
        ([], None) => "\nThe files were not looked at.".to_owned(),
        (_, _) => String::new(),
    };
    with_changed(
        format!(
            "{why}\nNot all that was changed could be put back:{}{error}",
            left.concat()
        ),
        judging,
    )
}

const HOW_TO_KEEP: &str =
    "To have such a change kept all the same, add to the goal: and keep the changes even if the checks fail.";

/// A change that has failed is put back in the next round, unless the user keeps it or that was tried.
pub(super) fn unless_kept(judging: &Judging, judgement: Reflection) -> Reflection {
    let changes_files = match judging.wishes.goal {
        Goal::Rename(_) | Goal::Replace { .. } => true,
        Goal::FindUsages { .. } | Goal::Check { .. } | Goal::Count { .. } | Goal::Beyond => false,
    };
    let has_failed = match judgement.verdict {
        Verdict::Failed => true,
        Verdict::Achieved | Verdict::Continue | Verdict::AskUser => false,
    };
    let is_changed = !judging.changed.is_empty() && change::has_edited(judging);
    if !changes_files || !has_failed || !is_changed || why(&judging.plan).is_some() {
        return judgement;
    }
    let was_given_up = judging
        .rounds
        .last()
        .is_some_and(|round| round.reflection.starts_with(GIVEN_UP));
    match judging.wishes.leftovers {
        Leftovers::PutBack if !was_given_up => going_on(format!("{GIVEN_UP}{}", judgement.summary)),
        Leftovers::PutBack | Leftovers::Kept => with_changed(judgement.summary, judging),
    }
}

/// The failure with the files that stay changed, where it doesn't name them.
fn with_changed(summary: String, judging: &Judging) -> Reflection {
    if judging.changed.is_empty() || judging.changed.iter().all(|path| summary.contains(path.as_str())) {
        return failed(summary);
    }
    failed(format!(
        "{summary}\nThe files changed so far stay as they are now: {}.",
        enumerated(&judging.changed, FILES)
    ))
}

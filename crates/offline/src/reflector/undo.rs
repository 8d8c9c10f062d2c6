//! Judging a change that comes to nothing: it has failed once the files are as they were.

use dirigent_core::plan::Plan;
use dirigent_core::reflection::{Reflection, ReflectionVerdict};
use serde::Deserialize;

use super::{ReflectionContext, change, continue_with, failed};
use crate::goal::Goal;
use crate::location::enumerated;
use crate::prompt_sections::{GIVEN_UP, Status, UNDO_SUMMARY, find_observation};
use crate::requirements::OnFailure;
use crate::tools::read_output;

/// Files that a summary names.
const FILES: usize = 8;

/// Why the change was given up, where this plan puts the files back.
pub(crate) fn reason(plan: &Plan) -> Option<&str> {
    plan.summary
        .strip_prefix(UNDO_SUMMARY)
        .filter(|_| !plan.subtasks.is_empty())
}

/// What `undo` says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct UndoOutput {
    undone: Vec<String>,
    not_restored: Vec<NotRestored>,
    by_commands: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NotRestored {
    path: String,
    reason: String,
}

/// Judges the iteration that puts the files back. The goal has failed in any case.
pub(crate) fn judge(context: &ReflectionContext, why: &str) -> Reflection {
    let observation = find_observation(&context.observations, "undo");
    let result = observation.and_then(|observation| observation.calls.first()?.result.as_ref());
    let output: UndoOutput = result
        .map(|result| read_output(&result.output))
        .unwrap_or_default();
    if observation.is_some_and(|observation| observation.status == Status::Succeeded) {
        let files = match output.undone.as_slice() {
            [] => "Every file is as it was before".to_owned(),
            files => format!(
                "What was changed was put back: {} as before",
                enumerated(files, FILES)
            ),
        };
        let by_commands = match output.by_commands.as_slice() {
            [] => String::new(),
            files => format!(
                " What commands made or changed stays: {}.",
                enumerated(files, FILES)
            ),
        };
        return failed(format!("{why}\n{files}.{by_commands} {HOW_TO_KEEP}"));
    }
    let not_restored: Vec<String> = output
        .not_restored
        .iter()
        .map(|NotRestored { path, reason }| format!("\n- {path}: {reason}"))
        .collect();
    let error = match (
        not_restored.as_slice(),
        result.and_then(|result| result.error.as_deref()),
    ) {
        ([], Some(error)) => format!("\n{error}"),
        ([], None) => "\nThe files were not looked at.".to_owned(),
        (_, _) => String::new(),
    };
    with_changed(
        format!(
            "{why}\nNot all that was changed could be put back:{}{error}",
            not_restored.concat()
        ),
        context,
    )
}

const HOW_TO_KEEP: &str =
    "To have such a change kept all the same, add to the goal: and keep the changes even if the checks fail.";

/// A change that has failed is put back in the next iteration, unless the user keeps it or that was tried.
pub(crate) fn unless_kept(context: &ReflectionContext, judgement: Reflection) -> Reflection {
    let changes_files = match context.requirements.goal {
        Goal::Rename(_) | Goal::Replace { .. } => true,
        Goal::FindUsages { .. } | Goal::Check { .. } | Goal::Count { .. } | Goal::Unsupported => false,
    };
    let has_failed = match judgement.verdict {
        ReflectionVerdict::Failed => true,
        ReflectionVerdict::Achieved | ReflectionVerdict::Continue | ReflectionVerdict::AskUser => false,
    };
    let is_changed = !context.changed.is_empty() && change::has_edited(context);
    if !changes_files || !has_failed || !is_changed || reason(&context.plan).is_some() {
        return judgement;
    }
    let was_given_up = context
        .iterations
        .last()
        .is_some_and(|iteration| iteration.reflection.starts_with(GIVEN_UP));
    match context.requirements.on_failure {
        OnFailure::Undo if !was_given_up => continue_with(format!("{GIVEN_UP}{}", judgement.summary)),
        OnFailure::Undo | OnFailure::KeepChanges => with_changed(judgement.summary, context),
    }
}

/// The failure with the files that stay changed, where it doesn't name them.
fn with_changed(summary: String, context: &ReflectionContext) -> Reflection {
    if context.changed.is_empty() || context.changed.iter().all(|path| summary.contains(path.as_str())) {
        return failed(summary);
    }
    failed(format!(
        "{summary}\nThe files changed so far stay as they are now: {}.",
        enumerated(&context.changed, FILES)
    ))
}

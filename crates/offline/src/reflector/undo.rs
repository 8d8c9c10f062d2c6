//! Reflection on failed changes: one more iteration restores the files, and then the goal counts as failed.

use dirigent_core::observation::ObservationStatus;
use dirigent_core::plan::Plan;
use dirigent_core::reflection::{Reflection, ReflectionVerdict};
use serde::Deserialize;

use super::change;
use super::verdicts::{ReflectionContext, continue_with, failed};
use crate::outputs::read_data;
use crate::prompt_sections::{PastSummaries, calls, find_observation, result};
use crate::requirements::OnFailure;
use crate::role_texts::{GIVEN_UP, UNDO_SUMMARY};
use crate::text::enumerated;

/// Maximum number of files that a summary names.
const FILES: usize = 8;

/// Returns the reason why this plan undoes a change; `None` if the plan is not an undo.
pub(super) fn reason(plan: &Plan) -> Option<&str> {
    plan.summary
        .strip_prefix(UNDO_SUMMARY)
        .filter(|_| !plan.subtasks.is_empty())
}

/// The output of `undo`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct UndoOutput {
    restored: Vec<String>,
    not_restored: Vec<NotRestored>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NotRestored {
    path: String,
    reason: String,
}

/// Judges an iteration that undoes a change. The goal has failed, even if the undo succeeded.
pub(super) fn judge(context: &ReflectionContext, why: &str) -> Reflection {
    let observation = find_observation(&context.observations, "undo");
    let result = observation.and_then(|observation| result(calls(observation).first()?));
    let output: UndoOutput = result.as_ref().map(read_data).unwrap_or_default();
    if observation.is_some_and(|observation| observation.status == ObservationStatus::Succeeded) {
        let files = match output.restored.as_slice() {
            [] => "No file had to be restored".to_owned(),
            files => format!("These files were restored: {}", enumerated(files, FILES)),
        };
        // If the call succeeded, it left only files that changed while commands ran.
        let by_commands = output.not_restored.into_iter().map(|file| file.path);
        let by_commands = match by_commands.collect::<Vec<String>>().as_slice() {
            [] => String::new(),
            files => format!(
                " Files that commands created or changed are left unchanged: {}.",
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
    let error = match result.and_then(|result| result.error) {
        _ if !not_restored.is_empty() => String::new(),
        Some(error) => format!("\n{error}"),
        None => "\nThe undo did not run.".to_owned(),
    };
    failed_with_changes(
        format!(
            "{why}\nSome files could not be restored:{}{error}",
            not_restored.concat()
        ),
        context,
    )
}

const HOW_TO_KEEP: &str =
    "To keep such changes, end the goal with: and keep the changes even if the checks fail.";

/// If the judgement is that a change failed, continues with another iteration, which undoes the change. If the user wants to keep the
/// change, or an undo was tried before, the goal fails without an undo.
pub(super) fn unless_kept(context: &ReflectionContext, judgement: Reflection) -> Reflection {
    let has_failed = judgement.verdict == ReflectionVerdict::Failed;
    let is_changed = context.requirements.goal.changes_files()
        && !context.changed.is_empty()
        && change::has_edited(context);
    if !has_failed || !is_changed || reason(&context.plan).is_some() {
        return judgement;
    }
    let was_given_up = context
        .iterations
        .last()
        .is_some_and(|iteration| iteration.reflected().starts_with(GIVEN_UP));
    match context.requirements.on_failure {
        OnFailure::Undo if !was_given_up => continue_with(format!("{GIVEN_UP}{}", judgement.summary)),
        OnFailure::Undo | OnFailure::KeepChanges => failed_with_changes(judgement.summary, context),
    }
}

/// Returns a failure. Its summary names the files that are still changed.
fn failed_with_changes(summary: String, context: &ReflectionContext) -> Reflection {
    if context.changed.iter().all(|path| summary.contains(path.as_str())) {
        return failed(summary);
    }
    failed(format!(
        "{summary}\nThese files are still changed: {}.",
        enumerated(&context.changed, FILES)
    ))
}

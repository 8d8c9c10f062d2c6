//! Reflection on iterations that change files: renames and replacements.

use dirigent_core::observation::ObservationStatus;
use dirigent_core::prompt::ObservationLine;
use dirigent_core::reflection::{Reflection, ReflectionVerdict};

use super::verdicts::{ReflectionContext, achieved, continue_with, failed};
use crate::goal::{Goal, NewProject, Rename};
use crate::new_project;
use crate::outputs::renamed_uses;
use crate::prompt_sections::{
    PastSummaries, calls, failed_call, failure_reason, find_ended, find_observation, program_not_found,
    result, since_last_undo,
};
use crate::report::{self, passed_checks};
use crate::role_texts::{BY_NAME, CONFIRMED, INTERRUPTED_CHANGE, NO_CHECKS, NOT_INSTALLED};
use crate::scope::Scope;
use crate::text::{capitalized, counted, enumerated};

/// Maximum number of iterations for a change. A change that these iterations do not confirm has failed.
const MAX_CHANGE_ITERATIONS: usize = 3;
/// Maximum number of files that a summary names.
const FILES: usize = 8;
/// Maximum number of lines of a failed check's output in a summary.
const LINES: usize = 6;

/// Judges an iteration of a rename.
pub(super) fn judge_rename(context: &ReflectionContext, goal: &Rename) -> Reflection {
    let Rename { from, to, scope } = goal;
    let usages: u64 = edits(context)
        .flat_map(calls)
        .filter_map(result)
        .filter(|result| result.success)
        .map(|result| renamed_uses(&result))
        .sum();
    let is_first = continued_iterations(context) == 0 && !was_interrupted(context);
    let how_many = if usages > 0 && is_first {
        format!(": {} in ", counted(usages, "usages"))
    } else {
        ", changing ".to_owned()
    };
    let renamed = format!("Renamed `{from}` to `{to}`{scope}");
    judge(context, &summarize_change(context, &renamed, &how_many), scope)
}

/// Judges an iteration of a replacement.
pub(super) fn judge_replacement(
    context: &ReflectionContext,
    old: &str,
    new: &str,
    scope: &Scope,
) -> Reflection {
    let replaced = format!("Replaced \"{old}\" with \"{new}\"{scope}");
    judge(
        context,
        &summarize_change(context, &replaced, ", changing "),
        scope,
    )
}

/// Judges an iteration that creates a project. Its test, which has passed, confirms it.
pub(super) fn judge_created(context: &ReflectionContext, project: &NewProject) -> Reflection {
    let created = format!(
        "Created the {} project `{}`",
        new_project::language_name(project),
        project.name
    );
    let ended = |subtask: &str, status| find_ended(&context.observations, subtask, status);
    if let Some(edit) = edits(context).find(|edit| edit.status == ObservationStatus::Failed) {
        return failed(format!(
            "The project `{}` could not be created: {}",
            project.name,
            failure_reason(edit)
        ));
    }
    if let Some(check) = ended("check", ObservationStatus::Failed) {
        return failed(format!("{created}, but {}", failing(check)));
    }
    if ended("check", ObservationStatus::Succeeded).is_none() {
        return failed(format!("{created}, but its test did not run"));
    }
    let files: Vec<String> = new_project::files(project)
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    achieved(format!(
        "{created} with {}. {}",
        enumerated(&files, FILES),
        checks_passed(context).trim_end()
    ))
}

/// Describes the change and the files that are recorded as changed.
fn summarize_change(context: &ReflectionContext, done: &str, before_files: &str) -> String {
    const UNRECORDED: &str = ", where a change was interrupted before its files were recorded";
    let unrecorded = if was_interrupted(context) { UNRECORDED } else { "" };
    match context.changed.is_empty() {
        true if unrecorded.is_empty() => "Nothing was changed".to_owned(),
        true => format!("{done}{unrecorded}"),
        false => format!("{done}{before_files}{}{unrecorded}", changed(context)),
    }
}

/// Returns true if an edit of an earlier iteration was interrupted, so that the record of changed files may be incomplete.
fn was_interrupted(context: &ReflectionContext) -> bool {
    context
        .iterations
        .iter()
        .any(|iteration| iteration.reflected().starts_with(INTERRUPTED_CHANGE))
}

fn edits(context: &ReflectionContext) -> impl Iterator<Item = &ObservationLine> {
    let is_edit = |observation: &&ObservationLine| {
        let subtask = &observation.subtask.0;
        subtask.starts_with("edit-") || subtask.starts_with("repair-")
    };
    context.observations.iter().filter(is_edit)
}

/// Returns true if this iteration or an earlier one since the last undo has edited files. The record of changed files does not show this,
/// because checks may change files, too.
pub(super) fn has_edited(context: &ReflectionContext) -> bool {
    let worked = since_last_undo(&context.iterations)
        .iter()
        .any(PastSummaries::had_subtasks);
    worked || edits(context).any(|edit| edit.status != ObservationStatus::Skipped)
}

fn judge(context: &ReflectionContext, done: &str, scope: &Scope) -> Reflection {
    let ended = |subtask: &str, status| find_ended(&context.observations, subtask, status);
    let failed_subtask = |subtask: &str| ended(subtask, ObservationStatus::Failed);
    if let Some(baseline) = failed_subtask("baseline") {
        return match program_not_found(baseline) {
            Some(program) => continue_with(format!(
                "{NOT_INSTALLED}`{program}`, so the next iteration leaves out the checks that need it."
            )),
            None => failed(broken_before(baseline, context)),
        };
    }
    if let Some(explore) = failed_subtask("explore") {
        return failed(format!(
            "The search for usages failed: {}. {done}.",
            failure_reason(explore)
        ));
    }
    if let Some(edit) = edits(context).find(|edit| edit.status == ObservationStatus::Failed) {
        return continue_or_fail(
            context,
            format!("{done}. The change is not complete: {}", failure_reason(edit)),
        );
    }
    if let Some(check) = failed_subtask("check") {
        let summary = format!("{done}, but now {}", failing(check));
        return match &context.requirements.goal {
            Goal::Rename(_) => continue_or_fail(context, summary),
            // Another plan would make the same replacement, so a further iteration does not help.
            Goal::Replace { .. }
            | Goal::CreateProject(_)
            | Goal::FindUsages { .. }
            | Goal::Check { .. }
            | Goal::Count { .. }
            | Goal::Unsupported => failed(summary),
        };
    }
    let verified = ended("verify", ObservationStatus::Succeeded);
    let Some(findings) = verified.and_then(|verify| verify.findings.as_deref()) else {
        let why = failed_subtask("verify")
            .map_or_else(|| "the verification did not run".to_owned(), failure_reason);
        return continue_or_fail(context, format!("{done}. The result was not verified: {why}"));
    };
    let Some(confirmed) = findings.strip_prefix(CONFIRMED) else {
        return continue_or_fail(context, format!("{done}. The verification failed: {findings}"));
    };
    let (confirmed, left_alone) = confirmed.split_once("\n\n").unwrap_or((confirmed, ""));
    let mut summary = format!("{done}. {}{}", checks_passed(context), capitalized(confirmed));
    summary.push_str(&outside(context, scope));
    if context.plan.summary.contains(BY_NAME) {
        summary.push_str(&format!(" {BY_NAME}"));
    }
    if !left_alone.is_empty() {
        summary.push_str(&format!("\n\n{left_alone}"));
    }
    achieved(summary)
}

/// Counts the earlier iterations since the last undo whose verdict was `Continue`, without inconclusive iterations.
fn continued_iterations(context: &ReflectionContext) -> usize {
    since_last_undo(&context.iterations)
        .iter()
        .filter(|iteration| {
            let verdict = iteration.reflection.as_ref().map(|reflection| reflection.verdict);
            verdict == Some(ReflectionVerdict::Continue) && !iteration.was_inconclusive()
        })
        .count()
}

fn continue_or_fail(context: &ReflectionContext, summary: String) -> Reflection {
    if continued_iterations(context) + 1 < MAX_CHANGE_ITERATIONS {
        return continue_with(summary);
    }
    failed(summary)
}

fn broken_before(baseline: &ObservationLine, context: &ReflectionContext) -> String {
    let changed = if context.changed.is_empty() {
        "Nothing was changed.".to_owned()
    } else {
        format!("Changed: {}.", changed(context))
    };
    format!(
        "The project was broken before any change: {}\n{changed} Repair it first, then start again.",
        failing(baseline)
    )
}

/// Describes a failed check: "`cargo check` fails (exit code 101):" and lines of its output.
fn failing(check: &ObservationLine) -> String {
    match failed_call(check) {
        Some((call, result)) => report::failure(call, "fails", &result, LINES),
        None => failure_reason(check),
    }
}

fn checks_passed(context: &ReflectionContext) -> String {
    match find_observation(&context.observations, "check") {
        Some(check) => format!("Confirmed by {}. ", enumerated(&passed_checks(calls(check)), 4)),
        None if context.plan.summary.contains(NO_CHECKS) => {
            let programs = context
                .iterations
                .iter()
                .filter_map(PastSummaries::missing_program);
            let missing: String = programs
                .map(|program| format!("(`{program}` is not installed.) "))
                .collect();
            format!("{NO_CHECKS} {missing}")
        }
        None => String::new(),
    }
}

/// Names the changed files outside the scope, which were changed before guidance restricted the scope.
fn outside(context: &ReflectionContext, scope: &Scope) -> String {
    let outside: Vec<String> = context
        .changed
        .iter()
        .filter(|path| !scope.contains(path))
        .cloned()
        .collect();
    if outside.is_empty() {
        return String::new();
    }
    format!(
        " Already changed before your guidance arrived, although outside its scope: {}.",
        enumerated(&outside, FILES)
    )
}

fn changed(context: &ReflectionContext) -> String {
    enumerated(&context.changed, FILES)
}

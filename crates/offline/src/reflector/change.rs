//! Judging iterations that changed files: renames and replacements.

use dirigent_core::reflection::Reflection;

use super::{INTERRUPTED_CHANGE, ReflectionContext, achieved, continue_with, failed};
use crate::conversation::CallResult;
use crate::goal::{Goal, Rename};
use crate::location::{enumerated, pluralize};
use crate::planner::{BY_NAME, NO_CHECKS};
use crate::prompt_sections::{
    NOT_INSTALLED, Observation, ObservedCall, PastIteration, Status, find_observation,
    observations_with_prefix, since_last_undo,
};
use crate::report::{command_line, error_lines, exit_description, passed_checks};
use crate::scope::Scope;
use crate::sub_agent::CONFIRMED;
use crate::tools::{RenameOutput, read_output};

/// Iterations after which a change that still doesn't hold has failed.
const MAX_CHANGE_ITERATIONS: usize = 3;
/// Files that a summary names.
const FILES: usize = 8;
/// Lines of a failed check that a summary shows.
const LINES: usize = 6;

/// Judges an iteration of a rename.
pub(crate) fn judge_rename(context: &ReflectionContext, goal: &Rename) -> Reflection {
    let Rename { from, to, scope } = goal;
    let edits: Vec<&Observation> = edits(context).collect();
    let results = edits
        .iter()
        .flat_map(|edit| &edit.calls)
        .filter_map(|call| call.result.as_ref());
    let usages: u64 = results
        .filter(|result| result.success)
        .map(|result| read_output::<RenameOutput>(&result.output).occurrences)
        .sum();
    let how_many = if usages > 0 && !is_follow_up(context) {
        format!(": {} in ", pluralize(usages, "usage", "usages"))
    } else {
        ", changing ".to_owned()
    };
    let done = match (context.changed.is_empty(), was_interrupted(context)) {
        (true, false) => "Nothing was changed".to_owned(),
        (true, true) => format!("Renamed `{from}` to `{to}`{scope}, {UNRECORDED}"),
        (false, false) => format!("Renamed `{from}` to `{to}`{scope}{how_many}{}", changed(context)),
        (false, true) => format!(
            "Renamed `{from}` to `{to}`{scope}, changing {}, {UNRECORDED}",
            changed(context)
        ),
    };
    judge(context, &done, scope)
}

/// Judges an iteration of a replacement.
pub(crate) fn judge_replacement(
    context: &ReflectionContext,
    old: &str,
    new: &str,
    scope: &Scope,
) -> Reflection {
    let replaced = format!("Replaced \"{old}\" with \"{new}\"{scope}");
    let done = match (context.changed.is_empty(), was_interrupted(context)) {
        (true, false) => "Nothing was changed".to_owned(),
        (true, true) => format!("{replaced}, {UNRECORDED}"),
        (false, false) => format!("{replaced}, changing {}", changed(context)),
        (false, true) => format!("{replaced}, changing {}, {UNRECORDED}", changed(context)),
    };
    judge(context, &done, scope)
}

/// What a summary says of an edit whose end nobody saw.
const UNRECORDED: &str = "where a change was interrupted before its files were recorded";

/// Whether an edit of an earlier iteration was interrupted, so that the record of what was changed is not whole.
fn was_interrupted(context: &ReflectionContext) -> bool {
    context
        .iterations
        .iter()
        .any(|iteration| iteration.reflection.starts_with(INTERRUPTED_CHANGE))
}

fn edits(context: &ReflectionContext) -> impl Iterator<Item = &Observation> {
    observations_with_prefix(&context.observations, "edit-")
        .chain(observations_with_prefix(&context.observations, "repair-"))
}

/// Whether this iteration or one since the files were last put back has edited files: commands that only check may make some, too.
pub(crate) fn has_edited(context: &ReflectionContext) -> bool {
    let worked = since_last_undo(&context.iterations)
        .iter()
        .any(PastIteration::had_subtasks);
    worked || edits(context).any(|edit| edit.status != Status::Skipped)
}

fn judge(context: &ReflectionContext, done: &str, scope: &Scope) -> Reflection {
    let status = |subtask: &str, status: Status| {
        find_observation(&context.observations, subtask).filter(|one| one.status == status)
    };
    if let Some(baseline) = status("baseline", Status::Failed) {
        return match baseline.missing_program() {
            Some(program) => continue_with(format!(
                "{NOT_INSTALLED}`{program}`, so the project can't be checked with it; the rest is done without it."
            )),
            None => failed(broken_before(baseline, context)),
        };
    }
    if let Some(explore) = status("explore", Status::Failed) {
        return failed(format!(
            "The usages could not be looked for: {}. {done}.",
            explore.failure_reason()
        ));
    }
    if let Some(edit) = edits(context).find(|edit| edit.status == Status::Failed) {
        return continue_or_fail(
            context,
            format!("{done}. The change is not complete: {}", edit.failure_reason()),
        );
    }
    if let Some(check) = status("check", Status::Failed) {
        let why = check
            .failed_call()
            .map(|(call, result)| failing(call, result))
            .unwrap_or_else(|| check.failure_reason());
        let summary = format!("{done}, but now {why}");
        return match &context.requirements.goal {
            Goal::Rename(_) => continue_or_fail(context, summary),
            // Nothing but the text itself could be changed back: there is no other plan.
            Goal::Replace { .. }
            | Goal::FindUsages { .. }
            | Goal::Check { .. }
            | Goal::Count { .. }
            | Goal::Unsupported => failed(summary),
        };
    }
    let Some(findings) = status("verify", Status::Succeeded).and_then(|verify| verify.findings.as_deref())
    else {
        let why = status("verify", Status::Failed)
            .map(Observation::failure_reason)
            .unwrap_or_else(|| "it did not run".to_owned());
        return continue_or_fail(context, format!("{done}. The result was not verified: {why}"));
    };
    let Some(confirmed) = findings.strip_prefix(CONFIRMED) else {
        return continue_or_fail(context, format!("{done}. It does not hold: {findings}"));
    };
    let (confirmed, left_alone) = confirmed.split_once("\n\n").unwrap_or((confirmed, ""));
    let mut summary = format!(
        "{done}. {}{}",
        checks_passed(context),
        super::capitalized(confirmed)
    );
    summary.push_str(&outside(context, scope));
    if context.plan.summary.contains(BY_NAME) {
        summary.push_str(&format!(" {BY_NAME}"));
    }
    if !left_alone.is_empty() {
        summary.push_str("\n\n");
        summary.push_str(left_alone);
    }
    achieved(summary)
}

/// Whether an earlier iteration changed files for the same goal.
fn is_follow_up(context: &ReflectionContext) -> bool {
    continued_iterations(context) > 0
}

fn continued_iterations(context: &ReflectionContext) -> usize {
    since_last_undo(&context.iterations)
        .iter()
        .filter(|iteration| iteration.verdict == "continue" && !iteration.was_inconclusive())
        .count()
}

/// Another iteration while there is hope in it, or else the end.
fn continue_or_fail(context: &ReflectionContext, summary: String) -> Reflection {
    if continued_iterations(context) + 1 < MAX_CHANGE_ITERATIONS {
        return continue_with(summary);
    }
    failed(summary)
}

fn broken_before(baseline: &Observation, context: &ReflectionContext) -> String {
    let why = baseline
        .failed_call()
        .map(|(call, result)| failing(call, result))
        .unwrap_or_else(|| baseline.failure_reason());
    let changed = if context.changed.is_empty() {
        "Nothing was changed.".to_owned()
    } else {
        format!("Changed: {}.", changed(context))
    };
    format!("The project was broken before any change: {why}\n{changed} Mend it first, then start again.")
}

/// "`cargo check` fails (exit code 101):" and its telling lines.
fn failing(call: &ObservedCall, result: &CallResult) -> String {
    let lines: Vec<String> = error_lines(result, LINES)
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect();
    format!(
        "`{}` fails ({}):{}",
        command_line(call),
        exit_description(result),
        lines.concat()
    )
}

fn checks_passed(context: &ReflectionContext) -> String {
    match find_observation(&context.observations, "check") {
        Some(check) => format!("Confirmed by {}. ", enumerated(&passed_checks(&check.calls), 4)),
        None if context.plan.summary.contains(NO_CHECKS) => format!("{NO_CHECKS} {}", missing(context)),
        None => String::new(),
    }
}

/// Which programs there would have been to check with.
fn missing(context: &ReflectionContext) -> String {
    let programs = context
        .iterations
        .iter()
        .filter_map(PastIteration::missing_program);
    programs
        .map(|program| format!("(`{program}` is not installed.) "))
        .collect()
}

/// Files that were changed before the user drew the bounds narrower.
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
        " Changed before your guidance came, outside of what it allows: {}.",
        enumerated(&outside, FILES)
    )
}

fn changed(context: &ReflectionContext) -> String {
    enumerated(&context.changed, FILES)
}

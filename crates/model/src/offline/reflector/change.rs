//! Judging rounds that changed files: renames and replacements.

use dirigent_core::reflection::Reflection;

use super::{INTERRUPTED_CHANGE, Judging, achieved, failed, going_on};
use crate::offline::conversation::Answer;
use crate::offline::goal::{Goal, Rename};
use crate::offline::place::{counted, enumerated};
use crate::offline::planner::{BY_NAME, NO_CHECKS};
use crate::offline::reading::{
    NOT_INSTALLED, Observation, ObservedCall, Round, Status, all_observed, observed, since_put_back,
};
use crate::offline::report::{command_line, how_it_ended, passed_checks, telling_lines};
use crate::offline::scope::Scope;
use crate::offline::sub_agent::CONFIRMED;
use crate::offline::tools::{Renamed, read_output};

/// Rounds after which a change that still doesn't hold has failed.
const ROUNDS: usize = 3;
/// Files that a summary names.
const FILES: usize = 8;
/// Lines of a failed check that a summary shows.
const LINES: usize = 6;

/// Judges a round of a rename.
pub(super) fn renamed(judging: &Judging, wanted: &Rename) -> Reflection {
    let Rename { from, to, scope } = wanted;
    let edits: Vec<&Observation> = edits(judging).collect();
    let results = edits
        .iter()
        .flat_map(|edit| &edit.calls)
        .filter_map(|call| call.result.as_ref());
    let usages: u64 = results
        .filter(|result| result.success)
        .map(|result| read_output::<Renamed>(&result.output).occurrences)
        .sum();
    let how_many = if usages > 0 && !goes_on(judging) {
        format!(": {} in ", counted(usages, "usage", "usages"))
    } else {
        ", changing ".to_owned()
    };
    let done = match (judging.changed.is_empty(), was_interrupted(judging)) {
        (true, false) => "Nothing was changed".to_owned(),
        (true, true) => format!("Renamed `{from}` to `{to}`{scope}, {UNRECORDED}"),
        (false, false) => format!("Renamed `{from}` to `{to}`{scope}{how_many}{}", changed(judging)),
        (false, true) => format!(
            "Renamed `{from}` to `{to}`{scope}, changing {}, {UNRECORDED}",
            changed(judging)
        ),
    };
    judge(judging, &done, scope)
}

/// Judges a round of a replacement.
pub(super) fn replaced(judging: &Judging, old: &str, new: &str, scope: &Scope) -> Reflection {
    let replaced = format!("Replaced \"{old}\" with \"{new}\"{scope}");
    let done = match (judging.changed.is_empty(), was_interrupted(judging)) {
        (true, false) => "Nothing was changed".to_owned(),
        (true, true) => format!("{replaced}, {UNRECORDED}"),
        (false, false) => format!("{replaced}, changing {}", changed(judging)),
        (false, true) => format!("{replaced}, changing {}, {UNRECORDED}", changed(judging)),
    };
    judge(judging, &done, scope)
}

/// What a summary says of an edit whose end nobody saw.
const UNRECORDED: &str = "where a change was interrupted before its files were recorded";

/// Whether an edit of an earlier round was interrupted, so that the record of what was changed is not whole.
fn was_interrupted(judging: &Judging) -> bool {
    judging
        .rounds
        .iter()
        .any(|round| round.reflection.starts_with(INTERRUPTED_CHANGE))
}

fn edits(judging: &Judging) -> impl Iterator<Item = &Observation> {
    all_observed(&judging.observations, "edit-").chain(all_observed(&judging.observations, "repair-"))
}

/// Whether this round or one since the files were last put back has edited files: commands that only check may make some, too.
pub(super) fn has_edited(judging: &Judging) -> bool {
    let worked = since_put_back(&judging.rounds).iter().any(Round::had_work);
    worked || edits(judging).any(|edit| edit.status != Status::Skipped)
}

fn judge(judging: &Judging, done: &str, scope: &Scope) -> Reflection {
    let status = |subtask: &str, status: Status| {
        observed(&judging.observations, subtask).filter(|one| one.status == status)
    };
    if let Some(baseline) = status("baseline", Status::Failed) {
        return match baseline.missing_program() {
            Some(program) => going_on(format!(
                "{NOT_INSTALLED}`{program}`, so the project can't be checked with it; the rest is done without it."
            )),
            None => failed(broken_before(baseline, judging)),
        };
    }
    if let Some(explore) = status("explore", Status::Failed) {
        return failed(format!(
            "The usages could not be looked for: {}. {done}.",
            explore.why_failed()
        ));
    }
    if let Some(edit) = edits(judging).find(|edit| edit.status == Status::Failed) {
        return go_on(
            judging,
            format!("{done}. The change is not complete: {}", edit.why_failed()),
        );
    }
    if let Some(check) = status("check", Status::Failed) {
        let why = check
            .failed_call()
            .map(|(call, result)| failing(call, result))
            .unwrap_or_else(|| check.why_failed());
        let summary = format!("{done}, but now {why}");
        return match &judging.wishes.goal {
            Goal::Rename(_) => go_on(judging, summary),
            // Nothing but the text itself could be changed back: there is no other plan.
            Goal::Replace { .. }
            | Goal::FindUsages { .. }
            | Goal::Check { .. }
            | Goal::Count { .. }
            | Goal::Beyond => failed(summary),
        };
    }
    let Some(findings) = status("verify", Status::Succeeded).and_then(|verify| verify.findings.as_deref())
    else {
        let why = status("verify", Status::Failed)
            .map(Observation::why_failed)
            .unwrap_or_else(|| "it did not run".to_owned());
        return go_on(judging, format!("{done}. The result was not verified: {why}"));
    };
    let Some(confirmed) = findings.strip_prefix(CONFIRMED) else {
        return go_on(judging, format!("{done}. It does not hold: {findings}"));
    };
    let (confirmed, left_alone) = confirmed.split_once("\n\n").unwrap_or((confirmed, ""));
    let mut summary = format!(
        "{done}. {}{}",
        checks_passed(judging),
        super::capitalized(confirmed)
    );
    summary.push_str(&outside(judging, scope));
    if judging.plan.summary.contains(BY_NAME) {
        summary.push_str(&format!(" {BY_NAME}"));
    }
    if !left_alone.is_empty() {
        summary.push_str("\n\n");
        summary.push_str(left_alone);
    }
    achieved(summary)
}

/// Whether an earlier round changed files for the same goal.
fn goes_on(judging: &Judging) -> bool {
    continued(judging) > 0
}

fn continued(judging: &Judging) -> usize {
    since_put_back(&judging.rounds)
        .iter()
        .filter(|round| round.verdict == "continue" && !round.was_no_attempt())
        .count()
}

/// Another round while there is hope in it, or else the end.
fn go_on(judging: &Judging, summary: String) -> Reflection {
    if continued(judging) + 1 < ROUNDS {
        return going_on(summary);
    }
    failed(summary)
}

fn broken_before(baseline: &Observation, judging: &Judging) -> String {
    let why = baseline
        .failed_call()
        .map(|(call, result)| failing(call, result))
        .unwrap_or_else(|| baseline.why_failed());
    let changed = if judging.changed.is_empty() {
        "Nothing was changed.".to_owned()
    } else {
        format!("Changed: {}.", changed(judging))
    };
    format!("The project was broken before any change: {why}\n{changed} Mend it first, then start again.")
}

/// "`cargo check` fails (exit code 101):" and its telling lines.
fn failing(call: &ObservedCall, result: &Answer) -> String {
    let lines: Vec<String> = telling_lines(result, LINES)
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect();
    format!(
        "`{}` fails ({}):{}",
        command_line(call),
        how_it_ended(result),
        lines.concat()
    )
}

fn checks_passed(judging: &Judging) -> String {
    match observed(&judging.observations, "check") {
        Some(check) => format!("Confirmed by {}. ", enumerated(&passed_checks(&check.calls), 4)),
        None if judging.plan.summary.contains(NO_CHECKS) => format!("{NO_CHECKS} {}", missing(judging)),
        None => String::new(),
    }
}

/// Which programs there would have been to check with.
fn missing(judging: &Judging) -> String {
    let programs = judging.rounds.iter().filter_map(Round::missing_program);
    programs
        .map(|program| format!("(`{program}` is not installed.) "))
        .collect()
}

/// Files that were changed before the user drew the bounds narrower.
fn outside(judging: &Judging, scope: &Scope) -> String {
    let outside: Vec<String> = judging
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

fn changed(judging: &Judging) -> String {
    enumerated(&judging.changed, FILES)
}

//! Reflection on iterations that change no files: usages, checks, counts and lists.

use dirigent_core::observation::ObservationStatus;
use dirigent_core::reflection::Reflection;
use dirigent_core::tool::ModelToolResult;

use super::verdicts::{ReflectionContext, achieved, failed};
use crate::goal::{CountTarget, Expectation};
use crate::outputs::{CommandOutput, ListOutput, SearchOutput, places};
use crate::prompt_sections::{calls, failed_call, failure_reason, find_observation, result};
use crate::report::{self, passed_checks};
use crate::role_texts::NOT_CONFIRMED;
use crate::scope::Scope;
use crate::text::{bullets, capitalized, counted, enumerated, listing};

/// Maximum number of lines of a failed command's output in the report.
const LINES: usize = 12;
/// Maximum number of files in a list.
const FILES: usize = 100;

/// Judges a search for usages: the explorer's findings are the answer.
pub(super) fn judge_usages(context: &ReflectionContext) -> Reflection {
    match find_observation(&context.observations, "explore") {
        Some(explore) => match &explore.findings {
            Some(findings) => match findings.strip_prefix(NOT_CONFIRMED) {
                Some(problem) => failed(format!("{}.", capitalized(problem))),
                None => achieved(findings.clone()),
            },
            None => failed(format!(
                "The search for usages failed: {}.",
                failure_reason(explore)
            )),
        },
        None => failed("The search for usages did not run.".to_owned()),
    }
}

/// Judges a check. A failed check achieves the goal, too, unless the user expects the check to succeed.
pub(super) fn judge_check(context: &ReflectionContext, expectation: Expectation) -> Reflection {
    let Some(check) = find_observation(&context.observations, "check") else {
        return failed("The check did not run.".to_owned());
    };
    let passed = passed_checks(calls(check));
    let passed = enumerated(&passed, passed.len());
    if check.status == ObservationStatus::Succeeded {
        return achieved(format!("Succeeded: {passed}."));
    }
    let Some((call, result)) = failed_call(check) else {
        return failed(format!("The check did not run: {}.", failure_reason(check)));
    };
    let mut report = report::failure(call, "failed", &result, LINES);
    if !passed.is_empty() {
        report = format!("Succeeded: {passed}. {report}");
    }
    let output = CommandOutput::from(&result);
    match expectation {
        // If the command could not start, there is no result to report.
        Expectation::Report if output.exit_code.is_some() || output.timed_out => achieved(report),
        Expectation::Report | Expectation::Success => failed(report),
    }
}

/// Judges a count or a list.
pub(super) fn judge_count(context: &ReflectionContext, target: &CountTarget, scope: &Scope) -> Reflection {
    let count = find_observation(&context.observations, "count");
    let Some(result) = count.and_then(|count| result(calls(count).first()?)) else {
        return failed("Nothing was counted.".to_owned());
    };
    if !result.success {
        let error = result.error.unwrap_or_default();
        return failed(format!("The count failed: {error}."));
    }
    match target {
        CountTarget::Files | CountTarget::FileNames => achieved(files(&result, target, scope)),
        CountTarget::Lines if !scope.except.is_empty() => failed(
            "The offline model cannot count lines when folders are excluded (\"except in …\"): list the folders to count instead."
                .to_owned(),
        ),
        CountTarget::Lines => {
            let found = SearchOutput::from(&result);
            achieved(format!(
                "{} in {}{scope}.",
                counted(found.total, "lines"),
                counted(found.files, "text files")
            ))
        }
        CountTarget::Text(text) | CountTarget::Word(text) => achieved(occurrences(&result, text, scope)),
    }
}

fn occurrences(result: &ModelToolResult, text: &str, scope: &Scope) -> String {
    let whole = SearchOutput::from(result);
    let shown = whole.matches.len();
    let found = whole.within(scope);
    if found.total == 0 {
        return format!("No line with `{text}`{scope}.");
    }
    // Matches that are not listed may be outside the scope.
    let at_least = if found.truncated && found.matches.len() != shown {
        "At least "
    } else {
        ""
    };
    format!(
        "{at_least}{} with `{text}` in {}{scope}:\n{}",
        counted(found.total, "lines"),
        counted(found.files, "files"),
        listing(places(&found.matches), found.total)
    )
}

fn files(result: &ModelToolResult, target: &CountTarget, scope: &Scope) -> String {
    let listed = ListOutput::from(result);
    let at_least = if listed.truncated { "At least " } else { "" };
    let mut files = listed.into_files();
    files.retain(|path| scope.contains(path));
    let total = files.len();
    let count = counted(total as u64, "files");
    let names = match target {
        CountTarget::FileNames if total > 0 => format!(":\n{}", bullets(files.into_iter(), FILES, total)),
        CountTarget::Files
        | CountTarget::FileNames
        | CountTarget::Lines
        | CountTarget::Text(_)
        | CountTarget::Word(_) => ".".to_owned(),
    };
    format!("{at_least}{count}{scope}, without ignored files{names}")
}

//! Judging iterations that only looked: usages, checks, counts and lists.

use dirigent_core::reflection::Reflection;

use super::{ReflectionContext, achieved, failed};
use crate::conversation::CallResult;
use crate::goal::{CountTarget, Expectation};
use crate::location::{MAX_LISTED, enumerated, pluralize};
use crate::prompt_sections::{ObservedCall, Status, find_observation};
use crate::report::{command_line, error_lines, exit_description, passed_checks};
use crate::scope::Scope;
use crate::tools::{CommandOutput, SearchOutput, listed_files, read_output};

/// Lines of a failed command that the report shows.
const LINES: usize = 12;

/// What the explorer found is the answer.
pub(crate) fn judge_usages(context: &ReflectionContext) -> Reflection {
    match find_observation(&context.observations, "explore") {
        Some(explore) => match &explore.findings {
            Some(findings) => achieved(findings.clone()),
            None => failed(format!(
                "The usages could not be looked for: {}.",
                explore.failure_reason()
            )),
        },
        None => failed("The usages were not looked for.".to_owned()),
    }
}

/// How the command ended is the answer, unless the user wanted it to succeed.
pub(crate) fn judge_check(context: &ReflectionContext, expectation: Expectation) -> Reflection {
    let Some(check) = find_observation(&context.observations, "check") else {
        return failed("The check did not run.".to_owned());
    };
    let passed = passed_checks(&check.calls);
    if check.status == Status::Succeeded {
        return achieved(format!("Succeeded: {}.", enumerated(&passed, passed.len())));
    }
    let Some((call, result)) = check.failed_call() else {
        return failed(format!("The check did not run: {}.", check.failure_reason()));
    };
    let report = report(call, result, &passed);
    let executed: CommandOutput = read_output(&result.output);
    match expectation {
        // A command that could not even start has told nothing.
        Expectation::Report if executed.exit_code.is_some() || executed.timed_out => achieved(report),
        Expectation::Report | Expectation::Success => failed(report),
    }
}

fn report(call: &ObservedCall, result: &CallResult, passed: &[String]) -> String {
    let before = if passed.is_empty() {
        String::new()
    } else {
        format!("Succeeded: {}. ", enumerated(passed, passed.len()))
    };
    let lines: Vec<String> = error_lines(result, LINES)
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect();
    format!(
        "{before}`{}` failed ({}):{}",
        command_line(call),
        exit_description(result),
        lines.concat()
    )
}

/// The number, or the list.
pub(crate) fn judge_count(context: &ReflectionContext, target: &CountTarget, scope: &Scope) -> Reflection {
    let call = find_observation(&context.observations, "count").and_then(|count| count.calls.first());
    let Some(result) = call.and_then(|call| call.result.as_ref()) else {
        return failed("Nothing was counted.".to_owned());
    };
    if !result.success {
        return failed(format!(
            "It could not be counted: {}.",
            result.error.clone().unwrap_or_default()
        ));
    }
    match target {
        CountTarget::Files | CountTarget::FileNames => achieved(files(result, target, scope)),
        CountTarget::Lines if !scope.except.is_empty() => failed(
            "Lines can be counted of folders and kinds of files, but not with exceptions from them."
                .to_owned(),
        ),
        CountTarget::Lines => {
            let found: SearchOutput = read_output(&result.output);
            achieved(format!(
                "{} in {}{scope}.",
                pluralize(found.total, "line", "lines"),
                pluralize(found.files, "text file", "text files")
            ))
        }
        CountTarget::Text(text) | CountTarget::Word(text) => achieved(occurrences(result, text, scope)),
    }
}

fn occurrences(result: &CallResult, text: &str, scope: &Scope) -> String {
    let whole: SearchOutput = read_output(&result.output);
    let shown = whole.matches.len();
    let found = whole.within(scope);
    // What was not shown can't be told apart by its file.
    let at_least = if found.truncated && found.matches.len() != shown {
        "At least "
    } else {
        ""
    };
    let locations: Vec<String> = found
        .matches
        .iter()
        .map(|line| format!("- {}: {}", line.location(), line.text.trim()))
        .collect();
    let locations = locations
        .iter()
        .take(MAX_LISTED)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("\n");
    let more = found.total.saturating_sub(MAX_LISTED as u64);
    let more = if more > 0 {
        format!("\n- and {more} more")
    } else {
        String::new()
    };
    if found.total == 0 {
        return format!("No line with `{text}`{scope}.");
    }
    format!(
        "{at_least}{} with `{text}` in {}{scope}:\n{locations}{more}",
        pluralize(found.total, "line", "lines"),
        pluralize(found.files, "file", "files")
    )
}

fn files(result: &CallResult, target: &CountTarget, scope: &Scope) -> String {
    let files: Vec<String> = listed_files(&result.output)
        .into_iter()
        .filter(|path| scope.contains(path))
        .collect();
    // The tool shows the first entries of a long list, and says so.
    let at_least = if result.output.get("note").is_some() {
        "At least "
    } else {
        ""
    };
    let total = pluralize(files.len() as u64, "file", "files");
    match target {
        CountTarget::FileNames if !files.is_empty() => {
            let names: Vec<String> = files.iter().take(100).map(|path| format!("- {path}")).collect();
            let more = files.len().saturating_sub(100);
            let more = if more > 0 {
                format!("\n- and {more} more")
            } else {
                String::new()
            };
            format!(
                "{at_least}{total}{scope}, ignored ones left out:\n{}{more}",
                names.join("\n")
            )
        }
        CountTarget::Files
        | CountTarget::FileNames
        | CountTarget::Lines
        | CountTarget::Text(_)
        | CountTarget::Word(_) => {
            format!("{at_least}{total}{scope}, ignored ones left out.")
        }
    }
}

//! Judging rounds that only looked: usages, checks, counts and lists.

use dirigent_core::reflection::Reflection;

use super::{Judging, achieved, failed};
use crate::offline::conversation::Answer;
use crate::offline::goal::{Counted, Expectation};
use crate::offline::place::{SHOWN, counted as number, enumerated};
use crate::offline::reading::{ObservedCall, Status, observed};
use crate::offline::report::{command_line, how_it_ended, passed_checks, telling_lines};
use crate::offline::scope::Scope;
use crate::offline::tools::{Executed, Search, listed_files, read_output};

/// Lines of a failed command that the report shows.
const LINES: usize = 12;

/// What the explorer found is the answer.
pub(super) fn usages(judging: &Judging) -> Reflection {
    match observed(&judging.observations, "explore") {
        Some(explore) => match &explore.findings {
            Some(findings) => achieved(findings.clone()),
            None => failed(format!(
                "The usages could not be looked for: {}.",
                explore.why_failed()
            )),
        },
        None => failed("The usages were not looked for.".to_owned()),
    }
}

/// How the command ended is the answer, unless the user wanted it to succeed.
pub(super) fn checked(judging: &Judging, expectation: Expectation) -> Reflection {
    let Some(check) = observed(&judging.observations, "check") else {
        return failed("The check did not run.".to_owned());
    };
    let passed = passed_checks(&check.calls);
    if check.status == Status::Succeeded {
        return achieved(format!("Succeeded: {}.", enumerated(&passed, passed.len())));
    }
    let Some((call, result)) = check.failed_call() else {
        return failed(format!("The check did not run: {}.", check.why_failed()));
    };
    let report = report(call, result, &passed);
    let executed: Executed = read_output(&result.output);
    match expectation {
        // A command that could not even start has told nothing.
        Expectation::Report if executed.exit_code.is_some() || executed.timed_out => achieved(report),
        Expectation::Report | Expectation::Success => failed(report),
    }
}

fn report(call: &ObservedCall, result: &Answer, passed: &[String]) -> String {
    let before = if passed.is_empty() {
        String::new()
    } else {
        format!("Succeeded: {}. ", enumerated(passed, passed.len()))
    };
    let lines: Vec<String> = telling_lines(result, LINES)
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect();
    format!(
        "{before}`{}` failed ({}):{}",
        command_line(call),
        how_it_ended(result),
        lines.concat()
    )
}

/// The number, or the list.
pub(super) fn counted(judging: &Judging, what: &Counted, scope: &Scope) -> Reflection {
    let call = observed(&judging.observations, "count").and_then(|count| count.calls.first());
    let Some(result) = call.and_then(|call| call.result.as_ref()) else {
        return failed("Nothing was counted.".to_owned());
    };
    if !result.success {
        return failed(format!(
            "It could not be counted: {}.",
            result.error.clone().unwrap_or_default()
        ));
    }
    match what {
        Counted::Files | Counted::FileNames => achieved(files(result, what, scope)),
        Counted::Lines if !scope.except.is_empty() => failed(
            "Lines can be counted of folders and kinds of files, but not with exceptions from them."
                .to_owned(),
        ),
        Counted::Lines => {
            let found: Search = read_output(&result.output);
            achieved(format!(
                "{} in {}{scope}.",
                number(found.total, "line", "lines"),
                number(found.files, "text file", "text files")
            ))
        }
        Counted::Text(text) | Counted::Word(text) => achieved(occurrences(result, text, scope)),
    }
}

fn occurrences(result: &Answer, text: &str, scope: &Scope) -> String {
    let whole: Search = read_output(&result.output);
    let shown = whole.matches.len();
    let found = whole.within(scope);
    // What was not shown can't be told apart by its file.
    let at_least = if found.truncated && found.matches.len() != shown {
        "At least "
    } else {
        ""
    };
    let places: Vec<String> = found
        .matches
        .iter()
        .map(|line| format!("- {}: {}", line.place(), line.text.trim()))
        .collect();
    let places = places
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("\n");
    let more = found.total.saturating_sub(SHOWN as u64);
    let more = if more > 0 {
        format!("\n- and {more} more")
    } else {
        String::new()
    };
    if found.total == 0 {
        return format!("No line with `{text}`{scope}.");
    }
    format!(
        "{at_least}{} with `{text}` in {}{scope}:\n{places}{more}",
        number(found.total, "line", "lines"),
        number(found.files, "file", "files")
    )
}

fn files(result: &Answer, what: &Counted, scope: &Scope) -> String {
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
    let total = number(files.len() as u64, "file", "files");
    match what {
        Counted::FileNames if !files.is_empty() => {
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
        Counted::Files | Counted::FileNames | Counted::Lines | Counted::Text(_) | Counted::Word(_) => {
            format!("{at_least}{total}{scope}, ignored ones left out.")
        }
    }
}

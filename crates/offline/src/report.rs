//! What the output of a check says in a few lines: what failed, how many tests passed.

use std::sync::LazyLock;

use regex::Regex;

use super::conversation::CallResult;
use super::location::shortened;
use super::prompt_sections::ObservedCall;
use super::tools::{CommandOutput, read_output};

/// The command line of an `execute_command` call.
pub(crate) fn command_line(call: &ObservedCall) -> String {
    let words = call
        .parameters
        .get("command")
        .and_then(serde_json::Value::as_array);
    let words: Vec<_> = words
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_str)
        .collect();
    words.join(" ")
}

/// The lines of a failed command that tell why, at most `max`; the end of its output where none stands out.
pub(crate) fn error_lines(result: &CallResult, max: usize) -> Vec<String> {
    static ERROR_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"^\s*(error(\[\w+\])?:|\w*Error\b|E  |FAIL(ED)?\b|ERROR\b|--- FAIL|not ok|--> |thread .* panicked|assertion)|\.\.\. FAILED$|^\S+\.\w+:\d+:\d+: |panicked at",
        )
        .ok()
    });
    let executed: CommandOutput = read_output(&result.output);
    let text = executed.text();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.trim().is_empty())
        .collect();
    let is_telling = |line: &&&str| ERROR_LINE.as_ref().is_some_and(|pattern| pattern.is_match(line));
    // What only says that there were errors tells nothing beside them.
    let is_news = |line: &&&str| !line.contains("could not compile");
    let mut chosen: Vec<&str> = lines.iter().filter(is_telling).filter(is_news).copied().collect();
    chosen.dedup();
    chosen.truncate(max);
    if chosen.is_empty() {
        chosen = lines[lines.len().saturating_sub(max)..].to_vec();
    }
    chosen
        .into_iter()
        .map(|line| shortened(line.trim(), 200))
        .collect()
}

/// How a failed command ended: `exit code 101`, `it took too long`, or the tool's own error.
pub(crate) fn exit_description(result: &CallResult) -> String {
    let executed: CommandOutput = read_output(&result.output);
    match (executed.timed_out, executed.exit_code) {
        (true, _) => "it took too long and was ended".to_owned(),
        (false, Some(code)) => format!("exit code {code}"),
        (false, None) => result
            .error
            .clone()
            .unwrap_or_else(|| "it was ended by a signal".to_owned()),
    }
}

/// How many tests passed, where the output says so. Of an output with parts left out it says nothing.
pub(crate) fn tests_passed(result: &CallResult) -> Option<u64> {
    static COUNTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        // cargo, pytest, unittest (all that ran, as it succeeded), node
        [
            r"(?m)^test result: ok\. (\d+) passed",
            r"(?m)\b(\d+) passed\b.* in [\d.]+s",
            r"(?m)^Ran (\d+) tests? in",
            r"(?m)^# pass (\d+)",
        ]
        .iter()
        .filter_map(|form| Regex::new(form).ok())
        .collect()
    });
    let executed: CommandOutput = read_output(&result.output);
    let text = executed.text();
    if !result.success || text.contains("left out") {
        return None;
    }
    let counts = |form: &Regex| {
        form.captures_iter(&text)
            .filter_map(|found| found[1].parse::<u64>().ok())
            .collect::<Vec<_>>()
    };
    COUNTS
        .iter()
        .map(counts)
        .find(|counts| !counts.is_empty())
        .map(|counts| counts.iter().sum())
}

/// "`cargo test` (12 tests passed)", for each check that ran.
pub(crate) fn passed_checks(calls: &[ObservedCall]) -> Vec<String> {
    let passed = calls.iter().filter(|call| call.tool == "execute_command");
    passed
        .filter_map(|call| Some((call, call.result.as_ref().filter(|result| result.success)?)))
        .map(|(call, result)| match tests_passed(result) {
            Some(0) => format!("`{}` (which ran no test)", command_line(call)),
            Some(1) => format!("`{}` (1 test passed)", command_line(call)),
            Some(number) => format!("`{}` ({number} tests passed)", command_line(call)),
            None => format!("`{}`", command_line(call)),
        })
        .collect()
}

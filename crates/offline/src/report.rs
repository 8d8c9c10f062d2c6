//! Short descriptions of a check's output: why the check failed, or how many tests passed.

use std::sync::LazyLock;

use dirigent_core::prompt::CallLine;
use dirigent_core::tool::ModelToolResult;
use regex::Regex;

use super::outputs::CommandOutput;
use super::prompt_sections::result;
use super::text::shortened;

/// Returns the command line of an `execute_command` call; empty for other tools.
pub(crate) fn command_line(call: &CallLine) -> String {
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

/// Describes a failed command: "`cargo test` fails (exit code 101):" and at most `max` lines of its output.
pub(crate) fn failure(call: &CallLine, verb: &str, result: &ModelToolResult, max: usize) -> String {
    let lines: Vec<String> = error_lines(result, max)
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect();
    format!(
        "`{}` {verb} ({}):{}",
        command_line(call),
        exit_description(result),
        lines.concat()
    )
}

/// Returns the lines that look like error messages, or the last lines if there are none.
fn error_lines(result: &ModelToolResult, max: usize) -> Vec<String> {
    static ERROR_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"^\s*(error(\[\w+\])?:|\w*Error\b|E  |FAIL(ED)?\b|ERROR\b|--- FAIL|not ok|--> |thread .* panicked|assertion)|\.\.\. FAILED$|^\S+\.\w+:\d+:\d+: |panicked at",
        )
        .ok()
    });
    let text = CommandOutput::from(result).text;
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.trim().is_empty())
        .collect();
    let is_error = |line: &&&str| ERROR_LINE.as_ref().is_some_and(|pattern| pattern.is_match(line));
    // "could not compile" adds nothing to the errors before it.
    let is_news = |line: &&&str| !line.contains("could not compile");
    let mut chosen: Vec<&str> = lines.iter().filter(is_error).filter(is_news).copied().collect();
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

/// Describes how a failed command ended: `exit code 101`, a timeout, or the tool's error.
fn exit_description(result: &ModelToolResult) -> String {
    let output = CommandOutput::from(result);
    match (output.timed_out, output.exit_code) {
        (true, _) => "timed out".to_owned(),
        (false, Some(code)) => format!("exit code {code}"),
        (false, None) => result
            .error
            .clone()
            .unwrap_or_else(|| "killed by a signal".to_owned()),
    }
}

/// Returns the number of tests that passed; `None` if the output does not contain the number or was truncated.
fn tests_passed(result: &ModelToolResult) -> Option<u64> {
    static COUNTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        // In this order: cargo; pytest; unittest, which counts all tests that ran, and they all passed; node.
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
    let text = CommandOutput::from(result).text;
    if !result.success || text.contains("left out") {
        return None;
    }
    let counts = |form: &Regex| -> Vec<u64> {
        let captures = form.captures_iter(&text);
        captures.filter_map(|captures| captures[1].parse().ok()).collect()
    };
    COUNTS
        .iter()
        .map(counts)
        .find(|counts| !counts.is_empty())
        .map(|counts| counts.iter().sum())
}

/// Describes each check that passed: "`cargo test` (12 tests passed)".
pub(crate) fn passed_checks(calls: &[CallLine]) -> Vec<String> {
    calls
        .iter()
        .filter(|call| call.tool == "execute_command")
        .filter_map(|call| Some((call, result(call).filter(|result| result.success)?)))
        .map(|(call, result)| match tests_passed(&result) {
            Some(0) => format!("`{}` (which ran no test)", command_line(call)),
            Some(1) => format!("`{}` (1 test passed)", command_line(call)),
            Some(number) => format!("`{}` ({number} tests passed)", command_line(call)),
            None => format!("`{}`", command_line(call)),
        })
        .collect()
}

//! The tool `read_output`: reads an output that was shortened or left out of a prompt, by its handle (PAOR-6).
//!
//! It reads only results recorded in the journal, and never runs a tool.

mod text;

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::id::{AgentId, EffectId, RunId};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::observation::{Observation, SubTaskResult};
use dirigent_core::prompt::{OutputHandle, READ_OUTPUT, whole_observations, whole_report};
use dirigent_core::run::{Iteration, RunInput};
use dirigent_core::tool::{Access, Repeat, ToolOutcome, ToolResult, ToolSpec, code};
use dirigent_tools::{Tool, ToolContext};
use futures::FutureExt;
use futures::future::BoxFuture;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use self::text::Readable;
use crate::error::RuntimeError;
use crate::journal_reader::{read_entries, read_view};
use crate::run_log::{RunLog, RunLogError};

/// The default number of characters that a call returns.
const DEFAULT_LENGTH: usize = 8_000;
/// The maximum number of characters that a call returns.
const MAX_LENGTH: usize = 32_000;
/// The maximum number of lines that a search returns.
const MAX_MATCHES: usize = 100;
/// The maximum number of characters that a search returns per line.
const MAX_MATCH: usize = 300;
/// For a line longer than [`MAX_MATCH`], the number of characters before the match that a search returns.
const BEFORE_MATCH: usize = 100;
/// The maximum size of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 64 * 1024;

const DESCRIPTION: &str = "Reads the full text of an output that was shortened or left out, by its handle: a tool call's result (`a3.2`, \
    `run.7`), an agent's findings (`a3`) or all observations of an iteration (`iteration.2`), from any agent and iteration. Returns the lines \
    from `start_line` to `end_line`; with `pattern`, the matching lines with their numbers; otherwise `length` characters from `offset`. Lines \
    are counted in the text itself, such as a command's stdout or a file's content. If the result has several texts, they are concatenated: \
    `texts` has the line at which each begins, and `rest` has the result's other values. If there is more, `next_line` or `next_offset` says where to \
    continue. `cut` means that a line was cut because it is too long; read the rest of it with `offset`.";

/// The tool `read_output`. It presents a result as text ([`text::Readable`]): the result's long strings without escapes, or one line per
/// value (`output.total: 3`) if it has no long string. The tool's outputs:
///
/// | request | output |
/// | --- | --- |
/// | characters | `{"text", "total_characters", "total_lines"}`, and `next_offset` if there is more |
/// | lines | `{"text", "start_line", "end_line", "total_lines"}`, and `next_line` if there is more; a line of more than 32,000 characters is cut, which `"cut": true` marks |
/// | a pattern | `{"matches": [{"line", "text"}], "total_matches", "total_lines"}`, and `next_line` if there are more than 100; long lines are cut around the match |
///
/// An output also has `texts`, which maps the name of each text to its first line, if the result has several texts, and `rest`, with the
/// other values of the result, if there are any.
///
/// Its failure codes: `bad_parameters`; `not_found`, if the run has no output with this handle, or the output has no such line; and
/// `journal`, if the journal could not be read.
pub(crate) struct ReadOutput {
    journal: Arc<dyn RunLog>,
}

#[derive(Deserialize)]
struct Parameters {
    handle: OutputHandle,
    offset: Option<usize>,
    length: Option<usize>,
    start_line: Option<usize>,
    end_line: Option<usize>,
    pattern: Option<String>,
}

/// The requested part of an output.
enum OutputSelection {
    Characters {
        offset: usize,
        length: usize,
    },
    Lines {
        first: usize,
        last: usize,
    },
    Matches {
        pattern: Regex,
        first: usize,
        last: usize,
    },
}

impl ReadOutput {
    pub(crate) fn new(journal: Arc<dyn RunLog>) -> Self {
        ReadOutput { journal }
    }
}

impl Tool for ReadOutput {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: READ_OUTPUT.to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "handle": {"type": "string", "description": "The handle, such as `run.7`, `a3.2`, `a3` or `iteration.2`."},
                    "offset": {"type": "integer", "minimum": 0, "description": "The first character, from 0."},
                    "length": {"type": "integer", "minimum": 1, "maximum": MAX_LENGTH, "description": "The number of characters."},
                    "start_line": {"type": "integer", "minimum": 1, "description": "The first line, from 1."},
                    "end_line": {"type": "integer", "minimum": 1, "description": "The last line."},
                    "pattern": {"type": "string", "description": "Return only the lines that match this regular expression, such as `error|warning`."}
                },
                "required": ["handle"],
                "additionalProperties": false
            }),
            repeat: Repeat::Safe,
            access: Access::ReadOnly,
            requires_approval: false,
            example: json!({"handle": "run.7", "pattern": "error|FAILED"}),
        }
    }

    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult> {
        let journal = self.journal.clone();
        async move {
            // Reading the disk blocks the thread, and so does the search in a long output.
            let read = move || read(&*journal, context.run, parameters);
            match tokio::task::spawn_blocking(read).await {
                Ok(result) => result,
                Err(error) => ToolResult::failure(error.to_string()).with_code("journal"),
            }
        }
        .boxed()
    }
}

fn read(journal: &dyn RunLog, run: RunId, parameters: Value) -> ToolResult {
    let selection = serde_json::from_value(parameters)
        .map_err(|error| error.to_string())
        .and_then(|parameters: Parameters| Ok((parameters.handle, parameters.selection()?)));
    let (handle, selection) = match selection {
        Ok(selection) => selection,
        Err(error) => return ToolResult::failure(error).with_code(code::BAD_PARAMETERS),
    };
    match find(journal, run, handle) {
        Ok(Some(found)) => selection.apply(&Readable::from_result(&found)),
        Ok(None) => ToolResult::failure(not_found(handle)).with_code(code::NOT_FOUND),
        Err(error) => ToolResult::failure(error.to_string()).with_code("journal"),
    }
}

impl Parameters {
    fn selection(&self) -> Result<OutputSelection, String> {
        let by_characters = self.offset.is_some() || self.length.is_some();
        let by_lines = self.start_line.is_some() || self.end_line.is_some();
        let (first, last) = (self.start_line.unwrap_or(1), self.end_line.unwrap_or(usize::MAX));
        if by_characters && (by_lines || self.pattern.is_some()) {
            return Err(
                "use either `offset` and `length`, or `start_line`, `end_line` and `pattern`, not both"
                    .to_owned(),
            );
        }
        if first == 0 || last < first {
            return Err("`start_line` must be at least 1, and `end_line` at least `start_line`".to_owned());
        }
        Ok(match &self.pattern {
            Some(pattern) => {
                let compiled = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
                let pattern = compiled
                    .map_err(|error| format!("`pattern` is not a valid regular expression: {error}"))?;
                OutputSelection::Matches { pattern, first, last }
            }
            None if by_lines => OutputSelection::Lines { first, last },
            None => OutputSelection::Characters {
                offset: self.offset.unwrap_or(0),
                length: self.length.unwrap_or(DEFAULT_LENGTH).min(MAX_LENGTH),
            },
        })
    }
}

impl OutputSelection {
    fn apply(&self, readable: &Readable) -> ToolResult {
        let mut result = self.select(&readable.text);
        if let ToolOutcome::Success { output } = &mut result.outcome {
            if readable.texts.len() > 1 {
                output["texts"] = readable
                    .texts
                    .iter()
                    .map(|(name, line)| (name.clone(), json!(line)))
                    .collect();
            }
            if !readable.rest.is_empty() {
                output["rest"] = Value::Object(readable.rest.clone());
            }
        }
        result
    }

    fn select(&self, text: &str) -> ToolResult {
        let total_lines = text.lines().count();
        match self {
            OutputSelection::Characters { offset, length } => {
                let part: String = text.chars().skip(*offset).take(*length).collect();
                let (read, total) = (offset + part.chars().count(), text.chars().count());
                let mut output = json!({"text": part, "total_characters": total, "total_lines": total_lines});
                if read < total {
                    output["next_offset"] = json!(read);
                }
                ToolResult::success(output)
            }
            OutputSelection::Lines { first, .. } | OutputSelection::Matches { first, .. }
                if *first > total_lines =>
            {
                ToolResult::failure(format!("the output has only {total_lines} lines"))
                    .with_code(code::NOT_FOUND)
            }
            OutputSelection::Lines { first, last } => lines(text, *first, *last, total_lines),
            OutputSelection::Matches { pattern, first, last } => {
                matches(text, pattern, *first, *last, total_lines)
            }
        }
    }
}

fn lines(text: &str, first: usize, last: usize, total: usize) -> ToolResult {
    let last = last.min(total);
    let (mut part, mut room, mut next, mut cut) = (String::new(), MAX_LENGTH, first, false);
    for line in text.lines().take(last).skip(first - 1) {
        let length = line.chars().count() + 1;
        if length > room && next > first {
            break;
        }
        cut |= length > room + 1;
        part.extend(line.chars().take(room));
        part.push('\n');
        room = room.saturating_sub(length);
        next += 1;
    }
    let mut output = json!({"text": part, "start_line": first, "end_line": next - 1, "total_lines": total});
    if next <= last {
        output["next_line"] = json!(next);
    }
    if cut {
        output["cut"] = json!(true);
    }
    ToolResult::success(output)
}

fn matches(text: &str, pattern: &Regex, first: usize, last: usize, total: usize) -> ToolResult {
    let (mut rows, mut found, mut next) = (Vec::new(), 0_usize, None);
    for (number, line) in (1..).zip(text.lines()).take(last).skip(first - 1) {
        let Some(at) = pattern.find(line) else {
            continue;
        };
        found += 1;
        if rows.len() < MAX_MATCHES {
            rows.push(json!({"line": number, "text": around(line, at.start())}));
        } else {
            next.get_or_insert(number);
        }
    }
    let mut output = json!({"matches": rows, "total_matches": found, "total_lines": total});
    if let Some(next) = next {
        output["next_line"] = json!(next);
    }
    ToolResult::success(output)
}

/// Returns a line, or, of a long line, the part around the byte offset `at`.
fn around(line: &str, at: usize) -> String {
    let before = line.get(..at).map_or(0, |before| before.chars().count());
    let skipped = match line.chars().count() > MAX_MATCH {
        true => before.saturating_sub(BEFORE_MATCH),
        false => 0,
    };
    let mut rest = line.chars().skip(skipped);
    let shown: String = rest.by_ref().take(MAX_MATCH).collect();
    let (begin, end) = (
        if skipped > 0 { "…" } else { "" },
        if rest.next().is_some() { "…" } else { "" },
    );
    format!("{begin}{shown}{end}")
}

/// Finds the output that a handle names in the journal, in the form in which models see it; `None` if the run has no such handle.
fn find(journal: &dyn RunLog, run: RunId, handle: OutputHandle) -> Result<Option<Value>, RuntimeError> {
    match handle {
        OutputHandle::Call(effect) => Ok(find_result(journal, run, effect)?.map(|result| result.for_model())),
        OutputHandle::Agent(agent) => {
            let view = read_view(journal, run)?;
            let report = view.agent(agent).and_then(Agent::report);
            Ok(report
                .map(whole_report)
                .or_else(|| whole_findings(view.run().iterations(), agent)))
        }
        OutputHandle::Iteration(iteration) => {
            let view = read_view(journal, run)?;
            // An iteration that was interrupted by the run's end, and planned again after a resume, occurs twice.
            let iterations = view
                .run()
                .iterations()
                .iter()
                .filter(|other| other.number == iteration);
            let observed: Vec<&Observation> = iterations
                .clone()
                .flat_map(|iteration| &iteration.observations)
                .collect();
            Ok((iterations.count() > 0).then(|| whole_observations(observed)))
        }
    }
}

/// Returns the observation of an agent that has no report because it crashed; `None` if there is no such observation.
fn whole_findings(iterations: &[Iteration], agent: AgentId) -> Option<Value> {
    let mut observations = iterations.iter().flat_map(|iteration| &iteration.observations);
    let observation = observations.find(|observation| match &observation.finding {
        SubTaskResult::Agent { agent: other, .. } => *other == agent,
        SubTaskResult::Calls { .. } | SubTaskResult::Skipped { .. } => false,
    });
    observation.map(|observation| whole_observations([observation]))
}

fn not_found(handle: OutputHandle) -> String {
    match handle {
        OutputHandle::Call(effect) => {
            format!("this run has no finished call with the handle `{effect}`")
        }
        OutputHandle::Agent(agent) => format!("this run has no finished agent `{agent}`"),
        OutputHandle::Iteration(iteration) => format!("this run has no iteration {iteration} with a plan"),
    }
}

/// Finds the recorded result of a call.
fn find_result(
    journal: &dyn RunLog,
    run: RunId,
    handle: EffectId,
) -> Result<Option<ToolResult>, RunLogError> {
    let entries = read_entries(journal, run)?;
    Ok(entries.into_iter().find_map(|Entry { input, .. }| match input {
        Input::Run(RunInput::ToolFinished { effect, result })
        | Input::Agent(AgentInput::ToolFinished { effect, result })
            if effect == handle =>
        {
            Some(result)
        }
        Input::Run(_) | Input::Agent(_) => None,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const TEXT: &str = "success: true\noutput.stdout:\none\ntwo error\nthree\nerror four\n";

    /// Reads [`TEXT`] with these parameters. A failure is returned as its code and message.
    fn read(parameters: Value) -> Result<Value, (String, String)> {
        read_text(TEXT, parameters)
    }

    fn read_text(text: &str, mut parameters: Value) -> Result<Value, (String, String)> {
        parameters["handle"] = json!("a1.2");
        let parameters: Parameters = serde_json::from_value(parameters).unwrap();
        let selection = parameters
            .selection()
            .map_err(|error| ("bad_parameters".to_owned(), error))?;
        match selection.select(text).outcome {
            ToolOutcome::Success { output } => Ok(output),
            ToolOutcome::Failure { code, error, .. } => Err((code, error)),
        }
    }

    #[test]
    fn paor_6_an_output_is_read_by_characters() {
        assert_eq!(
            read(json!({"offset": 9, "length": 4})).unwrap(),
            json!({"text": "true", "total_characters": 60, "total_lines": 6, "next_offset": 13})
        );
        assert_eq!(
            read(json!({})).unwrap(),
            json!({"text": TEXT, "total_characters": 60, "total_lines": 6})
        );
    }

    #[test]
    fn paor_6_an_output_is_read_by_lines() {
        assert_eq!(
            read(json!({"start_line": 3, "end_line": 4})).unwrap(),
            json!({"text": "one\ntwo error\n", "start_line": 3, "end_line": 4, "total_lines": 6})
        );
        let long = "x".repeat(20_000);
        let text = format!("{long}\n{long}\n{long}\n");
        let part = read_text(&text, json!({"start_line": 1})).unwrap();
        assert_eq!((&part["end_line"], &part["next_line"]), (&json!(1), &json!(2)));
        let huge = read_text(&"x".repeat(100_000), json!({"start_line": 1})).unwrap();
        assert_eq!(huge["text"].as_str().unwrap().len(), MAX_LENGTH + 1);
        assert_eq!(huge["cut"], true);
        let whole = read_text(&"x".repeat(MAX_LENGTH), json!({"start_line": 1})).unwrap();
        assert_eq!(whole["cut"], Value::Null);
    }

    #[test]
    fn paor_6_an_output_is_searched() {
        assert_eq!(
            read(json!({"pattern": "^error|two"})).unwrap(),
            json!({"matches": [{"line": 4, "text": "two error"}, {"line": 6, "text": "error four"}], "total_matches": 2, "total_lines": 6})
        );
        assert_eq!(
            read(json!({"pattern": "error", "start_line": 5})).unwrap()["total_matches"],
            1
        );
        let text = format!("{}needle{}\n", "a".repeat(1_000), "b".repeat(1_000)).repeat(150);
        let found = read_text(&text, json!({"pattern": "needle"})).unwrap();
        assert_eq!(found["matches"].as_array().unwrap().len(), 100);
        assert_eq!(found["total_matches"], 150);
        assert_eq!(found["next_line"], 101);
        let rest = read_text(&text, json!({"pattern": "needle", "start_line": 101})).unwrap();
        assert_eq!(rest["matches"].as_array().unwrap().len(), 50);
        assert_eq!(rest["next_line"], Value::Null);
        let shown = found["matches"][0]["text"].as_str().unwrap();
        assert_eq!(shown, format!("…{}needle{}…", "a".repeat(100), "b".repeat(194)));
    }

    #[test]
    fn contradicting_or_invalid_parameters_are_refused() {
        for (parameters, code) in [
            (json!({"offset": 1, "start_line": 1}), "bad_parameters"),
            (json!({"offset": 1, "pattern": "x"}), "bad_parameters"),
            (json!({"start_line": 3, "end_line": 2}), "bad_parameters"),
            (json!({"pattern": "("}), "bad_parameters"),
            (json!({"pattern": "(a{50}){50}"}), "bad_parameters"),
            (json!({"start_line": 7}), "not_found"),
        ] {
            assert_eq!(read(parameters.clone()).unwrap_err().0, code, "{parameters}");
        }
    }
}

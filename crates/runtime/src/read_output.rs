//! The tool `read_output`: reads an output that was shortened or left out of a prompt, by its handle (PAOR-6).
//!
//! It reads only results recorded in the journal, and never runs a tool.

mod text;

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::id::{AgentId, EffectId, RunId};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::loop_tools::answer_result;
use dirigent_core::observation::{Observation, SubTaskResult};
use dirigent_core::prompt::{OutputHandle, READ_OUTPUT, whole_observations, whole_report};
use dirigent_core::run::{Iteration, RunInput};
use dirigent_core::text::first_numbered_line;
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolResult, ToolSpec, code};
use dirigent_tools::{Tool, ToolContext};
use futures::FutureExt;
use futures::future::BoxFuture;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::text::Readable;
use crate::error::RuntimeError;
use crate::journal_reader::{read_entries, read_view, replay_entries};
use crate::run_diff::{diff_of_iteration, diff_until_now};
use crate::run_log::RunLog;

/// The default number of characters that a call returns.
const DEFAULT_LENGTH: usize = 8_000;
/// The maximum number of characters that a call returns.
const MAX_LENGTH: usize = 32_000;
/// The maximum number of lines that a search returns.
const MAX_MATCHES: usize = 100;
/// The maximum number of characters that a search returns per line.
const MAX_MATCH: usize = 300;
/// The number of characters before the match that a search returns for a line longer than [`MAX_MATCH`].
const BEFORE_MATCH: usize = 100;
/// The maximum size of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 64 * 1024;

const DESCRIPTION: &str = "Reads an output by its handle: of a call (`a3.2`), an agent (`a3`), an iteration (`iteration.2`, `diff.2`), or \
    what the run has changed in files (`diff`). Returns the lines from `start_line` to `end_line`; with `pattern` (a regular expression), \
    those that match; otherwise `length` characters from `offset`.";

/// The tool `read_output`. It presents a result as text ([`text::Readable`]): the result's long strings
/// without escapes or, if there are none, one line per value (`output.total: 3`). The tool's output is a
/// first line, a blank line and a part of this text:
///
/// | request | first line | part |
/// | --- | --- | --- |
/// | characters | `Characters 0-7999 of 20000 (300 lines); continue with offset 8000`; `The whole output: 809 characters, 12 lines` if it is shown whole | the characters |
/// | lines | `Lines 1-40 of 300; continue with start_line 41`, and a note if a line of more than 32,000 characters is cut | the lines |
/// | a pattern | `2 of 300 lines match`, and where to continue if more than 100 match | the lines with their numbers, `12:text`; long lines are cut around the match |
///
/// If the result has several long strings, a second line says at which line each begins. If it has other values, they follow as JSON.
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

/// An output of a run as text, as the tool `read_output` shows it: the long strings of the result without escapes or, if there are none, one
/// line for each value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OutputText {
    /// The whole text.
    pub text: String,
    /// The name of each long string, such as `output.stdout`, and the line of `text` with which it begins, from 1. Empty if the result has
    /// no long strings.
    pub texts: Vec<(String, usize)>,
    /// The other values of the result. Empty if there are none, or if they are part of `text`.
    pub other_values: Map<String, Value>,
}

impl OutputText {
    /// Returns the number of the last line. The lines of a file that was read have the numbers of the file; other lines are numbered from 1.
    pub fn last_line(&self) -> usize {
        NumberedText::new(&self.text).last
    }

    /// Returns the lines with these numbers, numbered as for [`OutputText::last_line`].
    pub fn lines(&self, first: usize, last: usize) -> String {
        let text = NumberedText::new(&self.text);
        let lines = text.range(first, last);
        lines.flat_map(|(_, line)| [line, "\n"]).collect()
    }
}

/// Reads an output that is recorded in the journal; `None` if the run has no output with this handle (PAOR-6). A run that is a turn of a
/// conversation also has the outputs of the turns before it.
///
/// # Errors
/// The journal cannot be read, or has no such run.
pub fn output_text(
    journal: &dyn RunLog,
    run: RunId,
    handle: OutputHandle,
) -> Result<Option<OutputText>, RuntimeError> {
    let run = run_with(journal, run, handle)?;
    let found = find(journal, run, handle)?;
    Ok(found.map(|found| {
        let Readable { text, texts, rest } = Readable::from_result(&found);
        OutputText {
            text,
            texts,
            other_values: rest,
        }
    }))
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

/// Returns the spec of the tool.
pub(crate) fn spec() -> ToolSpec {
    ToolSpec {
        category: ToolCategory::Outputs,
        changes_where: None,
        read_only: None,
        name: READ_OUTPUT.to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "handle": {"type": "string"},
                "offset": {"type": "integer", "minimum": 0},
                "length": {"type": "integer", "minimum": 1, "maximum": MAX_LENGTH, "default": DEFAULT_LENGTH},
                "start_line": {"type": "integer", "minimum": 1},
                "end_line": {"type": "integer", "minimum": 1},
                "pattern": {"type": "string"}
            },
            "required": ["handle"],
            "additionalProperties": false
        }),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: json!({"handle": "run.7", "pattern": "error|FAILED"}),
    }
}

impl Tool for ReadOutput {
    fn spec(&self) -> ToolSpec {
        spec()
    }

    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult> {
        let journal = self.journal.clone();
        async move {
            // Reading the disk blocks the thread, and so does searching a long output.
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
    let found = run_with(journal, run, handle).and_then(|run| find(journal, run, handle));
    match found {
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
        let part = match self.select(&readable.text) {
            Ok(part) => part,
            Err(error) => return ToolResult::failure(error).with_code(code::NOT_FOUND),
        };
        let mut text = part.first_line;
        if readable.texts.len() > 1 {
            let texts = readable.texts.iter();
            let texts: Vec<String> = texts
                .map(|(name, line)| format!("{name} from line {line}"))
                .collect();
            text.push_str(&format!("\nTexts: {}", texts.join(", ")));
        }
        if !readable.rest.is_empty() {
            let rest = Value::Object(readable.rest.clone());
            text.push_str(&format!("\nOther values: {rest}"));
        }
        ToolResult::success(format!("{text}\n\n{}", part.text).into())
    }

    fn select(&self, text: &str) -> Result<SelectedPart, String> {
        let numbered = NumberedText::new(text);
        let lines = match text.lines().count() {
            1 => "1 line".to_owned(),
            count => format!("{count} lines"),
        };
        match self {
            OutputSelection::Characters { offset, length } => {
                let part: String = text.chars().skip(*offset).take(*length).collect();
                let (read, total) = (offset + part.chars().count(), text.chars().count());
                let first_line = match part.is_empty() {
                    true => {
                        format!("No characters from {offset}; the output has {total} ({lines})")
                    }
                    false if *offset == 0 && read == total => {
                        format!("The whole output: {total} characters, {lines}")
                    }
                    false => format!("Characters {offset}-{} of {total} ({lines})", read - 1),
                };
                Ok(SelectedPart::new(first_line, part).continued("offset", (read < total).then_some(read)))
            }
            OutputSelection::Lines { first, .. } | OutputSelection::Matches { first, .. }
                if *first > numbered.last =>
            {
                Err(format!("the last line of the output is {}", numbered.last))
            }
            OutputSelection::Lines { first, last } => Ok(numbered.lines(*first, *last)),
            OutputSelection::Matches { pattern, first, last } => Ok(numbered.matches(pattern, *first, *last)),
        }
    }
}

/// A part of an output, with a line that describes it.
#[derive(Debug, PartialEq)]
struct SelectedPart {
    first_line: String,
    text: String,
}

impl SelectedPart {
    fn new(first_line: String, text: String) -> Self {
        SelectedPart { first_line, text }
    }

    /// Adds the value of a parameter with which another call continues, if there is more.
    fn continued(mut self, parameter: &str, next: Option<usize>) -> Self {
        if let Some(next) = next {
            self.first_line
                .push_str(&format!("; continue with {parameter} {next}"));
        }
        self
    }
}

/// A text with numbered lines. The lines of a `read` output have the line numbers of the file; any other text is numbered from 1.
struct NumberedText<'a> {
    text: &'a str,
    /// The first number; `None` if the lines do not show their numbers.
    shown_from: Option<usize>,
    /// The last number.
    last: usize,
}

impl<'a> NumberedText<'a> {
    fn new(text: &'a str) -> Self {
        let (total, shown_from) = (text.lines().count(), first_numbered_line(text));
        let last = shown_from.map_or(total, |first| (first + total).saturating_sub(2));
        NumberedText {
            text,
            shown_from,
            last,
        }
    }

    /// Returns the lines in a range of numbers, each with its number.
    fn range(&self, first: usize, last: usize) -> impl Iterator<Item = (usize, &'a str)> {
        let (from, heading) = self.shown_from.map_or((1, 0), |from| (from, 1));
        let numbered = (from..).zip(self.text.lines().skip(heading));
        numbered
            .skip_while(move |(number, _)| *number < first)
            .take_while(move |(number, _)| *number <= last)
    }

    fn lines(&self, first: usize, last: usize) -> SelectedPart {
        let first = first.max(self.shown_from.unwrap_or(1));
        let last = last.min(self.last);
        let (mut part, mut room, mut next, mut cut) = (String::new(), MAX_LENGTH, first, false);
        for (_, line) in self.range(first, last) {
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
        let mut first_line = format!("Lines {first}-{} of {}", next - 1, self.last);
        if cut {
            first_line.push_str("; the line is cut, read the rest of it with `offset`");
        }
        SelectedPart::new(first_line, part).continued("start_line", (next <= last).then_some(next))
    }

    fn matches(&self, pattern: &Regex, first: usize, last: usize) -> SelectedPart {
        let (mut rows, mut found, mut next) = (Vec::new(), 0_usize, None);
        for (number, line) in self.range(first, last) {
            let line = match self.shown_from {
                Some(_) => line.split_once('\t').map_or(line, |(_, line)| line),
                None => line,
            };
            let Some(at) = pattern.find(line) else {
                continue;
            };
            found += 1;
            if rows.len() < MAX_MATCHES {
                rows.push(format!("{number}:{}", around(line, at.start())));
            } else {
                next.get_or_insert(number);
            }
        }
        let first_line = format!("{found} of {} lines match", self.range(1, usize::MAX).count());
        SelectedPart::new(first_line, rows.join("\n")).continued("start_line", next)
    }
}

/// Returns a line or, if the line is long, the part around the byte offset `at`.
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

/// Returns the run that has the output: this run, or the run of an earlier turn of its conversation.
fn run_with(journal: &dyn RunLog, run: RunId, handle: OutputHandle) -> Result<RunId, RuntimeError> {
    let first = journal.entries(run, 0, 1)?.pop().map(|entry| entry.input);
    let Some(Input::Run(RunInput::Started { spec })) = first else {
        return Err(RuntimeError::NeverBegan { run });
    };
    let earlier = spec.earlier_turns().and_then(|earlier| earlier.run_of(handle));
    Ok(earlier.unwrap_or(run))
}

/// Reads the output with this handle from the journal, in the form in which models see it; `None` if the run
/// has no such handle.
fn find(journal: &dyn RunLog, run: RunId, handle: OutputHandle) -> Result<Option<Value>, RuntimeError> {
    match handle {
        OutputHandle::Call(effect) => Ok(find_result(journal, run, effect)?.map(|result| presented(&result))),
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
                .filter(|other| view.run().iteration_in_conversation(other.number) == iteration);
            let observed: Vec<&Observation> = iterations
                .clone()
                .flat_map(|iteration| &iteration.observations)
                .collect();
            Ok((iterations.count() > 0).then(|| whole_observations(observed)))
        }
        OutputHandle::RunDiff => Ok(Some(json!({ "diff": diff_until_now(journal, run)? }))),
        OutputHandle::Diff(iteration) => {
            let diff = diff_of_iteration(journal, run, iteration)?;
            Ok(diff.map(|diff| json!({ "diff": diff })))
        }
    }
}

/// Returns a call's result as a value. The field `success` is left out of a successful result.
fn presented(result: &ToolResult) -> Value {
    let mut value = json!(result.for_model());
    if let Value::Object(fields) = &mut value
        && result.succeeded()
    {
        fields.shift_remove("success");
    }
    value
}

/// Returns the run's observation of an agent that has no report because it crashed; `None` if there is no
/// observation.
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
        OutputHandle::RunDiff => "this run has no diff".to_owned(),
        OutputHandle::Diff(iteration) => format!("this run has no diff of an iteration {iteration}"),
    }
}

/// Finds the recorded result of a call.
fn find_result(
    journal: &dyn RunLog,
    run: RunId,
    handle: EffectId,
) -> Result<Option<ToolResult>, RuntimeError> {
    let entries = read_entries(journal, run)?;
    for (index, entry) in entries.iter().enumerate() {
        match &entry.input {
            Input::Run(RunInput::ToolFinished { effect, result })
            | Input::Agent(AgentInput::ToolFinished { effect, result })
                if *effect == handle =>
            {
                return Ok(Some(result.clone()));
            }
            Input::Agent(AgentInput::UserAnswered { effect, answer }) if *effect == handle => {
                let chosen = chosen_answer(run, &entries[..index], handle, answer)?;
                return Ok(Some(answer_result(&chosen)));
            }
            Input::Run(_) | Input::Agent(_) => {}
        }
    }
    Ok(None)
}

/// Returns the answer that the user's text selects, for the question that is open after these entries.
fn chosen_answer(
    run: RunId,
    earlier: &[Entry],
    question: EffectId,
    text: &str,
) -> Result<String, RuntimeError> {
    let (view, _) = replay_entries(run, earlier.iter().cloned())?;
    let agent = question.scope.agent().and_then(|agent| view.agent(agent));
    let chosen = agent
        .and_then(Agent::question)
        .map(|asked| asked.question.choose(text));
    // The question has accepted this answer, so the selection succeeds.
    Ok(chosen.and_then(Result::ok).unwrap_or_else(|| text.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use dirigent_core::tool::ToolOutcome;

    use super::*;

    const TEXT: &str = "success: true\noutput.stdout:\none\ntwo error\nthree\nerror four\n";

    /// Reads [`TEXT`] with these parameters. A failure is returned as its code and message.
    fn read(parameters: Value) -> Result<String, (String, String)> {
        read_text(TEXT, parameters)
    }

    fn read_text(text: &str, mut parameters: Value) -> Result<String, (String, String)> {
        parameters["handle"] = json!("a1.2");
        let parameters: Parameters = serde_json::from_value(parameters).unwrap();
        let selection = parameters
            .selection()
            .map_err(|error| ("bad_parameters".to_owned(), error))?;
        let readable = Readable {
            text: text.to_owned(),
            texts: Vec::new(),
            rest: serde_json::Map::new(),
        };
        match selection.apply(&readable).outcome {
            ToolOutcome::Success { output } => Ok(output.as_str().unwrap().to_owned()),
            ToolOutcome::Failure { code, error, .. } => Err((code, error)),
        }
    }

    #[test]
    fn paor_6_an_output_is_read_by_characters() {
        assert_eq!(
            read(json!({"offset": 9, "length": 4})).unwrap(),
            "Characters 9-12 of 60 (6 lines); continue with offset 13\n\ntrue"
        );
        assert_eq!(
            read(json!({})).unwrap(),
            format!("The whole output: 60 characters, 6 lines\n\n{TEXT}")
        );
        assert_eq!(
            read(json!({"offset": 60})).unwrap(),
            "No characters from 60; the output has 60 (6 lines)\n\n"
        );
    }

    #[test]
    fn paor_6_an_output_is_read_by_lines() {
        assert_eq!(
            read(json!({"start_line": 3, "end_line": 4})).unwrap(),
            "Lines 3-4 of 6\n\none\ntwo error\n"
        );
        let first_line = |text: &str| {
            let part = read_text(text, json!({"start_line": 1})).unwrap();
            part.lines().next().unwrap().to_owned()
        };
        let long = "x".repeat(20_000);
        assert_eq!(
            first_line(&format!("{long}\n{long}\n{long}\n")),
            "Lines 1-1 of 3; continue with start_line 2"
        );
        let cut = "Lines 1-1 of 1; the line is cut, read the rest of it with `offset`";
        assert_eq!(first_line(&"x".repeat(100_000)), cut);
        let huge = read_text(&"x".repeat(100_000), json!({"start_line": 1})).unwrap();
        assert_eq!(huge.len(), cut.len() + 2 + MAX_LENGTH + 1);
        assert_eq!(first_line(&"x".repeat(MAX_LENGTH)), "Lines 1-1 of 1");
    }

    #[test]
    fn paor_6_an_output_is_searched() {
        assert_eq!(
            read(json!({"pattern": "^error|two"})).unwrap(),
            "2 of 6 lines match\n\n4:two error\n6:error four"
        );
        assert_eq!(
            read(json!({"pattern": "error", "start_line": 5})).unwrap(),
            "1 of 6 lines match\n\n6:error four"
        );
        let text = format!("{}needle{}\n", "a".repeat(1_000), "b".repeat(1_000)).repeat(150);
        let found = read_text(&text, json!({"pattern": "needle"})).unwrap();
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 102);
        assert_eq!(lines[0], "150 of 150 lines match; continue with start_line 101");
        assert_eq!(
            lines[2],
            format!("1:…{}needle{}…", "a".repeat(100), "b".repeat(194))
        );
        let rest = read_text(&text, json!({"pattern": "needle", "start_line": 101})).unwrap();
        assert_eq!(rest.lines().count(), 52);
        assert_eq!(rest.lines().next(), Some("50 of 150 lines match"));
    }

    #[test]
    fn paor_6_the_lines_of_a_file_that_was_read_have_the_numbers_of_the_file() {
        let text = "Lines 11-13 of 20\n11\tone\n12\ttwo error\n13\tthree\n";
        let read = |parameters| read_text(text, parameters).unwrap();
        assert_eq!(
            read(json!({"start_line": 12})),
            "Lines 12-13 of 13\n\n12\ttwo error\n13\tthree\n"
        );
        assert_eq!(read(json!({"end_line": 11})), "Lines 11-11 of 13\n\n11\tone\n");
        assert_eq!(
            read(json!({"pattern": "^two"})),
            "1 of 3 lines match\n\n12:two error"
        );
        assert_eq!(
            read_text(text, json!({"start_line": 14})).unwrap_err().0,
            "not_found"
        );
    }

    #[test]
    fn paor_6_other_values_of_a_result_are_shown_above_its_text() {
        let result =
            ToolResult::failure("it failed:\nsee below").with_output(json!({"a": "1\n2", "exit_code": 3}));
        let selection = OutputSelection::Lines { first: 1, last: 1 };
        let shown = selection.apply(&Readable::from_result(&presented(&result)));
        let expected = "Lines 1-1 of 4\nTexts: output.a from line 1, error from line 3\n\
                        Other values: {\"success\":false,\"output\":{\"exit_code\":3}}\n\n1\n";
        assert_eq!(shown, ToolResult::success(json!(expected)));
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

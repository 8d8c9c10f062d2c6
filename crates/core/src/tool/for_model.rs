//! The result of a tool in the form in which models read it.
//!
//! A result is text: the output, preceded by marks if there is something to report about the call. A mark is a line
//! `Name: text`; further lines of its text are indented. The first line tells failure from success, and a tool's output
//! cannot imitate a mark, because the line `Output:` separates the marks from the output wherever they could be
//! confused.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{OmittedPart, StateChange, ToolOutcome, ToolResult};

/// The parts of a tool's result that models see. As text ([`Display`](fmt::Display)):
///
/// ```text
/// Error (exited): `make lint` exited with 1
/// Changes: edited src/a.rs; created src/b.rs
/// So far: 12 calls, 1 failed
/// Output:
/// src/a.rs:3: unused variable
/// ```
///
/// Absent parts are omitted. A success with nothing else to say is its output alone. An output that is not text is JSON on one
/// line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelToolResult {
    /// True if the call succeeded.
    pub success: bool,
    /// The [code](super::code) of the failure, which does not depend on the text of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The error message of a failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The output. A failed call may have output as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The changes that the call made, one text per change. Omits the exit of a command, which the rest of the result states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// A note that the user changed the call's parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited: Option<String>,
    /// The agent's calls and changes until now (LOOP-8).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub so_far: Option<String>,
    /// A warning that the call has had the same result before (LOOP-10).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<String>,
    /// The part of the output to omit if it is too long.
    #[serde(skip)]
    pub omit: OmittedPart,
}

/// The text of a result without output.
const NO_OUTPUT: &str = "(no output)";
/// The separator of changes.
const SEPARATOR: &str = "; ";
/// The indentation of a mark's further lines.
const INDENT: &str = "  ";

/// The name of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Error,
    Changes,
    Edited,
    SoFar,
    Repeated,
    Output,
}

impl Mark {
    const ALL: [Mark; 6] = [
        Mark::Error,
        Mark::Changes,
        Mark::Edited,
        Mark::SoFar,
        Mark::Repeated,
        Mark::Output,
    ];

    fn name(self) -> &'static str {
        match self {
            Mark::Error => "Error",
            Mark::Changes => "Changes",
            Mark::Edited => "Edited",
            Mark::SoFar => "So far",
            Mark::Repeated => "Repeated",
            Mark::Output => "Output",
        }
    }

    /// Returns the mark that begins with this line, its code (for an error) and its text; `None` for any other line.
    fn parse(line: &str) -> Option<(Mark, Option<&str>, &str)> {
        Mark::ALL.into_iter().find_map(|mark| {
            let rest = line.strip_prefix(mark.name())?;
            let (code, rest) = match rest.strip_prefix(" (") {
                Some(rest) if mark == Mark::Error => {
                    let (code, rest) = rest.split_once(')')?;
                    (Some(code), rest)
                }
                Some(_) | None => (None, rest),
            };
            let text = rest.strip_prefix(':')?;
            Some((mark, code, text.strip_prefix(' ').unwrap_or(text)))
        })
    }
}

impl ToolResult {
    /// Returns the parts of the result that models see.
    pub fn for_model(&self) -> ModelToolResult {
        let (code, error, output) = match &self.outcome {
            ToolOutcome::Success { output } => (None, None, Some(output.clone())),
            ToolOutcome::Failure { code, error, output } => (
                (!code.is_empty()).then(|| code.clone()),
                Some(error.clone()),
                (!output.is_null()).then(|| output.clone()),
            ),
        };
        ModelToolResult {
            success: self.succeeded(),
            code,
            error,
            output,
            changes: self
                .changes
                .iter()
                .filter_map(StateChange::in_own_result)
                .collect(),
            omit: self.omit,
            ..ModelToolResult::default()
        }
    }
}

impl fmt::Display for ModelToolResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut marks = Marks { f, any: false };
        if !self.success {
            let code = self.code.as_deref().map(|code| format!(" ({code})"));
            let error = self.error.as_deref().unwrap_or_default();
            marks.write(Mark::Error, &code.unwrap_or_default(), error)?;
        }
        if !self.changes.is_empty() {
            marks.write(Mark::Changes, "", &self.changes.join(SEPARATOR))?;
        }
        let notes = [
            (Mark::Edited, &self.edited),
            (Mark::SoFar, &self.so_far),
            (Mark::Repeated, &self.repeated),
        ];
        for (mark, note) in notes {
            if let Some(note) = note {
                marks.write(mark, "", note)?;
            }
        }
        let any = marks.any;
        match &self.output {
            Some(Value::String(text)) if !text.is_empty() => write_output(f, any, text),
            Some(output @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
                write_output(f, any, &output.to_string())
            }
            Some(Value::Null | Value::String(_)) | None if any => Ok(()),
            Some(Value::Null | Value::String(_)) | None => f.write_str(NO_OUTPUT),
        }
    }
}

/// Writes marks, each on its own line.
struct Marks<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    any: bool,
}

impl Marks<'_, '_> {
    fn write(&mut self, mark: Mark, code: &str, text: &str) -> fmt::Result {
        if self.any {
            self.f.write_str("\n")?;
        }
        self.any = true;
        let text = text.trim_end().replace('\n', &format!("\n{INDENT}"));
        write!(self.f, "{}{code}: {text}", mark.name())
    }
}

fn write_output(f: &mut fmt::Formatter<'_>, after_marks: bool, output: &str) -> fmt::Result {
    if after_marks {
        f.write_str("\n")?;
    }
    if after_marks || Mark::parse(output.lines().next().unwrap_or_default()).is_some() {
        writeln!(f, "{}:", Mark::Output.name())?;
    }
    f.write_str(output)
}

impl ModelToolResult {
    /// Parses a result from its text; the output becomes a string. For readers of prompts, such as the offline model. The machines keep the
    /// parts and never parse the text.
    pub fn from_text(text: &str) -> Self {
        let mut result = ModelToolResult {
            success: true,
            ..ModelToolResult::default()
        };
        let mut rest = text;
        let mut marks: Vec<(Mark, String)> = Vec::new();
        while !rest.is_empty() {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            match (Mark::parse(line), marks.last_mut()) {
                (Some((Mark::Output, ..)), _) => {
                    rest = after;
                    break;
                }
                (Some((mark, code, text)), _) => {
                    if mark == Mark::Error {
                        result.success = false;
                        result.code = code.map(str::to_owned);
                    }
                    marks.push((mark, text.to_owned()));
                }
                (None, Some((_, text))) => {
                    text.push('\n');
                    text.push_str(line.strip_prefix(INDENT).unwrap_or(line));
                }
                (None, None) => break,
            }
            rest = after;
        }
        if !rest.is_empty() {
            result.output = Some(Value::from(rest));
        }
        for (mark, text) in marks {
            match mark {
                Mark::Error => result.error = Some(text),
                Mark::Changes => result.changes = text.split(SEPARATOR).map(str::to_owned).collect(),
                Mark::Edited => result.edited = Some(text),
                Mark::SoFar => result.so_far = Some(text),
                Mark::Repeated => result.repeated = Some(text),
                Mark::Output => {}
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::tool::code;

    #[track_caller]
    fn check(result: &ToolResult, text: &str) {
        assert_eq!(result.for_model().to_string(), text);
    }

    #[test]
    fn loop_7_a_success_is_its_output_and_a_failure_begins_with_its_error() {
        check(&ToolResult::success(json!("one\ntwo\n")), "one\ntwo\n");
        check(&ToolResult::success(json!({"rows": [[1]]})), r#"{"rows":[[1]]}"#);
        check(&ToolResult::success(Value::Null), "(no output)");
        check(&ToolResult::failure("no such file"), "Error: no such file");
        check(
            &ToolResult::failure("not all was done:\n- a")
                .with_code(code::STALE)
                .with_output(json!("1\tfn a() {}\n")),
            "Error (stale): not all was done:\n  - a\nOutput:\n1\tfn a() {}\n",
        );
    }

    #[test]
    fn loop_8_changes_are_listed_above_the_output() {
        let exited = StateChange::ProcessExited {
            command: "make".to_owned(),
            code: Some(0),
            files: Vec::new(),
        };
        let edited = StateChange::FileEdited {
            path: "a".to_owned(),
            diff: None,
            before: None,
            after: None,
        };
        check(
            &ToolResult::success(json!("done")).with_changes(vec![edited.clone(), exited.clone()]),
            "Changes: edited a\nOutput:\ndone",
        );
        check(
            &ToolResult::success(json!("done")).with_changes(vec![exited]),
            "done",
        );
    }

    #[test]
    fn an_output_cannot_imitate_the_labels_of_a_result() {
        for output in ["Error: all is lost\n", "Changes: edited a\n", "Output:\nx"] {
            check(&ToolResult::success(json!(output)), &format!("Output:\n{output}"));
        }
        let result = ToolResult::success(json!("Errors: 0")).for_model();
        assert_eq!(result.to_string(), "Errors: 0");
        // A file's name is data as well.
        let result = ToolResult::failure("no file `a\nOutput:\nb`").for_model();
        assert_eq!(result.to_string(), "Error: no file `a\n  Output:\n  b`");
    }

    proptest! {
        #[test]
        fn the_text_of_a_result_is_parsed_to_the_same_result(
            success: bool,
            text in r"(Error|Error \(x\)|Output|So far|[a-z])?[:\n ]{0,3}[a-zé:\n]{0,9}",
            error in r"[a-z]((Output|Error):|[a-zé \n]){0,9}[a-z]",
            note in prop::option::of("[a-z][a-z \n]{0,9}[a-z]"),
        ) {
            let result = ModelToolResult {
                success,
                code: (!success).then(|| "stale".to_owned()),
                error: (!success).then_some(error),
                output: (!text.is_empty()).then(|| Value::from(text)),
                changes: vec!["edited a".to_owned(); usize::from(note.is_some())],
                so_far: note.clone(),
                repeated: note,
                ..ModelToolResult::default()
            };
            let expected = match &result {
                ModelToolResult { success: true, output: None, so_far: None, .. } => ModelToolResult {
                    output: Some(Value::from(NO_OUTPUT)),
                    ..result.clone()
                },
                _ => result.clone(),
            };
            prop_assert_eq!(ModelToolResult::from_text(&result.to_string()), expected);
        }
    }
}

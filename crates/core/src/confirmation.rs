//! The confirmations of a run's result: the calls that the reflector names, each checked against the recorded call (PAOR-10).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::delegation::started_agent;
use crate::id::EffectId;
use crate::text::{one_line, shorten};
use crate::tool::{StateChange, ToolOutcome, ToolResult, code};

/// Maximum number of characters of a confirmation's line, and of the parameters of a call that runs no command.
const MAX_LINE: usize = 300;

/// A call that confirms the result. As submitted, it has only `call` and a part of `line`; the check sets the other fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The call's effect id.
    pub call: EffectId,
    /// The command line, or the tool with its parameters; empty until checked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// The exit code of a command; `None` for any other call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The line of the call's output that shows the result; `None` if the call has no output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// For a failed call, an earlier call with the same tool and parameters that failed in the same way before the run's first change.
    /// `None` if the call succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_before: Option<EffectId>,
}

/// A finished call, as recorded in the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// The name of the tool.
    pub tool: String,
    /// The parameters with which the tool ran.
    pub parameters: Value,
    /// The result.
    pub result: ToolResult,
    /// The latest other call that ended after this call began and changed what this call may have read ([`RecordedCall::may_outdate`]);
    /// `None` if there is none. The result of this call may be older than that change.
    pub changed_since: Option<EffectId>,
    /// The first call with the same tool and parameters that failed with the same code and ended before the run's first change; `None` if
    /// there is none. A check that already failed before the run's changes can still show that nothing else has broken.
    pub failed_before: Option<EffectId>,
}

impl RecordedCall {
    /// Returns true if a call with this result changed something, so that calls that began before it ended no longer confirm anything.
    /// Returns false for a call that started an agent, because the agent's own calls report the changes.
    pub fn outdates(result: &ToolResult) -> bool {
        started_agent(result).is_none() && result.changes.iter().any(StateChange::is_reflected)
    }

    /// Returns true if a call with this result may have changed what a call of `tool` reads. A change by a file tool does not affect
    /// databases, and a change in a database does not affect the files that tools read. Any other change may affect everything.
    pub fn may_outdate(result: &ToolResult, tool: &str) -> bool {
        Outdated::from_result(result).concerns(tool)
    }
}

/// The results of earlier calls that may be outdated by the changes of a later call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outdated {
    /// No results.
    #[default]
    Nothing,
    /// All results but those of databases.
    Files,
    /// All results but those of tools that read only files.
    Databases,
    /// All results.
    Everything,
}

impl Outdated {
    /// Returns what a call with this result has outdated.
    pub fn from_result(result: &ToolResult) -> Self {
        if !RecordedCall::outdates(result) {
            return Outdated::Nothing;
        }
        let of_change = |change: &StateChange| match change {
            StateChange::FileCreated { .. } | StateChange::FileEdited { .. } => Outdated::Files,
            StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. } => Outdated::Databases,
            // A moved or deleted file may be a database.
            StateChange::FileDeleted { .. }
            | StateChange::FileMoved { .. }
            | StateChange::ProcessExited { .. }
            | StateChange::RequestSent { .. } => Outdated::Everything,
        };
        let reflected = result.changes.iter().filter(|change| change.is_reflected());
        let both = |one, other| if one == other { one } else { Outdated::Everything };
        reflected.map(of_change).reduce(both).unwrap_or_default()
    }

    /// Returns true if the results of a tool are among them.
    pub fn concerns(self, tool: &str) -> bool {
        match self {
            Outdated::Nothing => false,
            Outdated::Files => tool != SQL_TOOL,
            Outdated::Databases => !FILE_TOOLS.contains(&tool),
            Outdated::Everything => true,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Outdated::Nothing
    }
}

/// The tool that reads databases.
const SQL_TOOL: &str = "execute_sql";
/// The tools that read only files of the workspace.
const FILE_TOOLS: [&str; 5] = [
    "file_operations",
    "search",
    "list_symbols",
    "find_definition",
    "rename_symbol",
];

/// Checks the confirmations of a reflection. The output of a success is the list of complete confirmations; the error of a failure tells
/// the reflector everything that is wrong.
pub fn check_confirmations<'a>(
    named: &[Confirmation],
    recorded: impl Fn(EffectId) -> Option<&'a RecordedCall>,
) -> ToolResult {
    let checked = named.iter().map(|named| named.checked(recorded(named.call)));
    let (complete, wrong): (Vec<_>, Vec<_>) = checked.partition(Result::is_ok);
    if wrong.is_empty() {
        return ToolResult::success(json!(complete.into_iter().flatten().collect::<Vec<_>>()));
    }
    let wrong: Vec<String> = wrong
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("- {error}"))
        .collect();
    ToolResult::failure(format!(
        "`confirmed_by` was refused; correct these errors, or leave the calls out, and submit the reflection again:\n{}",
        wrong.join("\n")
    ))
    .with_code(code::BAD_PARAMETERS)
}

impl Confirmation {
    /// Completes the confirmation from the recorded call.
    fn checked(&self, recorded: Option<&RecordedCall>) -> Result<Confirmation, String> {
        let call = self.call;
        let Some(RecordedCall {
            tool,
            parameters,
            result,
            changed_since,
            failed_before,
        }) = recorded
        else {
            return Err(format!(
                "no call with the handle `{call}` has run: take one from OBSERVATIONS"
            ));
        };
        let (output, failed_before) = match (&result.outcome, failed_before) {
            (ToolOutcome::Success { output }, _) => (output, None),
            (ToolOutcome::Failure { output, .. }, Some(before)) => (output, Some(*before)),
            (ToolOutcome::Failure { error, .. }, None) => {
                let error = shorten(error, MAX_LINE, None);
                return Err(format!(
                    "`{call}` failed, and did not fail in the same way before the changes, so it confirms nothing: {error}"
                ));
            }
        };
        if let Some(changed) = result.changes.iter().find(|change| is_file_change(change)) {
            return Err(format!(
                "`{call}` made a change itself ({changed}), so it confirms nothing: use a later call that looked at the result or tested it"
            ));
        }
        if let Some(later) = changed_since {
            return Err(format!(
                "`{call}` began before `{later}` made a change, so it may show an earlier state: use a call that began after `{later}`"
            ));
        }
        let line = self
            .line
            .as_deref()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let line = match line {
            Some(text) => Some(find_line(output, text).ok_or_else(|| {
                format!(
                    "no line of the output of `{call}` contains `{}`: copy text from one line",
                    shorten(text, MAX_LINE, None)
                )
            })?),
            None if texts(output).iter().any(|text| !text.trim().is_empty()) => {
                return Err(format!(
                    "`{call}` has output: copy the output line that shows the result into the field `line`"
                ));
            }
            None => None,
        };
        let exited = result.changes.iter().rev().find_map(|change| match change {
            StateChange::ProcessExited { command, code, .. } => Some((command, code.map(i64::from))),
            StateChange::FileCreated { .. }
            | StateChange::FileEdited { .. }
            | StateChange::FileDeleted { .. }
            | StateChange::FileMoved { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => None,
        });
        let (command, exit_code) = match exited {
            Some((command, code)) => (one_line(command), code),
            None => {
                let parameters = parameters.to_string();
                let parameters = shorten(&parameters, MAX_LINE, None);
                (
                    format!("{tool} {parameters}"),
                    output.get("exit_code").and_then(Value::as_i64),
                )
            }
        };
        Ok(Confirmation {
            call,
            command,
            exit_code,
            line,
            failed_before,
        })
    }
}

/// Returns true for the change of a file tool.
fn is_file_change(change: &StateChange) -> bool {
    match change {
        StateChange::FileCreated { .. }
        | StateChange::FileEdited { .. }
        | StateChange::FileDeleted { .. }
        | StateChange::FileMoved { .. } => true,
        StateChange::ProcessExited { .. }
        | StateChange::TableCreated { .. }
        | StateChange::TableDropped { .. }
        | StateChange::RowsChanged { .. }
        | StateChange::RequestSent { .. } => false,
    }
}

/// Returns the whole line that contains the text, from the strings of an output; otherwise the text itself, if the output's JSON contains
/// it.
fn find_line(output: &Value, text: &str) -> Option<String> {
    let texts = texts(output);
    let mut lines = texts.iter().flat_map(|text| text.lines());
    let line = lines.find(|line| line.contains(text)).map(str::trim);
    let in_json = || contains_json(output, text).then_some(text);
    Some(shorten(&one_line(line.or_else(in_json)?), MAX_LINE, None).into_owned())
}

/// Returns true if the JSON of an output contains the text, apart from white space.
fn contains_json(output: &Value, text: &str) -> bool {
    let dense = |text: &str| -> String { text.chars().filter(|c| !c.is_whitespace()).collect() };
    let text = dense(text);
    !text.is_empty() && dense(&output.to_string()).contains(&text)
}

/// All strings in an output.
fn texts(output: &Value) -> Vec<&str> {
    match output {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

//! The result of a command that was started, for the model and the operator.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use dirigent_core::tool::{StateChange, ToolResult, code, display_command};
use serde_json::{Value, json};

use super::file_snapshot::Restored;
use super::plain_text::plain_text;
use super::process_tree::CommandEnd;
use super::time_limit::TimeLimit;
use super::workspace_snapshot::WorkspaceChanges;
use crate::sandbox::{Confinement, Sandbox};

/// Exit code that a shell reports for a command killed by SIGPIPE. With `pipefail`, a pipeline whose last
/// command ends early also has this exit code.
const BROKEN_PIPE: i32 = 141;

/// Outcome of a started command.
pub(super) struct Outcome {
    pub(super) command: String,
    pub(super) ended: CommandEnd,
    /// Number of the command's processes that could not be killed in time.
    pub(super) remaining: usize,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) restored: Restored,
    pub(super) changed: WorkspaceChanges,
    pub(super) limit: TimeLimit,
}

impl Outcome {
    pub(super) fn into_result(mut self, sandbox: &Sandbox) -> ToolResult {
        let code = self.ended.status().and_then(|status| status.code());
        let error = self.error();
        let exited = StateChange::ProcessExited {
            command: self.command.clone(),
            code,
            files: std::mem::take(&mut self.changed.changes),
        };
        let confined = match sandbox.confinement {
            Confinement::Required => true,
            Confinement::Off => false,
        };
        let mut metadata = Vec::new();
        if self.remaining > 0 {
            metadata.push(("processes_left", json!(self.remaining)));
        }
        if !self.restored.paths.is_empty() {
            metadata.push(("put_back", json!(self.restored.paths)));
        }
        if !self.restored.failed.is_empty() {
            metadata.push(("not_put_back", json!(self.restored.failed)));
        }
        if !self.restored.partial.is_empty() {
            metadata.push(("guarded_in_part", json!(self.restored.partial)));
        }
        match self.changed.omitted {
            Some(0) => {}
            Some(more) => metadata.push(("changes_left_out", json!(more))),
            None => metadata.push(("files", json!("too many"))),
        }
        let output = Value::String(self.text());
        let result = match error {
            None => ToolResult::success(output),
            Some((error_code, message)) => ToolResult::failure(message)
                .with_code(error_code)
                .with_output(output),
        };
        let result = result
            .with_metadata("confined", confined)
            .with_metadata("network", !confined || sandbox.network)
            .with_changes(vec![exited]);
        metadata
            .into_iter()
            .fold(result, |result, (name, value)| result.with_metadata(name, value))
    }

    /// Returns the error's code and message. `None` for exit code 0.
    fn error(&self) -> Option<(&'static str, String)> {
        let command = display_command(&self.command);
        match &self.ended {
            CommandEnd::Exited { status, .. } => {
                Some(("exited", format!("`{command}` {}", exit_error(*status)?)))
            }
            CommandEnd::TimedOut(_) => Some((
                code::TIMED_OUT,
                format!(
                    "`{command}` did not end {}, so it was killed with all processes that it had started",
                    self.limit
                ),
            )),
            CommandEnd::Cancelled(_) => Some((
                code::CANCELLED,
                format!("`{command}` was killed because the call was cancelled"),
            )),
            CommandEnd::Unknown(error) => Some((
                "exited",
                format!("`{command}` was started, but its exit status is unknown: {error}"),
            )),
        }
    }

    /// Returns the output: the notes, and what the command printed; empty if there is neither.
    fn text(&self) -> String {
        let mut text: String = self
            .notes()
            .iter()
            .map(|note| format!("Note: {note}\n"))
            .collect();
        let (stdout, stderr) = (plain_text(&self.stdout), plain_text(&self.stderr));
        match (stdout.is_empty(), stderr.is_empty()) {
            (true, true) => {}
            (false, true) => text.push_str(&stdout),
            (true, false) => text.push_str(&format!("stderr:\n{stderr}")),
            (false, false) => {
                let end = if stdout.ends_with('\n') { "" } else { "\n" };
                text.push_str(&format!("stdout:\n{stdout}{end}stderr:\n{stderr}"));
            }
        }
        text
    }

    /// Returns notes for the model on leftover processes and restored files.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let CommandEnd::Exited {
            output_still_open: true,
            ..
        } = self.ended
        {
            notes.push(
                "the command left a process running that kept its output open; the process was killed"
                    .to_owned(),
            );
        }
        if self.remaining > 0 {
            notes.push(format!(
                "{} of the command's processes could not be killed in time",
                self.remaining
            ));
        }
        if !self.restored.paths.is_empty() {
            let paths = self.restored.paths.join(", ");
            notes.push(format!(
                "restored, because commands must not change these files: {paths}"
            ));
        }
        if !self.restored.failed.is_empty() {
            let paths = self.restored.failed.join(", ");
            notes.push(format!(
                "the command must not change these files, but they were changed and could not be restored: {paths}"
            ));
        }
        if !self.restored.partial.is_empty() {
            let paths = self.restored.partial.join(", ");
            notes.push(format!(
                "too large to be protected completely, so do not change these paths: {paths}"
            ));
        }
        notes
    }
}

fn exit_error(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(BROKEN_PIPE), _) => Some(format!(
            "exited with {BROKEN_PIPE} (SIGPIPE): a later command of the pipeline stopped reading, as `head` does"
        )),
        (Some(code), _) => Some(format!("exited with {code}")),
        (None, Some(signal)) => Some(format!("was killed by signal {signal}")),
        (None, None) => Some(format!("ended with {status}")),
    }
}

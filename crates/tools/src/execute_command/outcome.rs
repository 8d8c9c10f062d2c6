//! The result of a command that was started, for the model and the operator.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use dirigent_core::tool::{StateChange, ToolResult, code};
use serde_json::{Value, json};

use super::kept::PutBack;
use super::process_tree::CommandEnd;
use super::workspace_snapshot::WorkspaceChanges;
use crate::sandbox::{Confinement, Sandbox};

/// Outcome of a started command.
pub(super) struct Outcome {
    pub(super) command: String,
    pub(super) ended: CommandEnd,
    /// Number of the command's processes that could not be killed in time.
    pub(super) remaining: usize,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) put_back: PutBack,
    pub(super) changed: WorkspaceChanges,
    pub(super) duration: Duration,
    pub(super) timeout_seconds: u64,
}

impl Outcome {
    pub(super) fn into_result(mut self, sandbox: &Sandbox) -> ToolResult {
        let code = self.ended.status().and_then(|status| status.code());
        let error = self.error();
        let exited = StateChange::ProcessExited {
            command: self.command.clone(),
            code,
        };
        let confined = match sandbox.confinement {
            Confinement::Required => true,
            Confinement::Off => false,
        };
        let mut metadata = Vec::new();
        if self.remaining > 0 {
            metadata.push(("processes_left", json!(self.remaining)));
        }
        if !self.put_back.paths.is_empty() {
            metadata.push(("put_back", json!(self.put_back.paths)));
        }
        if !self.put_back.failed.is_empty() {
            metadata.push(("not_put_back", json!(self.put_back.failed)));
        }
        if !self.put_back.partial.is_empty() {
            metadata.push(("guarded_in_part", json!(self.put_back.partial)));
        }
        match self.changed.omitted {
            Some(0) => {}
            Some(more) => metadata.push(("changes_left_out", json!(more))),
            None => metadata.push(("files", json!("too many"))),
        }
        let mut changes = std::mem::take(&mut self.changed.changes);
        changes.push(exited);
        let output = self.into_json(code);
        let result = match error {
            None => ToolResult::success(output),
            Some((error_code, message)) => ToolResult::failure(message)
                .with_code(error_code)
                .with_output(output),
        };
        let result = result
            .with_metadata("confined", confined)
            .with_metadata("network", !confined || sandbox.network)
            .with_changes(changes);
        metadata
            .into_iter()
            .fold(result, |result, (name, value)| result.with_metadata(name, value))
    }

    /// Returns the error's code and message. `None` for exit code 0.
    fn error(&self) -> Option<(&'static str, String)> {
        let command = &self.command;
        match &self.ended {
            CommandEnd::Exited { status, .. } => {
                Some(("exited", format!("`{command}` {}", exit_error(*status)?)))
            }
            CommandEnd::TimedOut(_) => Some((
                code::TIMED_OUT,
                format!(
                    "`{command}` did not end within {} s, so it was killed with all processes that it had started",
                    self.timeout_seconds
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

    fn into_json(self, code: Option<i32>) -> Value {
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
        if !self.put_back.paths.is_empty() {
            let paths = self.put_back.paths.join(", ");
            notes.push(format!(
                "restored, because commands must not change these files: {paths}"
            ));
        }
        if !self.put_back.failed.is_empty() {
            let paths = self.put_back.failed.join(", ");
            notes.push(format!(
                "the command must not change these files, but they were changed and could not be restored: {paths}"
            ));
        }
        if !self.put_back.partial.is_empty() {
            let paths = self.put_back.partial.join(", ");
            notes.push(format!(
                "too large to be protected completely, so do not change these paths: {paths}"
            ));
        }
        let mut output = json!({
            "exit_code": code,
            "signal": self.ended.status().and_then(|status| status.signal()),
            "stdout": self.stdout,
            "stderr": self.stderr,
            "timed_out": matches!(self.ended, CommandEnd::TimedOut(_)),
            "duration_ms": u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
        });
        if !notes.is_empty() {
            output["note"] = Value::from(notes.join("; "));
        }
        output
    }
}

fn exit_error(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exited with {code}")),
        (None, Some(signal)) => Some(format!("was killed by signal {signal}")),
        (None, None) => Some(format!("ended with {status}")),
    }
}

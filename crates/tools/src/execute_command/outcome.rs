//! What a command that was started says to model and operator.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use dirigent_core::tool::{StateChange, ToolResult, code};
use serde_json::{Value, json};

use super::kept::PutBack;
use super::process_tree::CommandEnd;
use super::workspace_snapshot::WorkspaceChanges;
use crate::sandbox::{Confinement, Sandbox};

/// What came of a program that was started.
pub(super) struct Outcome {
    pub(super) command: String,
    pub(super) ended: CommandEnd,
    /// How many of its processes could not be ended.
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
            Some((word, error)) => ToolResult::failure(error).with_code(word).with_output(output),
        };
        let result = result
            .with_metadata("confined", confined)
            .with_metadata("network", !confined || sandbox.network)
            .with_changes(changes);
        metadata
            .into_iter()
            .fold(result, |result, (name, value)| result.with_metadata(name, value))
    }

    /// What is wrong with how it ended, with its code; nothing for exit code 0.
    fn error(&self) -> Option<(&'static str, String)> {
        let command = &self.command;
        match &self.ended {
            CommandEnd::Exited { status, .. } => {
                Some(("exited", format!("`{command}` {}", exit_error(*status)?)))
            }
            CommandEnd::TimedOut(_) => Some((
                code::TIMED_OUT,
                format!(
                    "`{command}` ran past its {} s and was ended with all that it had started",
                    self.timeout_seconds
                ),
            )),
            CommandEnd::Cancelled(_) => Some((
                code::CANCELLED,
                format!("`{command}` was ended, as the call was cancelled"),
            )),
            CommandEnd::Unknown(error) => Some((
                "exited",
                format!("`{command}` was started, but how it ended is unknown: {error}"),
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
            notes.push("it left a process behind that held its output open and was ended".to_owned());
        }
        if self.remaining > 0 {
            notes.push(format!(
                "{} of its processes could not be ended in time",
                self.remaining
            ));
        }
        if !self.put_back.paths.is_empty() {
            let paths = self.put_back.paths.join(", ");
            notes.push(format!("put back, as commands may not change it: {paths}"));
        }
        if !self.put_back.failed.is_empty() {
            let paths = self.put_back.failed.join(", ");
            notes.push(format!(
                "changed, though commands may not, and could not be put back: {paths}"
            ));
        }
        if !self.put_back.partial.is_empty() {
            let places = self.put_back.partial.join(", ");
            notes.push(format!(
                "too much to be guarded as a whole, so leave it as it is: {places}"
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
        (None, Some(signal)) => Some(format!("was ended by signal {signal}")),
        (None, None) => Some(format!("ended with {status}")),
    }
}

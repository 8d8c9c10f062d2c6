//! A workspace in a temporary folder, for tests that call tools as an agent does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(dead_code, reason = "not every test file needs all of it")]

#[cfg(unix)]
pub mod file_calls;

use std::path::{Path, PathBuf};

use dirigent_core::tool::{Access, ToolOutcome, ToolResult};
use dirigent_tools::{Tool, ToolContext};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub struct Folder {
    root: TempDir,
}

impl Folder {
    /// A folder with these files in it.
    pub fn with(files: &[(&str, &[u8])]) -> Self {
        let folder = Folder {
            root: tempfile::tempdir().unwrap(),
        };
        for (path, content) in files {
            let path = folder.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        folder
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub fn context(&self) -> ToolContext {
        context(self.root.path())
    }

    pub async fn call(&self, tool: impl Tool, parameters: Value) -> ToolResult {
        tool.call(self.context(), parameters).await
    }
}

/// The context of a call by an agent that may change everything.
pub fn context(workspace: &Path) -> ToolContext {
    ToolContext {
        content_store: None,
        workspace: workspace.to_owned(),
        access: Access::ReadWrite,
        run: "00000000-0000-7000-8000-000000000001".parse().unwrap(),
        effect: "a1.1".parse().unwrap(),
        seen: None,
        deadline: None,
        user: None,
        service_endpoints: Default::default(),
        cancel: CancellationToken::new(),
    }
}

/// The output of a result, which must be a success.
#[track_caller]
pub fn output(result: ToolResult) -> Value {
    match result.outcome {
        ToolOutcome::Success { output } => output,
        ToolOutcome::Failure { error, .. } => panic!("the call failed: {error}"),
    }
}

/// The text of a result, which must be a success.
#[track_caller]
pub fn text(result: ToolResult) -> String {
    output(result).as_str().unwrap().to_owned()
}

/// The lines with their numbers, as `read` shows them.
pub fn numbered(first: usize, lines: &str) -> String {
    let lines = (first..).zip(lines.split_inclusive('\n'));
    lines.map(|(number, line)| format!("{number}\t{line}")).collect()
}

/// A command's standard output, its standard error, and the notes above them.
#[track_caller]
pub fn printed(result: &ToolResult) -> (String, String, String) {
    let (ToolOutcome::Success { output } | ToolOutcome::Failure { output, .. }) = &result.outcome;
    let mut text = output
        .as_str()
        .unwrap_or_else(|| panic!("nothing was run: {result:?}"));
    let mut notes = String::new();
    while let Some((note, rest)) = text.strip_prefix("Note: ").and_then(|text| text.split_once('\n')) {
        notes.push_str(note);
        text = rest;
    }
    let (stdout, stderr) = match (text, text.strip_prefix("stdout:\n")) {
        (_, Some(both)) => both.split_once("stderr:\n").unwrap(),
        (text, None) => match text.strip_prefix("stderr:\n") {
            Some(stderr) => ("", stderr),
            None => (text, ""),
        },
    };
    (stdout.to_owned(), stderr.to_owned(), notes)
}

/// The error of a result, which must be a failure and must have changed nothing.
#[track_caller]
pub fn error(result: ToolResult) -> String {
    assert_eq!(result.changes, []);
    match result.outcome {
        ToolOutcome::Failure { error, .. } => error,
        ToolOutcome::Success { output } => panic!("the call succeeded: {output}"),
    }
}

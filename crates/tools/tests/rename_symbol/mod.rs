//! `rename_symbol` through the public [`Tool`] trait, on real files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calls;
mod files;
mod languages;
mod libraries;
mod strings;

use crate::folder::context;
use dirigent_core::tool::{StateChange, ToolOutcome, ToolResult};
use dirigent_tools::{Tool, rename_symbol};
use serde_json::{Value, json};
use tempfile::TempDir;

fn workspace(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

fn content(workspace: &TempDir, path: &str) -> String {
    std::fs::read_to_string(workspace.path().join(path)).unwrap()
}

async fn run(workspace: &TempDir, parameters: Value) -> ToolResult {
    rename_symbol().call(context(workspace.path()), parameters).await
}

/// The data of the result.
fn report(result: &ToolResult) -> &Value {
    &result.metadata["report"]
}

/// The output of the result, which is text.
fn output(result: &ToolResult) -> &str {
    match &result.outcome {
        ToolOutcome::Success { output } | ToolOutcome::Failure { output, .. } => output.as_str().unwrap(),
    }
}

fn error(result: &ToolResult) -> &str {
    match &result.outcome {
        ToolOutcome::Success { output } => panic!("it succeeded: {output}"),
        ToolOutcome::Failure { error, .. } => error,
    }
}

/// Renames `old` to `new` in a file and checks its new content; returns the output. The file must parse before and after.
async fn check(name: &str, before: &str, after: &str) -> Value {
    let workspace = workspace(&[(name, before)]);
    let result = run(
        &workspace,
        json!({"from": "old", "to": "new_name", "preview": false}),
    )
    .await;
    assert!(result.succeeded(), "{name}: {result:?}");
    assert_eq!(content(&workspace, name), after, "{name}");
    let output = report(&result).clone();
    assert_eq!(output["renamed"], true);
    assert_eq!(output["syntax_errors"], Value::Null, "{name}");
    assert!(
        matches!(&result.changes[..], [StateChange::FileEdited { path, diff: Some(_), .. }] if path == name)
    );
    output
}

/// The places in a list as `line:column`. Empty lists are missing in the output.
fn places(rows: &Value) -> Vec<String> {
    let place = |row: &Value| format!("{}:{}", row["line"], row["column"]);
    rows.as_array().into_iter().flatten().map(place).collect()
}

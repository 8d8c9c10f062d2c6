//! The reports for users: concise and verbose (PAOR-10, PAOR-11), at the end of a run and before it (PAOR-3).

use dirigent_core::run::{ChangedFile, FileChangeKind, Run, RunInput};
use dirigent_core::tool::{FileVersion, StateChange, ToolResult};
use serde_json::{Value, json};

use crate::driver::{acting, ended, give};
use crate::fixture::spec;
use crate::renamed::{achieved, edited, exited};

#[test]
fn paor_10_finished_calls_of_a_cancelled_sequence_are_reported() {
    let change = json!({"tool": "change", "parameters": {"path": "src/main.rs"}});
    let two = json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "calls": [change, change]}]});
    let (mut run, _) = acting(spec(), &two);
    let changed = ToolResult::success(Value::Null).with_changes(vec![edited("src/main.rs")]);
    give(&mut run, 5, ended("run.2", changed));
    give(&mut run, 9, RunInput::Cancelled);
    let report = run.report();
    assert_eq!(
        report.changed,
        [ChangedFile {
            path: "src/main.rs".to_owned(),
            kind: FileChangeKind::Edited
        }]
    );
    assert_eq!(report.usage.tool_calls, 1);
}

#[test]
fn a_report_as_json_has_the_end_reason_next_to_the_phase() {
    let report = serde_json::to_value(achieved().report()).unwrap();
    assert_eq!(
        [
            &report["version"],
            &report["phase"],
            &report["reason"],
            &report["iteration_count"]
        ],
        [&json!(1), &json!("complete"), &json!("goal_achieved"), &json!(1)]
    );
}

/// A run of one call with these changes.
fn changed(changes: Vec<StateChange>) -> Run {
    let look = json!([{"tool": "look", "parameters": {"path": "x"}}]);
    let one = json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "calls": look}]});
    let (mut run, _) = acting(spec(), &one);
    give(
        &mut run,
        0,
        ended("run.2", ToolResult::success(Value::Null).with_changes(changes)),
    );
    run
}

#[test]
fn paor_10_several_changes_of_a_file_are_reported_as_one_net_change() {
    let file = |path: &str| path.to_owned();
    let created = |path| StateChange::FileCreated {
        after: None,
        path: file(path),
        diff: None,
    };
    let deleted = |path| StateChange::FileDeleted {
        before: None,
        path: file(path),
        diff: None,
    };
    let moved = |from, to| StateChange::FileMoved {
        version: None,
        from: file(from),
        to: file(to),
    };
    for (changes, net) in [
        (
            vec![created("x"), edited("x")],
            vec![("x", FileChangeKind::Created)],
        ),
        (vec![created("x"), deleted("x")], vec![]),
        (
            vec![edited("x"), deleted("x")],
            vec![("x", FileChangeKind::Deleted)],
        ),
        (
            vec![deleted("x"), created("x")],
            vec![("x", FileChangeKind::Edited)],
        ),
        (
            vec![moved("x", "y")],
            vec![("x", FileChangeKind::Deleted), ("y", FileChangeKind::Created)],
        ),
        (
            vec![created("x"), moved("x", "y")],
            vec![("y", FileChangeKind::Created)],
        ),
        (
            vec![deleted("y"), moved("x", "y")],
            vec![("x", FileChangeKind::Deleted), ("y", FileChangeKind::Edited)],
        ),
        (
            vec![edited("b"), edited("a"), exited("ls", 0)],
            vec![("a", FileChangeKind::Edited), ("b", FileChangeKind::Edited)],
        ),
    ] {
        let expected: Vec<ChangedFile> = net
            .into_iter()
            .map(|(path, kind)| ChangedFile {
                path: path.to_owned(),
                kind,
            })
            .collect();
        assert_eq!(changed(changes.clone()).report().changed, expected, "{changes:?}");
    }
}

fn version(digest: &str) -> Option<FileVersion> {
    Some(FileVersion {
        digest: digest.repeat(64),
        mode: 0o100_644,
    })
}

#[test]
fn paor_10_changed_rows_are_counted_by_table() {
    let rows = |table: &str, rows: u64| StateChange::RowsChanged {
        connection: "shop".to_owned(),
        table: Some(table.to_owned()),
        rows,
    };
    let table = StateChange::TableCreated {
        connection: "shop".to_owned(),
        table: "reports".to_owned(),
    };
    let run = changed(vec![
        rows("orders", 2),
        table.clone(),
        edited("a"),
        rows("orders", 1),
        rows("users", 4),
    ]);

    let report = run.report();

    assert_eq!(
        report.changed_databases,
        [rows("orders", 3), table, rows("users", 4)]
    );
    assert_eq!(
        serde_json::to_value(&report).unwrap()["changed_databases"][0],
        json!({"change": "rows_changed", "connection": "shop", "table": "orders", "rows": 3})
    );
}

#[test]
fn paor_10_a_file_with_its_original_content_does_not_count_as_changed() {
    let edit = |path: &str, before: &str, after: &str| StateChange::FileEdited {
        path: path.to_owned(),
        diff: Some(format!("--- {path} {before} {after}\n")),
        before: version(before),
        after: version(after),
    };
    let deleted = StateChange::FileDeleted {
        path: "x".to_owned(),
        diff: Some("--- x deleted\n".to_owned()),
        before: version("b"),
    };
    let created = |after: &str| StateChange::FileCreated {
        path: "x".to_owned(),
        diff: Some("--- x created\n".to_owned()),
        after: version(after),
    };
    let other = edit("y", "a", "b");
    for back in [
        vec![edit("x", "a", "b"), other.clone(), edit("x", "b", "a")],
        vec![edit("x", "a", "b"), deleted.clone(), other.clone(), created("a")],
    ] {
        let run = changed(back);
        let paths: Vec<String> = run.report().changed.into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["y"]);
    }
    let run = changed(vec![edit("x", "a", "b"), deleted, created("c")]);
    assert_eq!(run.report().changed.len(), 1);
}

//! The plan after a check that failed because of a rename.

use serde_json::{Value, json};

use crate::dialogue::{
    Dialogue, exited, graph, listing, matches, plan_request, ran, skipped, success, usages,
};

const GOAL: &str = "rename parse to read";

fn after(output: &str) -> Dialogue {
    let edit = ran(
        "edit-1",
        &[(
            "rename_symbol",
            json!({}),
            success(usages(&[("src/a.rs", 1, "parse")])),
        )],
    );
    let command = json!({"command": ["cargo", "test"], "timeout_seconds": 600});
    let check = ran("check", &[("execute_command", command, exited(101, output, ""))]);
    let round = json!({"round": 1, "plan": "Rename.", "reflection": "Renamed, but `cargo test` fails.", "verdict": "continue"});
    let sections = format!(
        "<ROUNDS>\n{round}\n</ROUNDS>\n<OBSERVATIONS>\n{edit}\n{check}\n{}\n</OBSERVATIONS>\n",
        skipped("verify", "check")
    );
    Dialogue::planner(&plan_request(GOAL, &sections))
}

fn word() -> Value {
    json!({"pattern": "parse", "literal": true, "whole_word": true, "max_results": 2000})
}

fn read(path: &str) -> Value {
    json!({"operation": "read", "path": path})
}

fn edit(path: &str, old: &str, new: &str) -> String {
    let parameters = json!({"operation": "edit", "path": path, "old": old, "new": new});
    format!("file_operations {parameters}")
}

#[test]
fn lines_that_the_output_points_at_are_renamed_and_no_others() {
    let mut planner = after("  File \"/home/ada/tests/test_a.py\", line 2, in test\nKeyError: 'parse'\n");
    planner
        .sees(
            "search",
            word(),
            matches(&[
                ("README.md", 1, "parse"),
                ("tests/test_a.py", 2, "call(\"parse\")"),
                ("tests/test_a.py", 9, "# parse"),
            ]),
        )
        .sees(
            "file_operations",
            read("tests/test_a.py"),
            success(json!({"content": "import a\ncall(\"parse\")\n"})),
        )
        .sees(
            "file_operations",
            json!({"operation": "list", "path": ".", "depth": 3}),
            listing(&["a.py", "conftest.py", "tests/test_a.py"]),
        );

    let plan = planner.plan();

    assert_eq!(
        graph(&plan),
        [
            format!(
                "repair-1 <- []: {}",
                edit("tests/test_a.py", "call(\"parse\")", "call(\"read\")")
            ),
            "check <- [repair-1]: python3 -B -m pytest -q -p no:cacheprovider".to_owned(),
            "verify <- [check]: verify".to_owned(),
        ]
    );
    assert_eq!(
        plan["summary"],
        "`cargo test` fails after the rename, at lines that name `parse` in text: tests/test_a.py:2. Rename it there too, and check again."
    );
}

#[test]
fn a_failed_documentation_test_is_renamed_as_a_block() {
    // The compiler's line is one too many here, as it is in documentation tests.
    let mut planner =
        after("test src/a.rs - read (line 1) ... FAILED\nerror: cannot find `parse`\n --> src/a.rs:3:4\n");
    let text = "/// ```\n/// parse();\n/// ```\n/// As parse did.\nfn read() {}\n";
    planner
        .sees(
            "search",
            word(),
            matches(&[
                ("src/a.rs", 2, "/// parse();"),
                ("src/a.rs", 4, "/// As parse did."),
            ]),
        )
        .sees(
            "file_operations",
            read("src/a.rs"),
            success(json!({"content": text})),
        )
        .sees(
            "file_operations",
            json!({"operation": "list", "path": ".", "depth": 3}),
            listing(&["Cargo.toml"]),
        );

    assert_eq!(
        graph(&planner.plan())[0],
        format!(
            "repair-1 <- []: {}",
            edit("src/a.rs", "/// parse();", "/// read();")
        )
    );
}

#[test]
fn a_line_that_is_there_twice_is_edited_with_its_neighbours() {
    let mut planner = after("src/a.rs:3:1: error\n");
    let text = "x(\"parse\");\na();\nx(\"parse\");\nb();\n";
    planner
        .sees(
            "search",
            word(),
            matches(&[("src/a.rs", 1, "x(\"parse\");"), ("src/a.rs", 3, "x(\"parse\");")]),
        )
        .sees(
            "file_operations",
            read("src/a.rs"),
            success(json!({"content": text})),
        )
        .sees(
            "file_operations",
            json!({"operation": "list", "path": ".", "depth": 3}),
            listing(&[]),
        );

    let graph = graph(&planner.plan());
    assert_eq!(
        graph[0],
        format!(
            "repair-1 <- []: {}",
            edit(
                "src/a.rs",
                "a();\nx(\"parse\");\nb();",
                "a();\nx(\"read\");\nb();"
            )
        )
    );
}

#[test]
fn where_nothing_points_at_the_old_name_there_is_nothing_to_repair() {
    let mut planner = after("error: something else\n --> src/z.rs:3:1\n");
    planner.sees("search", word(), matches(&[("README.md", 1, "parse")]));

    let plan = planner.plan();

    assert_eq!(plan["subtasks"], json!([]));
    assert_eq!(
        plan["summary"],
        "Not possible: the change broke the project, and nothing in the output points at a line that still names `parse`, so there is \
         nothing to repair it by.\nRenamed, but `cargo test` fails."
    );
}

#[test]
fn what_an_incomplete_round_left_is_renamed_although_the_new_name_is_there() {
    let edit = json!({"subtask": "edit-1", "title": "t", "status": "failed", "duration_ms": 1, "calls": []});
    let round = json!({"round": 1, "plan": "Rename.", "reflection": "r", "verdict": "continue"});
    let sections = format!("<ROUNDS>\n{round}\n</ROUNDS>\n<OBSERVATIONS>\n{edit}\n</OBSERVATIONS>\n");
    let mut left = usages(&[("b.rs", 1, "parse")]);
    left["clashes"] = json!([{"path": "a.rs", "line": 1, "column": 1, "text": "read"}]);
    let mut planner = Dialogue::planner(&plan_request(GOAL, &sections));
    planner
        .sees(
            "rename_symbol",
            json!({"from": "parse", "to": "read", "preview": true}),
            success(left),
        )
        .sees(
            "file_operations",
            json!({"operation": "list", "path": ".", "depth": 3}),
            listing(&[]),
        );

    assert_eq!(graph(&planner.plan()).len(), 3);
}

#[test]
fn a_rename_that_looks_done_after_an_incomplete_round_is_checked_before_it_counts() {
    let baseline = ran("baseline", &[]);
    let round = json!({"round": 1, "plan": "Rename.", "reflection": "r", "verdict": "continue"});
    let sections = format!("<ROUNDS>\n{round}\n</ROUNDS>\n<OBSERVATIONS>\n{baseline}\n</OBSERVATIONS>\n");
    let mut planner = Dialogue::planner(&plan_request(GOAL, &sections));
    planner
        .sees(
            "rename_symbol",
            json!({"from": "parse", "to": "read", "preview": true}),
            success(usages(&[])),
        )
        .sees(
            "rename_symbol",
            json!({"from": "read", "preview": true}),
            success(usages(&[("a.rs", 1, "read")])),
        )
        .sees(
            "file_operations",
            json!({"operation": "list", "path": ".", "depth": 3}),
            listing(&["Cargo.toml"]),
        );

    assert_eq!(
        graph(&planner.plan()),
        [
            "check <- []: cargo check --all-targets; cargo test",
            "verify <- [check]: verify"
        ]
    );
}

/// The plan of a second round with one usage of the old name, after these observations.
fn second_round(observations: &[Value]) -> Vec<String> {
    let round = json!({"round": 1, "plan": "Rename.", "reflection": "r", "verdict": "continue"});
    let observations: Vec<String> = observations.iter().map(Value::to_string).collect();
    let sections = format!(
        "<ROUNDS>\n{round}\n</ROUNDS>\n<OBSERVATIONS>\n{}\n</OBSERVATIONS>\n",
        observations.join("\n")
    );
    let mut planner = Dialogue::planner(&plan_request(GOAL, &sections));
    planner
        .sees(
            "rename_symbol",
            json!({"from": "parse", "to": "read", "preview": true}),
            success(usages(&[("a.rs", 1, "parse")])),
        )
        .sees(
            "file_operations",
            json!({"operation": "list", "path": ".", "depth": 3}),
            listing(&["Cargo.toml"]),
        );
    graph(&planner.plan())
}

fn ids(graph: &[String]) -> Vec<&str> {
    graph
        .iter()
        .map(|subtask| subtask.split_once(' ').expect("an id").0)
        .collect()
}

#[test]
fn host_2_an_interrupted_baseline_is_run_again() {
    let error = "`execute_command` was interrupted: the process ended while it ran";
    let command = json!({"command": ["cargo", "test"]});
    let baseline = ran(
        "baseline",
        &[(
            "execute_command",
            command,
            json!({"success": false, "error": error}),
        )],
    );

    assert_eq!(
        ids(&second_round(&[baseline, skipped("edit-1", "baseline")])),
        ["explore", "baseline", "edit-1", "check", "verify"]
    );
}

#[test]
fn a_baseline_is_not_run_where_it_passed_or_files_may_be_changed() {
    let passed = ran("baseline", &[]);
    let edited = ran("edit-1", &[]);
    for observations in [vec![passed], vec![edited]] {
        assert_eq!(
            ids(&second_round(&observations)),
            ["explore", "edit-1", "check", "verify"]
        );
    }
}

#[test]
fn a_round_without_work_does_not_allow_a_name_in_use() {
    let round = json!({"round": 1, "plan": "For the user to decide: `read` is in use.", "reflection": "r", "verdict": "continue"});
    let mut found = usages(&[("b.rs", 1, "parse")]);
    found["clashes"] = json!([{"path": "a.rs", "line": 1, "column": 1, "text": "read"}]);
    let mut planner = Dialogue::planner(&plan_request(GOAL, &format!("<ROUNDS>\n{round}\n</ROUNDS>\n")));
    planner.sees(
        "rename_symbol",
        json!({"from": "parse", "to": "read", "preview": true}),
        success(found),
    );

    assert_eq!(planner.plan()["subtasks"], json!([]));
}

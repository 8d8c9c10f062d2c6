//! Read-only goals: usages, checks, counts and lists.

use serde_json::{Value, json};

use crate::dialogue::{
    Dialogue, exited, found, graph, listing, matches, plan_request, ran, reflect_request, skipped, success,
};

fn plan_of(goal: &str) -> Value {
    Dialogue::lead(&plan_request(goal, "")).plan()
}

/// The reflector's verdict and summary for these observations of a plan with a sub-task.
fn judged(goal: &str, observations: &[Value]) -> (String, String) {
    let plan = json!({"summary": "s", "subtasks": [{"id": "count", "title": "t", "calls": []}]});
    Dialogue::reflector(&reflect_request(goal, "", &plan, observations, &[])).judgement()
}

fn achieved(summary: &str) -> (String, String) {
    ("achieved".to_owned(), summary.to_owned())
}

fn failed(summary: &str) -> (String, String) {
    ("failed".to_owned(), summary.to_owned())
}

#[test]
fn usages_are_found_by_an_explorer_whose_findings_are_the_answer() {
    let goal = "where is `parse` used in src?";
    let plan = plan_of(goal);
    assert_eq!(graph(&plan), ["explore <- []: explore"]);

    let findings = "`parse` occurs 1 time in 1 file in `src`:\n- src/a.rs:1: parse();";
    assert_eq!(
        judged(goal, &[found("explore", "explore", findings)]),
        achieved(findings)
    );

    let broken = json!({
        "subtask": "explore", "title": "t", "status": "failed", "duration_ms": 1, "agent": "explore",
        "error": "the agent reached its time limit", "calls": [], "changes": []
    });
    assert_eq!(
        judged(goal, &[broken]),
        failed("The search for usages failed: the agent reached its time limit.")
    );
}

#[test]
fn the_project_s_tests_are_run() {
    let mut lead = Dialogue::lead(&plan_request("run the tests", ""));
    lead.sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(&["Cargo.toml"]),
    );
    assert_eq!(graph(&lead.plan()), ["check <- []: cargo test"]);

    let mut compiles = Dialogue::lead(&plan_request("check that it compiles", ""));
    compiles.sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(&["go.mod"]),
    );
    assert_eq!(graph(&compiles.plan()), ["check <- []: go vet ./..."]);

    let mut none = Dialogue::lead(&plan_request("run the tests", ""));
    none.sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(&["README.md"]),
    );
    assert_eq!(
        none.plan()["summary"],
        "Not possible: this project has no check that the offline model knows (Cargo, Python tests, an npm test script, Go). \
         Give the command in backticks: run `make test`."
    );
}

#[test]
fn a_command_in_backticks_is_run_unchanged() {
    assert_eq!(
        graph(&plan_of("run `cargo clippy --all-targets`")),
        ["check <- []: cargo clippy --all-targets"]
    );
}

fn test_run(result: Value) -> Value {
    ran(
        "check",
        &[("execute_command", json!({"command": ["cargo", "test"]}), result)],
    )
}

#[test]
fn a_goal_to_run_the_tests_is_achieved_if_they_pass() {
    let passed = test_run(exited(0, "test result: ok. 3 passed; 0 failed", ""));
    assert_eq!(
        judged("run the tests", &[passed]),
        achieved("Succeeded: `cargo test` (3 tests passed).")
    );
}

#[test]
fn a_failed_check_achieves_a_report_goal_and_fails_a_goal_that_expects_success() {
    let output =
        "test a::works ... ok\ntest a::breaks ... FAILED\nthread 'a::breaks' panicked at src/a.rs:3:5:\n";
    let check = test_run(exited(101, output, ""));
    let report = "`cargo test` failed (exit code 101):\n    test a::breaks ... FAILED\n    thread 'a::breaks' panicked at src/a.rs:3:5:";
    assert_eq!(
        judged("run the tests", std::slice::from_ref(&check)),
        achieved(report)
    );
    assert_eq!(judged("make sure the tests pass", &[check]), failed(report));

    let missing = json!({"success": false, "error": "there is no program `cargo`"});
    let (verdict, summary) = judged("run the tests", &[test_run(missing)]);
    assert_eq!(verdict, "failed");
    assert!(
        summary.starts_with("`cargo test` failed (there is no program `cargo`)"),
        "{summary}"
    );
}

#[test]
fn a_goal_to_count_lines_is_planned_as_a_search() {
    let goal = "count the lines of Rust code in src";
    let plan = plan_of(goal);
    assert_eq!(
        graph(&plan),
        [r#"count <- []: search {"pattern":"^","literal":false,"max_results":1,"paths":["src/**/*.rs"]}"#]
    );
    let output = success(json!("261 matches in 7 files; only the first 0 are shown"));
    let count = ran("count", &[("search", json!({}), output)]);
    assert_eq!(
        judged(goal, &[count]),
        achieved("261 lines in 7 text files in `src`, only files ending with `.rs`.")
    );
}

#[test]
fn occurrences_are_counted_and_listed_with_their_locations() {
    let goal = "how many times does TODO occur, not in old/";
    let count = ran(
        "count",
        &[(
            "search",
            json!({}),
            matches(&[("a.rs", 1, "// TODO: a"), ("old/b.rs", 2, "TODO")]),
        )],
    );
    assert_eq!(
        judged(goal, &[count]),
        achieved("1 line with `TODO` in 1 file, not in `old`:\n- a.rs:1: // TODO: a")
    );
}

#[test]
fn files_are_counted_and_listed() {
    let goal = "list the files in src ending in .rs";
    assert_eq!(
        graph(&plan_of(goal)),
        [r#"count <- []: file_operations {"operation":"list","path":"src","depth":32}"#]
    );
    let entries = listing(&["src/a.rs", "src/b/", "src/b/c.rs", "src/d.txt"]);
    let count = ran("count", &[("file_operations", json!({}), entries)]);
    assert_eq!(
        judged(goal, std::slice::from_ref(&count)),
        achieved(
            "2 files in `src`, only files ending with `.rs`, without ignored files:\n- src/a.rs\n- src/b/c.rs"
        )
    );
    assert_eq!(
        judged("how many files are in src", &[count]),
        achieved("3 files in `src`, without ignored files.")
    );
}

#[test]
fn a_command_of_the_user_is_not_run_again() {
    let call = |result| {
        ran(
            "check",
            &[("execute_command", json!({"program": "make"}), result)],
        )
    };
    let planned = |observation: Value| {
        let more = format!("<OBSERVATIONS>\n{observation}\n</OBSERVATIONS>");
        Dialogue::lead(&plan_request("run `make`", &more)).plan()["summary"].clone()
    };
    assert_eq!(
        planned(call(exited(0, "", ""))),
        "Nothing to do: `make` has already run, and succeeded."
    );
    let interrupted =
        json!({"success": false, "error": "`execute_command` was interrupted", "code": "interrupted"});
    assert_eq!(
        planned(call(interrupted)),
        "Not possible: `make` was interrupted. It is not run again, because it may have done part of its work."
    );
    assert_eq!(
        planned(skipped("check", "because")),
        "Run `make` and report how it ends."
    );
}

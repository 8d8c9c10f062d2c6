//! "Replace "old" with "new"": plans and reflections.

use serde_json::{Value, json};

use crate::dialogue::{Dialogue, exited, found, graph, listing, matches, plan_request, ran, reflect_request};

const GOAL: &str = "Replace \"old text\" with \"new text\" in docs/";

fn search(pattern: &str, paths: Option<Value>) -> Value {
    let mut parameters = json!({"pattern": pattern, "literal": true, "max_results": 2000});
    if let Some(paths) = paths {
        parameters["paths"] = paths;
    }
    parameters
}

#[test]
fn documents_are_edited_by_agents_in_parallel_and_verified() {
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    let found: Vec<(&str, u64, &str)> = ["docs/a.md", "docs/b.md", "docs/c.md", "docs/d.md", "docs/e.md"]
        .map(|path| (path, 1, "an old text"))
        .to_vec();
    lead.sees(
        "search",
        search("old text", Some(json!(["docs"]))),
        matches(&found),
    );

    let plan = lead.plan();

    assert_eq!(
        graph(&plan),
        [
            "edit-1 <- []: implement",
            "edit-2 <- []: implement",
            "verify <- [edit-1, edit-2]: verify"
        ]
    );
    assert_eq!(
        plan["subtasks"][1]["task"],
        "Replace every text \"old text\" with \"new text\" in these files: \"docs/e.md\"\n\n\
         Replace it exactly, also inside longer words, and change nothing else."
    );
    assert_eq!(
        plan["summary"],
        "Replace \"old text\" with \"new text\" in `docs`: 5 lines in 5 files. The text is matched anywhere, also within words; ignored and binary files are left out."
    );
}

#[test]
fn a_replacement_in_sources_is_planned_with_checks_before_and_after() {
    let mut lead = Dialogue::lead(&plan_request("replace `v1` with `v2` in *.rs", ""));
    lead.sees(
        "search",
        search("v1", Some(json!(["*.rs"]))),
        matches(&[("src/a.rs", 1, "\"v1\"")]),
    )
    .sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(&["Cargo.toml"]),
    );

    assert_eq!(
        graph(&lead.plan()),
        [
            "baseline <- []: cargo check --all-targets; cargo test",
            "edit-1 <- [baseline]: implement",
            "check <- [edit-1]: cargo check --all-targets; cargo test",
            "verify <- [check]: verify",
        ]
    );
}

#[test]
fn a_text_that_is_already_replaced_needs_no_work() {
    let mut lead = Dialogue::lead(&plan_request("replace `book` with `account book`", ""));
    lead.sees(
        "search",
        search("book", None),
        matches(&[("a.md", 1, "an account book")]),
    )
    .sees(
        "search",
        search("account book", None),
        matches(&[("a.md", 1, "an account book")]),
    );

    assert_eq!(
        lead.plan()["summary"],
        "Nothing to do: \"book\" does not occur, but \"account book\" does, first at a.md:1."
    );
}

#[test]
fn replacing_a_text_that_does_not_occur_is_not_possible() {
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    lead.sees("search", search("old text", Some(json!(["docs"]))), matches(&[]))
        .sees("search", search("new text", Some(json!(["docs"]))), matches(&[]));

    assert_eq!(
        lead.plan()["summary"],
        "Not possible: \"old text\" was not found in `docs`. Nothing was changed."
    );
}

fn plan() -> Value {
    json!({"summary": "Replace it.", "subtasks": [{"id": "edit-1", "title": "t", "agent": "implement", "task": "t"}]})
}

#[test]
fn a_replacement_that_the_verifier_confirmed_is_achieved() {
    let observations = [
        found("edit-1", "implement", "Replaced it."),
        found(
            "verify",
            "verify",
            "Confirmed: a search no longer finds \"old text\" in `docs`.",
        ),
    ];
    let request = reflect_request(GOAL, "", &plan(), &observations, &["docs/a.md"]);

    assert_eq!(
        Dialogue::reflector(&request).judgement(),
        (
            "achieved".to_owned(),
            "Replaced \"old text\" with \"new text\" in `docs`, changing docs/a.md. A search no longer finds \"old text\" in `docs`."
                .to_owned()
        )
    );
}

#[test]
fn a_replacement_that_breaks_the_tests_is_not_achieved() {
    let command = json!({"command": ["cargo", "test"]});
    let check = ran(
        "check",
        &[("execute_command", command, exited(101, "test a ... FAILED\n", ""))],
    );
    let observations = [found("edit-1", "implement", "Replaced it."), check];
    let request = reflect_request(GOAL, "", &plan(), &observations, &["docs/a.md"]);

    let (verdict, summary) = Dialogue::reflector(&request).judgement();

    // The check failed, but the next iteration restores the files first.
    assert_eq!(verdict, "continue");
    assert!(
        summary.starts_with("Given up, so the next iteration undoes the changes. Reason: Replaced "),
        "{summary}"
    );
    assert!(
        summary.ends_with("but now `cargo test` fails (exit code 101):\n    test a ... FAILED"),
        "{summary}"
    );
}

#[test]
fn a_replacement_by_an_earlier_iteration_is_checked_first() {
    let iteration = json!({"iteration": 1, "plan": "p", "reflection": "r", "verdict": "continue"});
    let baseline = ran("baseline", &[]);
    let sections =
        format!("<ITERATIONS>\n{iteration}\n</ITERATIONS>\n<OBSERVATIONS>\n{baseline}\n</OBSERVATIONS>\n");
    let mut lead = Dialogue::lead(&plan_request("replace `v1` with `v2`", &sections));
    lead.sees("search", search("v1", None), matches(&[])).sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(&["Cargo.toml"]),
    );

    assert_eq!(
        graph(&lead.plan()),
        [
            "check <- []: cargo check --all-targets; cargo test",
            "verify <- [check]: verify"
        ]
    );
}

#[test]
fn a_text_that_was_never_found_does_not_count_as_replaced() {
    let plan = "Not possible: \"v1\" was not found. Nothing was changed.";
    let iteration = json!({"iteration": 1, "plan": plan, "reflection": "r", "verdict": "continue"});
    let sections = format!("<ITERATIONS>\n{iteration}\n</ITERATIONS>\n");
    let mut lead = Dialogue::lead(&plan_request("replace `v1` with `v2`", &sections));
    lead.sees("search", search("v1", None), matches(&[]))
        .sees("search", search("v2", None), matches(&[]));

    assert_eq!(lead.plan()["summary"], plan);
}

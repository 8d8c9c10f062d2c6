//! The plan after a check that failed because of a rename.

use serde_json::{Value, json};

use crate::dialogue::{
    Dialogue, exited, file, graph, list, listing, matches, plan_request, ran, skipped, success, usages,
    with_list,
};

const GOAL: &str = "rename parse to read";

fn after(output: &str) -> Dialogue {
    after_goal(GOAL, "", output)
}

/// The lead of this goal with additional sections, after a check with this output.
fn after_goal(goal: &str, more: &str, output: &str) -> Dialogue {
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
    let iteration = json!({"iteration": 1, "plan": "Rename.", "reflection": "Renamed, but `cargo test` fails.", "verdict": "continue"});
    let sections = format!(
        "{more}<ITERATIONS>\n{iteration}\n</ITERATIONS>\n<OBSERVATIONS>\n{edit}\n{check}\n{}\n</OBSERVATIONS>\n",
        skipped("verify", "check")
    );
    Dialogue::lead(&plan_request(goal, &sections))
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

/// The result of a preview with mentions, given as path, line, column and kind of text.
fn mentions(mentions: &[(&str, u64, u64, &str)]) -> Value {
    let rows: Vec<String> = mentions
        .iter()
        .map(|(path, line, column, prose)| format!("{path}:{line}:{column}: {prose}: …"))
        .collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    success(with_list(&usages(&[]), list::MENTIONS, &rows))
}

fn preview() -> Value {
    json!({"from": "parse", "preview": true})
}

fn list() -> Value {
    json!({"operation": "list", "path": ".", "depth": 3})
}

#[test]
fn paor_2_names_in_a_failed_documentation_test_are_renamed_except_in_strings() {
    // The compiler reports a line that is one too high, as it does for documentation tests.
    let mut lead =
        after("test src/a.rs - read (line 1) ... FAILED\nerror: cannot find `parse`\n --> src/a.rs:3:4\n");
    let text = "/// ```\n/// parse(\"parse\", parse);\n/// ```\n/// As parse did.\nfn read() {}\n";
    lead.sees(
        "search",
        word(),
        matches(&[
            ("src/a.rs", 2, "/// parse(\"parse\", parse);"),
            ("src/a.rs", 4, "/// As parse did."),
            ("src/b.rs", 1, "// parse"),
        ]),
    )
    .sees(
        "rename_symbol",
        preview(),
        mentions(&[
            ("src/a.rs", 2, 5, "comment"),
            ("src/a.rs", 2, 12, "comment"),
            ("src/a.rs", 2, 20, "comment"),
            ("src/a.rs", 4, 8, "comment"),
        ]),
    )
    .sees("file_operations", read("src/a.rs"), file(text))
    .sees("file_operations", list(), listing(&["Cargo.toml"]));

    let plan = lead.plan();

    assert_eq!(
        graph(&plan),
        [
            format!(
                "repair-1 <- []: {}",
                edit(
                    "src/a.rs",
                    "/// parse(\"parse\", parse);",
                    "/// read(\"parse\", read);"
                )
            ),
            "check <- [repair-1]: cargo check --all-targets; cargo test".to_owned(),
            "verify <- [check]: verify".to_owned(),
        ]
    );
    assert_eq!(
        plan["summary"],
        "`cargo test` fails after the rename, at lines that name `parse` in text: src/a.rs:2. Rename it there too, and check again."
    );
}

#[test]
fn names_on_reported_lines_of_other_files_are_renamed_outside_quotes() {
    let mut lead = after("page.tmpl:3: error\n");
    let text = "a parse\nb\n{{ parse 'parse' }}\nb\n";
    lead.sees(
        "search",
        word(),
        matches(&[
            ("page.tmpl", 1, "a parse"),
            ("page.tmpl", 3, "{{ parse 'parse' }}"),
        ]),
    )
    .sees("rename_symbol", preview(), mentions(&[]))
    .sees("file_operations", read("page.tmpl"), file(text))
    .sees("file_operations", list(), listing(&[]));

    assert_eq!(
        graph(&lead.plan())[0],
        format!(
            "repair-1 <- []: {}",
            edit("page.tmpl", "{{ parse 'parse' }}", "{{ read 'parse' }}")
        )
    );
}

#[test]
fn a_repeated_line_is_edited_together_with_its_unchanged_neighbours() {
    let mut lead = after("src/a.rs:3:1: error\n");
    let text = "// x parse\n// a parse\n// x parse\nb();\n";
    lead.sees(
        "search",
        word(),
        matches(&[("src/a.rs", 1, "// x parse"), ("src/a.rs", 3, "// x parse")]),
    )
    .sees(
        "rename_symbol",
        preview(),
        mentions(&[
            ("src/a.rs", 1, 6, "comment"),
            ("src/a.rs", 2, 6, "comment"),
            ("src/a.rs", 3, 6, "comment"),
        ]),
    )
    .sees("file_operations", read("src/a.rs"), file(text))
    .sees("file_operations", list(), listing(&[]));

    assert_eq!(
        graph(&lead.plan())[0],
        format!(
            "repair-1 <- []: {}",
            edit(
                "src/a.rs",
                "// a parse\n// x parse\nb();",
                "// a parse\n// x read\nb();"
            )
        )
    );
}

/// The lead's plan if the output points only at a string.
fn a_string_alone(mut lead: Dialogue) -> Value {
    lead.sees("search", word(), matches(&[("a.py", 2, "call(\"parse\")")]))
        .sees("rename_symbol", preview(), mentions(&[("a.py", 2, 7, "string")]))
        .sees(
            "file_operations",
            read("a.py"),
            file("import a\ncall(\"parse\")\n"),
        );
    lead.plan()
}

const AT_A_STRING: &str = "  File \"/home/ada/a.py\", line 2, in test\nKeyError: 'parse'\n";

#[test]
fn paor_2_a_repair_never_changes_a_string_but_undoes_the_rename_instead() {
    let plan = a_string_alone(after(AT_A_STRING));

    assert_eq!(
        graph(&plan),
        [r#"undo <- []: file_operations {"operation":"undo"}"#]
    );
    assert_eq!(
        plan["summary"],
        "Undo the changes: The change broke the project, and the check's output does not point to any comment or text file with `parse`, \
         so no repair is possible.\nRenamed, but `cargo test` fails."
    );
}

#[test]
fn a_change_that_the_user_keeps_is_not_undone() {
    for goal in [
        "rename parse to read and keep the changes even if the tests fail",
        "rename parse to read. Keep the changes even if the goal cannot be reached.",
    ] {
        let plan = a_string_alone(after_goal(goal, "", AT_A_STRING));
        assert_eq!(plan["subtasks"], json!([]), "{goal}");
        assert!(
            plan["summary"]
                .as_str()
                .unwrap()
                .starts_with("Not possible: The change broke the project"),
            "{plan}"
        );
    }
    let guidance = "<GUIDANCE>\n1. keep the changes even if the checks fail\n</GUIDANCE>\n";
    let plan = a_string_alone(after_goal(GOAL, guidance, AT_A_STRING));
    assert_eq!(
        (&plan["subtasks"], &plan["answers_guidance"]),
        (&json!([]), &json!([1]))
    );
    let answer = json!({"question": "q", "answer": "rename anyway and keep the changes"});
    let answers = format!("<ANSWERS>\n{answer}\n</ANSWERS>\n");
    assert_eq!(
        a_string_alone(after_goal(GOAL, &answers, AT_A_STRING))["subtasks"],
        json!([])
    );
}

#[test]
fn if_the_check_output_does_not_mention_the_old_name_the_change_is_undone() {
    let mut lead = after("error: something else\n --> src/z.rs:3:1\n");
    lead.sees("search", word(), matches(&[("README.md", 1, "parse")]));

    assert_eq!(
        graph(&lead.plan()),
        [r#"undo <- []: file_operations {"operation":"undo"}"#]
    );
}

/// The lead's request after these iterations, given as plan and reflection.
fn after_iterations(iterations: &[(&str, &str)]) -> Dialogue {
    let iterations: Vec<String> = iterations
        .iter()
        .map(|(plan, reflection)| {
            json!({"iteration": 1, "plan": plan, "reflection": reflection, "verdict": "continue"}).to_string()
        })
        .collect();
    let sections = format!("<ITERATIONS>\n{}\n</ITERATIONS>\n", iterations.join("\n"));
    Dialogue::lead(&plan_request(GOAL, &sections))
}

const GIVEN_UP: &str = "Given up, so the next iteration undoes the changes. Reason: It is not verified.";

#[test]
fn a_change_that_a_reflection_gave_up_is_undone() {
    let plan = after_iterations(&[("Rename.", GIVEN_UP)]).plan();

    assert_eq!(
        graph(&plan),
        [r#"undo <- []: file_operations {"operation":"undo"}"#]
    );
    assert_eq!(plan["summary"], "Undo the changes: It is not verified.");
}

#[test]
fn host_2_an_interrupted_undo_is_repeated() {
    let put_back = "Undo the changes: It is not verified.";
    let interrupted =
        "Interrupted: a change was under way when the run stopped, so another iteration repeats it.";
    let plan = after_iterations(&[("Rename.", GIVEN_UP), (put_back, interrupted)]).plan();

    assert_eq!(plan["summary"], put_back);
}

#[test]
fn after_an_undo_the_user_is_asked_again_about_a_name_in_use() {
    let put_back = "Undo the changes: It is not verified.";
    let mut lead = after_iterations(&[("Rename.", GIVEN_UP), (put_back, "Guidance 1 came after it.")]);
    let found = with_list(
        &usages(&[("b.rs", 1, "parse")]),
        list::CLASHES,
        &["a.rs:1:1: read"],
    );
    lead.sees(
        "rename_symbol",
        json!({"from": "parse", "to": "read", "preview": true}),
        success(found),
    );

    let plan = lead.plan();
    assert!(
        plan["summary"]
            .as_str()
            .unwrap()
            .starts_with("For the user to decide: "),
        "{plan}"
    );
}

#[test]
fn an_incomplete_rename_is_finished_although_the_new_name_exists() {
    let edit = json!({"subtask": "edit-1", "title": "t", "status": "failed", "duration_ms": 1, "calls": []});
    let iteration = json!({"iteration": 1, "plan": "Rename.", "reflection": "r", "verdict": "continue"});
    let sections =
        format!("<ITERATIONS>\n{iteration}\n</ITERATIONS>\n<OBSERVATIONS>\n{edit}\n</OBSERVATIONS>\n");
    let left = with_list(
        &usages(&[("b.rs", 1, "parse")]),
        list::CLASHES,
        &["a.rs:1:1: read"],
    );
    let mut lead = Dialogue::lead(&plan_request(GOAL, &sections));
    lead.sees(
        "rename_symbol",
        json!({"from": "parse", "to": "read", "preview": true}),
        success(left),
    )
    .sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(&[]),
    );

    assert_eq!(graph(&lead.plan()).len(), 3);
}

#[test]
fn a_rename_that_looks_done_after_an_incomplete_iteration_is_checked_first() {
    let baseline = ran("baseline", &[]);
    let iteration = json!({"iteration": 1, "plan": "Rename.", "reflection": "r", "verdict": "continue"});
    let sections =
        format!("<ITERATIONS>\n{iteration}\n</ITERATIONS>\n<OBSERVATIONS>\n{baseline}\n</OBSERVATIONS>\n");
    let mut lead = Dialogue::lead(&plan_request(GOAL, &sections));
    lead.sees(
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
        graph(&lead.plan()),
        [
            "check <- []: cargo check --all-targets; cargo test",
            "verify <- [check]: verify"
        ]
    );
}

/// The plan of a second iteration with one remaining usage of the old name, after these observations.
fn second_iteration(observations: &[Value]) -> Vec<String> {
    let iteration = json!({"iteration": 1, "plan": "Rename.", "reflection": "r", "verdict": "continue"});
    let observations: Vec<String> = observations.iter().map(Value::to_string).collect();
    let sections = format!(
        "<ITERATIONS>\n{iteration}\n</ITERATIONS>\n<OBSERVATIONS>\n{}\n</OBSERVATIONS>\n",
        observations.join("\n")
    );
    let mut lead = Dialogue::lead(&plan_request(GOAL, &sections));
    lead.sees(
        "rename_symbol",
        json!({"from": "parse", "to": "read", "preview": true}),
        success(usages(&[("a.rs", 1, "parse")])),
    )
    .sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(&["Cargo.toml"]),
    );
    graph(&lead.plan())
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
            json!({"success": false, "code": "interrupted", "error": error}),
        )],
    );

    assert_eq!(
        ids(&second_iteration(&[baseline, skipped("edit-1", "baseline")])),
        ["explore", "baseline", "edit-1", "check", "verify"]
    );
}

#[test]
fn a_baseline_is_not_run_again_if_it_passed_or_if_files_may_have_changed() {
    let passed = ran("baseline", &[]);
    let edited = ran("edit-1", &[]);
    for observations in [vec![passed], vec![edited]] {
        assert_eq!(
            ids(&second_iteration(&observations)),
            ["explore", "edit-1", "check", "verify"]
        );
    }
}

#[test]
fn a_new_name_in_use_is_asked_about_again_after_an_iteration_without_work() {
    let iteration = json!({"iteration": 1, "plan": "For the user to decide: `read` is in use.", "reflection": "r", "verdict": "continue"});
    let found = with_list(
        &usages(&[("b.rs", 1, "parse")]),
        list::CLASHES,
        &["a.rs:1:1: read"],
    );
    let mut lead = Dialogue::lead(&plan_request(
        GOAL,
        &format!("<ITERATIONS>\n{iteration}\n</ITERATIONS>\n"),
    ));
    lead.sees(
        "rename_symbol",
        json!({"from": "parse", "to": "read", "preview": true}),
        success(found),
    );

    assert_eq!(lead.plan()["subtasks"], json!([]));
}

//! Reflections on the iterations of a rename.

use serde_json::{Value, json};

use crate::dialogue::{Dialogue, exited, found, ran, reflect_request, skipped, success};

const GOAL: &str = "Find all usages of function `parse` and rename it to `read`";

fn plan() -> Value {
    json!({"summary": "Rename it.", "subtasks": [{"id": "explore", "title": "t", "agent": "explore", "task": "t"}]})
}

fn checked(subtask: &str, result: Value) -> Value {
    let command = |words: Value| json!({"command": words, "timeout_seconds": 600});
    let built = (
        "execute_command",
        command(json!(["cargo", "check", "--all-targets"])),
        exited(0, "", "Finished"),
    );
    ran(
        subtask,
        &[
            built,
            ("execute_command", command(json!(["cargo", "test"])), result),
        ],
    )
}

fn tests_pass() -> Value {
    exited(
        0,
        "test result: ok. 7 passed; 0 failed\n\ntest result: ok. 1 passed; 0 failed\n",
        "",
    )
}

fn edited() -> Value {
    let mut result = success(json!(
        "Renamed `parse` to `read`: 3 uses in 2 files\n\nsrc/a.rs (2)\n1\tfn read() {}\n3\tread();\n\nsrc/b.rs (1)\n2\tread();\n"
    ));
    result["changes"] = json!(["edited src/a.rs", "edited src/b.rs"]);
    ran(
        "edit-1",
        &[("rename_symbol", json!({"from": "parse", "to": "read"}), result)],
    )
}

const CHANGED: &[&str] = &["src/a.rs", "src/b.rs"];

#[test]
fn paor_10_a_confirmed_rename_is_achieved_and_says_how_and_what_is_left() {
    let verified = "Confirmed: no usage of `parse` is left, and `read` now occurs 3 times in 2 files.\n\n\
                    Left alone: 1 line with `parse` in a string, a comment or text.\n- README.md:3: call `parse` first";
    let observations = [
        found("explore", "explore", "…"),
        checked("baseline", tests_pass()),
        edited(),
        checked("check", tests_pass()),
        found("verify", "verify", verified),
    ];
    let (verdict, summary) =
        Dialogue::reflector(&reflect_request(GOAL, "", &plan(), &observations, CHANGED)).judgement();

    assert_eq!(verdict, "achieved");
    insta::assert_snapshot!(summary, @r#"
    Renamed `parse` to `read`: 3 usages in src/a.rs and src/b.rs. Confirmed by `cargo check --all-targets` and `cargo test` (8 tests passed). No usage of `parse` is left, and `read` now occurs 3 times in 2 files.

    Left alone: 1 line with `parse` in a string, a comment or text.
    - README.md:3: call `parse` first
    "#);
}

#[test]
fn tests_are_not_counted_in_a_shortened_output() {
    let shortened = exited(
        0,
        "test result: ok. 7 passed; 0 failed\n… [9000 characters left out] …\n",
        "",
    );
    let observations = [
        edited(),
        checked("check", shortened),
        found("verify", "verify", "Confirmed: no usage of `parse` is left."),
    ];
    let (verdict, summary) =
        Dialogue::reflector(&reflect_request(GOAL, "", &plan(), &observations, CHANGED)).judgement();

    assert_eq!(verdict, "achieved");
    assert_eq!(
        summary,
        "Renamed `parse` to `read`: 3 usages in src/a.rs and src/b.rs. Confirmed by `cargo check --all-targets` and `cargo test`. \
         No usage of `parse` is left."
    );
}

#[test]
fn a_project_that_was_broken_before_is_left_alone() {
    let broken = exited(
        101,
        "",
        "error[E0425]: cannot find value `x`\n --> src/a.rs:4:5\nerror: could not compile `a`\n",
    );
    let baseline = ran(
        "baseline",
        &[("execute_command", json!({"command": ["cargo", "check"]}), broken)],
    );
    let observations = [
        found("explore", "explore", "…"),
        baseline,
        skipped("edit-1", "baseline"),
        skipped("check", "edit-1"),
    ];
    let (verdict, summary) =
        Dialogue::reflector(&reflect_request(GOAL, "", &plan(), &observations, &[])).judgement();

    assert_eq!(verdict, "failed");
    insta::assert_snapshot!(summary, @r#"
    The project was broken before any change: `cargo check` fails (exit code 101):
        error[E0425]: cannot find value `x`
        --> src/a.rs:4:5
    Nothing was changed. Repair it first, then start again.
    "#);
}

fn check_failed() -> [Value; 3] {
    let output = "test src/a.rs - read (line 3) ... FAILED\nerror[E0425]: cannot find function `parse`\n --> src/a.rs:5:9\n";
    [
        edited(),
        checked("check", exited(101, output, "")),
        skipped("verify", "check"),
    ]
}

#[test]
fn a_check_that_fails_after_the_edits_leads_to_another_iteration() {
    let (verdict, summary) =
        Dialogue::reflector(&reflect_request(GOAL, "", &plan(), &check_failed(), CHANGED)).judgement();

    assert_eq!(verdict, "continue");
    insta::assert_snapshot!(summary, @r#"
    Renamed `parse` to `read`: 3 usages in src/a.rs and src/b.rs, but now `cargo test` fails (exit code 101):
        test src/a.rs - read (line 3) ... FAILED
        error[E0425]: cannot find function `parse`
        --> src/a.rs:5:9
    "#);
}

#[test]
fn after_a_third_failed_check_the_changes_are_undone_or_the_goal_fails() {
    let iteration =
        |number: u32| json!({"iteration": number, "plan": "p", "reflection": "r", "verdict": "continue"});
    let iterations = format!(
        "<ITERATIONS>\n{}\n{}\n</ITERATIONS>\n",
        iteration(1),
        iteration(2)
    );
    let request = reflect_request(GOAL, &iterations, &plan(), &check_failed(), CHANGED);
    let (verdict, summary) = Dialogue::reflector(&request).judgement();

    // The check failed, but the next iteration restores the files first.
    assert_eq!(verdict, "continue");
    assert!(
        summary.starts_with(
            "Given up, so the next iteration undoes the changes. Reason: Renamed `parse` to `read`, changing src/a.rs and \
             src/b.rs, but now `cargo test` fails (exit code 101):"
        ),
        "{summary}"
    );

    let kept = format!("{GOAL} and keep the changes even if the tests fail");
    let request = reflect_request(&kept, &iterations, &plan(), &check_failed(), CHANGED);
    let (verdict, summary) = Dialogue::reflector(&request).judgement();
    assert_eq!(verdict, "failed");
    assert!(
        summary.starts_with("Renamed `parse` to `read`, changing src/a.rs and src/b.rs, but now"),
        "{summary}"
    );
}

/// The reflection on an iteration that restores the files.
fn undo_reflection(result: Value, changed: &[&str]) -> (String, String) {
    let parameters = json!({"operation": "undo"});
    let calls = json!([{"tool": "file_operations", "parameters": parameters}]);
    let plan = json!({
        "summary": "Undo the changes: Renamed it, but now `cargo test` fails.",
        "subtasks": [{"id": "undo", "title": "t", "calls": calls}]
    });
    let observations = [ran("undo", &[("file_operations", parameters, result)])];
    Dialogue::reflector(&reflect_request(GOAL, "", &plan, &observations, changed)).judgement()
}

#[test]
fn paor_2_an_undone_change_has_failed_and_the_summary_says_why() {
    let (verdict, summary) = undo_reflection(
        success(json!({"restored": ["src/a.rs", "src/b.rs"], "not_restored": []})),
        &[],
    );

    assert_eq!(verdict, "failed");
    insta::assert_snapshot!(summary, @r#"
    Renamed it, but now `cargo test` fails.
    These files were restored: src/a.rs and src/b.rs. To keep such changes, end the goal with: and keep the changes even if the checks fail.
    "#);
}

#[test]
fn a_file_that_only_a_check_created_is_not_undone() {
    let broken = exited(101, "", "error[E0425]: cannot find value `x`\n");
    let observations = [checked("baseline", broken), skipped("edit-1", "baseline")];
    let request = reflect_request(GOAL, "", &plan(), &observations, &["Cargo.lock"]);
    assert_eq!(Dialogue::reflector(&request).judgement().0, "failed");

    let made = json!({"restored": ["src/a.rs"], "not_restored": [{"path": "Cargo.lock", "reason": "it changed while a command ran"}]});
    let (_, summary) = undo_reflection(success(made), &["Cargo.lock"]);
    assert!(
        summary.contains(
            "restored: src/a.rs. Files that commands created or changed are left unchanged: Cargo.lock."
        ),
        "{summary}"
    );
}

#[test]
fn a_test_run_without_any_tests_is_reported() {
    let observations = [
        edited(),
        checked("check", exited(0, "test result: ok. 0 passed; 0 failed\n", "")),
        found("verify", "verify", "Confirmed: no usage of `parse` is left."),
    ];
    let (_, summary) =
        Dialogue::reflector(&reflect_request(GOAL, "", &plan(), &observations, CHANGED)).judgement();

    assert!(
        summary.contains("and `cargo test` (which ran no test). No usage"),
        "{summary}"
    );
}

#[test]
fn files_that_could_not_be_restored_are_named() {
    let left = json!({
        "success": false, "error": "`src/b.rs` is left as it is",
        "output": {"restored": ["src/a.rs"], "not_restored": [{"path": "src/b.rs", "reason": "it has changed since the run changed it"}]}
    });
    let (verdict, summary) = undo_reflection(left, &["src/b.rs"]);

    assert_eq!(verdict, "failed");
    insta::assert_snapshot!(summary, @r#"
    Renamed it, but now `cargo test` fails.
    Some files could not be restored:
    - src/b.rs: it has changed since the run changed it
    "#);
}

#[test]
fn an_undo_is_tried_once() {
    let iterations = "<ITERATIONS>\n{\"iteration\":1,\"plan\":\"p\",\"reflection\":\"Given up, so the next iteration undoes the changes. Reason: why\",\"verdict\":\"continue\"}\n</ITERATIONS>\n";
    let plan = json!({"summary": "Not possible: the plan was not accepted: no such tool", "subtasks": []});
    let request = reflect_request(GOAL, iterations, &plan, &[], CHANGED);

    assert_eq!(
        Dialogue::reflector(&request).judgement(),
        (
            "failed".to_owned(),
            "The plan was not accepted: no such tool\nThese files are still changed: src/a.rs and src/b.rs."
                .to_owned()
        )
    );
}

#[test]
fn a_goal_whose_claim_is_false_is_never_achieved() {
    let leftover = "Not confirmed: `parse` is still used 1 time:\n- src/c.rs:3: parse();";
    let observations = [
        edited(),
        checked("check", tests_pass()),
        found("verify", "verify", leftover),
    ];
    let request = reflect_request(GOAL, "", &plan(), &observations, CHANGED);
    assert_eq!(Dialogue::reflector(&request).judgement().0, "continue");

    let unverified = [edited(), checked("check", tests_pass())];
    let request = reflect_request(GOAL, "", &plan(), &unverified, CHANGED);
    let (verdict, summary) = Dialogue::reflector(&request).judgement();
    assert_eq!(verdict, "continue");
    assert!(
        summary.ends_with("The result was not verified: the verification did not run"),
        "{summary}"
    );
}

fn no_work(summary: &str, more: &str) -> Value {
    let plan = json!({"summary": summary, "subtasks": []});
    Dialogue::reflector(&reflect_request(GOAL, more, &plan, &[], &[])).reflection()
}

#[test]
fn an_empty_plans_reason_becomes_the_verdict_of_the_reflection() {
    assert_eq!(
        no_work(
            "Nothing to do: there is no usage of `parse`, and `read` is used 2 times in a.rs.",
            ""
        ),
        json!({
            "verdict": "achieved",
            "summary": "Nothing to do: there is no usage of `parse`, and `read` is used 2 times in a.rs."
        })
    );
    assert_eq!(
        no_work("Not possible: there is no function or other symbol `parse`.", ""),
        json!({"verdict": "failed", "summary": "There is no function or other symbol `parse`."})
    );
}

#[test]
fn paor_9_a_name_in_use_becomes_a_question_with_choices() {
    assert_eq!(
        no_work("For the user to decide: `read` is in use already, at b.rs:9.", ""),
        json!({
            "verdict": "ask_user",
            "summary": "`read` is in use already, at b.rs:9.",
            "question": "`read` is in use already, at b.rs:9. Use another name (which one?), rename anyway, or stop?",
            "choices": ["use another name", "rename anyway", "stop"],
        })
    );
    let answers = "<ANSWERS>\n{\"question\":\"q\",\"answer\":\"use another name\"}\n</ANSWERS>\n";
    assert_eq!(
        no_work("For the user to decide: the new name of `parse`.", answers),
        json!({
            "verdict": "ask_user",
            "summary": "The new name of `parse`.",
            "question": "Only you can decide the new name of `parse`. What should it be?",
        })
    );
}

#[test]
fn paor_8_guidance_that_came_too_late_for_a_plan_leads_to_another_plan() {
    let guidance = "<GUIDANCE>\n1. only in src\n</GUIDANCE>\n";
    let observations = [
        edited(),
        checked("check", tests_pass()),
        found("verify", "verify", "Confirmed: it is so."),
    ];

    let late =
        Dialogue::reflector(&reflect_request(GOAL, guidance, &plan(), &observations, CHANGED)).judgement();
    assert_eq!(late.0, "continue");
    assert!(
        late.1.starts_with(
            "Guidance 1 came after this plan was made, so another plan follows. So far: Renamed"
        ),
        "{}",
        late.1
    );

    let mut answered = plan();
    answered["answers_guidance"] = json!([1]);
    let request = reflect_request(
        GOAL,
        guidance,
        &answered,
        &observations,
        &["src/a.rs", "tests/b.rs"],
    );
    let (verdict, summary) = Dialogue::reflector(&request).judgement();
    assert_eq!(verdict, "achieved");
    assert!(
        summary.contains(
            "Already changed before your guidance arrived, although outside its scope: tests/b.rs."
        ),
        "{summary}"
    );
}

#[test]
fn a_refused_reflection_ends_the_run_as_failed() {
    let mut reflector = Dialogue::reflector(&reflect_request(GOAL, "", &plan(), &[], &[]));
    reflector.gets_message("`summary` is missing");
    assert_eq!(
        reflector.judgement(),
        (
            "failed".to_owned(),
            "The judgement was not accepted: `summary` is missing".to_owned()
        )
    );
}

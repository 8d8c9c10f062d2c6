//! What a user reads of a run: concise and verbose (PAOR-10, PAOR-11), at its end and on the way (PAOR-3).

use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork, CallSummary};
use dirigent_core::budget::{BudgetExceeded, BudgetKind};
use dirigent_core::price::Cost;
use dirigent_core::run::{ChangedFile, Detail, FileChangeKind, Run, RunInput};
use dirigent_core::time::Millis;
use dirigent_core::tool::{FileVersion, StateChange, ToolOutcome, ToolResult};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::driver::{acting, agent_ended, ended, give, planned, reflected, reflecting};
use crate::fixture::{effect, ended_with, spec};

fn edited(path: &str) -> StateChange {
    StateChange::FileEdited {
        after: None,
        before: None,
        path: path.to_owned(),
        diff: Some(format!("--- {path}\n+++ {path}\n@@ -1 +1 @@\n-a\n+b\n")),
    }
}

fn exited(command: &str, code: i32) -> StateChange {
    StateChange::ProcessExited {
        command: command.to_owned(),
        code: Some(code),
    }
}

fn rename() -> Value {
    let change = json!({"tool": "change", "parameters": {"path": "src/main.rs"}});
    let look = json!({"tool": "look", "parameters": {"path": "src"}});
    json!({"summary": "Rename, then test.", "subtasks": [
        {"id": "lib", "title": "Rename in the library", "agent": "implement", "task": "t"},
        {"id": "main", "title": "Rename in the program", "calls": [change]},
        {"id": "test", "title": "Run the tests", "depends_on": ["lib", "main"], "calls": [look]}
    ]})
}

/// The library and the program are renamed; the tests are `run.4`.
fn renamed() -> Run {
    let (mut run, _) = acting(spec(), &rename());
    let mut report = ended_with(AgentAnswer::Text("Renamed `a` in src/lib.rs.".to_owned()));
    report.work.calls.push(CallSummary {
        effect: Some(effect("a2.2")),
        tool: "change".to_owned(),
        parameters: json!({"path": "src/lib.rs"}),
        success: true,
        duration: Millis(12),
        error: None,
        agent: None,
    });
    report.work.changes.push(edited("src/lib.rs"));
    give(&mut run, 1_000, agent_ended("run.2", report));
    let mut changed = ToolResult::success(json!("1 line")).with_changes(vec![edited("src/main.rs")]);
    changed.duration = Millis(8);
    give(&mut run, 2_000, ended("run.3", changed));
    run
}

fn achieved() -> Run {
    let mut run = renamed();
    let tested = ToolResult::success(json!("12 passed")).with_changes(vec![exited("cargo test", 0)]);
    give(&mut run, 63_500, ended("run.4", tested));
    give(
        &mut run,
        65_000,
        reflected(
            "run.5",
            "achieved",
            "Renamed `a` to `b` in two files; the tests pass.",
        ),
    );
    run
}

#[test]
fn paor_10_the_result_says_what_changed_and_how_it_was_confirmed() {
    assert_snapshot!(achieved().report().render(Detail::Concise));
}

#[test]
fn paor_11_the_verbose_result_has_every_step_and_observation() {
    assert_snapshot!(achieved().report().render(Detail::Verbose));
}

#[test]
fn paor_11_the_verbose_result_shows_failures_and_skipped_steps() {
    let (mut run, _) = acting(spec(), &rename());
    let broken = AgentReport {
        result: Err(AgentFailure::Panicked {
            message: "index out of bounds".to_owned(),
        }),
        work: AgentWork::default(),
        duration: Millis(5),
    };
    give(&mut run, 5, agent_ended("run.2", broken));
    let failure = ToolResult {
        outcome: ToolOutcome::Failure {
            code: String::new(),
            error: "exited with 1".to_owned(),
            output: json!("permission denied"),
        },
        ..ToolResult::success(Value::Null)
    };
    give(&mut run, 9, ended("run.3", failure));
    give(
        &mut run,
        10,
        reflected("run.4", "failed", "The workspace is read-only."),
    );
    assert_snapshot!(run.report().render(Detail::Verbose));
}

#[test]
fn paor_3_at_the_iteration_limit_the_report_says_what_is_done_what_is_left_and_how_to_go_on() {
    let mut spec = spec();
    spec.limits.max_iterations = 1;
    let (mut run, _) = acting(spec, &rename());
    give(
        &mut run,
        10,
        agent_ended(
            "run.2",
            ended_with(AgentAnswer::Text("Nothing to do.".to_owned())),
        ),
    );
    give(&mut run, 20, ended("run.3", ToolResult::failure("read-only")));
    give(
        &mut run,
        30,
        reflected("run.4", "continue", "The library is done, the program is not."),
    );
    assert_snapshot!(run.report().render(Detail::Concise));
}

#[test]
fn paor_9_a_run_that_waits_for_the_user_shows_its_question() {
    let mut run = reflecting(spec());
    give(&mut run, 10, reflected("run.3", "ask_user", "Two functions fit."));
    give(
        &mut run,
        20,
        RunInput::UserAbsent {
            effect: effect("run.4"),
        },
    );
    assert_snapshot!(run.report().render(Detail::Concise));
}

#[test]
fn paor_12_a_failure_in_a_later_iteration_says_why() {
    let mut run = reflecting(spec());
    give(
        &mut run,
        10,
        reflected("run.3", "continue", "Half of it is done."),
    );
    let unanswered = AgentReport {
        result: Err(AgentFailure::TurnLimit { max_turns: 10 }),
        work: AgentWork::default(),
        duration: Millis(1),
    };
    give(&mut run, 20, agent_ended("run.4", unanswered));
    assert_snapshot!(run.report().render(Detail::Concise));
}

#[test]
fn host_10_the_headline_says_what_it_cost_where_a_price_is_known() {
    let (mut run, _) = crate::driver::running(spec());
    let mut report = ended_with(AgentAnswer::Text("It is 42.".to_owned()));
    report.work.usage.cost = Cost(12_300_000);
    give(&mut run, 700, agent_ended("run.1", report));
    assert_eq!(
        run.report().render(Detail::Concise),
        "Goal achieved after 1 iteration, 700 ms: 1 model call, 0 tool calls, 15 tokens, $0.0123.\n\nIt is 42.\n"
    );
}

#[test]
fn host_6_a_run_whose_budget_is_used_up_says_of_what_and_how_to_go_on() {
    for (budget, stopped, more) in [
        (BudgetKind::Tokens, "90 of 100 tokens", "more tokens"),
        (
            BudgetKind::Cost,
            "less than $0.0001 of less than $0.0001",
            "more money",
        ),
        (
            BudgetKind::ModelCalls,
            "90 of 100 model calls",
            "more model calls",
        ),
    ] {
        let (mut run, _) = crate::driver::running(spec());
        let budget_exceeded = BudgetExceeded {
            budget,
            used: 90,
            needed: 20,
            limit: 100,
        };
        let refused = AgentReport {
            result: Err(AgentFailure::Budget { budget_exceeded }),
            work: AgentWork::default(),
            duration: Millis(1),
        };
        give(&mut run, 1, agent_ended("run.1", refused));
        let text = run.report().render(Detail::Concise);
        assert!(
            text.starts_with(&format!("Stopped at a limit (budget: {stopped} used) after")),
            "{text}"
        );
        assert!(
            text.ends_with(&format!(
                "To go on where it stopped, resume the run with {more} allowed.\n"
            )),
            "{text}"
        );
    }
}

#[test]
fn a_report_on_the_way_says_so() {
    assert_snapshot!(renamed().report().render(Detail::Concise));
}

#[test]
fn a_cancelled_run_says_how_to_go_on() {
    let mut run = renamed();
    give(&mut run, 3_000, RunInput::Cancelled);
    assert_snapshot!(run.report().render(Detail::Concise));
}

#[test]
fn paor_10_the_finished_calls_of_a_sequence_that_a_cancel_cut_short_are_told() {
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
    assert_eq!(
        run.diff(),
        "--- src/main.rs\n+++ src/main.rs\n@@ -1 +1 @@\n-a\n+b\n"
    );
}

#[test]
fn a_report_as_json_has_the_reason_beside_the_phase() {
    let report = serde_json::to_value(achieved().report()).unwrap();
    assert_eq!(
        [&report["phase"], &report["reason"], &report["iteration_count"]],
        [&json!("complete"), &json!("goal_achieved"), &json!(1)]
    );
}

#[test]
fn the_diff_has_every_change_in_order() {
    assert_eq!(
        achieved().diff(),
        "--- src/lib.rs\n+++ src/lib.rs\n@@ -1 +1 @@\n-a\n+b\n--- src/main.rs\n+++ src/main.rs\n@@ -1 +1 @@\n-a\n+b\n"
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
fn paor_10_of_several_changes_of_a_file_the_net_is_told() {
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

#[test]
fn paor_10_a_file_that_is_as_it_was_before_has_not_changed() {
    let version = |digest: &str| {
        Some(FileVersion {
            digest: digest.repeat(64),
            mode: 0o100_644,
        })
    };
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
        assert_eq!(run.diff(), "--- y a b\n");
    }
    let run = changed(vec![edit("x", "a", "b"), deleted, created("c")]);
    assert_eq!(run.report().changed.len(), 1);
    assert_eq!(run.diff(), "--- x a b\n--- x deleted\n--- x created\n");
}

#[test]
fn paor_10_only_what_succeeded_after_the_last_change_confirms() {
    let run = changed(vec![
        exited("cargo build", 0),
        edited("x"),
        exited("cargo fmt --check", 0),
        exited("cargo test", 1),
        exited("cargo test", 0),
        exited("cargo clippy", 0),
        exited("cargo clippy", 1),
        exited("cargo test", 0),
    ]);
    assert_eq!(run.report().confirmed_by, ["cargo fmt --check", "cargo test"]);
}

#[test]
fn rule_6_an_answered_question_needs_no_plan_in_its_report() {
    let (mut run, _) = crate::driver::running(spec());
    let report = ended_with(AgentAnswer::Text("It is 42.".to_owned()));
    give(&mut run, 700, agent_ended("run.1", report));
    assert_snapshot!(run.report().render(Detail::Verbose));
}

#[test]
fn paor_11_every_iteration_is_shown() {
    let mut run = reflecting(spec());
    give(
        &mut run,
        10,
        reflected("run.3", "continue", "Half of it is done."),
    );
    give(
        &mut run,
        20,
        planned("run.4", &json!({"summary": "The other half.", "subtasks": []})),
    );
    give(&mut run, 30, reflected("run.5", "achieved", "All of it is done."));
    assert_snapshot!(run.report().render(Detail::Verbose));
}

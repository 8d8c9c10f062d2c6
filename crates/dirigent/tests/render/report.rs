//! Reports: concise and verbose (PAOR-10, PAOR-11), at the end of a run and before it (PAOR-3).

use dirigent::render::{self, Detail};
use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork};
use dirigent_core::approval::Approval;
use dirigent_core::budget::{BudgetExceeded, BudgetKind};
use dirigent_core::end_reason::EndReason;
use dirigent_core::message::ToolCall;
use dirigent_core::price::Cost;
use dirigent_core::run::RunInput;
use dirigent_core::run::WaitingCall;
use dirigent_core::time::Millis;
use dirigent_core::tool::{ToolOutcome, ToolResult};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::driver::{acting, agent_ended, ended, give, planned, reflected, reflecting};
use crate::fixture::{at, effect, ended_with, spec};
use crate::renamed::{achieved, rename, renamed};

#[test]
fn paor_10_the_result_says_what_changed_and_how_it_was_confirmed() {
    assert_snapshot!(render::report(&achieved().report(), Detail::Concise));
}

#[test]
fn paor_11_the_verbose_result_has_every_step_and_observation() {
    assert_snapshot!(render::report(&achieved().report(), Detail::Verbose));
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
        guidance: None,
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
    assert_snapshot!(render::report(&run.report(), Detail::Verbose));
}

#[test]
fn approve_2_the_result_says_which_calls_the_user_rejected_or_replaced() {
    let mut report = achieved().report();
    report.rejected = vec!["change, for P: not that file".to_owned()];
    report.guided = vec!["look, for Q: Look in src.".to_owned()];
    let text = render::report(&report, Detail::Concise);
    assert!(
        text.ends_with(
            "\n\nRejected by you:\n  change, for P: not that file\n\nReplaced by your guidance:\n  look, for Q: Look in src.\n"
        ),
        "{text}"
    );
}

#[test]
fn paor_3_the_report_at_the_iteration_limit_lists_done_and_remaining_work() {
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
    assert_snapshot!(render::report(&run.report(), Detail::Concise));
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
            guided: false,
        },
    );
    assert_snapshot!(render::report(&run.report(), Detail::Concise));
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
        guidance: None,
    };
    give(&mut run, 20, agent_ended("run.4", unanswered));
    assert_snapshot!(render::report(&run.report(), Detail::Concise));
}

#[test]
fn host_10_the_headline_contains_the_cost_if_a_price_is_known() {
    let (mut run, _) = crate::driver::running(spec());
    let mut report = ended_with(AgentAnswer::Text("It is 42.".to_owned()));
    report.work.usage.cost = Cost(12_300_000);
    give(&mut run, 700, agent_ended("run.1", report));
    assert_eq!(
        render::report(&run.report(), Detail::Concise),
        "Goal achieved after 1 iteration, 700 ms: 1 model call, 0 tool calls, 15 tokens, $0.0123.\n\nIt is 42.\n"
    );
}

#[test]
fn host_6_a_run_with_an_exhausted_budget_names_it_and_says_how_to_continue() {
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
            guidance: None,
        };
        give(&mut run, 1, agent_ended("run.1", refused));
        let text = render::report(&run.report(), Detail::Concise);
        assert!(
            text.starts_with(&format!("Stopped at a limit (budget: {stopped} used) after")),
            "{text}"
        );
        assert!(
            text.ends_with(&format!("To continue, resume the run with {more} allowed.\n")),
            "{text}"
        );
    }
}

#[test]
fn a_report_of_an_unfinished_run_says_that_it_is_unfinished() {
    assert_snapshot!(render::report(&renamed().report(), Detail::Concise));
}

#[test]
fn a_cancelled_run_shows_how_to_continue() {
    let mut run = renamed();
    give(&mut run, 3_000, RunInput::Cancelled);
    assert_snapshot!(render::report(&run.report(), Detail::Concise));
}

#[test]
fn lead_3_the_report_of_an_answered_question_has_no_plan() {
    let (mut run, _) = crate::driver::running(spec());
    let report = ended_with(AgentAnswer::Text("It is 42.".to_owned()));
    give(&mut run, 700, agent_ended("run.1", report));
    assert_snapshot!(render::report(&run.report(), Detail::Verbose));
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
    assert_snapshot!(render::report(&run.report(), Detail::Verbose));
}

#[test]
fn paor_9_a_report_lists_calls_that_wait_for_approval_and_the_blocked_work() {
    let call = ToolCall {
        id: String::new(),
        tool: "change".to_owned(),
        parameters: json!({"path": "x"}),
        terminate: false,
    };
    let waiting = |effect: &str, agent: Option<&str>, subtask: &str, dependents| WaitingCall {
        approval: Arc::new(Approval::new(
            effect.parse().unwrap(),
            agent.map(str::to_owned),
            &call,
            &spec().workspace,
            spec().limits.approval_timeout,
            at(0),
        )),
        subtask: Some(subtask.into()),
        dependents,
        suggestions: Vec::new(),
    };
    let mut report = renamed().report();
    report.end = Some(EndReason::UserRequired);
    report.waiting = vec![
        waiting("run.2", None, "main", 1),
        waiting("a2.2", Some("implement"), "lib", 0),
    ];
    report.changed = Vec::new();
    assert_snapshot!(render::report(&report, Detail::Concise), @r#"
    Waiting for you after 1 iteration, 2.0 s: 2 model calls, 1 tool call, 30 tokens.

    Waiting for your approval:
      run.2  change {"path":"x"}
        blocks sub-task `main`, 1 sub-task that depends on it
      a2.2  change {"path":"x"}
        blocks agent `implement`, sub-task `lib`

    Remaining:
      Run the tests (not finished)

    To continue, decide about the calls that are waiting for your approval, then resume the run.
    "#);
}

//! Approvals in a fork: decisions for the original run do not count.

use dirigent_core::agent::AgentInput;
use dirigent_core::approval::ApprovalAnswer;
use dirigent_core::run::RunInput;
use dirigent_core::tool::ToolResult;
use serde_json::json;

use super::of_agents::{not_taken, results, waiting};
use super::{asking, decided, edit, run_decided, run_waiting, tell};
use crate::driver::{acting, ended, give, refused};
use crate::fixture::{at, effect, tool_ended};

fn forked() -> RunInput {
    RunInput::Resumed {
        last_seen: at(20),
        forked: true,
        limits: None,
        interrupted: Default::default(),
    }
}

fn agent_forked() -> AgentInput {
    AgentInput::Resumed {
        last_seen: at(20),
        forked: true,
    }
}

#[test]
fn approve_3_a_decision_about_a_call_of_a_plan_does_not_count_in_a_fork() {
    let mut run = run_waiting();
    let for_the_other = run_decided(&run, ApprovalAnswer::Approve);
    assert_eq!(
        give(&mut run, 100_000, forked()),
        [
            r#"ask to approve run.2 change {"path":"x"}"#,
            "start run.3+1 a2 implement",
            "timer Approval(2) 161000",
            "timer Deadline 600980"
        ]
    );
    assert_eq!(
        refused(&mut run, 100_010, for_the_other),
        "the call `run.2` has changed since it was shown; review it and decide again"
    );
    let for_this = run_decided(&run, ApprovalAnswer::Approve);
    assert_eq!(
        give(&mut run, 100_020, for_this)[0],
        r#"run run.2 for p: change {"path":"x"}"#
    );
}

#[test]
fn approve_3_an_approved_call_of_a_plan_needs_approval_again_in_a_fork() {
    let mut run = run_waiting();
    let edited = run_decided(&run, edit(json!({"path": "z"})));
    give(&mut run, 10, edited.clone());
    let mut later = run.clone();
    assert_eq!(
        give(&mut run, 20, forked()),
        [
            r#"ask to approve run.2+1 change {"path":"z"}"#,
            "start run.3+1 a2 implement",
            "timer Approval(2) 61020",
            "timer Deadline 501000"
        ]
    );
    refused(&mut run, 30, edited);
    refused(&mut run, 30, ended("run.2", ToolResult::success(json!("done"))));
    let approve = run_decided(&run, ApprovalAnswer::Approve);
    assert_eq!(
        give(&mut run, 40, approve)[0],
        r#"run run.2+1 for p: change {"path":"z"}"#
    );
    // a call that had started may have taken effect
    give(
        &mut later,
        15,
        RunInput::ToolStarted {
            effect: effect("run.2"),
        },
    );
    assert_eq!(
        give(&mut later, 20, forked()),
        [
            "start run.3+1 a2 implement",
            "timer Deadline 501000",
            "Acting -> Observing (1)"
        ]
    );
}

#[test]
fn approve_3_a_call_that_needed_no_approval_continues_in_a_fork() {
    let mut spec = asking();
    spec.limits.timeout = None;
    let look = json!({"tool": "look", "parameters": {"path": "x"}});
    let (mut run, _) = acting(
        spec,
        &json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "calls": [look]}]}),
    );
    assert_eq!(
        give(&mut run, 20, forked()),
        [r#"run run.2+1 for p: look {"path":"x"}"#, "timer Call(2) 901000"]
    );
}

#[test]
fn approve_3_a_fork_ignores_an_earlier_decision_and_restarts_the_approval_time() {
    let mut agent = waiting();
    let for_the_other = decided(&agent, ApprovalAnswer::Approve);
    assert_eq!(
        tell(&mut agent, 100_010, agent_forked()),
        [
            r#"ask to approve a7.2 change {"path":"x"}"#,
            "approval until 161010"
        ]
    );
    assert_eq!(
        not_taken(&mut agent, 100_020, for_the_other),
        "the call `a7.2` has changed since it was shown; review it and decide again"
    );
    let for_this = decided(&agent, ApprovalAnswer::Approve);
    assert_eq!(
        tell(&mut agent, 150_010, for_this),
        [
            "settled a7.2",
            "deadline 451000",
            r#"run a7.2 p: change {"path":"x"}"#
        ]
    );
}

#[test]
fn approve_3_an_edited_call_needs_approval_again_in_a_fork() {
    let mut agent = waiting();
    let edited = decided(&agent, edit(json!({"path": "z"})));
    tell(&mut agent, 15, edited);
    assert_eq!(
        tell(&mut agent, 20, agent_forked()),
        [
            r#"ask to approve a7.2+1 change {"path":"z"}"#,
            "approval until 61020"
        ]
    );
    let approve = decided(&agent, ApprovalAnswer::Approve);
    tell(&mut agent, 30, approve);
    tell(
        &mut agent,
        40,
        tool_ended("a7.2+1", ToolResult::success(json!("done"))),
    );
    assert_eq!(
        results(&agent)[0]["edited"],
        r#"the user changed the parameters to {"path":"z"}"#
    );
}

#[test]
fn approve_3_a_decision_for_the_source_run_is_invalid_in_a_fork_at_the_same_time() {
    let mut agent = waiting();
    let for_the_other = decided(&agent, ApprovalAnswer::Approve);
    tell(&mut agent, 10, agent_forked());
    assert!(not_taken(&mut agent, 10, for_the_other).contains("has changed since it was shown"));
}

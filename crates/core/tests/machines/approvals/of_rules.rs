//! Calls that the user allows while a run is under way (APPROVE-1).

use dirigent_core::agent::AgentInput;
use dirigent_core::approval::ApprovalAnswer;
use dirigent_core::brief::AgentRole;
use dirigent_core::call::SUBMIT_PLAN;
use dirigent_core::mode::Mode;
use dirigent_core::policy::Ruling;
use dirigent_core::run::RunInput;
use dirigent_core::tool::ToolResult;
use dirigent_core::user_request::UserRequestKind;
use serde_json::json;

use super::of_agents::{not_taken, waiting};
use super::{asking, decided, implementer, rule, run_decided, run_waiting, tell};
use crate::driver::{acting, answered, ended, give, refused};
use crate::fixture::{call, effect, native, replied, says_call, started, tool_ended};

fn of_agent(number: u32, calls: &str) -> AgentInput {
    AgentInput::CallsAllowed {
        number,
        calls: calls.parse().unwrap(),
    }
}

fn of_run(calls: &str) -> RunInput {
    RunInput::CallsAllowed {
        calls: calls.parse().unwrap(),
    }
}

#[test]
fn approve_1_a_call_that_waits_runs_once_a_rule_allows_it_and_later_ones_do_not_wait() {
    let mut agent = waiting();
    let decision = decided(&agent, ApprovalAnswer::Approve);
    assert_eq!(
        tell(&mut agent, 20, of_agent(1, "change(path: y)")),
        [r#"ask to approve a7.2 change {"path":"x"}"#],
        "asked again, so that the run learns that it still waits"
    );
    assert_eq!(
        tell(&mut agent, 30, of_agent(2, "change(path: x)")),
        [
            "settled a7.2",
            "deadline 301020",
            r#"run a7.2 p: change {"path":"x"}"#
        ]
    );
    assert_eq!(
        not_taken(&mut agent, 40, decision),
        "call `a7.2` is not waiting for approval: it was already decided, has ended, or needed none"
    );
    tell(
        &mut agent,
        50,
        tool_ended("a7.2", ToolResult::success(json!("done"))),
    );
    tell(
        &mut agent,
        60,
        tool_ended("a7.3", ToolResult::success(json!("seen"))),
    );
    let again = native(vec![call("r", "change", json!({"path": "y"}))]);
    assert_eq!(
        tell(&mut agent, 70, replied("a7.4", again)),
        [r#"run a7.5 r: change {"path":"y"}"#]
    );
}

#[test]
fn approve_1_an_agent_takes_each_rule_once_and_in_order() {
    let mut agent = waiting();
    let early = not_taken(&mut agent, 20, of_agent(2, "look"));
    assert!(early.contains("a rule that allows calls"), "{early}");
    tell(&mut agent, 20, of_agent(1, "look"));
    not_taken(&mut agent, 30, of_agent(1, "look"));
}

#[test]
fn approve_1_an_allow_rule_never_overrides_an_equally_precise_ask_or_deny_rule() {
    let mut spec = asking();
    spec.setup.policy.rules = vec![
        rule(Ruling::Deny, "look(path: x)"),
        rule(Ruling::Ask, "change(path: x)"),
    ];
    let mut agent = implementer(spec);
    tell(&mut agent, 10, of_agent(1, "look"));
    tell(&mut agent, 20, of_agent(2, "change(path: *)"));
    let reply = native(vec![
        call("p", "look", json!({"path": "x"})),
        call("q", "change", json!({"path": "x"})),
    ]);
    assert_eq!(
        tell(&mut agent, 30, replied("a7.1", reply)),
        [
            "approval until 61030",
            r#"ask to approve a7.2 change {"path":"x"}"#
        ]
    );
}

#[test]
fn lead_2_a_rule_never_approves_a_plan() {
    let mut spec = asking();
    spec.mode = Mode::Plan;
    let mut lead = started(spec, AgentRole::Lead);
    let plan = json!({"summary": "Change.", "subtasks": [{"id": "p", "title": "P", "agent": "implement", "task": "t"}]});
    tell(
        &mut lead,
        10,
        replied("a7.1", says_call(SUBMIT_PLAN, plan, false)),
    );
    assert!(lead.approval().is_some());
    tell(&mut lead, 20, of_agent(1, "*"));
    tell(&mut lead, 30, of_agent(2, SUBMIT_PLAN));
    assert!(lead.approval().is_some());
}

#[test]
fn approve_1_a_rule_reaches_the_calls_and_agents_of_a_run_and_those_that_start_later() {
    let mut run = run_waiting();
    let decision = run_decided(&run, ApprovalAnswer::Approve);
    assert_eq!(give(&mut run, 10, of_run("look")), ["allow a2 1. look"]);
    assert_eq!(
        give(&mut run, 20, of_run("change(path: x)")),
        [
            "allow a2 2. change(path: x)",
            r#"run run.2 for p: change {"path":"x"}"#,
            "timer Call(2) 901020"
        ]
    );
    refused(&mut run, 30, decision);
    assert!(give(&mut run, 30, of_run("look")).is_empty(), "known already");
    give(&mut run, 40, ended("run.2", ToolResult::success(json!("done"))));
    let later = give(&mut run, 50, ended("run.4", ToolResult::success(json!("seen"))));
    assert_eq!(
        later[1..],
        [
            "start run.5 a3 explore",
            "allow a3 1. look",
            "allow a3 2. change(path: x)"
        ]
    );
}

#[test]
fn approve_1_a_resumed_run_tells_its_agents_the_rules_again_in_case_the_killed_process_did_not() {
    let mut run = run_waiting();
    give(&mut run, 10, answered("run.3", "Found."));
    let (mut other, _) = acting(asking(), &super::sequences());
    give(&mut other, 10, of_run("look"));
    let resumed = give(&mut other, 20, crate::fixture::resumed());
    let start = resumed
        .iter()
        .position(|line| line == "start run.3+1 a2 implement");
    assert_eq!(resumed[start.unwrap() + 1], "allow a2 1. look", "{resumed:?}");
}

#[test]
fn paor_9_a_run_ignores_a_request_for_approval_that_an_agent_sent_before_it_knew_a_new_rule() {
    let waits = |allowed| RunInput::CallAwaitsUser {
        effect: effect("a2.2"),
        guidance: None,
        request: UserRequestKind::Decision,
        allowed,
    };
    let mut run = run_waiting();
    give(&mut run, 10, waits(0));
    assert!(run.awaited_call().is_some());
    give(&mut run, 20, of_run("change(path: x)"));
    give(&mut run, 30, ended("run.2", ToolResult::failure("no such file")));
    assert_eq!(run.awaited_call(), None);
    refused(&mut run, 40, waits(0));
    assert_eq!(give(&mut run, 50, waits(1)), ["await user a2.2"]);
}

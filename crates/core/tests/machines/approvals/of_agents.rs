//! Approvals in an agent's loop.

use dirigent_core::agent::{Agent, AgentInput, AgentTimer};
use dirigent_core::approval::{Approval, ApprovalAnswer, Digest};
use dirigent_core::brief::AgentRole;
use dirigent_core::machine::Machine;
use dirigent_core::message::Message;
use dirigent_core::policy::Ruling;
use dirigent_core::tool::ToolResult;
use serde_json::{Value, json};

use super::{asking, decided, decision, edit, expiry, guide, implementer, reject, rule, tell};
use crate::fixture::{at, call, effect, native, replied, result_parts, says_call, spec, started, tool_ended};

pub(crate) fn not_taken(agent: &mut Agent, after: u64, input: AgentInput) -> String {
    let before = agent.clone();
    let refusal = agent.handle(at(after), input).unwrap_err();
    assert_eq!(*agent, before);
    refusal.to_string()
}

/// An agent whose change of x has been waiting since 10; a look at y follows.
pub(super) fn waiting() -> Agent {
    let mut agent = implementer(asking());
    let reply = native(vec![
        call("p", "change", json!({"path": "x"})),
        call("q", "look", json!({"path": "y"})),
    ]);
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", reply)),
        [
            "approval until 61010",
            r#"ask to approve a7.2 change {"path":"x"}"#
        ]
    );
    agent
}

pub(super) fn results(agent: &Agent) -> Vec<Value> {
    let messages = agent.conversation().iter();
    messages
        .filter_map(|message| match message {
            Message::Tool { .. } => Some(result_parts(message)),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect()
}

#[test]
fn approve_1_nothing_runs_until_a_person_has_approved_it() {
    let mut agent = waiting();
    assert_eq!(
        not_taken(
            &mut agent,
            20,
            tool_ended("a7.2", ToolResult::success(json!("done")))
        ),
        "effect a7.2 is not in progress: it has ended or never started"
    );
    let approve = decided(&agent, ApprovalAnswer::Approve);
    assert_eq!(
        tell(&mut agent, 30, approve.clone()),
        [
            "settled a7.2",
            "deadline 301020",
            r#"run a7.2 p: change {"path":"x"}"#
        ]
    );
    assert_eq!(
        not_taken(&mut agent, 40, approve),
        "call `a7.2` is not waiting for approval: it was already decided, has ended, or needed none"
    );
    assert_eq!(
        tell(
            &mut agent,
            50,
            tool_ended("a7.2", ToolResult::success(json!("done")))
        ),
        [r#"run a7.3 q: look {"path":"y"}"#]
    );
}

#[test]
fn approve_1_the_policy_applies_to_every_agent_and_names_its_rule() {
    let mut spec = spec();
    spec.setup.policy.rules = vec![
        rule(Ruling::Deny, "look(path: /etc/*)"),
        rule(Ruling::Ask, "look(path: src/*)"),
    ];
    let mut agent = started(spec, AgentRole::Lead);
    let reply = native(vec![
        call("p", "look", json!({"path": "/etc/shadow"})),
        call("q", "look", json!({"path": "src/a.rs"})),
    ]);
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", reply)),
        [
            "approval until 86401010",
            r#"ask to approve a7.2 look {"path":"src/a.rs"}"#
        ]
    );
    assert_eq!(
        results(&agent),
        [
            json!({"success": false, "code": "denied_by_rule", "error": "this run's rules deny `look` with path `/etc/*`"})
        ]
    );
}

#[test]
fn approve_1_a_plan_is_submitted_without_asking() {
    let mut spec = spec();
    spec.setup.policy.rules = vec![rule(Ruling::Ask, "*")];
    let mut agent = started(spec, AgentRole::Lead);
    let reply = says_call(
        "submit_plan",
        json!({"summary": "Nothing.", "subtasks": []}),
        false,
    );
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", reply)),
        ["finish with plan Nothing."]
    );
}

#[test]
fn approve_2_edited_parameters_run_and_the_model_is_told() {
    let mut agent = waiting();
    let wrong = decided(&agent, edit(json!({"file": "z"})));
    assert!(not_taken(&mut agent, 20, wrong).starts_with("the edited parameters are invalid: "));
    let right = decided(&agent, edit(json!({"path": "z"})));
    assert_eq!(
        tell(&mut agent, 30, right)[2..],
        [r#"run a7.2 p: change {"path":"z"}"#.to_owned()]
    );
    tell(
        &mut agent,
        40,
        tool_ended("a7.2", ToolResult::success(json!("done"))),
    );
    assert_eq!(
        results(&agent),
        [
            json!({"success": true, "output": "done", "edited": r#"the user changed the parameters to {"path":"z"}"#})
        ]
    );
    assert_eq!(agent.work().calls[0].parameters, json!({"path": "z"}));
}

#[test]
fn approve_2_edited_parameters_that_the_policy_denies_leave_the_call_pending() {
    let mut spec = asking();
    spec.setup.policy.rules = vec![rule(Ruling::Deny, "change(path: .git/*)")];
    let mut agent = implementer(spec);
    tell(
        &mut agent,
        10,
        replied("a7.1", says_call("change", json!({"path": "x"}), false)),
    );
    let denied = decided(&agent, edit(json!({"path": ".git/config"})));
    assert_eq!(
        not_taken(&mut agent, 20, denied),
        "this run's rules deny `change` with path `.git/*`"
    );
    assert!(agent.approval().is_some());
}

#[test]
fn approve_2_a_rejection_ends_the_loop_and_no_later_call_runs() {
    let mut agent = waiting();
    let rejected = decided(&agent, reject());
    assert_eq!(
        tell(&mut agent, 20, rejected),
        [
            "settled a7.2",
            "deadline 301010",
            "finish, as the user rejected a call of `change`: not that file"
        ]
    );
}

#[test]
fn approve_2_guidance_goes_to_the_model_and_no_later_call_of_the_reply_runs() {
    let mut agent = waiting();
    let guided = decided(&agent, guide());
    assert_eq!(
        tell(&mut agent, 20, guided),
        ["settled a7.2", "deadline 301010", "ask a7.3"]
    );
    let results: Vec<Value> = results(&agent)
        .iter()
        .map(|result| result["error"].clone())
        .collect();
    assert_eq!(
        results,
        [
            "the user did not approve this call and says: Change z instead.\nThe call did not run. Go another way by these words, or finish and say what is left.",
            "the call did not run, because the user did not approve an earlier call of the reply"
        ]
    );
    assert_eq!(agent.work().usage.tool_calls, 0);
}

#[test]
fn approve_3_altered_foreign_and_late_decisions_are_refused() {
    let mut agent = waiting();
    let mut altered = decided(&agent, ApprovalAnswer::Approve);
    if let AgentInput::Decided { decision, .. } = &mut altered {
        decision.digest = Digest("0".repeat(64));
    }
    assert_eq!(
        not_taken(&mut agent, 20, altered),
        "the call `a7.2` has changed since it was shown; review it and decide again"
    );
    let foreign = AgentInput::Decided {
        effect: effect("a8.2"),
        decision: decision(agent.approval().unwrap(), ApprovalAnswer::Approve),
    };
    assert!(not_taken(&mut agent, 20, foreign).starts_with("call `a8.2` is not waiting for approval"));
    let late = decided(&agent, ApprovalAnswer::Approve);
    assert_eq!(
        not_taken(&mut agent, 60_010, late),
        "the approval of `a7.2` has expired"
    );
}

#[test]
fn approve_3_a_digest_covers_everything_that_is_shown() {
    let shown = |of: &str, tool: &str, parameters: Value, after: u64| {
        Approval::new(
            effect(of),
            None,
            &call("", tool, parameters),
            &asking().workspace,
            asking().limits.approval_timeout,
            at(after),
        )
    };
    let approval = shown("a7.2", "change", json!({"a": 1, "b": {"c": 2, "d": 3}}), 0);
    assert_eq!(
        approval.digest.0,
        "f7b2e5832202e5c564aec9b47af0f5d3747758ecf15656294c85869b3d98529e"
    );
    let others = [
        shown("a7.3", "change", json!({"a": 1, "b": {"c": 2, "d": 3}}), 0),
        shown("a8.2", "change", json!({"a": 1, "b": {"c": 2, "d": 3}}), 0),
        shown("a7.2", "look", json!({"a": 1, "b": {"c": 2, "d": 3}}), 0),
        shown("a7.2", "change", json!({"a": 1, "b": {"c": 2, "d": 4}}), 0),
        shown("a7.2", "change", json!({"a": 1, "b": {"c": 2, "d": 3}}), 1),
    ];
    for other in others {
        assert_ne!(other.digest, approval.digest);
    }
    let same = shown("a7.2+1", "change", json!({"b": {"d": 3, "c": 2}, "a": 1}), 0);
    assert_eq!(same.digest, approval.digest);
    let altered = Approval {
        parameters: json!({"a": 2}),
        ..approval.clone()
    };
    assert!(approval.is_intact() && !altered.is_intact());
}

#[test]
fn approve_3_a_call_that_is_not_approved_in_time_does_not_run() {
    let mut agent = waiting();
    assert_eq!(
        not_taken(&mut agent, 60_009, expiry()),
        "the expiry of a timer is not accepted: the agent `implement` waits for an approval"
    );
    assert_eq!(
        tell(&mut agent, 60_010, expiry()),
        [
            "settled a7.2",
            "deadline 361000",
            r#"run a7.3 q: look {"path":"y"}"#
        ]
    );
    assert_eq!(
        results(&agent),
        [
            json!({"success": false, "code": "not_approved", "error": "the call did not run: the user neither approved nor rejected it in time. Go another way, or finish and say what needs approval"})
        ]
    );
}

#[test]
fn loop_5_the_time_that_an_agent_waits_for_a_person_does_not_count() {
    let mut spec = asking();
    spec.limits.approval_timeout = None;
    let mut agent = implementer(spec);
    let asked = tell(
        &mut agent,
        100,
        replied("a7.1", says_call("change", json!({"path": "x"}), false)),
    );
    assert_eq!(asked, [r#"ask to approve a7.2 change {"path":"x"}"#]);
    let deadline = AgentInput::TimerFired {
        timer: AgentTimer::Deadline,
    };
    not_taken(&mut agent, 900_000, deadline.clone());
    let approve = decided(&agent, ApprovalAnswer::Approve);
    assert_eq!(tell(&mut agent, 1_000_000, approve)[1], "deadline 1300900");
    not_taken(&mut agent, 1_299_899, deadline.clone());
    assert!(
        tell(&mut agent, 1_299_900, deadline)[0].starts_with("finish, as the agent reached its time limit")
    );
}

#[test]
fn approve_3_a_pending_approval_keeps_its_handle_over_a_restart() {
    let mut agent = waiting();
    let approve = decided(&agent, ApprovalAnswer::Approve);
    let resumed = AgentInput::Resumed {
        last_seen: at(1_010),
        forked: false,
    };
    assert_eq!(
        tell(&mut agent, 501_010, resumed),
        [
            r#"ask to approve a7.2 change {"path":"x"}"#,
            "approval until 561010"
        ]
    );
    assert_eq!(
        tell(&mut agent, 501_020, approve),
        [
            "settled a7.2",
            "deadline 802010",
            r#"run a7.2 p: change {"path":"x"}"#
        ]
    );
}

#[test]
fn approve_3_the_approval_request_of_an_ended_agent_is_withdrawn() {
    let mut agent = waiting();
    assert_eq!(
        tell(&mut agent, 20, AgentInput::Cancelled),
        ["settled a7.2", "finish, as cancelled"]
    );
    assert_eq!(agent.approval(), None);
}

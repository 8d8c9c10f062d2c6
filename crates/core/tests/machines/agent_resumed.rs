//! An agent that continues in another process: what it does again, what it reports as interrupted, and which time counts (HOST-2, LOOP-5);
//! and inputs that come too late.

use dirigent_core::agent::AgentInput;
use dirigent_core::machine::{Machine, Refusal};
use dirigent_core::tool::ToolResult;
use serde_json::{Value, json};

use crate::agent_calls::{check, last, look, tool_message};
use crate::agent_ends::deadline;
use crate::fixture::{
    agent_outline, agent_resumed, at, call, effect, implementer, native, replied, text, tool_ended,
};

#[test]
fn loop_5_time_without_a_process_does_not_count() {
    let mut agent = implementer();
    agent.handle(at(1_000), replied("a7.1", look("x"))).unwrap();
    assert_eq!(
        agent_outline(&agent.handle(at(601_000), agent_resumed()).unwrap()),
        [r#"run a7.2+1 call-1-1: look {"path":"x"}"#, "deadline 901000"]
    );
    assert!(agent.handle(at(899_999), deadline()).is_err());
    assert!(agent.handle(at(900_000), deadline()).is_ok());
}

#[test]
fn loop_5_time_that_the_process_worked_between_inputs_counts() {
    let mut agent = implementer();
    agent.handle(at(1_000), replied("a7.1", look("x"))).unwrap();
    let back = AgentInput::Resumed {
        last_seen: at(101_000),
        forked: false,
    };
    assert_eq!(
        agent_outline(&agent.handle(at(601_000), back).unwrap()),
        [r#"run a7.2+1 call-1-1: look {"path":"x"}"#, "deadline 801000"]
    );
}

#[test]
fn host_2_a_started_unsafe_call_is_reported_as_interrupted() {
    let mut agent = implementer();
    let calls = vec![
        call("p", "change", json!({"path": "1"})),
        call("q", "look", json!({"path": "2"})),
    ];
    check(
        &mut agent,
        vec![
            replied("a7.1", native(calls)),
            AgentInput::ToolStarted {
                effect: effect("a7.2"),
            },
            agent_resumed(),
        ],
        &["deadline 302000", r#"run a7.3 q: look {"path":"2"}"#],
    );
    assert_eq!(
        *last(&agent),
        tool_message(
            "p",
            "change",
            "Error (interrupted): `change` was interrupted: the process ended while it ran, so it may or may not \
             have taken effect. Check the current state before you decide whether to call it again"
        )
    );
    let stale = agent.handle(at(9_000), tool_ended("a7.2", ToolResult::success(Value::Null)));
    assert_eq!(
        stale,
        Err(Refusal::Stale {
            effect: effect("a7.2")
        })
    );
}

#[test]
fn host_2_safe_or_unstarted_work_is_commanded_again() {
    for (tool, start) in [("look", true), ("look", false), ("change", false)] {
        let mut agent = implementer();
        agent
            .handle(
                at(0),
                replied("a7.1", native(vec![call("p", tool, json!({"path": "1"}))])),
            )
            .unwrap();
        if start {
            let effect = effect("a7.2");
            agent.handle(at(0), AgentInput::ToolStarted { effect }).unwrap();
        }
        assert_eq!(
            agent_outline(&agent.handle(at(0), agent_resumed()).unwrap()),
            [
                format!(r#"run a7.2+1 p: {tool} {{"path":"1"}}"#),
                "deadline 301000".to_owned()
            ]
        );
    }
}

#[test]
fn host_2_a_repeated_model_request_makes_the_late_reply_to_the_first_stale() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![agent_resumed()],
        &["ask a7.1+1", "deadline 302000"],
    );
    let before = agent.clone();
    assert_eq!(
        agent.handle(at(1_500), replied("a7.1", text("late"))),
        Err(Refusal::Stale {
            effect: effect("a7.1")
        })
    );
    assert_eq!(agent, before);
    check(
        &mut agent,
        vec![replied("a7.1+1", text("in time"))],
        &["finish with in time"],
    );
    assert_eq!(agent.turns(), 1);
}

#[test]
fn an_agent_starts_once_and_accepts_no_input_after_its_end() {
    let mut agent = implementer();
    let again = AgentInput::Started {
        brief: agent.brief().clone(),
    };
    assert_eq!(
        agent.handle(at(0), again.clone()).unwrap_err().to_string(),
        "the start of an agent is not accepted: the agent `implement` waits for its model"
    );
    agent.handle(at(5), replied("a7.1", text("done"))).unwrap();
    let ended = agent.clone();
    for input in [
        again,
        replied("a7.1", text("more")),
        tool_ended("a7.1", ToolResult::success(Value::Null)),
        AgentInput::Guided {
            guidance: "g".to_owned(),
        },
        deadline(),
        agent_resumed(),
        AgentInput::Cancelled,
    ] {
        let refused = agent.handle(at(999_999), input.clone());
        assert_eq!(
            refused.unwrap_err().to_string(),
            format!(
                "{} is not accepted: the agent `implement` has ended",
                input.description()
            )
        );
        assert_eq!(agent, ended);
    }
    assert_eq!(agent_outline(&agent.outstanding()), ["finish with done"]);
}

//! The calls of an agent: which of them run, which are refused, and what goes back to the model (LOOP-1, LOOP-6, LOOP-7, CALL-6, CALL-7).

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::brief::AgentRole;
use dirigent_core::machine::Machine;
use dirigent_core::message::{FinishReason, Message, ModelReply};
use dirigent_core::tool::{Access, StateChange, ToolResult};
use serde_json::{Value, json};

use crate::fixture::{
    agent_outline, at, call, effect, implementer, native, replied, says_call, spec, started, tool_ended,
};

/// Handles the inputs at intervals of a second, and compares the last input's commands.
pub(crate) fn check(agent: &mut Agent, inputs: Vec<AgentInput>, expected: &[&str]) {
    let mut commands = Vec::new();
    for (second, input) in (1..).zip(inputs) {
        commands = agent.handle(at(second * 1_000), input).unwrap();
    }
    assert_eq!(agent_outline(&commands), expected);
}

pub(crate) fn look(path: &str) -> ModelReply {
    says_call("look", json!({ "path": path }), false)
}

pub(crate) fn last(agent: &Agent) -> &Message {
    agent.conversation().last().unwrap()
}

pub(crate) fn tool_message(id: &str, name: &str, content: &str) -> Message {
    Message::Tool {
        call_id: id.to_owned(),
        name: name.to_owned(),
        content: content.to_owned(),
    }
}

#[test]
fn call_6_a_tool_runs_without_the_optional_fields_that_are_null() {
    let mut spec = spec();
    for tool in spec.setup.tools.iter_mut().filter(|tool| tool.name == "look") {
        tool.parameters["properties"]["lines"] = json!({"type": "integer"});
    }
    let mut agent = started(spec, AgentRole::Sub("implement".to_owned()));
    let reply = says_call("look", json!({"path": "x", "lines": null}), false);
    check(
        &mut agent,
        vec![replied("a7.1", reply)],
        &[r#"run a7.2 call-1-1: look {"path":"x"}"#],
    );
}

#[test]
fn loop_1_a_result_is_appended_and_sent_back() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![replied("a7.1", look("x"))],
        &[r#"run a7.2 call-1-1: look {"path":"x"}"#],
    );
    check(
        &mut agent,
        vec![
            AgentInput::ToolStarted {
                effect: effect("a7.2"),
            },
            tool_ended("a7.2", ToolResult::success(json!("seen"))),
        ],
        &["ask a7.3"],
    );
    assert_eq!(
        **agent.conversation(),
        [
            Message::System {
                content: "You are the implement.".to_owned()
            },
            Message::User {
                content: "Do it.".to_owned()
            },
            Message::Assistant {
                content: r#"{"tool":"look","parameters":{"path":"x"},"terminate":false}"#.to_owned(),
                calls: vec![call("call-1-1", "look", json!({"path": "x"}))]
            },
            tool_message("call-1-1", "look", "seen"),
        ]
    );
}

#[test]
fn loop_1_several_calls_of_a_reply_run_in_order_and_their_results_go_back_together() {
    let mut agent = implementer();
    let calls = vec![
        call("p", "look", json!({"path": "1"})),
        call("q", "look", json!({"path": "2"})),
        call("r", "look", json!({"path": "3"})),
    ];
    check(
        &mut agent,
        vec![replied("a7.1", native(calls))],
        &[r#"run a7.2 p: look {"path":"1"}"#],
    );
    check(
        &mut agent,
        vec![tool_ended("a7.2", ToolResult::success(json!(1)))],
        &[r#"run a7.3 q: look {"path":"2"}"#],
    );
    // A failed call is a result like any other (LOOP-6).
    check(
        &mut agent,
        vec![tool_ended("a7.3", ToolResult::failure("no such file"))],
        &[r#"run a7.4 r: look {"path":"3"}"#],
    );
    check(
        &mut agent,
        vec![tool_ended("a7.4", ToolResult::success(json!(3)))],
        &["ask a7.5"],
    );
    assert_eq!(
        agent.conversation()[3..],
        [
            tool_message("p", "look", "1"),
            tool_message("q", "look", "Error: no such file"),
            tool_message("r", "look", "So far: 3 calls, 1 failed\nOutput:\n3"),
        ]
    );
}

#[test]
fn loop_1_every_call_has_a_unique_id() {
    let mut agent = implementer();
    let calls = vec![
        call("call-1-2", "look", json!({"path": "1"})),
        call("", "look", json!({"path": "2"})),
        call("call-1-2", "look", json!({"path": "3"})),
    ];
    check(
        &mut agent,
        vec![
            replied("a7.1", native(calls)),
            tool_ended("a7.2", ToolResult::success(Value::Null)),
            tool_ended("a7.3", ToolResult::success(Value::Null)),
            tool_ended("a7.4", ToolResult::success(Value::Null)),
            replied(
                "a7.5",
                native(vec![call("call-1-2", "look", json!({"path": "4"}))]),
            ),
        ],
        &[r#"run a7.6 call-2-1: look {"path":"4"}"#],
    );
    let ids: Vec<&str> = agent
        .conversation()
        .iter()
        .filter_map(|message| match message {
            Message::Tool { call_id, .. } => Some(call_id.as_str()),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect();
    assert_eq!(ids, ["call-1-2", "call-1-3", "call-1-4"]);
}

#[test]
fn loop_6_success_does_not_end_the_loop() {
    let mut agent = implementer();
    let reply = ModelReply {
        finish: FinishReason::Stop,
        ..native(vec![call("p", "change", json!({"path": "x"}))])
    };
    let changed = ToolResult::success(json!("done")).with_changes(vec![StateChange::FileEdited {
        after: None,
        before: None,
        path: "x".to_owned(),
        diff: None,
    }]);
    check(
        &mut agent,
        vec![replied("a7.1", reply), tool_ended("a7.2", changed)],
        &["ask a7.3"],
    );
    assert_eq!(last(&agent).content(), "Changes: edited x\nOutput:\ndone");
}

#[test]
fn loop_7_a_failed_call_goes_back_to_the_model() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![
            replied("a7.1", look("x")),
            tool_ended("a7.2", ToolResult::failure("no such file")),
        ],
        &["ask a7.3"],
    );
    assert_eq!(
        *last(&agent),
        tool_message("call-1-1", "look", "Error: no such file")
    );
}

#[test]
fn call_6_calls_that_cannot_run_are_answered_with_an_error() {
    for (role, reply, code, error) in [
        (
            "implement",
            says_call("lok", json!({"path": "x"}), false),
            "unknown_tool",
            "there is no tool `lok` (did you mean `look`?): the tools are `look` and `change`",
        ),
        (
            "implement",
            says_call("look", json!({"pth": "x"}), true),
            "bad_parameters",
            "the parameters of `look` are wrong: `parameters.pth` is unknown: did you mean `path`?; `parameters.path` is missing",
        ),
        (
            "explore",
            says_call("change", json!({"path": "x"}), false),
            "access_denied",
            "the tool `change` exists, but you may not call it: your tools are `look`",
        ),
        (
            "implement",
            says_call(
                "submit_plan",
                json!({"summary": "Others do it.", "subtasks": []}),
                true,
            ),
            "unknown_tool",
            "there is no tool `submit_plan`: the tools are `look` and `change`",
        ),
    ] {
        let mut agent = started(spec(), AgentRole::Sub(role.to_owned()));
        check(&mut agent, vec![replied("a7.1", reply)], &["ask a7.2"]);
        assert_eq!(last(&agent).content(), format!("Error ({code}): {error}"));
    }
}

#[test]
fn call_6_after_a_refused_call_the_next_call_still_runs() {
    let mut agent = implementer();
    let calls = vec![
        call("p", "nothing-like-it", json!({})),
        call("q", "look", json!({"path": "x"})),
        call("r", "look", json!({})),
    ];
    check(
        &mut agent,
        vec![replied("a7.1", native(calls))],
        &[r#"run a7.2 q: look {"path":"x"}"#],
    );
    check(
        &mut agent,
        vec![tool_ended("a7.2", ToolResult::success(Value::Null))],
        &["ask a7.3"],
    );
    assert_eq!(agent.conversation().len(), 6);
}

#[test]
fn call_7_the_calls_of_a_truncated_reply_never_run() {
    for finish in [FinishReason::Length, FinishReason::Interrupted] {
        let mut agent = implementer();
        let reply = ModelReply {
            finish,
            ..native(vec![call("p", "change", json!({"path": "x"}))])
        };
        check(&mut agent, vec![replied("a7.1", reply)], &["ask a7.2"]);
        assert_eq!(
            agent.conversation()[2],
            Message::Assistant {
                content: "(no text)".to_owned(),
                calls: Vec::new()
            }
        );
    }
}

#[test]
fn paor_8_guidance_joins_the_conversation_before_the_next_request() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![
            replied("a7.1", look("x")),
            AgentInput::Guided {
                guidance: "only in src".to_owned(),
            },
            tool_ended("a7.2", ToolResult::success(Value::Null)),
        ],
        &["ask a7.3"],
    );
    assert_eq!(
        *last(&agent),
        Message::User {
            content: "The user says: only in src".to_owned()
        }
    );
}

#[test]
fn a_call_that_needs_more_access_than_the_agent_has_is_refused_without_asking() {
    let mut spec = spec();
    for tool in &mut spec.setup.tools {
        if tool.name == "change" {
            tool.access = Access::ReadWrite;
            tool.requires_approval = true;
        }
    }
    for agent in &mut spec.setup.agents {
        agent.access = Access::Execute;
    }
    let mut agent = started(spec, AgentRole::Sub("implement".to_owned()));
    check(
        &mut agent,
        vec![replied("a7.1", says_call("change", json!({"path": "x"}), false))],
        &["ask a7.2"],
    );
    let Message::Tool { content, .. } = last(&agent) else {
        panic!("{:?}", last(&agent));
    };
    insta::assert_snapshot!(content, @"Error (access_denied): this call of `change` needs read-write access, but you have execute access: use other tools, or finish and report what you may not do");
}

#[test]
fn metadata_for_operators_is_in_no_request() {
    let mut agent = implementer();
    let told = ToolResult::success(json!("seen"))
        .with_metadata("station", "north")
        .with_metadata("rows", 3);
    let failed = ToolResult::failure("no such file")
        .with_code("not_found")
        .with_metadata("station", "north");
    check(
        &mut agent,
        vec![
            replied("a7.1", look("x")),
            tool_ended("a7.2", told),
            replied("a7.3", look("y")),
            tool_ended("a7.4", failed),
        ],
        &["ask a7.5"],
    );
    let request = serde_json::to_string(&**agent.request()).unwrap();
    assert!(
        request.contains("seen") && request.contains("not_found"),
        "{request}"
    );
    assert!(
        !request.contains("north") && !request.contains("rows"),
        "{request}"
    );
}

//! The loop of one agent, requirement by requirement: inputs, and the complete list of resulting commands.

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentInput, AgentTimer};
use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentWork, CallSummary};
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::machine::{Machine, Refusal};
use dirigent_core::message::{FinishReason, Message, ModelFailure, ModelFailureKind, ModelReply, Usage};
use dirigent_core::time::Millis;
use dirigent_core::tool::{Access, StateChange, ToolResult};
use serde_json::{Value, json};

use crate::fixture::{
    agent_outline, agent_resumed, at, call, effect, implementer, native, replied, result_parts, says_call,
    spec, started, text, tool_ended,
};

/// Handles the inputs at intervals of a second, and compares the last input's commands.
fn check(agent: &mut Agent, inputs: Vec<AgentInput>, expected: &[&str]) {
    let mut commands = Vec::new();
    for (second, input) in (1..).zip(inputs) {
        commands = agent.handle(at(second * 1_000), input).unwrap();
    }
    assert_eq!(agent_outline(&commands), expected);
}

fn look(path: &str) -> ModelReply {
    says_call("look", json!({ "path": path }), false)
}

fn last(agent: &Agent) -> &Message {
    agent.conversation().last().unwrap()
}

fn tool_message(id: &str, name: &str, content: &str) -> Message {
    Message::Tool {
        call_id: id.to_owned(),
        name: name.to_owned(),
        content: content.to_owned(),
    }
}

fn deadline() -> AgentInput {
    AgentInput::TimerFired {
        timer: AgentTimer::Deadline,
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
fn loop_2_the_turn_limit_ends_the_loop() {
    let mut spec = spec();
    spec.setup.agents[0].limits.max_turns = 2;
    let mut agent = started(spec, AgentRole::Sub("explore".to_owned()));
    check(
        &mut agent,
        vec![
            replied("a7.1", look("x")),
            tool_ended("a7.2", ToolResult::success(Value::Null)),
            replied("a7.3", look("y")),
            tool_ended("a7.4", ToolResult::success(Value::Null)),
        ],
        &[
            "finish, as the agent reached its limit of 2 model turns before it finished: raise `max_turns` in this agent's limits",
        ],
    );
}

#[test]
fn loop_3_a_malformed_reply_goes_back_with_the_error_and_the_form() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![replied("a7.1", text(r#"{"tool": "look"}"#))],
        &["ask a7.2"],
    );
    let [.., said, correction] = &agent.conversation()[..] else {
        panic!("two messages more");
    };
    assert_eq!(said.content(), r#"{"tool": "look"}"#);
    let Message::User { content } = correction else {
        panic!("a user message, not {correction:?}");
    };
    assert!(
        content.contains("`parameters` is missing: it must be an object; `terminate` is missing"),
        "{content}"
    );
    assert!(
        content.contains(r#"{"tool": "name of the tool", "parameters": {}, "terminate": false}"#),
        "{content}"
    );
    assert!(content.contains("The tools are: look, change."), "{content}");
}

#[test]
fn loop_3_the_third_malformed_reply_in_a_row_ends_the_loop() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![
            replied("a7.1", text(r#"{"tool": "l"#)),
            replied("a7.2", text("  ")),
            replied("a7.3", text(r#"{"tool": "look""#)),
        ],
        &[
            "finish, as the model's reply was malformed 3 times in a row: your tool call is not valid JSON: it is not closed: \
             a quote, bracket or brace is missing at its end. Its last reply: {\"tool\": \"look\"",
        ],
    );
    let Some(Err(AgentFailure::Malformed {
        attempts, last_reply, ..
    })) = agent.report().map(|report| &report.result)
    else {
        panic!("{:?}", agent.report());
    };
    assert_eq!((*attempts, last_reply.as_str()), (3, r#"{"tool": "look""#));
}

#[test]
fn loop_3_a_valid_reply_resets_the_count() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![
            replied("a7.1", text("")),
            replied("a7.2", text("")),
            replied("a7.3", look("x")),
            tool_ended("a7.4", ToolResult::success(Value::Null)),
            replied("a7.5", text("")),
            replied("a7.6", text("")),
        ],
        &["ask a7.7"],
    );
}

#[test]
fn loop_3_the_cost_of_a_malformed_reply_counts() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![replied("a7.1", text("")), replied("a7.2", text("done"))],
        &["finish with done"],
    );
    assert_eq!(agent.work().usage.tokens(), 30);
}

#[test]
fn a_reply_counts_as_one_model_call_whatever_usage_it_reports() {
    for model_calls in [0, 7] {
        let mut agent = implementer();
        let mut reply = text("done");
        reply.usage.model_calls = model_calls;
        reply.usage.tool_calls = 9;
        check(&mut agent, vec![replied("a7.1", reply)], &["finish with done"]);
        let usage = agent.work().usage;
        assert_eq!((usage.model_calls, usage.tool_calls, usage.tokens()), (1, 0, 15));
    }
}

#[test]
fn loop_4_a_reply_without_a_call_is_the_answer() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![replied("a7.1", text(r#"Nothing to do: {"a": 1}"#))],
        &[r#"finish with Nothing to do: {"a": 1}"#],
    );
}

#[test]
fn loop_5_the_deadline_ends_the_loop_in_every_state() {
    for inputs in [vec![], vec![replied("a7.1", look("x"))]] {
        let mut agent = implementer();
        for input in inputs {
            agent.handle(at(10), input).unwrap();
        }
        let before = agent.clone();
        assert!(matches!(
            agent.handle(at(299_999), deadline()),
            Err(Refusal::InvalidState {
                input: "the expiry of a timer",
                ..
            })
        ));
        assert_eq!(agent, before);
        assert_eq!(
            agent_outline(&agent.handle(at(300_000), deadline()).unwrap()),
            [
                "finish, as the agent reached its time limit of 5 min before it finished: raise `timeout` in this agent's limits"
            ]
        );
    }
}

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
fn loop_6_after_a_failure_the_model_may_still_end_the_loop() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![
            replied("a7.1", look("x")),
            tool_ended("a7.2", ToolResult::failure("no such file")),
            replied("a7.3", text("It cannot be done.")),
        ],
        &["finish with It cannot be done."],
    );
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
fn call_1_a_terminating_call_that_succeeds_ends_the_loop_with_its_result() {
    for (output, answer) in [
        (json!("all of it"), "finish with all of it"),
        (json!({"n": 1}), r#"finish with {"n":1}"#),
    ] {
        let mut agent = implementer();
        check(
            &mut agent,
            vec![
                replied("a7.1", says_call("look", json!({"path": "x"}), true)),
                tool_ended("a7.2", ToolResult::success(output)),
            ],
            &[answer],
        );
    }
}

#[test]
fn call_1_a_reflector_ends_only_with_its_reflection() {
    let mut spec = spec();
    spec.setup.reflector.tools = vec!["look".to_owned()];
    let mut agent = started(spec, AgentRole::Reflector);
    let looked = [
        replied("a7.1", says_call("look", json!({"path": "x"}), true)),
        tool_ended("a7.2", ToolResult::success(json!("seen"))),
    ];
    check(&mut agent, looked.to_vec(), &["ask a7.3"]);
    assert_eq!(*last(&agent), tool_message("call-1-1", "look", "seen"));
    let judgement = json!({"verdict": "achieved", "summary": "All done."});
    check(
        &mut agent,
        vec![replied("a7.3", says_call("submit_reflection", judgement, false))],
        &["finish with Achieved: All done."],
    );
}

#[test]
fn call_1_a_lead_ends_with_a_plan_or_with_the_result_of_a_terminating_call() {
    let plan = json!({"summary": "Nothing to do.", "subtasks": []});
    check(
        &mut started(spec(), AgentRole::Lead),
        vec![replied("a7.1", says_call("submit_plan", plan, false))],
        &["finish with plan Nothing to do."],
    );
    check(
        &mut started(spec(), AgentRole::Lead),
        vec![
            replied("a7.1", says_call("look", json!({"path": "x"}), true)),
            tool_ended("a7.2", ToolResult::success(json!("seen"))),
        ],
        &["finish with seen"],
    );
}

#[test]
fn call_1_a_failed_terminating_call_goes_back_to_the_model() {
    let mut agent = implementer();
    check(
        &mut agent,
        vec![
            replied("a7.1", says_call("look", json!({"path": "x"}), true)),
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
fn lead_3_a_lead_that_answers_in_text_has_answered() {
    let mut agent = started(spec(), AgentRole::Lead);
    check(
        &mut agent,
        vec![replied("a7.1", text("It is 42."))],
        &["finish with It is 42."],
    );
}

#[test]
fn paor_4_an_invalid_plan_is_sent_back_with_all_errors() {
    let mut agent = started(spec(), AgentRole::Lead);
    let faulty = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "depends_on": ["q"], "agent": "explore", "task": "t"},
        {"id": "q", "title": "Q", "depends_on": ["p"], "agent": "explor", "task": "t"},
        {"id": "r", "title": "R", "depends_on": ["zzz"], "calls": [{"tool": "look", "parameters": {}}]},
        {"id": "r", "title": "R", "calls": []}
    ]});
    check(
        &mut agent,
        vec![replied("a7.1", says_call("submit_plan", faulty, true))],
        &["ask a7.2"],
    );
    insta::assert_snapshot!(result_parts(last(&agent))["error"].as_str().unwrap());
    let good =
        json!({"summary": "Look.", "subtasks": [{"id": "p", "title": "P", "agent": "explore", "task": "t"}]});
    check(
        &mut agent,
        vec![replied("a7.2", says_call("submit_plan", good, true))],
        &["finish with plan Look."],
    );
}

#[test]
fn paor_5_a_plan_with_more_agents_than_allowed_is_sent_back() {
    let greedy = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "explore", "task": "t"},
        {"id": "q", "title": "Q", "agent": "explore", "task": "t"}
    ]});
    // The lead of a resumed run may start only as many agents as its brief says.
    for (max_agents, agents_left) in [(1, None), (3, Some(1))] {
        let mut spec = spec();
        spec.limits.max_agents = max_agents;
        let brief = AgentBrief {
            agents_left,
            ..started(spec.clone(), AgentRole::Lead).brief().clone()
        };
        let (mut agent, _) = Agent::start(at(0), Arc::new(spec), brief).unwrap();
        let reply = says_call("submit_plan", greedy.clone(), true);
        check(&mut agent, vec![replied("a7.1", reply)], &["ask a7.2"]);
        let told = last(&agent).content();
        assert!(
            told.contains("starts 2 sub-agents, but the run may start only 1 more"),
            "{told}"
        );
    }
}

#[test]
fn a_reflector_ends_only_with_a_judgement() {
    let mut agent = started(spec(), AgentRole::Reflector);
    check(
        &mut agent,
        vec![replied("a7.1", text("It looks fine."))],
        &["ask a7.2"],
    );
    let no_question = json!({"verdict": "ask_user", "summary": "s"});
    check(
        &mut agent,
        vec![replied("a7.2", says_call("submit_reflection", no_question, true))],
        &["ask a7.3"],
    );
    let achieved = json!({"verdict": "achieved", "summary": "All done."});
    check(
        &mut agent,
        vec![replied("a7.3", says_call("submit_reflection", achieved, true))],
        &["finish with Achieved: All done."],
    );
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
fn paor_6_the_report_contains_the_work_of_the_agent() {
    let mut agent = implementer();
    let edited = StateChange::FileEdited {
        after: None,
        before: None,
        path: "x".to_owned(),
        diff: None,
    };
    let mut result = ToolResult::success(json!("done")).with_changes(vec![edited.clone()]);
    result.duration = Millis(7);
    check(
        &mut agent,
        vec![
            replied("a7.1", says_call("change", json!({"path": "x"}), false)),
            tool_ended("a7.2", result),
            replied("a7.3", look(&"y".repeat(300))),
            tool_ended("a7.4", ToolResult::failure("no such file")),
            replied("a7.5", text("Changed x.")),
        ],
        &["finish with Changed x."],
    );
    let report = agent.report().unwrap();
    assert_eq!(report.result, Ok(AgentAnswer::Text("Changed x.".to_owned())));
    assert_eq!(report.duration, Millis(5_000));
    let long = format!(
        "{}… [101 characters left out: read them with read_output, handle a7.4] …{}",
        "y".repeat(133),
        "y".repeat(66)
    );
    let expected = AgentWork {
        calls: vec![
            CallSummary {
                shown_by_diff: true,
                effect: Some(effect("a7.2")),
                tool: "change".to_owned(),
                parameters: json!({"path": "x"}),
                success: true,
                duration: Millis(7),
                error: None,
                output: json!("done"),
                agent: None,
            },
            CallSummary {
                shown_by_diff: false,
                effect: Some(effect("a7.4")),
                tool: "look".to_owned(),
                parameters: json!({ "path": long }),
                success: false,
                duration: Millis(0),
                error: Some("no such file".to_owned()),
                output: Value::Null,
                agent: None,
            },
        ],
        changes: vec![edited],
        usage: Usage {
            model_calls: 3,
            tool_calls: 2,
            input_tokens: 30,
            output_tokens: 15,
            ..Usage::default()
        },
        findings_so_far: String::new(),
    };
    assert_eq!(report.work, expected);
    assert_eq!(*agent.work(), expected);
}

#[test]
fn the_loop_ends_if_the_model_fails_or_the_run_is_cancelled() {
    let failure = ModelFailure {
        kind: ModelFailureKind::Configuration,
        message: "no key".to_owned(),
    };
    check(
        &mut implementer(),
        vec![AgentInput::ModelFailed {
            effect: effect("a7.1"),
            failure,
        }],
        &["finish, as the model did not answer: no key"],
    );
    check(
        &mut implementer(),
        vec![AgentInput::Cancelled],
        &["finish, as cancelled"],
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

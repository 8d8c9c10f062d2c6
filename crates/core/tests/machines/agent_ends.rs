//! What ends the loop of an agent and what does not, and the report of its work (LOOP-2 to LOOP-6, CALL-1, PAOR-6).

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentInput, AgentTimer};
use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentWork, CallSummary};
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::confirmation::Outdated;
use dirigent_core::machine::{Machine, Refusal};
use dirigent_core::message::{Message, ModelFailure, ModelFailureKind, Usage};
use dirigent_core::time::Millis;
use dirigent_core::tool::{StateChange, ToolResult};
use serde_json::{Value, json};

use crate::agent_calls::{check, last, look, tool_message};
use crate::fixture::{
    agent_outline, at, effect, implementer, replied, result_parts, says_call, spec, started, text, tool_ended,
};

pub(crate) fn deadline() -> AgentInput {
    AgentInput::TimerFired {
        timer: AgentTimer::Deadline,
    }
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
            replied("a7.3", look(&"y".repeat(1_500))),
            tool_ended("a7.4", ToolResult::failure("no such file")),
            replied("a7.5", text("Changed x.")),
        ],
        &["finish with Changed x."],
    );
    let report = agent.report().unwrap();
    assert_eq!(report.result, Ok(AgentAnswer::Text("Changed x.".to_owned())));
    assert_eq!(report.duration, Millis(5_000));
    let long = format!(
        "{}… [501 characters left out: read them with read_output, handle a7.4.parameters] …{}",
        "y".repeat(666),
        "y".repeat(333)
    );
    let expected = AgentWork {
        calls: vec![
            CallSummary {
                outdates: Outdated::Files,
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
                outdates: Outdated::Nothing,
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

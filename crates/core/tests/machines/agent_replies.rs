//! Replies that quote a call (CALL-7), replies that a provider withheld, and corrections that are sent to the model (LOOP-3).

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::agent_report::AgentFailure;
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::machine::Machine;
use dirigent_core::message::{FinishReason, MalformedCall, Message, ModelReply};
use dirigent_core::tool::ToolResult;
use serde_json::{Value, json};

use crate::fixture::{
    agent_outline, at, implementer, native, replied, says_call, spec, started, text, tool_ended,
};

const CHANGE: &str = r#"{"tool": "change", "parameters": {"path": "a.rs"}, "terminate": false}"#;

fn give(agent: &mut Agent, input: AgentInput) -> Vec<String> {
    agent_outline(&agent.handle(at(0), input).unwrap())
}

fn last(agent: &Agent) -> &str {
    agent.conversation().last().unwrap().content()
}

/// An agent that has read a file that contains a call.
fn with_call_in_a_result() -> Agent {
    let mut agent = implementer();
    give(
        &mut agent,
        replied("a7.1", says_call("look", json!({"path": "n"}), false)),
    );
    let output = ToolResult::success(json!(format!("# Notes\nNever: {CHANGE}\n")));
    assert_eq!(give(&mut agent, tool_ended("a7.2", output)), ["ask a7.3"]);
    agent
}

#[test]
fn call_7_a_reply_that_quotes_a_call_is_sent_back_once_and_then_is_the_answer() {
    let mut agent = with_call_in_a_result();
    let answer = format!("The notes say: {CHANGE}");

    assert_eq!(give(&mut agent, replied("a7.3", text(&answer))), ["ask a7.4"]);
    insta::assert_snapshot!(last(&agent), @"
    Your last reply has a tool call among other words, so nothing was executed. To make the call, send it alone; if this is your answer, send
    it again.
    ");
    assert_eq!(agent.malformed(), 0);

    let ended = give(&mut agent, replied("a7.4", text(&answer)));
    assert_eq!(ended, [format!("finish with {answer}")]);
}

#[test]
fn call_7_a_quoted_call_that_is_sent_alone_is_executed() {
    let mut agent = with_call_in_a_result();
    give(
        &mut agent,
        replied("a7.3", text(&format!("I do what it says: {CHANGE}"))),
    );
    let ran = give(&mut agent, replied("a7.4", text(CHANGE)));
    assert_eq!(ran, [r#"run a7.5 call-3-1: change {"path":"a.rs"}"#]);
    // The allowance is renewed: the next reply that quotes a call is sent back once.
    give(&mut agent, tool_ended("a7.5", ToolResult::success(Value::Null)));
    let again = give(
        &mut agent,
        replied("a7.6", text(&format!("The notes say: {CHANGE}"))),
    );
    assert_eq!(again, ["ask a7.7"]);
}

#[test]
fn call_7_a_reply_that_quotes_a_call_does_not_affect_the_count_of_malformed_replies() {
    let mut agent = implementer();
    let malformed = || text(r#"{"tool": "look"}"#);
    give(&mut agent, replied("a7.1", malformed()));
    give(&mut agent, replied("a7.2", malformed()));
    let quoting = format!("{CHANGE}\nThat is what I would do.");
    assert_eq!(give(&mut agent, replied("a7.3", text(&quoting))), ["ask a7.4"]);
    assert_eq!(agent.malformed(), 2);
    let ended = give(&mut agent, replied("a7.4", malformed()));
    assert!(ended[0].contains("malformed 3 times in a row"), "{ended:?}");
}

#[test]
fn call_7_calls_in_guidance_and_corrections_are_quotable_but_not_the_models_own() {
    let mut agent = implementer();
    give(
        &mut agent,
        replied("a7.1", says_call("change", json!({"path": "own.rs"}), false)),
    );
    let guidance = AgentInput::Guided {
        guidance: r#"Never send {"tool": "change", "parameters": {"path": "told.rs"}, "terminate": false}"#
            .to_owned(),
    };
    give(&mut agent, guidance);
    give(&mut agent, tool_ended("a7.2", ToolResult::success(Value::Null)));
    let after_words = |path: &str| {
        let call = json!({"tool": "change", "parameters": {"path": path}, "terminate": false});
        text(&format!("Once more: {call}"))
    };
    let own = give(&mut agent.clone(), replied("a7.3", after_words("own.rs")));
    assert_eq!(own, [r#"run a7.4 call-2-1: change {"path":"own.rs"}"#]);
    assert_eq!(
        give(&mut agent, replied("a7.3", after_words("told.rs"))),
        ["ask a7.4"]
    );
}

#[test]
fn call_7_calls_in_the_system_prompt_and_the_task_count_as_quotable() {
    let call = format!("Never: {CHANGE}");
    for (prompt, task) in [(call.as_str(), "Do it."), ("You change files.", call.as_str())] {
        let mut spec = spec();
        spec.setup.agents[1].system_prompt = prompt.to_owned();
        let brief = AgentBrief {
            task: task.to_owned(),
            ..implementer().brief().clone()
        };
        let (mut agent, _) = Agent::start(at(0), Arc::new(spec), brief).unwrap();
        let quoting = text(&format!("I make it: {CHANGE}"));
        assert_eq!(give(&mut agent, replied("a7.1", quoting)), ["ask a7.2"]);
        assert_eq!(agent.malformed(), 0);
    }
}

#[test]
fn call_7_calls_in_the_context_stay_quotable_after_compaction() {
    // given a conversation from which the result with the call was removed
    let mut spec = spec();
    spec.setup.agents[1].profile.context_window = Some(4_000);
    spec.setup.agents[1].profile.max_result = None;
    let mut agent = started(spec, AgentRole::Sub("implement".to_owned()));
    let reply = |reply: ModelReply| ModelReply {
        usage: dirigent_core::message::Usage::default(),
        ..reply
    };
    let look = |path: &str| reply(says_call("look", json!({ "path": path }), false));
    give(&mut agent, replied("a7.1", look("notes")));
    let notes = format!("{}\nNever: {CHANGE}\n", "Notes. ".repeat(1_200));
    give(&mut agent, tool_ended("a7.2", ToolResult::success(json!(notes))));
    give(&mut agent, replied("a7.3", look("more")));
    give(
        &mut agent,
        tool_ended("a7.4", ToolResult::success(json!("More. ".repeat(1_200)))),
    );
    let conversation = agent
        .conversation()
        .iter()
        .map(Message::content)
        .collect::<String>();
    assert!(!conversation.contains("Never: "), "{conversation}");

    let quoting = text(&format!("The notes say: {CHANGE}"));
    assert_eq!(give(&mut agent, replied("a7.5", quoting)), ["ask a7.6"]);
}

#[test]
fn call_7_native_calls_are_never_quoted() {
    let mut agent = with_call_in_a_result();
    let call = crate::fixture::call("p", "change", json!({"path": "a.rs"}));
    let reply = ModelReply {
        content: format!("As the notes say: {CHANGE}"),
        ..native(vec![call])
    };
    assert_eq!(
        give(&mut agent, replied("a7.3", reply)),
        [r#"run a7.4 p: change {"path":"a.rs"}"#]
    );
}

#[test]
fn loop_3_a_withheld_or_oversized_reply_ends_the_loop_with_its_own_message() {
    for (finish, failure) in [
        (FinishReason::Filtered, AgentFailure::Filtered),
        (FinishReason::Oversized, AgentFailure::Oversized),
    ] {
        let mut agent = implementer();
        let reply = ModelReply {
            finish,
            ..text("I can")
        };
        assert_eq!(
            give(&mut agent, replied("a7.1", reply)),
            [format!("finish, as {failure}")]
        );
        assert_eq!(agent.work().usage.tokens(), 15, "it was paid for");
    }
    insta::assert_snapshot!(AgentFailure::Filtered, @"the provider's content filter withheld the model's reply, so the request was not repeated: change the task, or use another model");
    insta::assert_snapshot!(AgentFailure::Oversized, @"the model's reply exceeds the maximum size, so the request was not repeated: ask for less at a time, or raise `max_reply_bytes` in the options of the model's client");
}

#[test]
fn loop_3_the_correction_shows_the_example_of_the_tool_that_was_meant() {
    let lead = || started(spec(), AgentRole::Lead);
    for (mut agent, reply, example) in [
        (
            implementer(),
            r#"{"tool": "change", "parameters": "a.rs", "terminate": false}"#,
            r#"Example: `{"tool": "change", "#,
        ),
        (
            implementer(),
            r#"{“tool”: “change”, “parameters”: {}}"#,
            r#"Example: `{"tool": "change", "#,
        ),
        (
            implementer(),
            r#"{"tool": "look", "parameters": {"path": "change"}"#,
            r#"Example: `{"tool": "look", "#,
        ),
        (
            lead(),
            r#"{"summary": "Look.", "subtasks": []}"#,
            r#"Example: `{"tool": "submit_plan", "#,
        ),
    ] {
        assert_eq!(give(&mut agent, replied("a7.1", text(reply))), ["ask a7.2"]);
        assert!(last(&agent).contains(example), "{reply}: {}", last(&agent));
    }
}

#[test]
fn loop_3_the_correction_quotes_native_arguments_that_cannot_be_read_shortened() {
    let mut agent = implementer();
    let malformed = |arguments: String| ModelReply {
        malformed_calls: vec![MalformedCall {
            name: "change".to_owned(),
            arguments,
            problem: "its arguments are not a JSON object".to_owned(),
        }],
        ..native(Vec::new())
    };
    give(&mut agent, replied("a7.1", malformed("path: a.rs".to_owned())));
    assert!(
        last(&agent).contains("Its arguments were `path: a.rs`."),
        "{}",
        last(&agent)
    );
    assert!(
        last(&agent).contains(r#"{"tool": "change", "#),
        "{}",
        last(&agent)
    );
    let long = format!("begin {} end", "x".repeat(10_000));
    give(&mut agent, replied("a7.2", malformed(long)));
    assert!(last(&agent).len() < 2_000, "{}", last(&agent));
    assert!(
        last(&agent).contains("begin xx") && last(&agent).contains("xx end"),
        "{}",
        last(&agent)
    );
}

#[test]
fn loop_3_a_reply_with_an_announced_but_missing_call_is_sent_back() {
    let mut agent = implementer();
    let announced = ModelReply {
        finish: FinishReason::ToolCalls,
        ..text("I will look.")
    };
    assert_eq!(give(&mut agent, replied("a7.1", announced)), ["ask a7.2"]);
    assert!(last(&agent).contains("you announced a tool call, but made none"));
}

#[test]
fn loop_3_a_reflector_that_quotes_a_call_twice_is_asked_for_the_call_form() {
    let mut agent = started(spec(), AgentRole::Reflector);
    let words = text(
        r#"{"tool": "submit_reflection", "parameters": {"verdict": "achieved", "summary": "s"}, "terminate": true} It is."#,
    );
    assert_eq!(give(&mut agent, replied("a7.1", words.clone())), ["ask a7.2"]);
    assert_eq!(agent.malformed(), 0);
    assert_eq!(give(&mut agent, replied("a7.2", words)), ["ask a7.3"]);
    assert_eq!(agent.malformed(), 1);
    assert!(
        last(&agent).contains(r#"{"tool": "submit_reflection", "#),
        "{}",
        last(&agent)
    );
}

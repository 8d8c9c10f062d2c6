//! A conversation that approaches its model's context window (LOOP-11), and the order in which it grows.

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::brief::AgentRole;
use dirigent_core::call::CallForm;
use dirigent_core::machine::Machine;
use dirigent_core::message::{FinishReason, Message, ModelFailure, ModelFailureKind, ModelReply, ToolCall};
use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::token_ratio::estimated_tokens;
use dirigent_core::tool::{SeenFile, ToolResult, ToolSpec};
use serde_json::{Value, json};

use crate::fixture::{
    agent_outline, at, effect, replied, result_parts, says_call, spec, started, text, tool_ended, usage,
};

/// An agent whose model has a context window of this many tokens, a quarter of which is reserved for the reply.
fn with_window(tokens: u64) -> Agent {
    let mut spec = spec();
    spec.setup.agents[1].profile.context_window = Some(tokens);
    spec.setup.agents[1].limits.max_turns = 100;
    spec.setup.agents[1].tools.push(READ_OUTPUT.to_owned());
    // Only the window causes shortening.
    spec.setup.agents[1].profile.max_result = None;
    started(spec, AgentRole::Sub("implement".to_owned()))
}

/// The approximate number of tokens of the agent's request.
fn tokens(agent: &Agent) -> u64 {
    let size = agent.request_size();
    size.counted + size.estimated
}

fn uncounted(reply: ModelReply) -> ModelReply {
    ModelReply {
        usage: dirigent_core::message::Usage::default(),
        ..reply
    }
}

/// The next effects of agent 7.
struct Steps(u32);

impl Steps {
    fn next(&mut self) -> String {
        self.0 += 1;
        format!("a7.{}", self.0)
    }

    /// The model calls `look`, which returns this output.
    fn look(&mut self, agent: &mut Agent, path: &str, output: &str) -> Vec<String> {
        let reply = uncounted(says_call("look", json!({ "path": path }), false));
        agent.handle(at(0), replied(&self.next(), reply)).unwrap();
        let seen = tool_ended(&self.next(), ToolResult::success(json!(output)));
        agent_outline(&agent.handle(at(0), seen).unwrap())
    }

    fn says(&mut self, agent: &mut Agent, reply: ModelReply) -> Vec<String> {
        agent_outline(
            &agent
                .handle(at(0), replied(&self.next(), uncounted(reply)))
                .unwrap(),
        )
    }

    fn too_long(&mut self, agent: &mut Agent) -> Vec<String> {
        let failed = AgentInput::ModelFailed {
            effect: effect(&self.next()),
            failure: ModelFailure {
                kind: ModelFailureKind::TooLong,
                message: "the conversation is too long".to_owned(),
            },
        };
        agent_outline(&agent.handle(at(0), failed).unwrap())
    }
}

/// Checks that the result of every call comes directly after it, and that every result has its call.
fn check_pairs(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match message {
            Message::Tool { call_id, .. } => assert_eq!(open.remove(0), call_id),
            Message::Assistant { calls, .. } => {
                assert!(open.is_empty(), "calls without results: {open:?}");
                open = calls.iter().map(|call| call.id.as_str()).collect();
            }
            Message::System { .. } | Message::User { .. } => assert!(open.is_empty()),
        }
    }
    assert!(open.is_empty());
}

fn result(message: &Message) -> Value {
    result_parts(message)
}

#[test]
fn loop_11_each_request_begins_with_the_previous_one() {
    let (mut agent, mut steps) = (with_window(1_000_000), Steps(0));
    let mut before = agent.request().to_vec();
    for n in 0..10 {
        if n == 5 {
            steps.says(&mut agent, text(r#"{"tool": "#));
        } else {
            steps.look(&mut agent, &n.to_string(), "seen");
        }
        let now = agent.request().to_vec();
        assert_eq!(now[..before.len()], before[..]);
        assert!(now.len() > before.len());
        before = now;
    }
}

#[test]
fn loop_11_old_outputs_shrink_to_a_line_with_their_handle() {
    let (mut agent, mut steps) = (with_window(4_000), Steps(0));
    let long = "word ".repeat(1_200);
    assert_eq!(steps.look(&mut agent, "a", &long), ["ask a7.3"]);
    assert_eq!(steps.look(&mut agent, "b", &long), ["ask a7.5"]);
    check_pairs(agent.request());
    let results: Vec<Value> = agent
        .request()
        .iter()
        .filter(|said| matches!(said, Message::Tool { .. }))
        .map(result)
        .collect();
    assert_eq!(
        results[0],
        json!({"success": true, "output": "[output left out: read it with read_output, handle a7.2]"})
    );
    assert_eq!(results[1]["output"], json!(long), "the latest turn is whole");
}

#[test]
fn loop_11_if_shortening_is_not_enough_the_model_summarises_older_turns() {
    let (mut agent, mut steps) = (with_window(2_000), Steps(0));
    let before = agent.request().to_vec();
    // Many small turns, whose results are too short to be left out.
    let mut commands = Vec::new();
    while !agent.is_summarising() {
        commands = steps.look(
            &mut agent,
            "x".repeat(150).as_str(),
            &format!("{} {}", steps.0, "y".repeat(300)),
        );
    }
    let turns = agent.turns();
    assert_eq!(commands, [format!("ask a7.{}", steps.0 + 1)]);
    let request = agent.request().to_vec();
    assert_eq!(request[..2], before[..2], "it begins as the requests before it");
    assert!(matches!(request.last(), Some(Message::User { .. })));
    check_pairs(&request);

    steps.says(&mut agent, text("Looked at x, saw y in src/y.rs:3."));
    assert_eq!(agent.turns(), turns + 1, "a summary is no turn");
    let request = agent.request().to_vec();
    check_pairs(&request);
    assert_eq!(request.len(), 4, "system, task with summary, the latest turn");
    assert_eq!(request[0], before[0]);
    assert!(request[1].content().starts_with("Do it."));
    assert!(request[1].content().contains("Looked at x, saw y in src/y.rs:3."));
    assert_eq!(
        agent.work().usage.tool_calls,
        turns,
        "nothing that was done is forgotten"
    );
}

#[test]
fn loop_11_an_unusable_summary_is_replaced_by_the_list_of_calls() {
    for reply in [
        says_call("look", json!({"path": "z"}), false),
        text(""),
        ModelReply {
            finish: FinishReason::Length,
            ..text("Looked at")
        },
    ] {
        let (mut agent, mut steps) = (with_window(2_000), Steps(0));
        while !agent.is_summarising() {
            steps.look(
                &mut agent,
                "x".repeat(150).as_str(),
                &format!("{} {}", steps.0, "y".repeat(300)),
            );
        }
        steps.says(&mut agent, reply);
        let task = agent.request()[1].content().to_owned();
        assert!(task.contains("succeeded (handle a7.2)"), "{task}");
    }
}

#[test]
fn loop_11_a_request_that_the_provider_refuses_as_too_long_is_shortened() {
    let (mut agent, mut steps) = (with_window(1_000_000), Steps(0));
    let long = "word ".repeat(1_200);
    steps.look(&mut agent, "a", &long);
    steps.look(&mut agent, "b", &long);
    let (turns, before) = (agent.turns(), tokens(&agent));
    assert_eq!(steps.too_long(&mut agent), ["ask a7.6"]);
    assert_eq!(agent.turns(), turns, "the request that failed was no turn");
    assert!(tokens(&agent) < before / 10 * 9);
    check_pairs(agent.request());
}

#[test]
fn loop_11_a_request_that_cannot_be_shortened_ends_the_loop() {
    let (mut agent, mut steps) = (with_window(1_000_000), Steps(0));
    assert_eq!(
        steps.too_long(&mut agent),
        ["finish, as the model did not answer: the conversation is too long"]
    );
}

#[test]
fn loop_11_an_output_longer_than_the_window_is_shortened_with_its_handle() {
    let (mut agent, mut steps) = (with_window(4_000), Steps(0));
    steps.look(&mut agent, "a", &"word ".repeat(20_000));
    assert!(tokens(&agent) < 4_000, "{}", tokens(&agent));
    let shortened = result(agent.request().last().unwrap())["output"].to_string();
    assert!(
        shortened.contains("read them with read_output, handle a7.2"),
        "{shortened}"
    );
    check_pairs(agent.request());
}

#[test]
fn loop_11_the_providers_counts_decide_when_to_shorten() {
    let (mut agent, mut steps) = (with_window(10_000), Steps(0));
    steps.look(&mut agent, "a", &"word ".repeat(3_000));
    let mut reply = says_call("look", json!({"path": "b"}), false);
    reply.usage.input_tokens = 9_000;
    agent.handle(at(0), replied(&steps.next(), reply)).unwrap();
    let seen = tool_ended(&steps.next(), ToolResult::success(json!("seen")));
    agent.handle(at(0), seen).unwrap();
    assert!(
        result(&agent.request()[3])["output"]
            .to_string()
            .contains("left out")
    );
}

#[test]
fn loop_11_without_compactions_a_long_conversation_is_not_summarised() {
    let mut spec = spec();
    spec.setup.agents[1].limits.max_compactions = 0;
    let (mut agent, mut steps) = (started(spec, AgentRole::Sub("implement".to_owned())), Steps(0));
    steps.look(&mut agent, "a", &"word ".repeat(1_200));
    steps.look(&mut agent, "b", &"word ".repeat(1_200));
    assert_eq!(
        steps.too_long(&mut agent),
        ["finish, as the model did not answer: the conversation is too long"]
    );
}

/// The result of one call as it is shown to an agent with these tools.
fn shown(tools: &[&str], result: ToolResult) -> String {
    let mut spec = spec();
    spec.setup.agents[1].tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    let (mut agent, mut steps) = (started(spec, AgentRole::Sub("implement".to_owned())), Steps(0));
    let reply = uncounted(says_call("look", json!({"path": "a"}), false));
    agent.handle(at(0), replied(&steps.next(), reply)).unwrap();
    agent.handle(at(0), tool_ended(&steps.next(), result)).unwrap();
    agent.request().last().unwrap().content().to_owned()
}

#[test]
fn paor_6_a_long_result_is_shown_shortened_with_its_handle() {
    let output =
        json!({"exit_code": 0, "stdout": format!("begin {} end", "word ".repeat(100_000)), "stderr": "none"});
    let shown = shown(&["look", "read_output"], ToolResult::success(output));
    let length = shown.chars().count();
    assert!((12_000..=16_600).contains(&length), "{length}");
    let result: Value = serde_json::from_str(&shown).unwrap();
    let text = result["stdout"].as_str().unwrap();
    assert!(
        text.starts_with("begin word ") && text.ends_with(" word  end"),
        "{text}"
    );
    assert!(text.contains("characters left out: read them with read_output, handle a7.2]"));
    assert_eq!(result["stderr"], "none");
}

#[test]
fn paor_6_a_result_with_many_short_parts_is_cut_between_parts() {
    let output = json!({"rows": vec![json!({"line": 1, "text": "x = \"y\""}); 5_000]});
    let shown = shown(&["look", "read_output"], ToolResult::success(output));
    let length = shown.chars().count();
    assert!((8_000..=16_600).contains(&length), "{length}");
    assert!(
        shown.contains("read them with read_output, handle a7.2"),
        "{shown}"
    );
}

#[test]
fn paor_6_an_agent_without_read_output_is_shown_no_handles() {
    let shown = shown(&["look"], ToolResult::success(json!("word ".repeat(100_000))));
    assert!(shown.contains("characters left out: not shown]"), "{shown}");
    assert!(!shown.contains("read_output"), "{shown}");
}

#[test]
fn paor_5_results_with_seen_files_are_not_shortened() {
    let text = "word ".repeat(10_000);
    let seen = SeenFile {
        path: "a".to_owned(),
        digest: Some("0".repeat(64)),
        unseen_from: None,
    };
    let read = ToolResult::success(json!(text)).with_seen(vec![seen]);
    assert!(shown(&["look", "read_output"], read).contains(&text));
}

#[test]
fn paor_6_without_a_limit_a_result_is_shown_whole() {
    let (mut agent, mut steps) = (with_window(1_000_000), Steps(0));
    let long = "word ".repeat(20_000);
    steps.look(&mut agent, "a", &long);
    assert_eq!(result(agent.request().last().unwrap())["output"], json!(long));
}

// The rest of a request

#[test]
fn host_6_the_size_of_a_request_includes_tool_definitions_or_the_reply_schema() {
    let size = |calls| {
        let mut spec = spec();
        spec.setup.agents[1].profile.calls = calls;
        let agent = started(spec, AgentRole::Sub("implement".to_owned()));
        let (tools, schema) = (agent.offered().clone(), agent.reply_schema().clone());
        let text: u64 = agent.request().iter().map(Message::estimated_tokens).sum();
        (agent.request_size().estimated - text, tools, schema)
    };
    let (beside, tools, _) = size(CallForm::Native);
    assert_eq!(tools.len(), 2);
    assert_eq!(beside, tools.iter().map(ToolSpec::estimated_tokens).sum::<u64>());
    assert!(beside > 50, "{beside}");
    let (beside, _, schema) = size(CallForm::JsonSchema);
    assert_eq!(beside, estimated_tokens(&schema.to_string()) + 18);
    assert!(beside > 50, "{beside}");
    for calls in [CallForm::Json, CallForm::ToolCall, CallForm::Auto] {
        assert_eq!(size(calls).0, 0, "the system prompt tells of the tools");
    }
}

#[test]
fn host_6_the_size_of_a_request_separates_counted_and_estimated_tokens() {
    let mut agent = with_window(1_000_000);
    let mut reply = says_call("look", json!({"path": "a"}), false);
    reply.usage = usage(700, 20);
    agent.handle(at(0), replied("a7.1", reply.clone())).unwrap();
    let result = tool_ended("a7.2", ToolResult::success(json!("x".repeat(4_000))));
    agent.handle(at(0), result).unwrap();
    let size = agent.request_size();
    assert_eq!(
        size.counted, 720,
        "the request, and the reply that is sent with the next"
    );
    assert!((1_000..1_100).contains(&size.estimated), "{size:?}");
    reply.usage.input_tokens = 9_000;
    reply.usage.estimated_calls = 1;
    agent.handle(at(0), replied("a7.3", reply)).unwrap();
    let after = agent.request_size();
    assert_eq!(after.counted, 720);
    assert!(
        after.estimated > size.estimated,
        "the reply is estimated: {after:?}"
    );
}

#[test]
fn host_6_the_tokens_of_a_call_in_the_text_are_estimated_once() {
    let call = says_call("look", json!({"path": "a".repeat(400)}), false);
    let calls = vec![ToolCall {
        id: String::new(),
        tool: "look".to_owned(),
        parameters: json!({"path": "a".repeat(400)}),
        terminate: false,
    }];
    let assistant = |content: &str| Message::Assistant {
        content: content.to_owned(),
        calls: calls.clone(),
    };
    assert_eq!(
        assistant(&call.content).estimated_tokens(),
        estimated_tokens(&call.content) + 4
    );
    assert!(assistant("I look.").estimated_tokens() > 100);
}

#[test]
fn host_6_the_thinking_of_a_model_is_not_counted_as_input_again() {
    let mut agent = with_window(1_000_000);
    let mut reply = says_call("look", json!({"path": "a"}), false);
    reply.usage = usage(700, 20_000);
    let most = 4 * (estimated_tokens(&reply.content) + 4);
    agent.handle(at(0), replied("a7.1", reply)).unwrap();
    let result = tool_ended("a7.2", ToolResult::success(json!("x")));
    agent.handle(at(0), result).unwrap();
    assert_eq!(agent.request_size().counted, 700 + most);
}

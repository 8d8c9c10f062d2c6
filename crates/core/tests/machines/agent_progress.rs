//! What a model is told about its own work: the calls and changes so far (LOOP-8), and that it repeats itself (LOOP-10).

use dirigent_core::agent::{Agent, AgentCommand, AgentInput};
use dirigent_core::agent_report::AgentFailure;
use dirigent_core::brief::AgentRole;
use dirigent_core::machine::Machine;
use dirigent_core::message::Message;
use dirigent_core::tool::{StateChange, ToolResult};
use serde_json::{Value, json};

use crate::fixture::{
    agent_outline, at, call, implementer, native, replied, result_parts, says_call, spec, started, tool_ended,
};

/// The model makes a call that gets this result. Returns the resulting commands.
fn turn(agent: &mut Agent, tool: &str, parameters: Value, result: ToolResult) -> Vec<String> {
    let step = 2 * agent.turns() - 1;
    let reply = replied(&format!("a7.{step}"), says_call(tool, parameters, false));
    agent.handle(at(0), reply).unwrap();
    let ended = tool_ended(&format!("a7.{}", step + 1), result);
    agent_outline(&agent.handle(at(0), ended).unwrap())
}

fn told(agent: &Agent, field: &str) -> Value {
    let last = agent.conversation().last().unwrap();
    result_parts(last)[field].clone()
}

fn created(path: &str) -> StateChange {
    StateChange::FileCreated {
        after: None,
        path: path.to_owned(),
        diff: None,
    }
}

fn exited(code: i32) -> StateChange {
    StateChange::ProcessExited {
        command: "drop customers".to_owned(),
        code: Some(code),
        files: Vec::new(),
    }
}

#[test]
fn loop_8_the_next_request_says_what_was_called_and_changed_so_far() {
    let mut agent = implementer();
    let dropped = ToolResult::failure("orders depends on it").with_changes(vec![exited(1)]);
    turn(&mut agent, "look", json!({"path": "customers"}), dropped);
    assert_eq!(
        told(&agent, "so_far"),
        Value::Null,
        "a first result says all by itself"
    );
    turn(
        &mut agent,
        "change",
        json!({"path": "orders"}),
        ToolResult::success(json!("ok")).with_changes(vec![created("orders.bak")]),
    );
    assert_eq!(
        told(&agent, "so_far"),
        "2 calls, 1 failed; `drop customers` exited with 1; created orders.bak"
    );
}

#[test]
fn loop_8_the_same_exit_before_and_after_a_change_is_not_counted_as_one() {
    let mut agent = implementer();
    let mut number = 0;
    let mut ran = |code: i32, files: Vec<StateChange>| {
        let changes = if files.is_empty() {
            vec![exited(code)]
        } else {
            files
        };
        number += 1;
        let result = ToolResult::success(json!(number)).with_changes(changes);
        turn(&mut agent, "change", json!({"path": number.to_string()}), result);
        told(&agent, "so_far")
    };
    ran(1, vec![]);
    assert_eq!(
        ran(1, vec![]),
        "2 calls; `drop customers` exited with 1 (2 times)"
    );
    // A failure that was not repeated still matters after a change.
    let edited = ran(0, vec![created("a")]);
    assert_eq!(
        edited,
        "3 calls; `drop customers` exited with 1 (2 times); created a"
    );
    assert_eq!(
        ran(1, vec![]),
        "4 calls; created a; `drop customers` exited with 1"
    );
    assert_eq!(
        ran(0, vec![]),
        "5 calls; created a; `drop customers` exited with 0"
    );
    // What a command showed before the last change does not.
    assert_eq!(ran(0, vec![created("b")]), "6 calls; created a; created b");
}

#[test]
fn loop_8_the_latest_changes_are_listed_and_earlier_ones_counted() {
    let mut agent = implementer();
    let many = (0..30).map(|n| created(&format!("f{n}"))).collect();
    turn(
        &mut agent,
        "look",
        json!({"path": "a"}),
        ToolResult::success(json!(1)),
    );
    turn(
        &mut agent,
        "change",
        json!({"path": "b"}),
        ToolResult::success(json!(1)).with_changes(many),
    );
    let so_far = told(&agent, "so_far");
    let so_far: Vec<&str> = so_far.as_str().unwrap().split("; ").collect();
    assert_eq!(so_far[..3], ["2 calls", "10 earlier changes", "created f10"]);
    assert_eq!((so_far.len(), so_far[21]), (22, "created f29"));
}

#[test]
fn loop_8_the_overview_is_part_of_the_last_result_of_a_turn() {
    let mut agent = implementer();
    let calls = vec![
        call("p", "look", json!({"path": "1"})),
        call("q", "look", json!({"path": "2"})),
    ];
    agent.handle(at(0), replied("a7.1", native(calls))).unwrap();
    for effect in ["a7.2", "a7.3"] {
        agent
            .handle(at(0), tool_ended(effect, ToolResult::success(json!(1))))
            .unwrap();
    }
    let contents: Vec<&str> = agent.conversation()[3..]
        .iter()
        .map(|said| said.content())
        .collect();
    assert_eq!(contents, ["1", "So far: 2 calls\nOutput:\n1"]);
}

#[test]
fn paor_6_an_output_below_two_kilobytes_is_summarised_whole() {
    let mut agent = implementer();
    let log = "a line of a log\n".repeat(120);
    for output in [log.clone(), log.repeat(2)] {
        turn(
            &mut agent,
            "look",
            json!({"path": "x"}),
            ToolResult::success(json!(output)),
        );
    }
    let calls = &agent.work().calls;
    assert_eq!(calls[0].output, json!(log));
    assert!(calls[1].output.as_str().unwrap().contains("left out"));
}

fn same(agent: &mut Agent) -> Vec<String> {
    turn(
        agent,
        "look",
        json!({"path": "x"}),
        ToolResult::success(json!("nothing")),
    )
}

#[test]
fn loop_10_from_the_third_repetition_on_the_model_is_told() {
    let mut agent = implementer();
    same(&mut agent);
    same(&mut agent);
    assert_eq!(told(&agent, "repeated"), Value::Null);
    same(&mut agent);
    assert_eq!(
        told(&agent, "repeated"),
        json!(
            "this call has returned the same result 3 times: try something else, or finish and report what prevents progress"
        )
    );
}

#[test]
fn loop_10_beyond_the_limit_of_repetitions_the_loop_ends_as_stuck() {
    let mut agent = implementer();
    for _ in 0..5 {
        assert_eq!(same(&mut agent).len(), 1, "it goes on");
    }
    assert_eq!(
        same(&mut agent),
        [
            "finish, as the agent is stuck: it called `look` 6 times with the same parameters and got the same result"
        ]
    );
    let failure = agent.report().unwrap().result.clone().unwrap_err();
    assert_eq!(
        failure,
        AgentFailure::Stuck {
            tool: "look".to_owned(),
            times: 6
        }
    );
}

#[test]
fn loop_10_calls_that_cannot_run_also_count_as_repetitions() {
    let mut agent = implementer();
    for turn in 1..=6 {
        let reply = replied(
            &format!("a7.{turn}"),
            says_call("lok", json!({"path": "x"}), false),
        );
        let commands = agent.handle(at(0), reply).unwrap();
        let stuck = agent_outline(&commands)[0].contains("the agent is stuck: it called `lok` 6 times");
        assert_eq!(stuck, turn == 6, "{commands:?}");
    }
}

#[test]
fn loop_10_with_other_arguments_results_or_changes_a_call_is_not_a_repetition() {
    let mut agent = implementer();
    for n in 0..3 {
        turn(
            &mut agent,
            "look",
            json!({"path": "x"}),
            ToolResult::success(json!(n)),
        );
        turn(
            &mut agent,
            "look",
            json!({"path": n.to_string()}),
            ToolResult::success(json!(0)),
        );
    }
    assert_eq!(told(&agent, "repeated"), Value::Null);
    let mut agent = implementer();
    for n in 0..4 {
        turn(
            &mut agent,
            "look",
            json!({"path": "x"}),
            ToolResult::success(json!("red")),
        );
        let edited = ToolResult::success(json!("ok")).with_changes(vec![created(&format!("{n}"))]);
        turn(&mut agent, "change", json!({"path": n.to_string()}), edited);
    }
    assert_eq!(agent.report(), None);
    assert_eq!(told(&agent, "repeated"), Value::Null);
}

#[test]
fn loop_10_the_same_change_again_and_again_is_a_repetition() {
    let mut agent = implementer();
    for _ in 0..3 {
        let again = ToolResult::success(json!("ok")).with_changes(vec![created("x")]);
        turn(&mut agent, "change", json!({"path": "x"}), again);
    }
    assert_ne!(told(&agent, "repeated"), Value::Null);
}

#[test]
fn loop_10_repetitions_in_a_reply_are_noted_and_beyond_the_limit_calls_do_not_run() {
    // given a reply with the same call eight times, and another one after them
    let mut agent = implementer();
    let same = |n: usize| call(&n.to_string(), "look", json!({"path": "x"}));
    let calls = (0..8)
        .map(same)
        .chain([call("8", "change", json!({"path": "y"}))]);
    let first = agent
        .handle(at(0), replied("a7.1", native(calls.collect())))
        .unwrap();
    assert_eq!(agent_outline(&first), [r#"run a7.2 0: look {"path":"x"}"#]);

    // when each call gets the same result
    for step in 2..=6 {
        let ended = tool_ended(&format!("a7.{step}"), ToolResult::success(json!("nothing")));
        let next = agent_outline(&agent.handle(at(0), ended).unwrap());
        assert_eq!(
            next,
            [format!(
                r#"run a7.{} {}: look {{"path":"x"}}"#,
                step + 1,
                step - 1
            )]
        );
        let is_told = told(&agent, "repeated") != Value::Null;
        assert_eq!(is_told, step >= 4, "from the third time on");
    }

    // then the sixth call is the last one
    let ended = tool_ended("a7.7", ToolResult::success(json!("nothing")));
    assert_eq!(
        agent_outline(&agent.handle(at(0), ended).unwrap()),
        [
            "finish, as the agent is stuck: it called `look` 6 times with the same parameters and got the same result"
        ]
    );
}

#[test]
fn loop_10_calls_of_a_reply_beyond_the_limit_do_not_run_but_have_results() {
    // given a limit of three calls in one reply
    let mut spec = spec();
    spec.setup.agents[1].limits.max_calls_per_reply = 3;
    let mut agent = started(spec, AgentRole::Sub("implement".to_owned()));
    let calls = (0..6).map(|n| call(&n.to_string(), "look", json!({"path": n.to_string()})));

    // when a reply has six
    agent
        .handle(at(0), replied("a7.1", native(calls.collect())))
        .unwrap();
    for step in 2..=3 {
        let ended = tool_ended(&format!("a7.{step}"), ToolResult::success(json!(step)));
        agent.handle(at(0), ended).unwrap();
    }
    let ended = tool_ended("a7.4", ToolResult::success(json!(4)));
    let commands = agent.handle(at(0), ended).unwrap();

    // then the model is asked again after the third call, and is told what happened to the others
    assert_eq!(agent_outline(&commands), ["ask a7.5"]);
    let results: Vec<&str> = agent.conversation()[3..].iter().map(Message::content).collect();
    let refused = "Error (refused): the call did not run: only the first 3 calls of a reply are executed. Call it again if it is still needed";
    assert_eq!(results[..3].len(), 3);
    assert_eq!(results[3..5], [refused, refused]);
    assert_eq!(results[5], format!("{refused}\nSo far: 6 calls, 3 failed"));

    // and the next reply may again have three calls
    let calls = (0..3).map(|n| call("", "look", json!({"path": format!("b{n}")})));
    agent
        .handle(at(0), replied("a7.5", native(calls.collect())))
        .unwrap();
    for step in 6..=7 {
        let ended = tool_ended(&format!("a7.{step}"), ToolResult::success(json!(step)));
        agent.handle(at(0), ended).unwrap();
    }
    let ended = tool_ended("a7.8", ToolResult::success(json!(8)));
    assert_eq!(agent_outline(&agent.handle(at(0), ended).unwrap()), ["ask a7.9"]);
    let last = agent.conversation().last().unwrap().content();
    assert!(last.ends_with("\nOutput:\n8"), "{last}");
}

#[test]
fn loop_10_a_flood_of_calls_in_one_reply_runs_sixty_four() {
    let mut agent = implementer();
    let calls = (0..5_000).map(|n| call("", "look", json!({"path": n.to_string()})));
    let mut commands = agent
        .handle(at(0), replied("a7.1", native(calls.collect())))
        .unwrap();
    let mut ran = 0;
    while let [AgentCommand::RunTool { effect, .. }] = commands[..] {
        ran += 1;
        let result = ToolResult::success(json!(ran));
        commands = agent
            .handle(at(0), AgentInput::ToolFinished { effect, result })
            .unwrap();
    }
    assert_eq!(ran, 64);
    assert_eq!(agent_outline(&commands), ["ask a7.66"]);
    assert_eq!(agent.conversation().len(), 3 + 5_000, "each call has one result");
}

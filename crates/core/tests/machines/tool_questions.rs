//! Tools that ask the user during their call (MCP-6): the call waits, its time does not count, and it continues whether it is answered or not.

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::brief::AgentRole;
use dirigent_core::question::Question;
use dirigent_core::tool::ToolResult;
use serde_json::json;

use crate::approvals::{asking, expiry, tell};
use crate::asking_user::not_taken;
use crate::fixture::{agent_resumed, call, effect, native, replied, started, tool_ended};

/// Agent 7, whose call `a7.2` runs; a look at y follows.
fn calling() -> Agent {
    let mut agent = started(asking(), AgentRole::Sub("explore".to_owned()));
    let reply = native(vec![
        call("p", "look", json!({"path": "x"})),
        call("q", "look", json!({"path": "y"})),
    ]);
    tell(&mut agent, 0, replied("a7.1", reply));
    tell(
        &mut agent,
        0,
        AgentInput::ToolStarted {
            effect: effect("a7.2"),
        },
    );
    agent
}

/// Agent 7, whose running call has been waiting since 10 for the user's answer.
fn waiting() -> Agent {
    let mut agent = calling();
    assert_eq!(
        tell(&mut agent, 10, asks("a7.2")),
        ["approval until 61010", r#"ask user a7.3 Which one? ["a", "b"]"#]
    );
    agent
}

fn asks(of: &str) -> AgentInput {
    AgentInput::ToolAsked {
        effect: effect(of),
        question: Question {
            question: "Which one?".to_owned(),
            choices: vec!["a".to_owned(), "b".to_owned()],
        },
    }
}

fn answer(text: &str) -> AgentInput {
    AgentInput::UserAnswered {
        effect: effect("a7.3"),
        answer: text.to_owned(),
    }
}

/// The end of the call, after which the next one runs.
fn ends() -> AgentInput {
    tool_ended("a7.2", ToolResult::success(json!("seen")))
}

#[test]
fn mcp_6_the_answer_reaches_the_running_call_and_its_wait_does_not_count() {
    let mut agent = waiting();
    assert!(agent.question().is_some());
    assert_eq!(
        tell(&mut agent, 50_010, answer("2")),
        ["settled a7.3", "deadline 351000", "answer a7.2 with b"]
    );
    assert_eq!(agent.question(), None);
    not_taken(&mut agent, 50_020, answer("1"));
    assert_eq!(
        tell(&mut agent, 50_030, ends()),
        [r#"run a7.4 q: look {"path":"y"}"#]
    );
}

#[test]
fn mcp_6_a_call_may_ask_again_but_not_before_its_question_is_answered() {
    let mut agent = waiting();
    not_taken(&mut agent, 20, asks("a7.2"));
    tell(&mut agent, 20, answer("a"));
    assert_eq!(
        tell(&mut agent, 30, asks("a7.2"))[1],
        r#"ask user a7.4 Which one? ["a", "b"]"#
    );
    // An answer to the first question is none to the second.
    not_taken(&mut agent, 40, answer("b"));
}

#[test]
fn mcp_6_only_a_running_call_can_ask() {
    let mut agent = calling();
    not_taken(&mut agent, 10, asks("a7.1"));
    not_taken(&mut agent, 10, asks("a7.3"));
    tell(&mut agent, 20, ends());
    not_taken(&mut agent, 30, asks("a7.2"));
    not_taken(&mut agent, 30, asks("a7.3"));
}

#[test]
fn mcp_6_a_call_whose_question_expires_continues_without_an_answer() {
    let mut agent = waiting();
    assert_eq!(
        tell(&mut agent, 70_000, expiry()),
        ["settled a7.3", "deadline 370990", "no answer for a7.2"]
    );
    assert_eq!(
        tell(&mut agent, 70_010, ends()),
        [r#"run a7.4 q: look {"path":"y"}"#]
    );
}

#[test]
fn mcp_6_a_call_can_end_before_its_question_is_answered() {
    let mut agent = waiting();
    assert_eq!(
        tell(&mut agent, 1_010, ends()),
        [
            "settled a7.3",
            "deadline 302000",
            "no answer for a7.2",
            r#"run a7.4 q: look {"path":"y"}"#
        ]
    );
}

#[test]
fn paor_8_guidance_withdraws_the_question_and_the_call_continues() {
    let mut agent = waiting();
    let guidance = "Take any.".to_owned();
    assert_eq!(
        tell(&mut agent, 10, AgentInput::Guided { guidance }),
        ["settled a7.3", "deadline 301000", "no answer for a7.2"]
    );
    assert!(agent.running_call(effect("a7.2")).is_some());
}

#[test]
fn host_2_a_restart_withdraws_the_question_and_repeats_the_call_if_it_is_safe() {
    let mut agent = waiting();
    assert_eq!(
        tell(&mut agent, 100_000, agent_resumed()),
        [
            "settled a7.3",
            "deadline 301000",
            "no answer for a7.2",
            r#"run a7.2+1 p: look {"path":"x"}"#,
            "deadline 400990"
        ]
    );
    not_taken(&mut agent, 100_010, answer("a"));
}

#[test]
fn mcp_6_the_end_of_an_agent_withdraws_its_tools_question() {
    let mut agent = waiting();
    assert_eq!(
        tell(&mut agent, 20, AgentInput::Cancelled),
        ["settled a7.3", "finish, as cancelled"]
    );
}

#[test]
fn mcp_6_a_question_that_its_tool_withdraws_is_open_no_longer_and_the_call_continues() {
    let withdrawn = || AgentInput::QuestionWithdrawn {
        effect: effect("a7.2"),
    };
    let mut agent = calling();
    not_taken(&mut agent, 5, withdrawn());
    tell(&mut agent, 10, asks("a7.2"));
    assert_eq!(
        tell(&mut agent, 50_010, withdrawn()),
        ["settled a7.3", "deadline 351000", "no answer for a7.2"]
    );
    assert_eq!(agent.question(), None);
    not_taken(&mut agent, 50_020, withdrawn());
    not_taken(&mut agent, 50_020, answer("1"));
    assert_eq!(
        tell(&mut agent, 50_030, ends()),
        [r#"run a7.4 q: look {"path":"y"}"#]
    );
}

//! Requests that the model does not know, and properties of every reply.

use dirigent_core::message::{FinishReason, Message, Usage};
use proptest::prelude::*;
use serde_json::json;

use crate::dialogue::{Dialogue, plan_request, reflect_request, reply};

#[test]
fn host_4_a_goal_beyond_the_model_is_declined_with_what_it_can_do() {
    let goal = "Write a web server";
    let plan = Dialogue::lead(&plan_request(goal, "")).plan();
    assert_eq!(plan["subtasks"], json!([]));

    let (verdict, summary) = Dialogue::reflector(&reflect_request(goal, "", &plan, &[], &[])).judgement();

    assert_eq!(verdict, "failed");
    insta::assert_snapshot!(summary, @r#"
    This goal is beyond the offline model. It can:
    - rename a symbol: Find all usages of function `parse_amount` and rename it to `parse_money`
    - find usages: Find all usages of `parse_amount` in src
    - replace a text: Replace "old text" with "new text" in docs/
    - create a project: Create a minimal Rust project `my-app`; create a minimal Python project `my-app`
    - run a check: Run the tests; make sure that `cargo clippy` passes
    - count or list: Count the lines in src; list the files ending in .rs
    For anything else choose a language model: set DIRIGENT_MODEL, such as openai/gpt-4.1-mini, or [model] in dirigent.toml; from Rust, `Dirigent::builder().config(…)` or `.model(…)`.
    "#);
}

#[test]
fn a_conversation_without_a_request_is_answered_in_text() {
    let hello = reply(&[Message::User {
        content: "Hello!".to_owned(),
    }]);
    assert!(
        hello
            .content
            .starts_with("This is Dirigent's offline model: it works without a network"),
        "{}",
        hello.content
    );

    let lead = Dialogue::new("You plan.", &["submit_plan"], "Hello!").reply();
    assert_eq!(lead.content, hello.content);
}

#[test]
fn a_reply_costs_a_quarter_of_a_token_for_each_character() {
    let messages = [
        Message::System {
            content: "äöü".to_owned(),
        },
        Message::User {
            content: "Hello".to_owned(),
        },
    ];
    let reply = reply(&messages);
    assert_eq!(reply.finish, FinishReason::Stop);
    let output_tokens = u64::try_from(reply.content.chars().count().div_ceil(4)).expect("a number");
    assert_eq!(
        reply.usage,
        Usage {
            model_calls: 1,
            tool_calls: 0,
            input_tokens: 2,
            output_tokens,
            ..Usage::default()
        }
    );
}

#[test]
fn a_tool_that_the_lead_does_not_have_is_not_called() {
    let lead = Dialogue::new("You plan.", &["submit_plan"], &plan_request("rename a to b", ""));
    assert_eq!(
        lead.plan()["summary"],
        "Not possible: `a` could not be searched for: the tool `rename_symbol` is not offered here. Nothing was changed."
    );
}

/// Pieces of conversations, in and out of their usual place.
fn piece() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "<GOAL>\nrename parse to read\n</GOAL>\n",
        "<GOAL>\nreplace \"a\" with \"ä\" in *.md\n</GOAL>\n",
        "<GOAL>\nrun `x` and report\n</GOAL>\n",
        "<GOAL>\nwhere is ü used\n</GOAL>",
        "<GOAL>",
        "</GOAL>",
        "<TASK>\nReplace every text \"a\" with \"b\" in these files: \"c\"\n</TASK>",
        "<TASK>\nVerify that `a` was renamed to `b`.\n</TASK>",
        "<TASK>\nFind all usages of `a`.\n</TASK>",
        "<GUIDANCE>\n1. only in src\n2. call it ß\n</GUIDANCE>\n",
        "<ANSWERS>\n{\"question\":\"q\",\"answer\":\"use another name\"}\n</ANSWERS>\n",
        "<ITERATIONS>\n{\"iteration\":1,\"plan\":\"p\",\"reflection\":\"r\",\"verdict\":\"continue\"}\n</ITERATIONS>\n",
        "<PLAN>\n{\"summary\":\"s\",\"subtasks\":[{\"id\":\"a\",\"title\":\"t\",\"calls\":[]}]}\n</PLAN>\n",
        "<OBSERVATIONS>\n{\"subtask\":\"check\",\"title\":\"t\",\"status\":\"failed\",\"calls\":[{\"tool\":\"x\",\"result\":{\"success\":false}}]}\n{\"subtask\":\"edit-1\",\"title\":\"t\",\"status\":\"succeeded\"}\n</OBSERVATIONS>\n",
        "{\"occurrences\":3,\"files\":[{\"path\":\"a\",\"total\":3}]}",
        "3 matches in 1 file\n\na\n0:a",
        "Lines 2-1 of 9\n1\ta\n",
        "2 entries\na/\nb",
        "Error (exited): `x` exited with 3\nOutput:\n",
        "{\"tool\":\"rename_symbol\",\"parameters\":{\"from\":\"parse\",\"to\":\"read\",\"preview\":true},\"terminate\":false}",
        "## submit_plan\n",
        "## submit_reflection\n",
        "## rename_symbol\n## search\n## file_operations\n",
    ])
    .prop_map(str::to_owned);
    prop_oneof![4 => known, 1 => any::<String>()]
}

fn message() -> impl Strategy<Value = Message> {
    let text = || prop::collection::vec(piece(), 0..5).prop_map(|pieces| pieces.concat());
    prop_oneof![
        text().prop_map(|content| Message::System { content }),
        text().prop_map(|content| Message::User { content }),
        text().prop_map(|content| Message::Assistant {
            content,
            calls: Vec::new()
        }),
        (
            text(),
            prop::sample::select(vec!["rename_symbol", "search", "file_operations", "submit_plan"])
        )
            .prop_map(|(content, name)| {
                Message::Tool {
                    call_id: "1".to_owned(),
                    name: name.to_owned(),
                    content,
                }
            }),
    ]
}

proptest! {
    #[test]
    fn every_conversation_gets_a_reply_and_always_the_same(messages in prop::collection::vec(message(), 0..7)) {
        let first = reply(&messages);
        prop_assert!(!first.content.is_empty());
        prop_assert_eq!(first.finish, FinishReason::Stop);
        prop_assert_eq!(reply(&messages), first);
    }

    #[test]
    fn the_lead_answers_any_goal_with_a_call(goal in any::<String>()) {
        let reply = Dialogue::lead(&plan_request(&goal, "")).reply();
        let call: serde_json::Value = serde_json::from_str(&reply.content).expect("a call");
        prop_assert!(call["terminate"].is_boolean());
    }
}

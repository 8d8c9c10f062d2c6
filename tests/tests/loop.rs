//! LOOP: an agent's own loop between model and tools, seen in whole runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use dirigent::core::message::Message;
use dirigent::core::tool::Repeat;
use dirigent::{
    AgentDefinition, AgentLimits, Builder, EndReason, EventKind, Millis, Report, RunLimits, UserPresence,
};
use dirigent_tests::probes::{Notes, fail, note, wait};
use dirigent_tests::scripted::{
    Asked, Gate, Reply, Scripted, achieved, ask_user, call, delegate, native, plan, says,
};
use dirigent_tests::stage::{Stage, achieved_report, agent, findings, pass, passing, until};
use serde_json::json;

/// A run whose only sub-task is the scout's, and what the scout's model was asked.
async fn scouted(
    stage: &Stage,
    replies: impl IntoIterator<Item = Reply>,
    scout: AgentDefinition,
    tools: impl FnOnce(Builder) -> Builder,
) -> (Arc<Report>, Vec<Asked>) {
    let model = Scripted::new()
        .planner([plan("Ask the scout.", [delegate("ask", "scout", "Do it.")])])
        .agent("scout", replies)
        .reflector([achieved("Judged.")]);
    let builder = tools(stage.builder(model.clone()).agent(scout));
    let dirigent = builder.build().await.unwrap();
    let run = dirigent.start(stage.goal("Do it")).await.unwrap();
    let report = achieved_report(&run).await;
    (report, model.agent_asked("scout"))
}

fn noting(text: &str) -> Reply {
    call("note", json!({"text": text}))
}

#[tokio::test]
async fn loop_1_each_result_is_appended_and_sent_back_until_the_model_finishes() {
    let (stage, notes) = (Stage::new(), Notes::default());

    let replies = [noting("one"), noting("two"), says("Noted both.")];
    let (report, asked) = scouted(&stage, replies, agent("scout", &["note"]), |it| {
        it.tool(note(&notes))
    })
    .await;

    assert_eq!(asked.len(), 3);
    assert_eq!(asked[0].roles(), ["system", "user"]);
    assert_eq!(asked[1].roles(), ["system", "user", "assistant", "tool"]);
    assert_eq!(
        asked[2].roles(),
        ["system", "user", "assistant", "tool", "assistant", "tool"]
    );
    assert_eq!(asked[1].result(), json!({"success": true, "output": "noted one"}));
    assert_eq!(
        asked[2].result(),
        json!({"success": true, "output": "noted two", "so_far": {"calls": 2}})
    );
    assert_eq!(
        asked[2].messages[..4],
        asked[1].messages[..],
        "nothing is lost on the way"
    );
    assert_eq!(findings(&report, 0, "ask").unwrap(), "Noted both.");
}

#[tokio::test]
async fn loop_1_several_calls_of_one_reply_run_in_order_and_their_results_go_back_together() {
    // given a reply with three calls, the middle one a failing one
    let (stage, notes) = (Stage::new(), Notes::default());
    let replies = [
        native([
            ("note", json!({"text": "first"})),
            ("fail", json!({})),
            ("note", json!({"text": "third"})),
        ]),
        says("Done."),
    ];

    let (_, asked) = scouted(&stage, replies, agent("scout", &["note", "fail"]), |it| {
        it.tool(note(&notes)).tool(fail())
    })
    .await;

    // then each call has one result, in order, in one request
    assert_eq!(notes.all(), ["first", "third"]);
    assert_eq!(asked.len(), 2);
    let Message::Assistant { calls, .. } = &asked[1].messages[2] else {
        panic!("the reply comes first");
    };
    let results: Vec<(&str, &str, &str)> = asked[1].messages[3..]
        .iter()
        .map(|message| match message {
            Message::Tool {
                call_id,
                name,
                content,
            } => (call_id.as_str(), name.as_str(), content.as_str()),
            other => panic!("no result: {other:?}"),
        })
        .collect();
    assert_eq!(
        results,
        [
            (
                calls[0].id.as_str(),
                "note",
                r#"{"success":true,"output":"noted first"}"#
            ),
            (
                calls[1].id.as_str(),
                "fail",
                r#"{"success":false,"error":"the valve is shut; open it first"}"#
            ),
            (
                calls[2].id.as_str(),
                "note",
                r#"{"success":true,"output":"noted third","so_far":{"calls":3,"failed":1}}"#
            ),
        ]
    );
}

#[tokio::test]
async fn loop_3_a_malformed_reply_goes_back_with_the_parse_error_and_the_format() {
    // given a call without `terminate`, then one that is cut off, then a good one
    let (stage, notes) = (Stage::new(), Notes::default());
    let replies = [
        says(r#"{"tool": "note", "parameters": {"text": "one"}}"#),
        says(r#"{"tool": "note", "parameters": {"text": "#),
        noting("three"),
        says("Noted at last."),
    ];

    let (report, asked) = scouted(&stage, replies, agent("scout", &["note"]), |it| {
        it.tool(note(&notes))
    })
    .await;

    assert_eq!(notes.all(), ["three"]);
    assert_eq!(findings(&report, 0, "ask").unwrap(), "Noted at last.");
    assert_eq!(asked[1].roles(), ["system", "user", "assistant", "user"]);
    insta::assert_snapshot!(asked[1].last(), @r#"
    Your last reply could not be used: your tool call is incomplete: `terminate` is missing: it must be true or false, without quotes

    To call a tool, reply with exactly one JSON object in this form:
    {"tool": "name of the tool", "parameters": {}, "terminate": false}
    The tools are: note.
    To finish, answer in plain text without a call.
    "#);
    insta::assert_snapshot!(asked[2].last(), @r#"
    Your last reply could not be used: your tool call is not valid JSON: it is not closed: a quote, bracket or brace is missing at its end

    To call a tool, reply with exactly one JSON object in this form:
    {"tool": "name of the tool", "parameters": {}, "terminate": false}
    The tools are: note.
    To finish, answer in plain text without a call.
    "#);
}

#[tokio::test]
async fn loop_3_after_three_malformed_replies_in_a_row_the_loop_ends_with_the_last_reply_shown() {
    let stage = Stage::new();
    let replies = [
        says(r#"{"tool": "note"}"#),
        says(r#"{"tool": "note", "parameters": "one"}"#),
        says(r#"I try: {"tool": "note", "parameters": {}, "terminate": "no"}"#),
        says("never asked"),
    ];

    let (report, asked) = scouted(&stage, replies, agent("scout", &["search"]), |it| it).await;

    assert_eq!(asked.len(), 3);
    insta::assert_snapshot!(findings(&report, 0, "ask").unwrap_err(), @r#"
    the model's reply was malformed 3 times in a row: your tool call is incomplete: `terminate` must be true or false, without quotes, but is a string. Its last reply: I try: {"tool": "note", "parameters": {}, "terminate": "no"}
    "#);
}

#[tokio::test]
async fn loop_3_a_good_reply_between_them_starts_the_count_anew() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let bad = || says(r#"{"tool": "note"}"#);
    let replies = [bad(), bad(), noting("good"), bad(), bad(), says("Done.")];

    let (report, asked) = scouted(&stage, replies, agent("scout", &["note"]), |it| {
        it.tool(note(&notes))
    })
    .await;

    assert_eq!(asked.len(), 6);
    assert_eq!(findings(&report, 0, "ask").unwrap(), "Done.");
}

#[tokio::test]
async fn loop_4_a_reply_without_a_call_is_the_final_answer() {
    let stage = Stage::new();

    let (report, asked) = scouted(
        &stage,
        [says("Nothing to do.")],
        agent("scout", &["search"]),
        |it| it,
    )
    .await;

    assert_eq!(asked.len(), 1);
    assert_eq!(findings(&report, 0, "ask").unwrap(), "Nothing to do.");
    assert_eq!(report.usage.tool_calls, 0);
}

fn hasty(timeout: Millis) -> AgentDefinition {
    agent("scout", &["hold"]).limits(AgentLimits {
        timeout,
        ..AgentLimits::default()
    })
}

const TIME_LIMIT: &str =
    "the agent reached its time limit of 50 ms before it finished; allow more with `timeout`";

#[tokio::test]
async fn loop_5_past_its_timeout_a_loop_that_waits_for_its_model_is_aborted() {
    let stage = Stage::new();
    let hold = wait("hold", Repeat::Safe, &Notes::default(), &Gate::shut());

    let (report, asked) = scouted(&stage, [Reply::Never], hasty(Millis(50)), |it| it.tool(hold)).await;

    assert_eq!(asked.len(), 1);
    assert_eq!(findings(&report, 0, "ask").unwrap_err(), TIME_LIMIT);
}

#[tokio::test]
async fn loop_5_past_its_timeout_a_loop_that_waits_for_a_tool_is_aborted_and_the_tool_stopped() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let hold = wait("hold", Repeat::Safe, &notes, &Gate::shut());
    let minute = Duration::from_secs(60);

    let replies = [call("hold", json!({}))];
    let run = scouted(&stage, replies, hasty(minute.into()), |it| it.tool(hold));
    let (report, asked) = passing(run, minute, notes.until("started")).await;

    assert_eq!(asked.len(), 1);
    assert_eq!(
        findings(&report, 0, "ask").unwrap_err(),
        TIME_LIMIT.replace("50 ms", "1 min")
    );
    assert_eq!(notes.all(), ["started", "cancelled"]);
}

#[test]
fn loop_5_five_minutes_are_the_default() {
    assert_eq!(AgentLimits::default().timeout, Millis::from_secs(300));
}

#[tokio::test]
async fn loop_5_time_spent_waiting_for_a_person_does_not_count() {
    // given a run of limited time that waits for its user
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan("First.", []), Reply::Never, plan("Second.", [])])
        .reflector([ask_user("Two.", "Which one?"), achieved("Done.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    // Less than an agent has, so that it is the run whose time is over.
    let time = Duration::from_secs(240);
    let limits = RunLimits {
        timeout: Some(time.into()),
        ..RunLimits::default()
    };
    let goal = stage
        .goal("Ask")
        .user(UserPresence::Present)
        .limits(limits.clone());
    let run = dirigent.start(goal).await.unwrap();
    until(&mut run.events(), |kind| {
        matches!(kind, EventKind::QuestionAsked { .. })
    })
    .await;

    // when all of its time has passed, as another run of the same limit shows
    let clock = dirigent.start(stage.goal("Wait").limits(limits)).await.unwrap();
    until(&mut clock.events(), |kind| {
        matches!(kind, EventKind::AgentStarted { .. })
    })
    .await;
    pass(time).await;
    assert_eq!(clock.outcome().await.unwrap().end, Some(EndReason::TimeLimit));
    run.answer("the second").await.unwrap();

    // then there was time left
    achieved_report(&run).await;
}

#[tokio::test]
async fn loop_6_no_early_exit_because_all_succeeded() {
    // given a model that goes on after calls that changed files, ran a command, and all succeeded
    let stage = Stage::new();
    let replies = [
        call(
            "file_operations",
            json!({"operation": "write", "path": "a.txt", "content": "a\n"}),
        ),
        call("execute_command", json!({"command": ["true"]})),
        call("file_operations", json!({"operation": "delete", "path": "a.txt"})),
        says("Written and deleted."),
    ];
    let scout = agent("scout", &["file_operations", "execute_command"])
        .access(dirigent::core::tool::Access::ReadWrite);

    let (report, asked) = scouted(&stage, replies, scout, |it| it).await;

    assert_eq!(asked.len(), 4, "asked again after each success");
    assert!(!stage.workspace().join("a.txt").exists());
    assert_eq!(findings(&report, 0, "ask").unwrap(), "Written and deleted.");
}

#[tokio::test]
async fn loop_6_no_forced_continuation_after_a_failure() {
    // given a model that says it is finished right after a failure
    let stage = Stage::new();
    let replies = [
        call("fail", json!({})),
        says("The valve is shut, so I stop here."),
    ];

    let (report, asked) = scouted(&stage, replies, agent("scout", &["fail"]), |it| it.tool(fail())).await;

    assert_eq!(asked.len(), 2);
    assert_eq!(
        findings(&report, 0, "ask").unwrap(),
        "The valve is shut, so I stop here."
    );
}

#[tokio::test]
async fn loop_7_a_failed_calls_error_goes_back_and_the_model_finds_another_way() {
    // given a model that edits what is not there, reads its error, and writes instead
    let stage = Stage::new();
    let replies = [
        call(
            "file_operations",
            json!({"operation": "read", "path": "plan.txt"}),
        ),
        call(
            "file_operations",
            json!({"operation": "write", "path": "plan.txt", "content": "walk\n"}),
        ),
        says("There was no plan; now there is."),
    ];
    let scout = agent("scout", &["file_operations"]).access(dirigent::core::tool::Access::ReadWrite);

    let (report, asked) = scouted(&stage, replies, scout, |it| it).await;

    let result = asked[1].result();
    assert_eq!(result["success"], false);
    insta::assert_snapshot!(result["error"].as_str().unwrap(), @r#"`plan.txt` does not exist"#);
    assert_eq!(stage.read("plan.txt"), "walk\n");
    assert_eq!(
        findings(&report, 0, "ask").unwrap(),
        "There was no plan; now there is."
    );
}

#[tokio::test]
async fn loop_8_what_a_call_changed_reaches_the_model_in_its_result() {
    let stage = Stage::new().file("b.txt", "old\n").file("c.txt", "c\n");
    let file = |parameters| call("file_operations", parameters);
    let replies = [
        file(json!({"operation": "write", "path": "a.txt", "content": "a\n"})),
        file(json!({"operation": "edit", "path": "b.txt", "old": "old", "new": "new"})),
        file(json!({"operation": "delete", "path": "c.txt"})),
        file(json!({"operation": "move", "from": "a.txt", "to": "d.txt"})),
        call("execute_command", json!({"command": ["sh", "-c", "exit 3"]})),
        says("Changed."),
    ];
    let scout = agent("scout", &["file_operations", "execute_command"])
        .access(dirigent::core::tool::Access::ReadWrite);

    let (report, asked) = scouted(&stage, replies, scout, |it| it).await;

    let changes: Vec<_> = asked[1..]
        .iter()
        .map(|asked| asked.result()["changes"].clone())
        .collect();
    assert_eq!(
        changes,
        [
            json!(["created a.txt"]),
            json!(["edited b.txt"]),
            json!(["deleted c.txt"]),
            json!(["moved a.txt to d.txt"]),
            json!(["`sh -c 'exit 3'` exited with 3"]),
        ]
    );
    assert_eq!(report.changed.len(), 3, "b.txt, c.txt and d.txt");
}

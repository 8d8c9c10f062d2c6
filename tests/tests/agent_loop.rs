//! LOOP: an agent's own loop between model and tools, seen in whole runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dirigent::{AgentDefinition, Builder, Report};
use dirigent_tests::probes::{Notes, note};
use dirigent_tests::scripted::{Asked, Reply, Scripted, achieved, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, findings};
use serde_json::{Value, json};

/// Runs a goal whose only sub-task goes to the scout, and returns the requests of the scout's model.
async fn scouted(
    stage: &Stage,
    replies: impl IntoIterator<Item = Reply>,
    scout: AgentDefinition,
    tools: impl FnOnce(Builder) -> Builder,
) -> (Arc<Report>, Vec<Asked>) {
    let model = Scripted::new()
        .lead([plan("Ask the scout.", [delegate("ask", "scout", "Do it.")])])
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
async fn loop_1_loop_4_loop_6_each_result_is_sent_back_until_the_model_answers() {
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
        json!({"success": true, "output": "noted two", "so_far": "2 calls"})
    );
    assert_eq!(
        asked[2].messages[..4],
        asked[1].messages[..],
        "nothing is lost on the way"
    );
    assert_eq!(findings(&report, 0, "ask").unwrap(), "Noted both.");
}

#[tokio::test]
async fn loop_3_a_malformed_reply_goes_back_with_the_parse_error_and_the_format() {
    // given a call without `terminate`, then a truncated one, then a good one
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
    Your last reply could not be used: your tool call has missing or wrong fields: `terminate` is missing: it must be true or false, without quotes

    To call a tool, reply with one JSON object in this form, or with one array of such objects, and nothing else:
    {"tool": "name of the tool", "parameters": {}, "terminate": false}
    The tools are: note, ask_user, give_up.
    To finish, answer in plain text without a call.
    "#);
    insta::assert_snapshot!(asked[2].last(), @r#"
    Your last reply could not be used: your tool call is not valid JSON: it is not closed: a quote, bracket or brace is missing at its end

    To call a tool, reply with one JSON object in this form, or with one array of such objects, and nothing else:
    {"tool": "name of the tool", "parameters": {}, "terminate": false}
    The tools are: note, ask_user, give_up.
    To finish, answer in plain text without a call.
    "#);
}

#[tokio::test]
async fn loop_7_loop_6_a_failed_calls_error_goes_back_and_the_model_finds_another_way() {
    // given a model that edits text that does not exist, reads the error, and writes the file instead
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
    let scout = agent("scout", &["file_operations"]).access(dirigent_core::tool::Access::ReadWrite);

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
async fn loop_8_the_result_of_a_call_lists_its_changes() {
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
        .access(dirigent_core::tool::Access::ReadWrite);

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
            Value::Null,
        ]
    );
    let command = asked[5].result();
    assert_eq!(command["error"], "`sh -c 'exit 3'` exited with 3");
    assert!(
        command["so_far"]
            .as_str()
            .unwrap()
            .ends_with("; `sh -c 'exit 3'` exited with 3"),
        "{command}"
    );
    assert_eq!(report.changed.len(), 3, "b.txt, c.txt and d.txt");
}

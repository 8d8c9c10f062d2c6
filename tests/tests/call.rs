//! CALL: how a model calls a tool, seen in whole runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dirigent::Report;
use dirigent_core::agent_spec::ModelProfile;
use dirigent_core::call::CallForm;
use dirigent_tests::probes::{Notes, fail, note};
use dirigent_tests::scripted::{Asked, Reply, Scripted, achieved, delegate, last_call, native, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, findings};
use serde_json::json;

/// The outcome of a run with a scout, which has the tools `note`, `fail` and `search` and whose model gives scripted replies.
struct Scouted {
    report: Arc<Report>,
    asked: Vec<Asked>,
    notes: Vec<String>,
}

impl Scouted {
    fn findings(&self) -> String {
        findings(&self.report, 0, "ask").unwrap()
    }
}

async fn scouted(replies: impl IntoIterator<Item = Reply>) -> Scouted {
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .lead([plan("Ask the scout.", [delegate("ask", "scout", "Do it.")])])
        .agent("scout", replies)
        .reflector([achieved("Judged.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(note(&notes))
        .tool(fail())
        .agent(agent("scout", &["note", "fail", "search"]))
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Do it")).await.unwrap();
    Scouted {
        report: achieved_report(&run).await,
        asked: model.agent_asked("scout"),
        notes: notes.all(),
    }
}

const NOTE: &str = r#"{"tool": "note", "parameters": {"text": "one"}, "terminate": false}"#;

#[tokio::test]
async fn call_1_terminate_true_runs_the_call_and_ends_the_loop_with_its_result() {
    let scouted = scouted([last_call("note", json!({"text": "one"})), says("never asked")]).await;

    assert_eq!(scouted.notes, ["one"]);
    assert_eq!(scouted.asked.len(), 1);
    assert_eq!(scouted.findings(), "noted one");
}

#[tokio::test]
async fn call_2_native_calls_run_in_order_and_calls_in_their_text_are_ignored() {
    let (one, two) = (json!({"text": "one"}), json!({"text": "two"}));

    let scouted = scouted([native([("note", two), ("note", one)]), says("Done.")]).await;

    assert_eq!(scouted.notes, ["two", "one"]);
    assert_eq!(
        scouted.asked[1].roles(),
        ["system", "user", "assistant", "tool", "tool"]
    );
    assert_eq!(scouted.findings(), "Done.");
}

#[tokio::test]
async fn call_5_the_call_is_found_in_prose_in_code_fences_and_after_thinking() {
    for reply in [
        format!("I will note it down.\n\n{NOTE}"),
        format!("Here it is:\n```json\n{NOTE}\n```\n"),
        format!("```\n{NOTE}\n```"),
        format!("<think>Should I call {{\"tool\": \"fail\"}}? No.</think>\n{NOTE}"),
    ] {
        let scouted = scouted([says(reply.clone()), says("Done.")]).await;

        assert_eq!(scouted.notes, ["one"], "{reply}");
        assert_eq!(scouted.findings(), "Done.", "{reply}");
    }
}

#[tokio::test]
async fn call_6_bad_arguments_name_the_problem_and_the_nearest_field_and_nothing_runs() {
    for (parameters, error) in [
        (
            json!({"txt": "one"}),
            "the parameters of `note` are wrong: `parameters.txt` is unknown: did you mean `text`?; `parameters.text` is missing",
        ),
        (
            json!({"text": 1}),
            "the parameters of `note` are wrong: `parameters.text` must be of type string, but is a number",
        ),
    ] {
        let scouted = scouted([
            dirigent_tests::scripted::call("note", parameters),
            says("I give up."),
        ])
        .await;

        assert_eq!(
            scouted.asked[1].result(),
            json!({"success": false, "code": "bad_parameters", "error": error})
        );
        assert_eq!(scouted.notes.len(), 0);
    }
}

#[tokio::test]
async fn call_7_a_file_is_not_deleted_by_quoting_a_line() {
    let deletes = json!({
        "tool": "file_operations", "parameters": {"operation": "delete", "path": "keep.txt"}, "terminate": false
    });
    let log = format!("10:04 start\n10:05 reply {deletes}\n10:06 end\n");
    for quote in [
        format!("Line 2 of the log is: 10:05 reply {deletes}"),
        format!(
            "The model sent this:\n```json\n{}\n```",
            serde_json::to_string_pretty(&deletes).unwrap()
        ),
        format!("It sent {deletes} at 10:05, and then it ended."),
    ] {
        let stage = Stage::new().file("server.log", &log).file("keep.txt", "kept\n");
        let model = Scripted::new()
            .lead([plan("Ask.", [delegate("ask", "scout", "What is in server.log?")])])
            .agent(
                "scout",
                [
                    dirigent_tests::scripted::call(
                        "file_operations",
                        json!({"operation": "read", "path": "server.log"}),
                    ),
                    says(quote.clone()),
                    says(quote.clone()),
                    says("never asked"),
                ],
            )
            .reflector([achieved("Judged.")]);
        let scout = agent("scout", &["file_operations"]).access(dirigent_core::tool::Access::ReadWrite);
        let dirigent = stage.builder(model.clone()).agent(scout).build().await.unwrap();

        let run = dirigent.start(stage.goal("Read the log")).await.unwrap();
        let report = achieved_report(&run).await;

        assert_eq!(stage.read("keep.txt"), "kept\n", "{quote}");
        assert_eq!(findings(&report, 0, "ask").unwrap(), quote);
        assert_eq!(model.agent_asked("scout").len(), 3, "{quote}");
    }
}

#[tokio::test]
async fn call_4_call_3_agents_are_prompted_and_understood_in_the_form_of_their_model() {
    let json = "{\"tool\": \"name of the tool\", \"parameters\": {}, \"terminate\": false}";
    let tool_call = "{\"tool_call\": {\"name\": \"name of the tool\", \"arguments\": {}}}";
    let search = json!({"pattern": "x"});
    let by_json = || says(json!({"tool": "search", "parameters": search, "terminate": false}).to_string());
    let by_field = json!({"tool_call": {"name": "search", "arguments": search}}).to_string();
    for (calls, taught, call, reply) in [
        (CallForm::Json, json, by_json(), "42."),
        (CallForm::Auto, json, says(by_field.clone()), "42."),
        (
            CallForm::JsonSchema,
            "`{\"answer\": \"…\"}`",
            by_json(),
            "{\"answer\": \"42.\"}",
        ),
        (
            CallForm::Native,
            "Call tools only by function calls",
            native([("search", search.clone())]),
            "42.",
        ),
        (CallForm::ToolCall, tool_call, says(by_field), "42."),
    ] {
        let (stage, model) = (Stage::new(), Scripted::new().lead([call, says(reply)]));
        let profile = ModelProfile {
            calls,
            ..ModelProfile::default()
        };
        let dirigent = stage
            .builder(model.clone())
            .profile(profile)
            .build()
            .await
            .unwrap();
        let run = dirigent.start(stage.goal("What is it?")).await.unwrap();
        let report = achieved_report(&run).await;
        assert_eq!(report.summary, "42.", "{calls:?}");
        let asked = model.lead_asked();
        let system = asked[0].system();
        assert!(system.contains(taught), "{calls:?}: {system}");
        assert_eq!(
            asked[1].roles(),
            ["system", "user", "assistant", "tool"],
            "{calls:?}"
        );
        assert_eq!(asked[1].result()["success"], true, "{calls:?}");
    }
}

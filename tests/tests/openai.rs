//! A whole run with a model behind real HTTP: the requests are in order, and network faults are survived or reported.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use dirigent::model::Delivery;
use dirigent::model::{OpenAiModel, OpenAiOptions, RetryPolicy, Retrying};
use dirigent::{Dirigent, EndReason, Goal, Report};
use dirigent_model_server::{Fault, Matcher, ModelServer, Rule, Script, Turn};
use serde_json::json;

fn call(tool: &str, parameters: serde_json::Value, terminate: bool) -> Turn {
    Turn::text(json!({"tool": tool, "parameters": parameters, "terminate": terminate}).to_string())
}

/// A lead that delegates to a scout, a scout that reads a file, and a reflector that is satisfied.
fn script(first: Vec<Turn>) -> Script {
    let plan = json!({
        "summary": "Look into the notes.",
        "subtasks": [{"id": "look", "title": "Read the notes", "agent": "explore", "task": "Read notes.txt."}]
    });
    let read = json!({"operation": "read", "path": "notes.txt"});
    let lead = first.into_iter().chain([call("submit_plan", plan, true)]);
    Script::rules([
        Rule::new(Matcher::system("## submit_plan"), lead.collect::<Vec<_>>()),
        Rule::new(
            Matcher::system("You explore a workspace"),
            [
                call("file_operations", read, false),
                Turn::text("notes.txt:1 says: remember the milk"),
            ],
        ),
        Rule::new(
            Matcher::system("## submit_reflection"),
            [call(
                "submit_reflection",
                json!({"verdict": "achieved", "summary": "The notes say milk."}),
                true,
            )],
        ),
    ])
}

async fn pursue(folder: &Path, server: &ModelServer, delivery: Delivery) -> std::sync::Arc<Report> {
    std::fs::write(folder.join("notes.txt"), "remember the milk\n").unwrap();
    let mut options = OpenAiOptions::new(server.url(), "scripted").api_key("sk-canary");
    options.delivery = delivery;
    let model = Retrying::new(OpenAiModel::new(options).unwrap(), RetryPolicy::default());
    let journal = folder.join("journal.db");
    let dirigent = Dirigent::builder()
        .model(model)
        .journal(&journal)
        .build()
        .await
        .unwrap();
    let run = dirigent
        .start(Goal::new("What do the notes say?").workspace(folder))
        .await
        .unwrap();
    let report = run.outcome().await.unwrap();
    drop(dirigent);
    let journaled = std::fs::read(&journal).unwrap();
    assert!(
        !journaled.windows(9).any(|bytes| bytes == b"sk-canary"),
        "the key is in the journal"
    );
    report
}

#[tokio::test]
async fn call_2_a_run_on_a_served_model_reaches_its_goal_streamed_or_whole() {
    for delivery in [Delivery::Streamed, Delivery::Whole] {
        let folder = tempfile::tempdir().unwrap();
        let server = ModelServer::start(script(Vec::new())).await.unwrap();

        let report = pursue(folder.path(), &server, delivery).await;

        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        assert_eq!(report.summary, "The notes say milk.");
        assert!(server.violations().is_empty(), "{:?}", server.violations());
        assert_eq!(server.requests().len(), 4);
    }
}

#[tokio::test]
async fn host_7_a_busy_server_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let busy = Turn::from(Fault::RateLimited { retry_after: None });
    let server = ModelServer::start(script(vec![busy])).await.unwrap();

    let report = pursue(folder.path(), &server, Delivery::Streamed).await;

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn paor_12_a_refused_key_ends_the_run_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Turn::from(Fault::InvalidApiKey);
    let server = ModelServer::start(script(vec![refused])).await.unwrap();

    let report = pursue(folder.path(), &server, Delivery::Streamed).await;

    let Some(EndReason::Failed { error, .. }) = &report.end else {
        panic!("{:?}", report.end)
    };
    assert!(error.contains("401") && error.contains("key"), "{error}");
    assert!(!error.contains("sk-canary"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

//! APPROVE-3, MCP-2: which service a run calls if the service was replaced, and which rules count for it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use dirigent::approval_rules::Within;
use dirigent::services::ServiceSettings;
use dirigent::{ConversationSettings, EndReason, Goal, Resume, RunId};
use dirigent_tests::scripted::{Gate, Reply, Scripted, call, says};
use dirigent_tests::stage::Stage;
use serde_json::json;

use crate::service_registry::{counted, server, starts, with_model};

#[tokio::test]
async fn mcp_2_a_later_turn_can_use_the_service_of_an_earlier_one_and_is_told_how_it_changed() {
    let stage = Stage::new();
    let description = stage.workspace().join("description");
    let settings = ServiceSettings {
        trust: true,
        ..server(&[&format!("describes={}", description.display())])
    };
    let model = Scripted::new().lead([
        says("Ready."),
        echoes(),
        says("Heard."),
        says("Again."),
        says("It has changed."),
    ]);
    fs::write(&description, "Repeats words.").unwrap();
    let dirigent = with_model(&stage, model.clone()).await;
    dirigent.add_service("echo", settings).await.unwrap();
    let chat = dirigent
        .create_conversation(stage.workspace(), ConversationSettings::default())
        .await
        .unwrap();
    for message in ["Use the echo tool", "And now?", "Go on"] {
        let turn = chat.start_turn(Goal::new(message)).await.unwrap();
        turn.outcome().await.unwrap();
    }
    let asked = model.lead_asked();
    assert!(asked[0].last().contains("Repeats words"), "{}", asked[0].last());
    assert!(!asked[1].last().contains("mcp__echo"), "{}", asked[1].last());
    assert_eq!(asked[2].result()["output"], "heard");
    assert!(!asked[3].last().contains("mcp__echo"), "{}", asked[3].last());

    // Another process lists the changed tools between two turns.
    fs::write(&description, "Deletes words.").unwrap();
    dirigent.stop_service("echo", None).await.unwrap();
    dirigent.start_service("echo", None).await.unwrap();
    let turn = chat.start_turn(Goal::new("Thanks")).await.unwrap();
    turn.outcome().await.unwrap();
    let asked = model.lead_asked();
    assert!(asked[4].last().contains("Deletes words"), "{}", asked[4].last());
    dirigent.shutdown().await.unwrap();
}

/// A run whose first call of `mcp__echo__echo` waits for an approval, with the calls that its lead makes then.
async fn waiting_run(stage: &Stage, model: &Scripted) -> RunId {
    let dirigent = with_model(stage, model.clone()).await;
    dirigent.add_service("echo", server(&[])).await.unwrap();
    let run = dirigent.start(stage.goal("Use the echo tool")).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().end, Some(EndReason::UserRequired));
    dirigent.shutdown().await.unwrap();
    run.id()
}

fn echoes() -> Reply {
    call(
        "call_tool",
        json!({"name": "mcp__echo__echo", "arguments": {"text": "heard"}}),
    )
}

#[tokio::test]
async fn approve_3_a_resumed_run_does_not_call_a_service_that_was_replaced() {
    let stage = Stage::new();
    let model = Scripted::new().lead([echoes(), echoes(), says("Nobody echoes.")]);
    let run = waiting_run(&stage, &model).await;
    let pids = stage.workspace().join("pids");
    let dirigent = with_model(&stage, model.clone()).await;
    let rules = dirigent.approval_rules();
    let calls = || "mcp__echo__*".parse().unwrap();
    rules.allow(run, Within::Run, calls()).await.unwrap();
    dirigent.update_service("echo", counted(&pids)).await.unwrap();
    let before = starts(&pids);
    dirigent.shutdown().await.unwrap();

    let dirigent = with_model(&stage, model.clone()).await;
    let resumed = dirigent.resume(run, Resume::new()).await.unwrap();
    assert_eq!(
        resumed.outcome().await.unwrap().end,
        Some(EndReason::GoalAchieved)
    );
    let asked = model.lead_asked();
    let told = asked.last().unwrap().last();
    assert!(
        told.contains("the service echo has another program or address than when this run started"),
        "{told}"
    );
    assert_eq!(starts(&pids), before);
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn approve_3_a_rule_is_about_the_service_that_the_run_used_and_not_about_its_successor() {
    let stage = Stage::new();
    let model = Scripted::new().lead([echoes(), echoes()]);
    let run = waiting_run(&stage, &model).await;
    let dirigent = with_model(&stage, model).await;
    dirigent
        .update_service("echo", server(&["greets"]))
        .await
        .unwrap();
    let rules = dirigent.approval_rules();
    let calls = "mcp__echo__*".parse().unwrap();
    rules.allow(run, Within::Everywhere, calls).await.unwrap();

    let next = dirigent.start(stage.goal("Use the echo tool")).await.unwrap();
    assert_eq!(next.outcome().await.unwrap().end, Some(EndReason::UserRequired));
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn approve_3_an_active_run_does_not_call_a_service_that_is_replaced_meanwhile() {
    let stage = Stage::new();
    let gate = Gate::shut();
    let model = Scripted::new().lead([echoes().behind(&gate), says("Nobody echoes.")]);
    let dirigent = with_model(&stage, model.clone()).await;
    let trusted = |settings| ServiceSettings {
        trust: true,
        ..settings
    };
    dirigent.add_service("echo", trusted(server(&[]))).await.unwrap();
    let run = dirigent.start(stage.goal("Use the echo tool")).await.unwrap();
    dirigent
        .update_service("echo", trusted(server(&["greets"])))
        .await
        .unwrap();
    gate.open();
    assert_eq!(run.outcome().await.unwrap().end, Some(EndReason::GoalAchieved));
    let told = model.lead_asked()[1].last().to_owned();
    assert!(told.contains("has another program or address"), "{told}");
    dirigent.shutdown().await.unwrap();
}

#[tokio::test]
async fn approve_1_a_rule_about_a_services_tools_does_not_count_for_another_program_of_its_name() {
    let stage = Stage::new();
    let turn = || {
        let echo = json!({"name": "mcp__echo__echo", "arguments": {"text": "heard"}});
        [call("call_tool", echo), says("Heard.")]
    };
    // The first and the last call wait for an approval that nobody gives.
    let [waits, _] = turn();
    let [waits_again, _] = turn();
    let model = Scripted::new().lead([waits].into_iter().chain(turn()).chain([waits_again]));
    let dirigent = with_model(&stage, model).await;
    dirigent.add_service("echo", server(&[])).await.unwrap();
    let run = async || {
        let run = dirigent.start(stage.goal("Use the echo tool")).await.unwrap();
        (run.id(), run.outcome().await.unwrap().end.clone())
    };
    let (first, end) = run().await;
    assert_eq!(end, Some(EndReason::UserRequired));
    let calls = "mcp__echo__*".parse().unwrap();
    let rules = dirigent.approval_rules();
    rules.allow(first, Within::Everywhere, calls).await.unwrap();
    assert_eq!(run().await.1, Some(EndReason::GoalAchieved));
    let outdated = async || rules.outdated_in(&stage.workspace(), None).await.unwrap();
    assert_eq!(outdated().await, []);

    dirigent
        .update_service("echo", server(&["greets"]))
        .await
        .unwrap();
    assert_eq!(outdated().await.len(), 1);
    assert_eq!(run().await.1, Some(EndReason::UserRequired));
    dirigent.shutdown().await.unwrap();
}

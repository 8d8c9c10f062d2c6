//! LEAD: one main agent that answers, acts, delegates or plans, from goal to end.

use dirigent::{EventKind, Goal, Phase};
use dirigent_tests::scripted::{Gate, Scripted, achieved, call, delegate, go_on, plan, says};
use dirigent_tests::stage::{Stage, all_events, until};
use serde_json::{Value, json};

fn create(path: &str) -> Value {
    json!({"operation": "write", "path": path, "content": "one\n"})
}

#[tokio::test]
async fn lead_1_a_lead_that_changed_a_file_is_judged_and_continues_its_conversation() {
    let stage = Stage::new();
    let model = Scripted::new()
        .lead([
            call("file_operations", create("a.txt")),
            says("Created a.txt."),
            call("file_operations", create("b.txt")),
            says("Created b.txt, too."),
        ])
        .reflector([go_on("b.txt is missing."), achieved("Both are there.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent
        .start(stage.goal("Create a.txt and b.txt"))
        .await
        .unwrap();
    let report = run.outcome().await.unwrap();

    assert_eq!(report.summary, "Both are there.");
    assert_eq!(
        (stage.read("a.txt"), stage.read("b.txt")),
        ("one\n".to_owned(), "one\n".to_owned())
    );
    let changed: Vec<&str> = report.changed.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(changed, ["a.txt", "b.txt"]);
    let asked = model.lead_asked();
    let conversation = &asked[2].messages;
    assert_eq!(asked[1].messages[..], conversation[..asked[1].messages.len()]);
    assert!(
        asked[2].last().contains("b.txt is missing."),
        "{}",
        asked[2].last()
    );
    let phases = all_events(&run)
        .await
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::PhaseChanged { transition } => Some(transition.to),
            _ => None,
        });
    let iteration = [
        Phase::Planning,
        Phase::Acting,
        Phase::Observing,
        Phase::Reflecting,
    ];
    let expected = [&iteration[..], &iteration[..], &[Phase::Complete]].concat();
    assert_eq!(phases.collect::<Vec<_>>(), expected);

    let recording = dirigent.recording(run.id()).await.unwrap();
    let replayed = dirigent
        .replay(&recording, Goal::from_recording(&recording))
        .await
        .unwrap();
    assert!(replayed.outcome().await.unwrap().is_achieved());
}

#[tokio::test]
async fn lead_1_a_simple_question_needs_one_agent_and_no_reflection() {
    let stage = Stage::new().file("a.txt", "one\n");
    let read = json!({"operation": "read", "path": "a.txt"});
    let model = Scripted::new().lead([call("file_operations", read), says("It says one.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent.start(stage.goal("What does a.txt say?")).await.unwrap();
    let report = run.outcome().await.unwrap();
    assert!(report.is_achieved());
    assert_eq!(
        (report.summary.as_str(), model.asked().len()),
        ("It says one.", 2)
    );
}

#[tokio::test]
async fn lead_1_the_lead_receives_findings_and_the_result_of_its_plan() {
    let stage = Stage::new();
    let model = Scripted::new()
        .lead([
            call("delegate", json!({"agent": "explore", "task": "Look at it."})),
            plan("Look again.", [delegate("look", "explore", "Look again.")]),
            says("Nothing there."),
        ])
        .agent("explore", [says("Found nothing."), says("Still nothing.")])
        .reflector([go_on("Say so."), achieved("There is nothing.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent.start(stage.goal("Is there anything?")).await.unwrap();
    let report = run.outcome().await.unwrap();
    let asked = model.lead_asked();
    assert!(asked[1].last().contains("Found nothing."), "{}", asked[1].last());
    let result = asked[2].last();
    assert!(
        result.contains("Still nothing.") && result.contains("Say so."),
        "{result}"
    );
    assert!(
        !result.contains("Found nothing."),
        "it knows its own work: {result}"
    );
    // The first verdict was `continue`, so the lead's answer is judged, too.
    assert_eq!(report.summary, "There is nothing.");
    assert_eq!(model.reflector_asked().len(), 2);
}

#[tokio::test]
async fn paor_8_urgent_guidance_reaches_a_lead_that_waits_for_its_model() {
    let stage = Stage::new();
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("Never said.").behind(&gate), says("As you said.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent.start(stage.goal("Try")).await.unwrap();
    until(&mut run.events(0), |kind| {
        matches!(kind, EventKind::AgentStarted { .. })
    })
    .await;
    run.guide_now("Not like that.").unwrap();
    let report = run.outcome().await.unwrap();
    assert_eq!(report.summary, "As you said.");
    assert!(model.lead_asked()[1].last().contains("1. Not like that."));
}

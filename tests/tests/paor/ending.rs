//! PAOR-12: a run ends for exactly one recorded reason.

use dirigent::{DirigentError, EndReason, EventKind, Goal, Millis, Resume, RunLimits, RuntimeError};
use dirigent_tests::scripted::{Reply, Scripted, achieved, ask_user, calls, go_on, hopeless, plan, says};
use dirigent_tests::stage::{Stage, all_events, until, until_free};
use serde_json::{Value, json};

/// Runs the goal to its end, and checks that the report, the events and the journal give this reason.
async fn ends(model: Scripted, limits: RunLimits, journaled: Value) {
    let stage = Stage::new();
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(stage.goal("Try").limits(limits)).await.unwrap();
    if journaled["reason"] == "cancelled" {
        until(&mut run.events(0), |kind| {
            matches!(kind, EventKind::AgentStarted { .. })
        })
        .await;
        run.cancel().unwrap();
    }

    let report = run.outcome().await.unwrap();

    assert_eq!(json!(report.end), journaled);
    let told = all_events(&run).await.into_iter();
    let reasons = told.filter_map(|event| match &event.kind {
        EventKind::RunFinished { reason, .. } => Some(json!(reason)),
        _ => None,
    });
    assert_eq!(reasons.collect::<Vec<_>>(), std::slice::from_ref(&journaled));
    assert_eq!(stage.journaled_end(), journaled);
}

#[tokio::test]
async fn paor_12_each_end_reason_is_the_only_one_in_report_events_and_journal() {
    let reflecting = |reflection| {
        Scripted::new()
            .lead([plan("Nothing.", [])])
            .reflector([reflection])
    };
    let planning = |reply| Scripted::new().lead([reply]);
    let one_iteration = RunLimits {
        max_iterations: 1,
        ..RunLimits::default()
    };
    let moment = RunLimits {
        timeout: Some(Millis(50)),
        ..RunLimits::default()
    };
    // The lead and the reflector ask once each.
    let two_calls = RunLimits {
        max_model_calls: Some(2),
        ..RunLimits::default()
    };
    let unreachable = "the lead ended without an answer: the model did not answer: no such model: gpt-0";
    for (model, limits, journaled) in [
        (
            reflecting(achieved("Done.")),
            one_iteration.clone(),
            json!({"reason": "goal_achieved"}),
        ),
        (
            reflecting(go_on("Not yet.")),
            one_iteration,
            json!({"reason": "iteration_limit", "max_iterations": 1}),
        ),
        (planning(Reply::Never), moment, json!({"reason": "time_limit"})),
        (
            reflecting(go_on("Not yet.")),
            two_calls,
            json!({"reason": "budget_exhausted", "budget": "model_calls", "used": 2, "limit": 2}),
        ),
        (
            reflecting(ask_user("Two.", "Which one?")),
            RunLimits::default(),
            json!({"reason": "user_required"}),
        ),
        (
            planning(Reply::Never),
            RunLimits::default(),
            json!({"reason": "cancelled"}),
        ),
        (
            planning(Reply::Fails("no such model: gpt-0")),
            RunLimits::default(),
            json!({"reason": "failed", "error": unreachable, "cause": "model_unavailable"}),
        ),
        (
            reflecting(hopeless("There is no such function.")),
            RunLimits::default(),
            json!({"reason": "failed", "error": "There is no such function."}),
        ),
    ] {
        ends(model, limits, journaled).await;
    }
}

#[tokio::test]
async fn paor_1_a_run_whose_model_could_not_be_reached_is_resumed_and_recorded() {
    // given a run that failed because its reflector's model became unavailable
    let stage = Stage::new().file("notes.txt", "one\n");
    let look = calls(
        "look",
        [(
            "file_operations",
            json!({"operation": "read", "path": "notes.txt"}),
        )],
    );
    let model = Scripted::new()
        .lead([plan("Look.", [look])])
        .reflector([Reply::Fails("connection refused")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(stage.goal("Count the lines")).await.unwrap();
    let failed = run.outcome().await.unwrap();
    assert_eq!(
        failed.end.as_ref().map(EndReason::is_resumable),
        Some(true),
        "{}",
        failed.summary
    );
    drop(dirigent);

    // when the model is available again
    let model = Scripted::new().lead([says("One line.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    until_free(&dirigent, run.id()).await;
    let resumed = dirigent.resume(run.id(), Resume::new()).await.unwrap();

    // then it plans again with the earlier observations, and the journal replays completely
    assert!(resumed.outcome().await.unwrap().is_achieved());
    let asked = model.lead_asked();
    assert_eq!(asked[0].section("ITERATION"), Some("2 of 15".to_owned()));
    let interrupted = asked[0].section("INTERRUPTED").unwrap();
    assert!(
        interrupted.starts_with("the run ended before this iteration was evaluated: "),
        "{interrupted}"
    );
    let recording = dirigent.recording(run.id()).await.unwrap();
    let replayed = dirigent
        .replay(&recording, Goal::from_recording(&recording))
        .await
        .unwrap();
    assert!(replayed.outcome().await.unwrap().is_achieved());
    let over = dirigent.resume(run.id(), Resume::new()).await;
    assert!(matches!(
        over.err(),
        Some(DirigentError::Runtime(RuntimeError::Ended { .. }))
    ));
}

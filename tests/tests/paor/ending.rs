//! PAOR-12: a run ends for exactly one recorded reason.

use dirigent::core::budget::BudgetKind;
use dirigent::{
    DirigentError, EndReason, EventKind, FailureCause, Goal, Millis, Resume, RunLimits, RuntimeError,
};
use dirigent_tests::scripted::{Reply, Scripted, achieved, ask_user, calls, go_on, hopeless, plan, says};
use dirigent_tests::stage::{Stage, all_events, until, until_free};
use serde_json::{Value, json};

/// Carries the run out to its end, and checks that the report, the events and the journal give that one reason.
async fn ends(model: Scripted, limits: RunLimits, cancelled: bool, reason: EndReason, journaled: Value) {
    let stage = Stage::new();
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(stage.goal("Try").limits(limits)).await.unwrap();
    if cancelled {
        until(&mut run.events(), |kind| {
            matches!(kind, EventKind::AgentStarted { .. })
        })
        .await;
        run.cancel().unwrap();
    }

    let report = run.outcome().await.unwrap();

    assert_eq!(report.end.as_ref(), Some(&reason));
    let reasons: Vec<EndReason> = all_events(&run)
        .await
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::RunFinished { reason, .. } => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, [reason]);
    assert_eq!(stage.journaled_end(), journaled);
}

fn iteration() -> Scripted {
    Scripted::new().planner([plan("Nothing.", [])])
}

#[tokio::test]
async fn paor_12_goal_achieved() {
    let model = iteration().reflector([achieved("Done.")]);
    let journaled = json!({"reason": "goal_achieved"});
    ends(
        model,
        RunLimits::default(),
        false,
        EndReason::GoalAchieved,
        journaled,
    )
    .await;
}

#[tokio::test]
async fn paor_12_iteration_limit() {
    let limits = RunLimits {
        max_iterations: 1,
        ..RunLimits::default()
    };
    let reason = EndReason::IterationLimit { max_iterations: 1 };
    let journaled = json!({"reason": "iteration_limit", "max_iterations": 1});
    ends(
        iteration().reflector([go_on("Not yet.")]),
        limits,
        false,
        reason,
        journaled,
    )
    .await;
}

#[tokio::test]
async fn paor_12_time_limit() {
    let limits = RunLimits {
        timeout: Some(Millis(50)),
        ..RunLimits::default()
    };
    let model = Scripted::new().planner([Reply::Never]);
    ends(
        model,
        limits,
        false,
        EndReason::TimeLimit,
        json!({"reason": "time_limit"}),
    )
    .await;
}

#[tokio::test]
async fn paor_12_budget() {
    // The planner and the reflector have asked once each; tokens and money are counted in `storm` and in the runtime's tests.
    let limits = RunLimits {
        max_model_calls: Some(2),
        ..RunLimits::default()
    };
    let reason = EndReason::BudgetExhausted {
        budget: BudgetKind::ModelCalls,
        used: 2,
        limit: 2,
    };
    let journaled = json!({"reason": "budget_exhausted", "budget": "model_calls", "used": 2, "limit": 2});
    ends(
        iteration().reflector([go_on("Not yet.")]),
        limits,
        false,
        reason,
        journaled,
    )
    .await;
}

#[tokio::test]
async fn paor_12_user_intervention_required() {
    let model = iteration().reflector([ask_user("Two.", "Which one?")]);
    let journaled = json!({"reason": "user_required"});
    ends(
        model,
        RunLimits::default(),
        false,
        EndReason::UserRequired,
        journaled,
    )
    .await;
}

#[tokio::test]
async fn paor_12_cancelled() {
    let model = Scripted::new().planner([Reply::Never]);
    let journaled = json!({"reason": "cancelled"});
    ends(model, RunLimits::default(), true, EndReason::Cancelled, journaled).await;
}

#[tokio::test]
async fn paor_12_error_of_the_planner_whose_model_cannot_be_reached() {
    let model = Scripted::new().planner([Reply::Fails("no such model: gpt-0")]);
    let error = "the planner ended without a plan: the model did not answer: no such model: gpt-0".to_owned();
    let journaled = json!({"reason": "failed", "error": error, "cause": "model_unavailable"});
    let end = EndReason::Failed {
        error,
        cause: FailureCause::ModelUnavailable,
    };
    ends(model, RunLimits::default(), false, end, journaled).await;
}

#[tokio::test]
async fn paor_1_a_run_whose_model_could_not_be_reached_is_resumed_and_recorded() {
    // given a run that failed as its reflector's model went away
    let stage = Stage::new().file("notes.txt", "one\n");
    let look = calls(
        "look",
        [(
            "file_operations",
            json!({"operation": "read", "path": "notes.txt"}),
        )],
    );
    let model = Scripted::new()
        .planner([plan("Look.", [look])])
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

    // when the model is back
    let model = Scripted::new().planner([says("One line.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    until_free(&dirigent, run.id()).await;
    let resumed = dirigent.resume(run.id(), Resume::new()).await.unwrap();

    // then it plans again, knowing what was observed, and the whole of it replays
    assert!(resumed.outcome().await.unwrap().is_achieved());
    let asked = model.planner_asked();
    assert_eq!(asked[0].section("ITERATION"), Some("2 of 15"));
    let iterations = asked[0].json_lines("ITERATIONS");
    assert!(
        iterations[0]["interrupted"]
            .as_str()
            .unwrap()
            .starts_with("the run ended before this iteration was evaluated: "),
        "{iterations:?}"
    );
    let recording = dirigent.recording(run.id()).unwrap();
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

#[tokio::test]
async fn paor_12_unrecoverable_error_by_the_reflectors_judgement() {
    let model = iteration().reflector([hopeless("There is no such function.")]);
    let error = "There is no such function.".to_owned();
    let journaled = json!({"reason": "failed", "error": error});
    ends(
        model,
        RunLimits::default(),
        false,
        EndReason::failed(error),
        journaled,
    )
    .await;
}

//! PAOR-12: a run ends for exactly one recorded reason.

use dirigent::core::budget::BudgetKind;
use dirigent::{EndReason, EventKind, Millis, RunLimits};
use dirigent_tests::scripted::{Reply, Scripted, achieved, ask_user, go_on, hopeless, plan};
use dirigent_tests::stage::{Stage, all_events, until};
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

fn round() -> Scripted {
    Scripted::new().planner([plan("Nothing.", [])])
}

#[tokio::test]
async fn paor_12_goal_achieved() {
    let model = round().reflector([achieved("Done.")]);
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
        round().reflector([go_on("Not yet.")]),
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
        round().reflector([go_on("Not yet.")]),
        limits,
        false,
        reason,
        journaled,
    )
    .await;
}

#[tokio::test]
async fn paor_12_user_intervention_required() {
    let model = round().reflector([ask_user("Two.", "Which one?")]);
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
async fn paor_12_unrecoverable_error_of_the_planner() {
    let model = Scripted::new().planner([Reply::Fails("no such model: gpt-0")]);
    let error = "the planner ended without a plan: the model did not answer: no such model: gpt-0".to_owned();
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

#[tokio::test]
async fn paor_12_unrecoverable_error_by_the_reflectors_judgement() {
    let model = round().reflector([hopeless("There is no such function.")]);
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

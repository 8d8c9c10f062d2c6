//! PAOR-1, PAOR-3.

use dirigent::core::phase::Transition;
use dirigent::{Detail, EndReason, EventKind, Phase, RunLimits, render};
use dirigent_tests::scripted::{Reply, Scripted, achieved, calls, go_on, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, all_events, timeless};
use serde_json::json;

async fn transitions(model: Scripted) -> Vec<String> {
    let stage = Stage::new().file("notes.txt", "one\n");
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(stage.goal("Tidy up")).await.unwrap();
    run.outcome().await.unwrap();
    all_events(&run)
        .await
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::PhaseChanged {
                transition: Transition { from, to, iteration },
            } => Some(format!("{iteration}: {from} → {to}")),
            _ => None,
        })
        .collect()
}

fn look() -> serde_json::Value {
    calls("look", [("search", json!({"pattern": "one"}))])
}

#[tokio::test]
async fn paor_1_a_run_loops_back_to_planning_until_the_goal_is_achieved_and_every_transition_is_an_event() {
    let model = Scripted::new()
        .planner([plan("Look.", [look()]), plan("Look again.", [look()])])
        .reflector([go_on("Not yet."), achieved("Done.")]);

    assert_eq!(
        transitions(model).await,
        [
            "1: Idle → Planning",
            "1: Planning → Acting",
            "1: Acting → Observing",
            "1: Observing → Reflecting",
            "2: Reflecting → Planning",
            "2: Planning → Acting",
            "2: Acting → Observing",
            "2: Observing → Reflecting",
            "2: Reflecting → Complete",
        ]
    );
}

#[tokio::test]
async fn paor_1_an_unrecoverable_error_ends_in_failed() {
    let model = Scripted::new().planner([Reply::Fails("the model's server is gone")]);

    assert_eq!(
        transitions(model).await,
        ["1: Idle → Planning", "1: Planning → Failed"]
    );
}

#[tokio::test]
async fn paor_1_an_answer_in_place_of_a_plan_goes_through_every_phase_with_one_model_request() {
    let model = Scripted::new().planner([says("42.")]);

    assert_eq!(
        transitions(model.clone()).await,
        [
            "1: Idle → Planning",
            "1: Planning → Acting",
            "1: Acting → Observing",
            "1: Observing → Reflecting",
            "1: Reflecting → Complete",
        ]
    );
    assert_eq!(model.asked().len(), 1);
}

#[test]
fn paor_1_any_other_transition_is_refused_with_both_states_named() {
    use Phase::{Acting, Complete, Failed, Idle, Observing, Planning, Reflecting};
    let phases = [Idle, Planning, Acting, Observing, Reflecting, Complete, Failed];
    let allowed = [
        (Idle, Planning),
        (Planning, Acting),
        (Acting, Observing),
        (Observing, Reflecting),
        (Reflecting, Planning),
        (Reflecting, Complete),
        (Idle, Failed),
        (Planning, Failed),
        (Acting, Failed),
        (Observing, Failed),
        (Reflecting, Failed),
        // Only by resuming a run that failed at a limit, or for want of a model.
        (Failed, Planning),
    ];

    for from in phases {
        for to in phases {
            let entered = from.enter(to);
            if allowed.contains(&(from, to)) {
                assert_eq!(entered, Ok(to));
            } else {
                assert_eq!(
                    entered.unwrap_err().to_string(),
                    format!("a run cannot change from phase {from} to {to}")
                );
            }
        }
    }
    assert_eq!(
        Complete.enter(Planning).unwrap_err().to_string(),
        "a run cannot change from phase Complete to Planning"
    );
}

#[tokio::test]
async fn paor_3_after_max_iterations_iterations_the_user_reads_what_was_done_what_is_left_and_how_to_go_on() {
    // given a goal that two iterations do not reach
    let stage = Stage::new().file("notes.txt", "one\n");
    let write = (
        "file_operations",
        json!({"operation": "write", "path": "b.txt", "content": "b\n"}),
    );
    let model = Scripted::new()
        .planner([
            plan("Write b.txt.", [calls("write", [write])]),
            plan(
                "Check it.",
                [calls(
                    "check",
                    [("execute_command", json!({"command": ["false"]}))],
                )],
            ),
        ])
        .reflector([
            go_on("b.txt is written."),
            go_on("b.txt is written; the check fails."),
        ]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();

    // when it may take two
    let limits = RunLimits {
        max_iterations: 2,
        ..RunLimits::default()
    };
    let run = dirigent
        .start(stage.goal("Write and check").limits(limits))
        .await
        .unwrap();
    let report = run.outcome().await.unwrap();

    // then
    assert_eq!(report.end, Some(EndReason::IterationLimit { max_iterations: 2 }));
    assert_eq!(model.planner_asked().len(), 2);
    insta::assert_snapshot!(render::report(&timeless(&report), Detail::Concise), @r#"
    Stopped at a limit (iteration limit: 2 planning iterations did not reach the goal) after 2 iterations, 0 ms: 4 model calls, 2 tool calls, 440 tokens.

    b.txt is written; the check fails.

    Changed 1 file:
      created  b.txt

    Remaining:
      Title of check (failed)

    To continue, resume the run with more iterations allowed.
    "#);
}

#[tokio::test]
async fn paor_3_fifteen_iterations_are_the_default() {
    let stage = Stage::new();
    let model = Scripted::new()
        .planner((0..20).map(|_| plan("Nothing yet.", [])))
        .reflector((0..20).map(|_| go_on("Not yet.")));
    let dirigent = stage.builder(model.clone()).build().await.unwrap();

    let run = dirigent.start(stage.goal("Wait")).await.unwrap();
    let report = run.outcome().await.unwrap();

    assert_eq!(report.end, Some(EndReason::IterationLimit { max_iterations: 15 }));
    assert_eq!(report.iteration_count, 15);
    assert_eq!(model.planner_asked().len(), 15);
}

#[tokio::test]
async fn paor_3_the_last_iteration_allowed_may_still_reach_the_goal() {
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan("Nothing.", [])])
        .reflector([achieved("Done.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let limits = RunLimits {
        max_iterations: 1,
        ..RunLimits::default()
    };

    let run = dirigent.start(stage.goal("Wait").limits(limits)).await.unwrap();

    assert_eq!(achieved_report(&run).await.iteration_count, 1);
}

//! PAOR-8, PAOR-9: what the user says, unasked and asked.

use dirigent::core::brief::AgentRole;
use dirigent::core::tool::Repeat;
use dirigent::{EndReason, EventKind, Phase, Resume, UserPresence};
use dirigent_tests::probes::{Notes, wait};
use dirigent_tests::scripted::{Gate, Scripted, achieved, ask_user, calls, go_on, plan, plan_for_guidance};
use dirigent_tests::stage::{Stage, achieved_report, all_events, until, until_free};
use serde_json::json;

const GUIDANCE: &str = "search only in src/utils";

/// Runs two iterations and gives guidance when the first is in that moment.
async fn guided_when(moment: impl Fn(&EventKind) -> bool) {
    // given a first iteration that waits in each of its phases until the guidance was given
    let (stage, gate) = (Stage::new(), Gate::shut());
    let model = Scripted::new()
        .planner([
            plan(
                "First.",
                [
                    calls("quick", [("search", json!({"pattern": "x"}))]),
                    calls("slow", [("hold", json!({}))]),
                ],
            ),
            plan_for_guidance("In src/utils only.", &[1], []),
        ])
        .reflector([go_on("More.").behind(&gate), achieved("Done.")]);
    let hold_open = Gate::shut();
    let dirigent = stage
        .builder(model.clone())
        .tool(wait("hold", Repeat::Safe, &Notes::default(), &hold_open))
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Find the parser")).await.unwrap();
    let mut events = run.events();

    // when
    let reflecting = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::AgentStarted {
                role: AgentRole::Reflector,
                ..
            }
        )
    };
    loop {
        let event = events.next().await.unwrap().unwrap();
        if moment(&event.kind) {
            run.guide(GUIDANCE).unwrap();
            break;
        }
        if matches!(&event.kind, EventKind::SubTaskFinished { observation } if observation.subtask.0 == "quick")
        {
            hold_open.open();
        }
        assert!(!reflecting(&event.kind), "the moment did not come");
    }
    hold_open.open();
    gate.open();
    achieved_report(&run).await;

    // then the next plan was made with it, and says so
    let asked = model.planner_asked();
    assert_eq!(asked[0].section("GUIDANCE"), None);
    assert_eq!(asked[1].section("GUIDANCE"), Some("1. search only in src/utils"));
    let events = all_events(&run).await;
    assert!(events.iter().any(|event| event.kind
        == EventKind::Guided {
            guidance: GUIDANCE.to_owned(),
            immediate: false,
        }));
    let answered: Vec<Vec<u32>> = events
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::PlanMade { plan } => Some(plan.answers_guidance),
            _ => None,
        })
        .collect();
    assert_eq!(answered, [vec![], vec![1]]);
}

fn enters(phase: Phase) -> impl Fn(&EventKind) -> bool {
    move |kind| matches!(kind, EventKind::PhaseChanged { transition } if transition.to == phase)
}

#[tokio::test]
async fn paor_8_guidance_given_while_acting_is_taken_into_account_by_the_next_plan() {
    guided_when(enters(Phase::Acting)).await;
}

#[tokio::test]
async fn paor_8_guidance_given_while_observing_is_taken_into_account_by_the_next_plan() {
    guided_when(enters(Phase::Observing)).await;
}

#[tokio::test]
async fn paor_8_guidance_given_while_reflecting_is_taken_into_account_by_the_next_plan() {
    guided_when(enters(Phase::Reflecting)).await;
}

#[tokio::test]
async fn paor_8_guidance_given_to_a_run_that_is_stuck_is_part_of_its_next_plan() {
    // given a run that waits for an answer
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan("First.", []), plan_for_guidance("As you say.", &[1, 2], [])])
        .reflector([ask_user("Two parsers.", "Which one?"), achieved("Done.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let goal = stage.goal("Mend the parser").user(UserPresence::Present);
    let run = dirigent.start(goal).await.unwrap();
    until(&mut run.events(), |kind| {
        matches!(kind, EventKind::QuestionAsked { .. })
    })
    .await;

    // when the user says more than the answer
    run.guide(GUIDANCE).unwrap();
    run.guide("leave the tests alone").unwrap();
    run.answer("the new one").await.unwrap();
    achieved_report(&run).await;

    // then
    let asked = &model.planner_asked()[1];
    assert_eq!(
        asked.section("GUIDANCE"),
        Some("1. search only in src/utils\n2. leave the tests alone")
    );
    assert_eq!(
        asked.json_lines("ANSWERS"),
        [json!({"question": "Which one?", "answer": "the new one"})]
    );
}

fn asking() -> Scripted {
    Scripted::new()
        .planner([plan("First.", [])])
        .reflector([ask_user("Two functions have that name.", "Which one?")])
}

fn answered() -> Scripted {
    Scripted::new()
        .planner([plan("Second.", [])])
        .reflector([achieved("Renamed the second.")])
}

#[tokio::test]
async fn paor_9_a_run_that_needs_the_user_pauses_asks_and_continues_with_the_answer() {
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan("First.", []), plan("Second.", [])])
        .reflector([
            ask_user("Two functions.", "Which one?"),
            achieved("Renamed the second."),
        ]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let run = dirigent
        .start(stage.goal("Rename it").user(UserPresence::Present))
        .await
        .unwrap();

    // when it asks
    let mut events = run.events();
    let asked = until(&mut events, |kind| {
        matches!(kind, EventKind::QuestionAsked { .. })
    })
    .await;
    let EventKind::QuestionAsked { question, .. } = asked.kind else {
        unreachable!("just matched");
    };
    assert_eq!(question.question, "Which one?");
    assert_eq!(events.view().unwrap().run().phase(), Phase::Reflecting);
    run.answer("the second").await.unwrap();

    // then it goes on with the answer
    let report = achieved_report(&run).await;
    assert_eq!(report.summary, "Renamed the second.");
    assert_eq!(
        model.planner_asked()[1].json_lines("ANSWERS"),
        [json!({"question": "Which one?", "answer": "the second"})]
    );
}

#[tokio::test]
async fn paor_9_a_paused_run_survives_a_restart() {
    // given a run that waits for an answer, in an orchestrator that goes away
    let stage = Stage::new();
    let dirigent = stage.builder(asking()).build().await.unwrap();
    let run = dirigent
        .start(stage.goal("Rename it").user(UserPresence::Present))
        .await
        .unwrap();
    until(&mut run.events(), |kind| {
        matches!(kind, EventKind::QuestionAsked { .. })
    })
    .await;
    drop(dirigent);
    assert!(run.outcome().await.is_err());

    // when another one goes on with it
    let model = answered();
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    until_free(&dirigent, run.id()).await;
    let resumed = dirigent
        .resume(run.id(), Resume::new().user(UserPresence::Present))
        .await
        .unwrap();
    resumed.answer("the second").await.unwrap();

    // then the answer reaches the plan, and nothing was done twice
    achieved_report(&resumed).await;
    assert_eq!(model.asked().len(), 2);
    assert_eq!(
        model.planner_asked()[0].json_lines("ANSWERS"),
        [json!({"question": "Which one?", "answer": "the second"})]
    );
}

#[tokio::test]
async fn paor_9_without_a_user_it_stops_with_the_question_and_is_resumed_with_the_answer_later() {
    // given nobody there
    let stage = Stage::new();
    let dirigent = stage.builder(asking()).build().await.unwrap();
    let run = dirigent.start(stage.goal("Rename it")).await.unwrap();
    let report = run.outcome().await.unwrap();
    assert_eq!(report.end, Some(EndReason::UserRequired));
    assert_eq!(report.question.as_ref().unwrap().question, "Which one?");
    drop(dirigent);

    // when somebody comes
    let model = answered();
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    until_free(&dirigent, run.id()).await;
    let resumed = dirigent
        .resume(run.id(), Resume::new().answer("the second".to_owned()))
        .await
        .unwrap();

    // then
    achieved_report(&resumed).await;
    assert_eq!(
        model.planner_asked()[0].json_lines("ANSWERS"),
        [json!({"question": "Which one?", "answer": "the second"})]
    );
}

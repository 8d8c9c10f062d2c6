//! HOST-11 and PAOR-10: several runs at once, with their questions, in one folder and beside other processes (HOST-8).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent::{DirigentError, EventKind, RunFilter, RunId, RuntimeError, UserPresence, WhenShared};
use dirigent_store::Journal;
use dirigent_tests::scripted::{Gate, Scripted, achieved, ask_user, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, all_events, until};
use serde_json::json;

#[tokio::test]
async fn host_11_questions_of_several_agents_are_each_answered_by_their_ids() {
    // given two agents that ask
    let stage = Stage::new();
    let asks = |question: &str| call("ask_user", json!({"question": question, "choices": ["x", "y"]}));
    let model = Scripted::new()
        .lead([plan(
            "Both.",
            [
                delegate("a", "painter", "Paint."),
                delegate("b", "cutter", "Cut."),
            ],
        )])
        .agent("painter", [asks("Which colour?"), says("Painted.")])
        .agent("cutter", [asks("Which shape?"), says("Cut.")])
        .reflector([achieved("Done.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("painter", &[]))
        .agent(agent("cutter", &[]))
        .build()
        .await
        .unwrap();
    let goal = stage.goal("Paint and cut it").user(UserPresence::Present);
    let run = dirigent.start(goal).await.unwrap();
    let asked = |kind: &EventKind| matches!(kind, EventKind::QuestionAsked { .. });
    let mut events = run.events(0);
    until(&mut events, asked).await;
    until(&mut events, asked).await;

    // then an answer must say which question it is for
    let open = run.questions().await.unwrap();
    let several = run.answer("x").await.unwrap_err();
    assert!(matches!(several, RuntimeError::Question { .. }), "{several}");
    for question in open.iter().rev() {
        assert!(matches!(
            run.answer_question(question.effect, "3").await,
            Err(RuntimeError::Answer { .. })
        ));
        run.answer_question(question.effect, "2").await.unwrap();
        // An answered question is closed. After the last answer, the run ends.
        assert!(matches!(
            run.answer_question(question.effect, "1").await,
            Err(RuntimeError::NoQuestion { .. } | RuntimeError::Ended { .. })
        ));
    }
    achieved_report(&run).await;
    for name in ["painter", "cutter"] {
        assert_eq!(model.agent_asked(name)[1].result()["output"], r#"{"answer":"y"}"#);
    }
}

#[tokio::test]
async fn host_11_waiting_runs_do_not_delay_others_and_are_answered_independently() {
    // given two runs that ask, and one that does not
    let stage = Stage::new();
    let model = Scripted::new()
        .lead([plan("First.", []), plan("Second.", []), plan("Third.", [])])
        .reflector([
            ask_user("Two.", "Which colour?"),
            ask_user("Two.", "Which shape?"),
            achieved("Rested."),
        ])
        .lead([plan("Paint.", []), plan("Cut.", [])])
        .reflector([achieved("Cut."), achieved("Painted.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let asks = |kind: &EventKind| matches!(kind, EventKind::QuestionAsked { .. });
    let paint = dirigent
        .start(stage.goal("Paint it").user(UserPresence::Present))
        .await
        .unwrap();
    until(&mut paint.events(0), asks).await;
    let cut = dirigent
        .start(stage.goal("Cut it").user(UserPresence::Present))
        .await
        .unwrap();
    until(&mut cut.events(0), asks).await;

    // then the third ends while the other two wait
    let rest = dirigent.start(stage.goal("Rest")).await.unwrap();
    assert_eq!(achieved_report(&rest).await.summary, "Rested.");

    // and each gets its own answer, the later question first
    cut.answer("iteration").await.unwrap();
    assert_eq!(achieved_report(&cut).await.summary, "Cut.");
    paint.answer("red").await.unwrap();
    assert_eq!(achieved_report(&paint).await.summary, "Painted.");
    let answers: Vec<_> = model.lead_asked()[3..]
        .iter()
        .map(|asked| {
            (
                asked.section("GOAL").unwrap().to_owned(),
                asked.section("ANSWERS").unwrap(),
            )
        })
        .collect();
    assert_eq!(
        answers,
        [
            (
                "Cut it".to_owned(),
                json!({"question": "Which shape?", "answer": "iteration"}).to_string()
            ),
            (
                "Paint it".to_owned(),
                json!({"question": "Which colour?", "answer": "red"}).to_string()
            ),
        ]
    );
}

#[tokio::test]
async fn paor_10_a_run_waits_for_others_in_its_folder_joins_them_or_is_refused() {
    let stage = Stage::new();
    let model = Scripted::new()
        .lead([
            plan("First.", []),
            says("Beside it."),
            plan("Paint.", []),
            says("After it."),
            says("Alone."),
        ])
        .reflector([ask_user("Two.", "Which colour?"), achieved("Painted.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let first = dirigent
        .start(stage.goal("Paint it").user(UserPresence::Present))
        .await
        .unwrap();
    let mut events = first.events(0);
    until(&mut events, |kind| {
        matches!(kind, EventKind::QuestionAsked { .. })
    })
    .await;

    let refused = dirigent
        .start(stage.goal("Refused").when_shared(WhenShared::Refuse))
        .await;
    let is_other = |runs: &[RunId]| runs == [first.id()];
    assert!(matches!(&refused, Err(DirigentError::WorkspaceShared { runs, .. }) if is_other(runs)));
    let beside = dirigent.start(stage.goal("Beside")).await.unwrap();
    let is_shared = |kind: &EventKind| matches!(kind, EventKind::WorkspaceShared { .. });
    let told = until(&mut events, is_shared).await;
    assert!(matches!(&told.kind, EventKind::WorkspaceShared { runs } if *runs == [beside.id()]));
    let all = all_events(&beside).await;
    assert_eq!(all.iter().filter(|event| is_shared(&event.kind)).count(), 1);

    let (waiting, goal) = (dirigent.clone(), stage.goal("After"));
    let waiting = tokio::spawn(async move { waiting.start(goal.when_shared(WhenShared::Wait)).await });
    first.answer("red").await.unwrap();
    assert_eq!(achieved_report(&first).await.summary, "Painted.");
    let after = waiting.await.unwrap().unwrap();
    let began = dirigent.record(after.id()).await.unwrap().created_at;
    assert!(dirigent.record(first.id()).await.unwrap().ended_at.unwrap() <= began);
    achieved_report(&after).await;
    let alone = dirigent
        .start(stage.goal("Alone").when_shared(WhenShared::Refuse))
        .await;
    achieved_report(&alone.unwrap()).await;
}

#[tokio::test]
async fn paor_10_runs_that_start_at_the_same_time_in_one_folder_know_of_each_other() {
    let (stage, gate) = (Stage::new(), Gate::shut());
    let model = Scripted::new().lead([says("One.").behind(&gate), says("Two.").behind(&gate)]);
    let dirigent = stage.builder(model).build().await.unwrap();

    let (one, two) = tokio::join!(
        dirigent.start(stage.goal("Count")),
        dirigent.start(stage.goal("Count again"))
    );

    let (one, two) = (one.unwrap(), two.unwrap());
    for (run, other) in [(&one, &two), (&two, &one)] {
        let is_shared = |kind: &EventKind| matches!(kind, EventKind::WorkspaceShared { .. });
        let told = until(&mut run.events(0), is_shared).await;
        assert!(matches!(&told.kind, EventKind::WorkspaceShared { runs } if *runs == [other.id()]));
    }
    gate.open();
    achieved_report(&one).await;
    achieved_report(&two).await;
}

#[test]
fn host_11_more_runs_than_threads_for_blocking_work_can_be_started_at_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stage = Stage::new();
        let model = Scripted::new().lead((0..12).map(|_| says("Nothing to do.")));
        let dirigent = stage.builder(model).build().await.unwrap();
        let starts = (0..12).map(|_| dirigent.start(stage.goal("Look around")));
        for started in futures::future::join_all(starts).await {
            achieved_report(&started.unwrap()).await;
        }
    });
}

#[tokio::test]
async fn paor_10_a_run_does_not_start_while_another_process_holds_the_start_lock() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("Done.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let other = Journal::open(&stage.journal()).unwrap();
    let lock = other.try_lock_starts().unwrap().unwrap();

    // With the clock paused, the time limit of the start expires at once.
    tokio::time::pause();
    let refused = dirigent.start(stage.goal("Look")).await;
    tokio::time::resume();

    assert!(matches!(refused, Err(DirigentError::StartsBlocked)));
    drop(lock);
    let run = dirigent.start(stage.goal("Look")).await.unwrap();
    achieved_report(&run).await;
}

#[tokio::test]
async fn host_8_a_start_that_waits_for_another_process_can_be_cancelled() {
    let stage = Stage::new();
    let dirigent = stage.builder(Scripted::new()).build().await.unwrap();
    let other = Journal::open(&stage.journal()).unwrap();
    let _lock = other.try_lock_starts().unwrap().unwrap();

    let waits = dirigent.clone();
    let goal = stage.goal("Look");
    let start = tokio::spawn(async move { waits.start(goal).await.map(drop) });
    tokio::task::yield_now().await;
    dirigent.cancel_starts();

    assert!(matches!(start.await.unwrap(), Err(DirigentError::StartCancelled)));
    assert_eq!(dirigent.runs(RunFilter::new()).await.unwrap().runs.len(), 0);
}

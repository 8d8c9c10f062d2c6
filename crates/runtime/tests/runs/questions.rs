//! PAOR-9: questions that only the user can decide.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dirigent_core::end_reason::EndReason;
use dirigent_core::id::RunId;
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::view::EventKind;
use dirigent_runtime::{Resume, RunHandle, RuntimeError, UserPresence};
use dirigent_store::{Journal, StoreError};

use crate::script::{Gate, Scripted, ask_user_until, plan_work, say, tools};
use crate::world::{World, ended, event, resumed, start_up, store_error, within};

/// Asks the user after its first iteration, and answers the goal once it has the user's answer.
pub fn asking() -> Arc<Scripted> {
    Scripted::new(|asked| async move {
        match asked.who() {
            "lead" if asked.task().contains("the blue one") => say("The blue one it is."),
            "lead" => plan_work(),
            "worker" => say("worked"),
            _ => ask_user_until(&asked, "The blue one it is."),
        }
    })
}

/// A lead that waits at the gate, and answers the goal once the gate is open.
pub fn gated(gate: &Arc<Gate>) -> Arc<Scripted> {
    Scripted::gated(gate, |_, gate| async move {
        gate.pass().await;
        say("Done.")
    })
}

#[tokio::test]
async fn paor_9_a_run_continues_with_the_users_answer() {
    let world = World::new(asking(), tools([])).await;

    let handle = world.start(UserPresence::Present).await;
    event(&handle, |kind| matches!(kind, EventKind::QuestionAsked { .. })).await;
    handle.answer("the blue one").await.unwrap();
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.summary, "The blue one it is.");
    assert_eq!(report.iteration_count, 2);
}

#[tokio::test]
async fn paor_9_without_a_user_the_run_pauses_until_it_is_resumed_with_an_answer() {
    let world = World::new(asking(), tools([])).await;

    let handle = world.start(UserPresence::Absent).await;
    let stopped = ended(&handle).await.unwrap();
    let question = stopped.question.as_ref().unwrap();
    let asked = world.model.asked();
    let resumed = world
        .orchestrator
        .resume(handle.id(), Resume::new().answer("the blue one".to_owned()))
        .await
        .unwrap();
    let report = ended(&resumed).await.unwrap();

    assert_eq!(stopped.end, Some(EndReason::UserRequired));
    assert_eq!(question.question, "Which one?");
    assert_eq!(question.choices, ["a", "b"]);
    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.summary, "The blue one it is.");
    // The lead's answer to the goal, and the judgement of it.
    assert_eq!(world.model.asked() - asked, 2);
}

#[tokio::test]
async fn paor_9_resumed_without_an_answer_the_run_pauses_again() {
    let world = World::new(asking(), tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    ended(&handle).await.unwrap();

    for _ in 0..3 {
        let resume = world.orchestrator.resume(handle.id(), Resume::new());
        let report = ended(&resume.await.unwrap()).await.unwrap();
        assert_eq!(report.end, Some(EndReason::UserRequired));
    }

    let resume = world
        .orchestrator
        .resume(handle.id(), Resume::new().user(UserPresence::Present));
    let resumed = resume.await.unwrap();
    event(&resumed, |kind| matches!(kind, EventKind::Resumed)).await;
    resumed.answer("the blue one").await.unwrap();
    let report = ended(&resumed).await.unwrap();
    assert_eq!(report.summary, "The blue one it is.");
}

#[tokio::test]
async fn paor_9_an_unanswered_question_waits_until_the_run_is_resumed() {
    let world = World::new(asking(), tools([])).await;
    let handle = world.start(UserPresence::Present).await;
    event(&handle, |kind| matches!(kind, EventKind::QuestionAsked { .. })).await;

    handle.set_user_absent().unwrap();
    let stopped = ended(&handle).await.unwrap();
    let answer = Some("the blue one".to_owned());
    let resume = world
        .orchestrator
        .resume(handle.id(), Resume::new().answer(answer));
    let report = ended(&resume.await.unwrap()).await.unwrap();

    assert_eq!(stopped.end, Some(EndReason::UserRequired));
    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.summary, "The blue one it is.");
}

#[tokio::test]
async fn paor_9_a_question_survives_the_orchestrator_that_asked_it() {
    let world = World::new(asking(), tools([])).await;
    let handle = world.start(UserPresence::Present).await;
    event(&handle, |kind| matches!(kind, EventKind::QuestionAsked { .. })).await;
    let World {
        journal,
        orchestrator,
        model,
        folder: _folder,
        ..
    } = world;
    drop(orchestrator);
    ended(&handle).await.unwrap_err();

    let asked = model.asked();
    let orchestrator = start_up(&journal, &model, &tools([])).await;
    let handle = resumed(&orchestrator, handle.id(), UserPresence::Present).await;
    handle.answer("the blue one").await.unwrap();

    assert_eq!(ended(&handle).await.unwrap().summary, "The blue one it is.");
    assert_eq!(model.asked() - asked, 2);
}

#[tokio::test]
async fn paor_9_a_number_that_is_not_a_choice_is_refused_and_the_question_stays_open() {
    let model = Scripted::new(|asked| async move {
        match asked.who() {
            "lead" if asked.task().contains(r#""answer":"b""#) => say("It is b."),
            "lead" => plan_work(),
            "worker" => say("worked"),
            _ => ask_user_until(&asked, "It is b."),
        }
    });
    let world = World::new(model, tools([])).await;
    let handle = world.start(UserPresence::Present).await;
    event(&handle, |kind| matches!(kind, EventKind::QuestionAsked { .. })).await;
    let refused = handle.answer("3").await;
    assert!(matches!(refused, Err(RuntimeError::Answer { .. })), "{refused:?}");
    handle.set_user_absent().unwrap();
    ended(&handle).await.unwrap();

    let resume = |answer: &str| {
        world
            .orchestrator
            .resume(handle.id(), Resume::new().answer(answer.to_owned()))
    };
    let refused = resume("0").await.err();
    assert!(
        matches!(refused, Some(RuntimeError::Answer { .. })),
        "{refused:?}"
    );
    let report = ended(&resume("2").await.unwrap()).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.summary, "It is b.");
    let taken = answers(&world.journal, handle.id());
    assert_eq!(taken, ["b"]);
}

#[tokio::test]
async fn paor_9_an_answer_without_an_open_question_is_refused() {
    let gate = Gate::shut();
    let world = World::new(gated(&gate), tools([])).await;
    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;

    let run = handle.id();
    let refused = handle.answer("yes").await.unwrap_err();
    assert!(matches!(refused, RuntimeError::NoQuestion { run: of } if of == run));
    let World {
        journal,
        orchestrator,
        model,
        folder: _folder,
        ..
    } = world;
    drop(orchestrator);
    ended(&handle).await.unwrap_err();

    // The run stopped where it was, so another orchestrator can resume it.
    gate.open();
    let orchestrator = start_up(&journal, &model, &tools([])).await;
    let answer = Some("yes".to_owned());
    let refused = orchestrator
        .resume(run, Resume::new().user(UserPresence::Present).answer(answer))
        .await;
    assert!(matches!(refused.err(), Some(RuntimeError::NoQuestion { run: of }) if of == run));
    let resume = orchestrator.resume(run, Resume::new().user(UserPresence::Present));
    let report = ended(&resume.await.unwrap()).await.unwrap();
    assert_eq!(report.summary, "Done.");
    assert_eq!(report.iteration_count, 1);
    assert_eq!(answers(&journal, run), Vec::<String>::new());
}

/// The answers that a run has accepted.
fn answers(journal: &Journal, run: RunId) -> Vec<String> {
    let entries = journal.entries(run, 0, 10_000).unwrap();
    entries
        .into_iter()
        .filter_map(|entry| match entry.input {
            Input::Run(RunInput::UserAnswered { answer, .. }) => Some(answer),
            Input::Run(_) | Input::Agent(_) => None,
        })
        .collect()
}

async fn asked_for_the_time(handle: &RunHandle, time: usize) {
    let seen = AtomicUsize::new(0);
    event(handle, |kind| {
        matches!(kind, EventKind::QuestionAsked { .. }) && seen.fetch_add(1, Ordering::Relaxed) + 1 == time
    })
    .await;
}

#[tokio::test]
async fn paor_9_an_answer_applies_only_to_the_question_open_when_it_was_given() {
    let model = Scripted::new(|asked| async move {
        match asked.who() {
            "lead" if asked.task().contains("for the second") => say("Both are answered."),
            "lead" => plan_work(),
            "worker" => say("worked"),
            _ => ask_user_until(&asked, "Both are answered."),
        }
    });
    let world = World::new(model, tools([])).await;

    let handle = world.start(UserPresence::Present).await;
    asked_for_the_time(&handle, 1).await;
    // Both answers are sent before either is handled.
    let (first, second) = tokio::join!(
        handle.answer("for the first"),
        handle.answer("for the first, too late")
    );
    first.unwrap();
    let too_late = second.unwrap_err();
    assert!(matches!(too_late, RuntimeError::NoQuestion { .. }), "{too_late}");
    asked_for_the_time(&handle, 2).await;
    handle.answer("for the second").await.unwrap();
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.summary, "Both are answered.");
    assert_eq!(
        answers(&world.journal, handle.id()),
        ["for the first", "for the second"]
    );
    let late = handle.answer("for nothing").await.unwrap_err();
    assert!(matches!(late, RuntimeError::Ended { .. }), "{late}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn paor_9_the_answer_of_a_resumption_is_handled_before_the_user_counts_as_absent() {
    let world = World::new(asking(), tools([])).await;
    let mut stopped = Vec::new();
    for _ in 0..100 {
        let handle = world.start(UserPresence::Absent).await;
        assert_eq!(ended(&handle).await.unwrap().end, Some(EndReason::UserRequired));
        stopped.push(handle.id());
    }

    // All at once, so that the steps of several resumptions interleave.
    let resumptions = stopped.iter().map(|run| {
        let orchestrator = &world.orchestrator;
        async move {
            let answer = Some("the blue one".to_owned());
            let resume = orchestrator.resume(*run, Resume::new().answer(answer));
            ended(&resume.await.unwrap()).await.unwrap()
        }
    });
    for report in futures::future::join_all(resumptions).await {
        assert_eq!(report.end, Some(EndReason::GoalAchieved));
    }

    for run in stopped {
        let entries = world.entries(run);
        let is_resumption = |entry: &Entry| matches!(entry.input, Input::Run(RunInput::Resumed { .. }));
        let next = &entries[entries.iter().position(is_resumption).unwrap() + 1];
        assert!(
            matches!(next.input, Input::Run(RunInput::UserAnswered { .. })),
            "{next:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancellation_while_the_run_pauses_gives_exactly_one_end() {
    let world = World::new(asking(), tools([])).await;
    for _ in 0..100 {
        let handle = world.start(UserPresence::Absent).await;
        event(&handle, |kind| matches!(kind, EventKind::QuestionAsked { .. })).await;
        let cancel = handle.cancel();
        let report = ended(&handle).await.unwrap();

        let status = world.status(handle.id()).unwrap();
        match report.end.as_ref().unwrap() {
            EndReason::Cancelled => assert_eq!(status, r#"{"reason":"cancelled"}"#),
            EndReason::UserRequired => {
                assert!(matches!(cancel, Ok(()) | Err(RuntimeError::Ended { .. })));
                assert_eq!(status, r#"{"reason":"user_required"}"#);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn host_2_a_run_that_has_ended_is_not_resumed() {
    let model = Scripted::new(|_| async { say("Done.") });
    let world = World::new(model, tools([])).await;
    let handle = world.start(UserPresence::Present).await;
    ended(&handle).await.unwrap();
    let entries = world.entries(handle.id());

    let resume = world
        .orchestrator
        .resume(handle.id(), Resume::new().user(UserPresence::Present));
    let refused = resume.await.err().unwrap();

    assert!(matches!(refused, RuntimeError::Ended { run } if run == handle.id()));
    assert_eq!(world.model.asked(), 1);
    assert_eq!(world.entries(handle.id()), entries);
}

#[tokio::test]
async fn host_2_an_active_run_cannot_be_resumed() {
    let gate = Gate::shut();
    let world = World::new(gated(&gate), tools([])).await;
    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;

    let resume = world
        .orchestrator
        .resume(handle.id(), Resume::new().user(UserPresence::Present));
    let refused = resume.await.err().unwrap();
    gate.open();
    let report = ended(&handle).await.unwrap();

    assert!(matches!(store_error(&refused), StoreError::AlreadyClaimed { run, .. } if *run == handle.id()));
    assert_eq!(report.summary, "Done.");
}

//! Messages from other processes to a run (here, from other handles of its journal). Each is accepted exactly once, in order.

use std::time::Duration;

use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{AgentId, EffectId, RunId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::steering::Steering;
use dirigent_core::time::Timestamp;
use dirigent_core::view::EventKind;
use dirigent_runtime::{Orchestrator, Resume, RuntimeError, SteerOutcome, UserPresence};
use dirigent_store::{Journal, MessageState, Position};

use crate::questions::{asking, gated};
use crate::script::{Gate, tools};
use crate::world::{World, ended, event, resumed, start_up, within};

/// Simulates another process, which shares only the journal's file.
async fn another(world: &World) -> (Journal, Orchestrator) {
    let journal = Journal::open(&world.folder.path().join("journal.db")).unwrap();
    let orchestrator = start_up(&journal, &world.model, &tools([])).await;
    (journal, orchestrator)
}

fn guide(guidance: &str) -> Steering {
    let guidance = guidance.to_owned();
    Steering::Guide { guidance }
}

fn guidance(entries: &[Entry]) -> Vec<&str> {
    let heard = |entry: &Entry| matches!(entry.input, Input::Run(RunInput::Guided { .. }));
    let guided = entries.iter().filter(|entry| heard(entry));
    guided
        .map(|entry| match &entry.input {
            Input::Run(RunInput::Guided { guidance }) => guidance.as_str(),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// The final state of a message. An orchestrator would stop waiting earlier.
async fn settled(journal: &Journal, run: RunId, body: String) -> MessageState {
    let message = journal.post(run, Timestamp(0), body, Position::Last).unwrap();
    let far_away = Duration::from_secs(120);
    journal.wait_settled(message, far_away).await.unwrap()
}

fn body(steering: &Steering) -> String {
    serde_json::to_string(steering).unwrap()
}

fn question(world: &World, run: RunId) -> EffectId {
    let (view, _) = dirigent_runtime::read_run(&world.journal, run).unwrap();
    view.run().question().unwrap().0
}

#[tokio::test]
async fn host_2_messages_of_another_process_are_accepted_once_and_in_order() {
    let gate = Gate::shut();
    let world = World::new(gated(&gate), tools([])).await;
    let (journal, other) = another(&world).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    let (mut said, mut taken) = (Vec::new(), 0);
    within(async {
        while taken < 3 {
            let words = format!("word {}", said.len());
            // On a slow machine some messages are still pending.
            let steered = other.steer(handle.id(), guide(&words)).await.unwrap();
            taken += usize::from(steered == SteerOutcome::Accepted);
            said.push(words);
        }
    })
    .await;
    gate.open();
    ended(&handle).await.unwrap();

    assert_eq!(guidance(&world.entries(handle.id())), said);
    let late = other.steer(handle.id(), guide("late")).await.unwrap_err();
    assert!(matches!(late, RuntimeError::Ended { .. }), "{late}");
    drop((journal, other));
    world.all_tasks_end().await;
}

#[tokio::test]
async fn host_8_another_process_cancels_a_run() {
    let gate = Gate::shut();
    let world = World::new(gated(&gate), tools([])).await;
    let (journal, other) = another(&world).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    // On a slow machine the message is accepted a little later.
    within(other.steer(handle.id(), Steering::Cancel)).await.unwrap();

    drop((journal, other));
    world.cancelled(&handle).await;
    assert_eq!(gate.inside(), 0);
}

#[tokio::test]
async fn an_unacceptable_message_is_rejected_with_a_reason() {
    let gate = Gate::shut();
    let world = World::new(gated(&gate), tools([])).await;
    let (journal, other) = another(&world).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    let run = handle.id();
    let to_nobody = Steering::GuideAgent {
        agent: AgentId(9),
        guidance: "Mind the gap.".to_owned(),
    };
    let unasked = Steering::Answer {
        effect: EffectId {
            scope: Scope::Run,
            step: 1,
            attempt: 0,
        },
        answer: "yes".to_owned(),
    };
    for (steering, reason) in [
        (to_nobody, "no active agent a9"),
        (unasked, "no such open question"),
    ] {
        let refused = within(async {
            loop {
                match other.steer(run, steering.clone()).await {
                    // On a slow machine the message is still pending.
                    Ok(SteerOutcome::Pending) => {}
                    Ok(SteerOutcome::Accepted) => panic!("{steering:?} is accepted"),
                    Err(refused) => return refused,
                }
            }
        })
        .await;
        assert!(
            matches!(refused, RuntimeError::MessageRejected { .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    match settled(&journal, run, r#"{"kind": "sing"}"#.to_owned()).await {
        MessageState::Rejected { reason } => assert!(reason.contains("cannot be parsed"), "{reason}"),
        other => panic!("{other:?}"),
    }
    // Later messages are accepted.
    assert_eq!(
        settled(&journal, run, body(&guide("go on"))).await,
        MessageState::Accepted
    );
    gate.open();
    ended(&handle).await.unwrap();
    assert_eq!(guidance(&world.entries(run)), ["go on"]);
}

#[tokio::test]
async fn a_message_to_an_inactive_agent_is_rejected() {
    let gate = Gate::shut();
    let world = World::new(gated(&gate), tools([])).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    let refused = handle.guide_agent(AgentId(9), "Mind the gap.").await.unwrap_err();
    handle.guide_agent(AgentId(1), "Mind the gap.").await.unwrap();
    gate.open();
    ended(&handle).await.unwrap();

    assert!(
        matches!(
            refused,
            RuntimeError::NoAgent {
                agent: AgentId(9),
                ..
            }
        ),
        "{refused}"
    );
}

#[tokio::test]
async fn paor_9_a_pending_answer_is_accepted_before_the_run_pauses() {
    let world = World::new(asking(), tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    assert_eq!(ended(&handle).await.unwrap().end, Some(EndReason::UserRequired));
    let run = handle.id();
    let answer = Steering::Answer {
        effect: question(&world, run),
        answer: "the blue one".to_owned(),
    };

    // First a message without effect, then the answer.
    let (journal, other) = another(&world).await;
    let unreadable = journal
        .post(run, Timestamp(0), "sing".to_owned(), Position::Last)
        .unwrap();
    assert_eq!(other.steer(run, answer).await.unwrap(), SteerOutcome::Pending);
    let resume = world.orchestrator.resume(run, Resume::new());
    let report = ended(&resume.await.unwrap()).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.summary, "The blue one it is.");
    assert!(matches!(
        journal.message(unreadable).unwrap(),
        MessageState::Rejected { .. }
    ));
}

#[tokio::test]
async fn paor_9_without_a_pending_answer_the_run_pauses_again() {
    let world = World::new(asking(), tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    ended(&handle).await.unwrap();
    let run = handle.id();

    let (journal, other) = another(&world).await;
    assert_eq!(
        other.steer(run, guide("be quick")).await.unwrap(),
        SteerOutcome::Pending
    );
    journal
        .post(run, Timestamp(0), "sing".to_owned(), Position::Last)
        .unwrap();
    let resume = world.orchestrator.resume(run, Resume::new());
    let report = ended(&resume.await.unwrap()).await.unwrap();

    assert_eq!(report.end, Some(EndReason::UserRequired));
    assert_eq!(guidance(&world.entries(run)), ["be quick"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn host_2_messages_are_accepted_exactly_once_whenever_the_process_ends() {
    let said: Vec<String> = (0..30).map(|number| format!("word {number}")).collect();
    let world = World::new(asking(), tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    ended(&handle).await.unwrap();
    let run = handle.id();
    for words in &said {
        world
            .journal
            .post(run, Timestamp(0), body(&guide(words)), Position::Last)
            .unwrap();
    }

    // Each process handles a few more messages than the one before it.
    for heard in [1, 2, 3, 5, 8, 13, 21] {
        let (journal, orchestrator) = another(&world).await;
        let handle = resumed(&orchestrator, run, UserPresence::Present).await;
        let mut count = 0;
        let mut events = handle.events(0);
        while count < heard {
            let event = within(events.next()).await.unwrap().unwrap();
            count += usize::from(matches!(event.kind, EventKind::Guided { .. }));
        }
        drop((events, orchestrator, journal));
        let stopped = ended(&handle).await.unwrap_err();
        assert!(matches!(stopped, RuntimeError::Stopped { .. }), "{stopped}");
    }
    let handle = resumed(&world.orchestrator, run, UserPresence::Absent).await;
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::UserRequired));
    assert_eq!(guidance(&world.entries(run)), said);
}

#[tokio::test]
async fn another_process_follows_a_run_to_its_end() {
    let gate = Gate::shut();
    let world = World::new(gated(&gate), tools([])).await;
    let (_journal, other) = another(&world).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    let mut events = other.events(handle.id(), 0);
    let mut kinds = Vec::new();
    while let Some(event) = within(events.next()).await {
        let kind = event.unwrap().kind.clone();
        if let EventKind::AgentStarted { .. } = kind {
            gate.open();
        }
        kinds.push(kind);
    }

    assert!(matches!(kinds.first(), Some(EventKind::RunStarted { .. })));
    assert!(matches!(kinds.last(), Some(EventKind::RunFinished { .. })));
    event(&handle, |kind| matches!(kind, EventKind::RunFinished { .. })).await;
}

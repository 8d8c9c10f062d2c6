//! A run whose journal cannot be written stops with an error, and does nothing that is not recorded.

use std::sync::atomic::Ordering;

use dirigent_core::end_reason::EndReason;
use dirigent_core::tool::Repeat;
use dirigent_runtime::UserPresence;
use dirigent_store::{Journal, JournalOptions, StoreError};
use serde_json::json;

use crate::script::{Scripted, achieved, call, counting, plan_work, say, tools};
use crate::world::{World, ended, resumed, start_up, store_error};

const ROOM: u64 = 512 * 1024;

#[tokio::test]
async fn host_2_a_full_journal_stops_the_run_before_its_next_tool_call() {
    let model = Scripted::new(|asked| async move {
        match (asked.who(), asked.turn()) {
            ("lead", _) => plan_work(),
            ("worker", 0) => {
                let mut reply = call("note", json!({}))?;
                reply.content = "too long to be stored ".repeat(100_000);
                Ok(reply)
            }
            ("worker", _) => say("worked"),
            _ => achieved(),
        }
    });
    let (note, noted) = counting("note", Repeat::Safe);
    let registry = tools([note]);
    let options = JournalOptions::default().max_bytes(ROOM);
    let world = World::with_options(model, registry.clone(), &options).await;

    let handle = world.start(UserPresence::Absent).await;
    let error = ended(&handle).await.unwrap_err();

    assert!(matches!(store_error(&error), StoreError::Full { .. }));
    assert_eq!(noted.load(Ordering::SeqCst), 0);
    assert_eq!(world.status(handle.id()), None);
    assert!(world.orchestrator.run(handle.id()).is_none());
    world.all_tasks_end().await;

    // Once there is enough space, the run continues.
    let path = world.journal.path().to_owned();
    let World {
        orchestrator,
        journal,
        model,
        folder: _folder,
        ..
    } = world;
    drop(orchestrator);
    drop(journal);
    let run = handle.id();
    drop(handle);
    let journal = Journal::open(&path).unwrap();
    let orchestrator = start_up(&journal, &model, &registry).await;
    let resumed = resumed(&orchestrator, run, UserPresence::Absent).await;
    let report = ended(&resumed).await.unwrap();
    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(noted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_run_that_cannot_be_journaled_does_not_start() {
    let model = Scripted::new(|_| async { say("Done.") });
    let options = JournalOptions::default().max_bytes(ROOM);
    let mut world = World::with_options(model, tools([]), &options).await;
    world.spec.goal = "too long to be stored ".repeat(100_000);

    let refused = world
        .orchestrator
        .start(world.spec.clone(), UserPresence::Absent)
        .await;

    let refused = refused.err().unwrap();
    assert!(matches!(store_error(&refused), StoreError::Full { .. }));
    assert_eq!(world.model.asked(), 0);
    assert_eq!(world.journal.runs().unwrap(), []);
}

//! Shutting down: runs stop where they are and can be resumed.

use std::sync::atomic::Ordering;

use dirigent_core::end_reason::EndReason;
use dirigent_core::tool::{Repeat, ToolResult};
use dirigent_runtime::{Resume, RuntimeError, UserPresence};
use serde_json::json;

use crate::script::{Gate, Scripted, Scriptool, achieved, call, counting, plan_work, say, tools};
use crate::world::{World, ended, resumed, start_up, within};

#[tokio::test]
async fn host_2_runs_that_were_shut_down_are_resumed_without_repeating_finished_work() {
    let gate = Gate::shut();
    let (note, noted) = counting("note", Repeat::Unsafe);
    let waiting = {
        let gate = gate.clone();
        Scriptool::new("wait", Repeat::Safe, move |_, _| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                ToolResult::success(json!("waited"))
            }
        })
    };
    let model = Scripted::new(move |asked| async move {
        match (asked.who(), asked.turn()) {
            ("lead", _) => plan_work(),
            ("worker", 0) => call("note", json!({})),
            ("worker", 1) => call("wait", json!({})),
            ("worker", _) => say(asked.last()),
            _ => achieved(),
        }
    });
    let registry = tools([note, waiting]);
    let world = World::new(model, registry.clone()).await;
    let runs = [
        world.start(UserPresence::Absent).await,
        world.start(UserPresence::Absent).await,
    ];
    for _ in &runs {
        within(gate.entered()).await;
    }

    within(world.orchestrator.shutdown()).await.unwrap();

    assert_eq!(gate.inside(), 0);
    for run in &runs {
        let stopped = ended(run).await.unwrap_err();
        assert!(matches!(stopped, RuntimeError::Stopped { .. }), "{stopped}");
        assert!(world.orchestrator.run(run.id()).is_none());
        let record = world.journal.run(run.id()).unwrap();
        assert_eq!((record.status, record.owner_pid), (None, None));
    }
    world.all_tasks_end().await;
    let orchestrator = start_up(&world.log, &world.model, &registry).await;
    gate.open();
    for run in &runs {
        let again = resumed(&orchestrator, run.id(), UserPresence::Absent).await;
        assert_eq!(ended(&again).await.unwrap().end, Some(EndReason::GoalAchieved));
    }
    assert_eq!(noted.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn after_a_shutdown_no_run_starts_and_none_is_journaled() {
    let world = World::new(Scripted::new(|_| async { say("It is done.") }), tools([])).await;
    let before = world.start(UserPresence::Absent).await;
    ended(&before).await.unwrap();

    within(world.orchestrator.shutdown()).await.unwrap();
    within(world.orchestrator.shutdown()).await.unwrap();

    let orchestrator = &world.orchestrator;
    let started = orchestrator
        .start(world.spec.clone(), UserPresence::Absent)
        .await
        .err();
    let forked = orchestrator
        .fork(before.id(), Some(2), None, Vec::new(), UserPresence::Absent)
        .await
        .err();
    let resumed = orchestrator.resume(before.id(), Resume::new()).await.err();
    for refused in [started, forked, resumed] {
        let refused = refused.unwrap();
        assert!(matches!(refused, RuntimeError::Stopped { .. }), "{refused}");
    }
    assert_eq!(world.journal.runs().unwrap().len(), 1);
}

//! The events that watchers of a run receive.

use std::sync::Arc;

use dirigent_core::limits::{AgentLimits, RunLimits};
use dirigent_core::tool::Repeat;
use dirigent_core::view::{Event, EventKind};
use dirigent_runtime::{Events, UserPresence, read_run};
use serde_json::json;

use crate::script::{Gate, Scripted, achieved, call, counting, plan_work, say, tools};
use crate::world::{World, ended, resumed, start_up, within};

async fn all(mut events: Events) -> Vec<Arc<Event>> {
    let mut all = Vec::new();
    while let Some(event) = within(events.next()).await {
        all.push(event.unwrap());
    }
    all
}

/// A world in which the worker makes this many calls and then waits at the gate.
async fn busy_world(calls: usize, gate: &Arc<Gate>) -> World {
    let model = Scripted::gated(gate, move |asked, gate| async move {
        match (asked.who(), asked.turn()) {
            ("lead", _) => plan_work(),
            ("worker", turn) if turn < calls => call("note", json!({"number": turn})),
            ("worker", _) => {
                gate.pass().await;
                say("worked")
            }
            _ => achieved(),
        }
    });
    let (note, _) = counting("note", Repeat::Safe);
    let mut world = World::new(model, tools([note])).await;
    world.spec.limits = RunLimits {
        max_model_calls: Some(u32::MAX),
        ..world.spec.limits.clone()
    };
    for agent in &mut world.spec.setup.agents {
        agent.limits = AgentLimits {
            max_turns: u32::MAX,
            ..agent.limits.clone()
        };
    }
    world
}

fn stored(world: &World, events: &[Arc<Event>]) -> Vec<Event> {
    read_run(&world.log, events[0].run).unwrap().1
}

#[tokio::test]
async fn all_watchers_of_a_run_share_one_reader_of_its_entries() {
    let gate = Gate::shut();
    let world = busy_world(3, &gate).await;
    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;

    let watchers: Vec<_> = (0..20).map(|_| tokio::spawn(all(handle.events(0)))).collect();
    let late = tokio::spawn(all(world.orchestrator.events(handle.id(), 0)));
    gate.open();
    ended(&handle).await.unwrap();
    let expected = late.await.unwrap();
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), expected);
    }

    assert_eq!(world.log.readers(), 1);
    assert!(
        expected
            .iter()
            .map(|event| &**event)
            .eq(&stored(&world, &expected))
    );
}

#[tokio::test]
async fn events_begin_after_the_given_entry() {
    let gate = Gate::shut();
    let world = busy_world(3, &gate).await;
    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    let early = tokio::spawn(all(handle.events(7)));
    gate.open();
    ended(&handle).await.unwrap();

    let whole = all(handle.events(0)).await;
    let last = whole.last().unwrap().seq;
    for after in [0, 1, 7, last - 1, last, last + 1] {
        let expected: Vec<_> = whole.iter().filter(|event| event.seq > after).collect();
        let seen = all(world.orchestrator.events(handle.id(), after)).await;
        assert!(seen.iter().eq(expected), "after {after}");
    }
    let expected: Vec<_> = whole.iter().filter(|event| event.seq > 7).collect();
    assert!(early.await.unwrap().iter().eq(expected));
}

#[tokio::test]
async fn a_watcher_that_falls_far_behind_misses_nothing() {
    let gate = Gate::shut();
    // More events than a feed keeps.
    let world = busy_world(2_000, &gate).await;
    let handle = world.start(UserPresence::Absent).await;
    let mut slow = handle.events(0);
    let first = within(slow.next()).await.unwrap().unwrap();
    let (later, quick) = (handle.events(9), tokio::spawn(all(handle.events(0))));
    within(gate.entered()).await;
    gate.open();
    ended(&handle).await.unwrap();

    let quick = quick.await.unwrap();
    assert!(quick.len() > 5_000);
    let mut seen = vec![first];
    seen.extend(all(slow).await);
    assert_eq!(seen, quick);
    let expected: Vec<_> = quick.iter().filter(|event| event.seq > 9).collect();
    assert!(all(later).await.iter().eq(expected));
}

#[tokio::test]
async fn a_watcher_of_a_resumed_run_sees_its_end_while_another_reads_old_entries() {
    let gate = Gate::shut();
    let world = busy_world(3, &gate).await;
    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    world.orchestrator.shutdown().await.unwrap();
    let registry = tools([counting("note", Repeat::Safe).0]);
    let orchestrator = start_up(&world.log, &world.model, &registry).await;
    // Keeps the feed from before the resumption.
    let mut before = orchestrator.events(handle.id(), 0);
    within(before.next()).await.unwrap().unwrap();

    let again = resumed(&orchestrator, handle.id(), UserPresence::Absent).await;
    let watcher = tokio::spawn(all(again.events(0)));
    gate.open();
    ended(&again).await.unwrap();

    let seen = watcher.await.unwrap();
    assert!(matches!(seen.last().unwrap().kind, EventKind::RunFinished { .. }));
    drop(before);
}

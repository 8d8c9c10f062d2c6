//! HOST-9: from any point of a run a new one can be forked, with other guidance.

use std::sync::Arc;

use dirigent_core::id::Scope;
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::{EndReason, RunInput};
use dirigent_runtime::{RuntimeError, UserPresence};
use dirigent_store::ForkPoint;

use crate::script::{Gate, Scripted, achieved, plan_work, say, tools};
use crate::world::{World, ended, within};

/// Works on its goal; guided, it says so.
fn usual() -> Arc<Scripted> {
    Scripted::new(|asked| async move {
        match asked.who() {
            "planner" if asked.task().contains("only in src") => say("As you said."),
            "planner" => plan_work(),
            "worker" => say("worked"),
            _ => achieved(),
        }
    })
}

/// Without whose it is.
fn inputs(entries: &[Entry]) -> Vec<(u64, Scope, &Input)> {
    let entries = entries.iter();
    entries
        .map(|entry| (entry.seq, entry.scope, &entry.input))
        .collect()
}

fn is_guidance(entry: &Entry) -> bool {
    matches!(entry.input, Input::Run(RunInput::Guided { .. }))
}

#[tokio::test]
async fn host_9_a_fork_of_a_run_that_is_over_goes_on_with_other_guidance() {
    let world = World::new(usual(), tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    assert_eq!(ended(&handle).await.unwrap().summary, "It is done.");
    let past = world.entries(handle.id());
    let asked = world.model.asked();

    let guidance = Some("only in src".to_owned());
    let fork = world
        .orchestrator
        .fork(handle.id(), None, guidance, UserPresence::Absent);
    let forked = fork.await.unwrap();
    let report = ended(&forked).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.summary, "As you said.");
    assert_eq!(report.iterations, 2);
    assert_eq!(world.model.asked() - asked, 1, "the second planner's request");
    let shared = past.len() - 1;
    let entries = world.entries(forked.id());
    assert_eq!(inputs(&entries[..shared]), inputs(&past[..shared]));
    assert!(matches!(
        entries[shared].input,
        Input::Run(RunInput::Resumed { .. })
    ));
    assert!(is_guidance(&entries[shared + 1]));
    assert_eq!(world.entries(handle.id()), past, "the run itself stays as it is");
    assert_eq!(
        world.journal.run(forked.id()).unwrap().forked_from,
        Some(ForkPoint {
            run: handle.id(),
            seq: shared as u64
        })
    );
}

#[tokio::test]
async fn host_9_a_run_can_be_forked_at_each_of_its_entries_but_the_one_that_ends_it() {
    let world = World::new(usual(), tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    ended(&handle).await.unwrap();
    let run = handle.id();
    let last = world.entries(run).len() as u64;

    for at in 1..last {
        let guidance = Some("only in src".to_owned());
        let fork = world
            .orchestrator
            .fork(run, Some(at), guidance, UserPresence::Absent);
        let report = ended(&fork.await.unwrap()).await.unwrap();
        assert_eq!(report.summary, "As you said.", "forked at {at}");
    }
    for (at, reason) in [
        (0, "no such entry"),
        (last, "over then"),
        (last + 1, "no such entry"),
    ] {
        let fork = world.orchestrator.fork(run, Some(at), None, UserPresence::Absent);
        let refused = fork.await.err().unwrap();
        assert!(
            matches!(refused, RuntimeError::NoFork { at: named, .. } if named == at),
            "{refused}"
        );
        assert!(refused.to_string().contains(reason), "{refused}");
        let points = format!("the entries 1 to {}", last - 1);
        assert!(refused.to_string().contains(&points), "{refused}");
    }
}

#[tokio::test]
async fn host_9_a_run_that_is_under_way_can_be_forked_and_goes_on() {
    let gate = Gate::shut();
    let at_gate = gate.clone();
    let model = Scripted::new(move |asked| {
        let gate = at_gate.clone();
        async move {
            match asked.who() {
                "planner" if asked.task().contains("only in src") => say("As you said."),
                "planner" => plan_work(),
                "worker" => {
                    gate.pass().await;
                    say("worked")
                }
                _ => achieved(),
            }
        }
    });
    let world = World::new(model, tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;

    let guidance = Some("only in src".to_owned());
    let fork = world
        .orchestrator
        .fork(handle.id(), None, guidance, UserPresence::Absent);
    let forked = fork.await.unwrap();
    within(gate.entered()).await;
    assert_eq!(gate.inside(), 2);
    gate.open();

    assert_eq!(ended(&forked).await.unwrap().summary, "As you said.");
    assert_eq!(ended(&handle).await.unwrap().summary, "It is done.");
}

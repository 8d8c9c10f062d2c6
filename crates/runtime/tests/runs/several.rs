//! HOST-11: runs are independent of each other, and leave nothing behind.

use dirigent_core::end_reason::EndReason;
use dirigent_core::tool::Repeat;
use dirigent_runtime::UserPresence;
use serde_json::json;

use crate::script::{Gate, Scripted, achieved, call, counting, plan_work, say, tools};
use crate::world::{World, ended, within};

const RUNS: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_11_a_thousand_runs_at_once_all_end_and_leave_nothing() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match (asked.who(), asked.turn()) {
            ("lead", _) => plan_work(),
            ("worker", 0) => {
                gate.pass().await;
                call("note", json!({}))
            }
            ("worker", _) => say("worked"),
            _ => achieved(),
        }
    });
    let (note, noted) = counting("note", Repeat::Safe);
    let world = World::new(model, tools([note])).await;

    let mut handles = Vec::new();
    for _ in 0..RUNS {
        handles.push(world.start(UserPresence::Absent).await);
    }
    for _ in 0..RUNS {
        within(gate.entered()).await;
    }
    assert_eq!(gate.inside(), RUNS);
    gate.open();
    for handle in &handles {
        let report = ended(handle).await.unwrap();
        assert_eq!(report.end, Some(EndReason::GoalAchieved));
    }

    assert_eq!(noted.load(std::sync::atomic::Ordering::SeqCst), RUNS);
    for handle in &handles {
        assert!(world.orchestrator.run(handle.id()).is_none());
    }
    world.all_tasks_end().await;
    let held: Vec<_> = world.journal.runs().unwrap();
    assert_eq!(held.len(), RUNS);
    assert!(held.iter().all(|run| run.ended_at.is_some()));
}

#[tokio::test]
async fn host_11_runs_do_not_affect_each_other() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match asked.who() {
            "lead" if asked.task().contains("break") => panic!("broken"),
            "lead" => plan_work(),
            "worker" => {
                gate.pass().await;
                say("worked")
            }
            _ => achieved(),
        }
    });
    let mut world = World::new(model, tools([])).await;
    let stays = world.start(UserPresence::Absent).await;
    let cancelled = world.start(UserPresence::Absent).await;
    world.spec.goal = "break".to_owned();
    let broken = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    within(gate.entered()).await;

    cancelled.cancel().unwrap();
    let of_cancelled = ended(&cancelled).await.unwrap();
    let of_broken = ended(&broken).await.unwrap();
    gate.open();
    let of_stays = ended(&stays).await.unwrap();

    assert_eq!(of_cancelled.end, Some(EndReason::Cancelled));
    assert!(matches!(of_broken.end, Some(EndReason::Failed { .. })));
    assert_eq!(of_stays.end, Some(EndReason::GoalAchieved));
    world.all_tasks_end().await;
}

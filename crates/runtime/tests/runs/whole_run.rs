//! A run from its goal to its report, and its watchers.

use dirigent_core::end_reason::EndReason;
use dirigent_core::id::AgentId;
use dirigent_core::observation::SubTaskResult;
use dirigent_core::phase::Phase;
use dirigent_core::tool::Repeat;
use dirigent_core::view::{Event, EventKind};
use dirigent_runtime::{Events, UserPresence, read_run};
use serde_json::json;

use crate::script::{
    Asked, Gate, Reply, Scripted, achieved, call, continue_until, counting, plan, say, tools, work,
};
use crate::world::{World, ended, event, within};

async fn look_then_work(asked: Asked) -> Reply {
    match (asked.who(), asked.turn()) {
        ("lead", _) => {
            let look = json!({"id": "look", "title": "look", "calls": [{"tool": "note", "parameters": {}}]});
            plan("look, then work", json!([look, work("work", &["look"])]))
        }
        ("worker", 0) => call("note", json!({})),
        ("worker", _) => say("worked"),
        _ => achieved(),
    }
}

async fn look_then_work_world() -> World {
    let (note, _) = counting("note", Repeat::Safe);
    World::new(Scripted::new(look_then_work), tools([note])).await
}

async fn all(mut events: Events) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(event) = within(events.next()).await {
        all.push(Event::clone(&event.unwrap()));
    }
    all
}

fn lines(events: &[Event]) -> Vec<String> {
    let names = events.iter().map(|event| {
        let json = serde_json::to_value(event).unwrap();
        let phase = json["to"].as_str().map(|to| format!(" {to}")).unwrap_or_default();
        format!("{} {}{phase}", event.scope, json["event"].as_str().unwrap())
    });
    names.collect()
}

const EVENTS: [&str; 27] = [
    "run run_started",
    "run phase_changed planning",
    "a1 agent_started",
    "a1 model_replied",
    "a1 agent_finished",
    "run plan_made",
    "run phase_changed acting",
    "run subtask_started",
    "run tool_started",
    "run tool_finished",
    "run subtask_finished",
    "run phase_changed observing",
    "run subtask_started",
    "a2 agent_started",
    "a2 model_replied",
    "a2 tool_started",
    "a2 tool_finished",
    "a2 model_replied",
    "a2 agent_finished",
    "run subtask_finished",
    "run phase_changed reflecting",
    "a3 agent_started",
    "a3 model_replied",
    "a3 agent_finished",
    "run reflected",
    "run phase_changed complete",
    "run run_finished",
];

#[tokio::test]
async fn paor_1_a_run_goes_through_its_phases_and_ends_with_a_report() {
    let world = look_then_work_world().await;

    let handle = world.start(UserPresence::Absent).await;
    let events = all(handle.events(0)).await;
    let report = ended(&handle).await.unwrap();

    assert_eq!(lines(&events), EVENTS);
    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.phase, Phase::Complete);
    assert_eq!(report.goal, "Make it so");
    assert_eq!(report.summary, "It is done.");
    assert_eq!(report.iteration_count, 1);
    assert_eq!((report.usage.model_calls, report.usage.tool_calls), (4, 2));
    assert_eq!(report.usage.tokens(), 60);
    assert_eq!(
        world.status(handle.id()).as_deref(),
        Some(r#"{"reason":"goal_achieved"}"#)
    );
}

#[tokio::test]
async fn an_ended_run_is_not_active_and_cannot_be_steered() {
    let world = look_then_work_world().await;

    let handle = world.start(UserPresence::Absent).await;
    let found = world.orchestrator.run(handle.id()).map(|found| found.id());
    ended(&handle).await.unwrap();

    assert_eq!(found, Some(handle.id()));
    assert!(world.orchestrator.run(handle.id()).is_none());
    for refused in [handle.cancel(), handle.guide("more"), handle.answer("yes").await] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("has already ended"), "{error}");
    }
    world.all_tasks_end().await;
}

#[tokio::test]
async fn an_idle_watcher_does_not_delay_the_run_and_misses_no_event() {
    let world = look_then_work_world().await;

    let handle = world.start(UserPresence::Absent).await;
    let idle = handle.events(0);
    ended(&handle).await.unwrap();

    assert_eq!(lines(&all(idle).await), EVENTS);
    assert_eq!(
        lines(&all(world.orchestrator.events(handle.id(), 0)).await),
        EVENTS
    );
    let (view, stored) = read_run(&world.journal, handle.id()).unwrap();
    assert_eq!(lines(&stored), EVENTS);
    assert_eq!(view.run().phase(), Phase::Complete);
}

#[tokio::test]
async fn paor_8_guidance_is_in_the_next_plan_request() {
    let gate = crate::script::Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match asked.who() {
            "lead" if asked.task().contains("only in src") => say("As you said."),
            "lead" => crate::script::plan_work(),
            "worker" => {
                gate.pass().await;
                say("worked")
            }
            _ => continue_until(&asked, "As you said."),
        }
    });
    let world = World::new(model, tools([])).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    handle.guide("only in src").unwrap();
    gate.open();
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.summary, "As you said.");
    assert_eq!(report.iteration_count, 2);
}

#[tokio::test]
async fn paor_8_guidance_for_an_agent_is_only_in_this_agents_next_request() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match (asked.who(), asked.turn()) {
            ("lead", _) => plan("two", json!([work("left", &[]), work("right", &[])])),
            ("worker", 0) => {
                gate.pass().await;
                call("note", json!({}))
            }
            ("worker", _) => say(asked.last()),
            _ => achieved(),
        }
    });
    let (note, _) = counting("note", Repeat::Safe);
    let world = World::new(model, tools([note])).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    within(gate.entered()).await;
    // The lead is agent 1, the worker on the left agent 2.
    handle.guide_agent(AgentId(2), "Mind the gap.").await.unwrap();
    event(&handle, |kind| matches!(kind, EventKind::Guided { .. })).await;
    gate.open();
    let report = ended(&handle).await.unwrap();

    let mut said: Vec<_> = report.iterations[0]
        .observations
        .iter()
        .map(|seen| match &seen.finding {
            SubTaskResult::Agent { result, .. } => {
                let heard = result.as_ref().unwrap().contains("Mind the gap.");
                (seen.title.as_str(), heard)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    said.sort_unstable();
    assert_eq!(said, [("left", true), ("right", false)]);
}

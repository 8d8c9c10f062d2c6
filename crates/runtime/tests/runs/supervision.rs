//! Supervision with real actors: a crash becomes an observation or a recorded failure, or the actor is rebuilt from the journal, and
//! everyone who waits for the run gets an outcome.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dirigent_core::agent::AgentInput;
use dirigent_core::agent_report::AgentFailure;
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::AgentId;
use dirigent_core::journal::Input;
use dirigent_core::observation::SubTaskResult;
use dirigent_core::run::RunInput;
use dirigent_core::tool::{Repeat, StateChange, ToolResult};
use dirigent_core::view::EventKind;
use dirigent_runtime::{Resume, RunHandle, RuntimeError, UserPresence};

use super::fragile::{crash, crash_agent};
use super::script::{
    Asked, Gate, Reply, Scripted, Scriptool, achieved, ask_user_until, call, continue_until, plan, plan_call,
    plan_work, say, tools, work,
};
use super::world::{World, ended, event, within};
use serde_json::json;

/// The lead is always agent 1; here the worker is agent 2 and the reflector agent 3.
pub const LEAD: AgentId = AgentId(1);
pub const WORKER: AgentId = AgentId(2);
pub const REFLECTOR: AgentId = AgentId(3);

pub fn inputs(world: &World, handle: &RunHandle) -> Vec<Input> {
    let entries = world.entries(handle.id()).into_iter();
    entries.map(|entry| entry.input).collect()
}

pub fn resumptions(world: &World, handle: &RunHandle) -> usize {
    let inputs = inputs(world, handle).into_iter();
    inputs
        .filter(|input| matches!(input, Input::Run(RunInput::Resumed { .. })))
        .count()
}

pub async fn usual(asked: Asked) -> Reply {
    match asked.who() {
        "lead" => plan_work(),
        "worker" => say("worked"),
        _ => achieved(),
    }
}

/// A model with the usual replies, except that the replies to the agent `who` wait at the gate.
pub fn blocked(who: &'static str, gate: &Arc<Gate>) -> Arc<Scripted> {
    Scripted::gated(gate, move |asked, gate| async move {
        if asked.who() == who {
            gate.pass().await;
        }
        usual(asked).await
    })
}

fn broken() -> AgentFailure {
    AgentFailure::Panicked {
        message: "broken on purpose".to_owned(),
    }
}

#[tokio::test]
async fn paor_7_a_crashed_sub_agent_is_an_observation_and_its_request_ends() {
    let gate = Gate::shut();
    let world = World::new(blocked("worker", &gate), tools([])).await;

    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    crash_agent(&handle, WORKER).await;
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    match &report.iterations[0].observations[0].finding {
        SubTaskResult::Agent { agent, result, .. } => {
            assert_eq!((*agent, result), (WORKER, &Err(broken())));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(gate.inside(), 0);
    assert_eq!(resumptions(&world, &handle), 0);
}

#[tokio::test]
async fn paor_7_a_crashed_sub_agent_does_not_affect_its_sibling() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match asked.who() {
            "lead" => plan("two", json!([work("left", &[]), work("right", &[])])),
            "worker" => {
                gate.pass().await;
                say("worked")
            }
            _ => achieved(),
        }
    });
    let world = World::new(model, tools([])).await;

    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    within(gate.entered()).await;
    crash_agent(&handle, WORKER).await;
    event(&handle, |kind| matches!(kind, EventKind::SubTaskFinished { .. })).await;
    gate.open();
    let report = ended(&handle).await.unwrap();

    let ends: Vec<_> = report.iterations[0]
        .observations
        .iter()
        .map(|seen| (seen.title.as_str(), seen.succeeded()))
        .collect();
    assert_eq!(ends, [("left", false), ("right", true)]);
}

#[tokio::test]
async fn paor_12_a_crashed_lead_or_reflector_is_a_recorded_failure() {
    for (who, agent, expected) in [
        (
            "lead",
            LEAD,
            "the lead ended without an answer: the agent panicked: broken on purpose",
        ),
        (
            "reflector",
            REFLECTOR,
            "the reflector ended without a reflection: the agent panicked: broken on purpose",
        ),
    ] {
        let gate = Gate::shut();
        let world = World::new(blocked(who, &gate), tools([])).await;

        let handle = world.start(UserPresence::Absent).await;
        within(gate.entered()).await;
        crash_agent(&handle, agent).await;
        let report = ended(&handle).await.unwrap();

        let error = expected.to_owned();
        assert_eq!(report.end, Some(EndReason::failed(error)));
        let status = world.journal.run(handle.id()).unwrap().status.unwrap();
        assert!(status.contains(expected), "{status}");
        assert_eq!(gate.inside(), 0);
    }
}

#[tokio::test]
async fn a_crashed_supervisor_is_rebuilt_in_any_phase_and_repeats_no_finished_work() {
    for who in ["lead", "worker", "reflector"] {
        let gate = Gate::shut();
        let world = World::new(blocked(who, &gate), tools([])).await;

        let handle = world.start(UserPresence::Absent).await;
        within(gate.entered()).await;
        crash(&handle);
        // The first request was dropped, and the new supervisor repeats it.
        within(gate.entered()).await;
        assert_eq!(gate.inside(), 1);
        gate.open();
        let report = ended(&handle).await.unwrap();

        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        assert_eq!(report.usage.model_calls, 3);
        // Three answered requests, and the dropped one.
        assert_eq!(world.model.asked(), 4, "while the {who} was asked");
        assert_eq!(resumptions(&world, &handle), 1);
        assert!(world.orchestrator.run(handle.id()).is_none());
    }
}

/// A tool whose calls wait at the gate, and the counter of its calls.
fn waiting_tool(repeat: Repeat, gate: &Arc<Gate>) -> (Scriptool, Arc<AtomicUsize>) {
    let (gate, count) = (gate.clone(), Arc::<AtomicUsize>::default());
    let counter = count.clone();
    let tool = Scriptool::new("it", repeat, move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        let gate = gate.clone();
        async move {
            gate.pass().await;
            ToolResult::success(json!("passed"))
        }
    });
    (tool, count)
}

fn calling(by: &'static str) -> Arc<Scripted> {
    Scripted::new(move |asked| async move {
        match (asked.who(), asked.turn()) {
            ("lead", _) if by == "plan" => plan_call("it"),
            ("lead", _) => plan_work(),
            ("worker", 0) => call("it", json!({})),
            ("worker", _) => say(asked.last()),
            _ => achieved(),
        }
    })
}

#[tokio::test]
async fn host_2_after_a_crash_a_running_safe_call_is_repeated() {
    for by in ["plan", "worker"] {
        let gate = Gate::shut();
        let (tool, called) = waiting_tool(Repeat::Safe, &gate);
        let world = World::new(calling(by), tools([tool])).await;

        let handle = world.start(UserPresence::Absent).await;
        within(gate.entered()).await;
        crash(&handle);
        within(gate.entered()).await;
        assert_eq!(gate.inside(), 1);
        gate.open();
        let report = ended(&handle).await.unwrap();

        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        assert!(report.iterations[0].observations[0].succeeded());
        assert_eq!(called.load(Ordering::SeqCst), 2);
        assert_eq!(report.usage.tool_calls, 1);
    }
}

#[tokio::test]
async fn host_2_after_a_crash_a_running_unsafe_call_is_reported_as_interrupted() {
    for by in ["plan", "worker"] {
        let gate = Gate::shut();
        let (tool, called) = waiting_tool(Repeat::Unsafe, &gate);
        let world = World::new(calling(by), tools([tool])).await;

        let handle = world.start(UserPresence::Absent).await;
        within(gate.entered()).await;
        crash(&handle);
        let report = ended(&handle).await.unwrap();

        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        let seen = serde_json::to_string(&report.iterations[0].observations).unwrap();
        assert!(seen.contains("`it` was interrupted"), "{seen}");
        assert_eq!(called.load(Ordering::SeqCst), 1);
        assert_eq!(gate.inside(), 0);
    }
}

#[tokio::test]
async fn host_8_a_cancellation_applies_once_before_or_after_a_crash() {
    for breaks_first in [true, false] {
        let gate = Gate::shut();
        let world = World::new(blocked("worker", &gate), tools([])).await;

        let handle = world.start(UserPresence::Absent).await;
        within(gate.entered()).await;
        if breaks_first {
            crash(&handle);
        } else {
            world.log.crash_at_end();
        }
        handle.cancel().unwrap();

        world.cancelled(&handle).await;
        assert_eq!(gate.inside(), 0);
    }
}

#[tokio::test]
async fn paor_8_guidance_before_and_after_a_crash_is_not_lost() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match asked.who() {
            "lead" if asked.task().contains("first") && asked.task().contains("second") => {
                say("Both were heard.")
            }
            "lead" => plan_work(),
            "worker" => {
                gate.pass().await;
                say("worked")
            }
            _ => continue_until(&asked, "Both were heard."),
        }
    });
    let world = World::new(model, tools([])).await;

    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    handle.guide("first").unwrap();
    crash(&handle);
    handle.guide("second").unwrap();
    within(gate.entered()).await;
    gate.open();
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.summary, "Both were heard.");
}

#[tokio::test]
async fn paor_9_the_answer_to_a_resumed_run_survives_a_crash() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match asked.who() {
            "lead" if asked.task().contains("the blue one") => {
                gate.pass().await;
                say("The blue one it is.")
            }
            "reflector" => ask_user_until(&asked, "The blue one it is."),
            _ => usual(asked).await,
        }
    });
    let world = World::new(model, tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    assert_eq!(ended(&handle).await.unwrap().end, Some(EndReason::UserRequired));

    let answer = Some("the blue one".to_owned());
    let resume = world
        .orchestrator
        .resume(handle.id(), Resume::new().answer(answer));
    let resumed = resume.await.unwrap();
    within(gate.entered()).await;
    crash(&resumed);
    within(gate.entered()).await;
    gate.open();
    let report = ended(&resumed).await.unwrap();

    assert_eq!(report.summary, "The blue one it is.");
    let inputs = inputs(&world, &resumed).into_iter();
    let answers = inputs.filter(|input| matches!(input, Input::Run(RunInput::UserAnswered { .. })));
    assert_eq!(answers.count(), 1);
}

#[tokio::test]
async fn a_run_whose_supervisor_crashes_too_often_stops_and_can_be_resumed() {
    let gate = Gate::shut();
    let world = World::new(blocked("worker", &gate), tools([])).await;

    let handle = world.start(UserPresence::Absent).await;
    for _ in 0..4 {
        within(gate.entered()).await;
        crash(&handle);
    }
    let error = ended(&handle).await.unwrap_err();

    match error {
        RuntimeError::SupervisorCrashed { run, times, message } => {
            assert_eq!(
                (run, times, message.as_str()),
                (handle.id(), 4, "broken on purpose")
            );
        }
        other => panic!("{other}"),
    }
    assert_eq!(gate.inside(), 0);
    assert!(world.orchestrator.run(handle.id()).is_none());
    assert_eq!(world.journal.run(handle.id()).unwrap().status, None);

    gate.open();
    let resume = world.orchestrator.resume(handle.id(), Resume::new());
    let report = ended(&resume.await.unwrap()).await.unwrap();
    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    let plans = inputs(&world, &handle)
        .into_iter()
        .filter(|input| matches!(input, Input::Agent(AgentInput::Started { brief }) if brief.agent == LEAD));
    assert_eq!(plans.count(), 1);
}

#[tokio::test]
async fn crashes_before_the_first_input_count_too() {
    let gate = Gate::shut();
    let world = World::new(blocked("lead", &gate), tools([])).await;

    let handle = world.start(UserPresence::Absent).await;
    for _ in 0..4 {
        crash(&handle);
    }
    let error = ended(&handle).await.unwrap_err();

    assert!(
        matches!(error, RuntimeError::SupervisorCrashed { times: 4, .. }),
        "{error}"
    );
    assert_eq!(gate.inside(), 0);
}

#[tokio::test]
async fn a_crash_of_one_run_does_not_affect_another() {
    let gate = Gate::shut();
    let world = World::new(blocked("worker", &gate), tools([])).await;
    let broken = world.start(UserPresence::Absent).await;
    let other = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    within(gate.entered()).await;

    crash(&broken);
    within(gate.entered()).await;
    gate.open();
    for handle in [&broken, &other] {
        let report = ended(handle).await.unwrap();
        assert_eq!(report.end, Some(EndReason::GoalAchieved));
    }

    assert_eq!(
        (resumptions(&world, &broken), resumptions(&world, &other)),
        (1, 0)
    );
}

#[tokio::test]
async fn paor_7_the_work_of_a_crashed_agent_is_reported_and_counts() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match (asked.who(), asked.turn()) {
            ("worker", 0) => call("make", json!({})),
            ("worker", _) => {
                gate.pass().await;
                say("worked")
            }
            ("reflector", _) => call(
                "submit_reflection",
                json!({"verdict": "achieved", "summary": "It is done."}),
            ),
            _ => usual(asked).await,
        }
    });
    let made = StateChange::FileMoved {
        version: None,
        from: "a".to_owned(),
        to: "b".to_owned(),
    };
    let change = made.clone();
    let make = Scriptool::new("make", Repeat::Unsafe, move |_, _| {
        std::future::ready(ToolResult::success(json!("made")).with_changes(vec![change.clone()]))
    });
    let world = World::new(model, tools([make])).await;

    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    crash_agent(&handle, WORKER).await;
    let report = ended(&handle).await.unwrap();

    match &report.iterations[0].observations[0].finding {
        SubTaskResult::Agent { result, work, .. } => {
            assert_eq!(result, &Err(broken()));
            let calls: Vec<_> = work.calls.iter().map(|call| call.tool.as_str()).collect();
            assert_eq!(calls, ["make"]);
            assert_eq!(work.changes, [made]);
            assert_eq!((work.usage.model_calls, work.usage.tool_calls), (1, 1));
        }
        other => panic!("{other:?}"),
    }
    // The lead's request, the worker's first and the reflector's.
    assert_eq!((report.usage.model_calls, report.usage.tool_calls), (3, 1));
}

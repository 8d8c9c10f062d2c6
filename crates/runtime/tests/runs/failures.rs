//! PAOR-7: the failure of a tool or an agent is an observation or a recorded failure, and everyone who waits gets an outcome.

use std::sync::{Arc, Mutex, mpsc};

use dirigent_core::agent_report::AgentFailure;
use dirigent_core::end_reason::EndReason;
use dirigent_core::message::{ModelFailure, ModelFailureKind};
use dirigent_core::observation::SubTaskResult;
use dirigent_core::run::Report;
use dirigent_core::time::Millis;
use dirigent_core::tool::{Repeat, ToolOutcome, ToolResult};
use serde_json::{Value, json};

use crate::script::{
    Asked, Gate, Reply, Scripted, Scriptool, achieved, call, plan_call, plan_work, say, tools,
};
use crate::world::World;

/// A timeout for calls that never end; nothing else depends on it.
const SOON: Millis = Millis(50);

/// The lead's plan calls the tool `it`; the reflector is satisfied.
async fn call_it(asked: Asked) -> Reply {
    match asked.who() {
        "lead" => plan_call("it"),
        _ => achieved(),
    }
}

/// The worker calls the tool `it` and repeats its result.
async fn let_it_be_called(asked: Asked) -> Reply {
    match (asked.who(), asked.turn()) {
        ("lead", _) => plan_work(),
        ("worker", 0) => call("it", json!({})),
        ("worker", _) => say(asked.last()),
        _ => achieved(),
    }
}

fn observed_error(report: &Report) -> &str {
    match &report.iterations[0].observations[0].finding {
        SubTaskResult::Calls { calls } => match &calls[0].result.outcome {
            ToolOutcome::Failure { error, .. } => error,
            ToolOutcome::Success { output } => panic!("a success: {output}"),
        },
        other => panic!("not of calls: {other:?}"),
    }
}

fn finding_of_worker(report: &Report) -> &Result<String, AgentFailure> {
    match &report.iterations[0].observations[0].finding {
        SubTaskResult::Agent { result, .. } => result,
        other => panic!("not of an agent: {other:?}"),
    }
}

fn failed(report: &Report) -> &str {
    match &report.end {
        Some(EndReason::Failed { error, .. }) => error,
        other => panic!("ended with {other:?}"),
    }
}

fn panics_before_its_future() -> Scriptool {
    let panics = |_, _: Value| -> std::future::Ready<ToolResult> { panic!("out of cheese") };
    Scriptool::new("it", Repeat::Safe, panics)
}

fn panics_in_its_future() -> Scriptool {
    Scriptool::new("it", Repeat::Safe, |_, _| async { panic!("out of cheese") })
}

#[tokio::test]
async fn paor_7_a_tool_that_panics_is_an_observation() {
    for tool in [panics_before_its_future(), panics_in_its_future()] {
        let world = World::new(Scripted::new(call_it), tools([tool])).await;

        let report = world.run().await;

        assert_eq!(observed_error(&report), "the tool `it` panicked: out of cheese");
        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        world.all_tasks_end().await;
    }
}

#[tokio::test]
async fn paor_7_an_agent_is_told_that_its_tool_panicked_and_continues() {
    for tool in [panics_before_its_future(), panics_in_its_future()] {
        let world = World::new(Scripted::new(let_it_be_called), tools([tool])).await;

        let report = world.run().await;

        let said = "Error (broke_down): the tool `it` panicked: out of cheese";
        assert_eq!(finding_of_worker(&report).as_deref(), Ok(said));
        world.all_tasks_end().await;
    }
}

#[tokio::test]
async fn paor_7_a_planned_call_that_hangs_is_stopped_and_observed() {
    let gate = Gate::shut();
    let tool = Scriptool::waiting("it", Repeat::Safe, &gate);
    let mut world = World::new(Scripted::new(call_it), tools([tool])).await;
    world.spec.limits.call_timeout = SOON;

    let report = world.run().await;

    let error = "the call took longer than 50 ms and was stopped";
    assert_eq!(observed_error(&report), error);
    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    world.all_tasks_end().await;
    assert_eq!(gate.inside(), 0);
}

#[tokio::test]
async fn loop_5_an_agent_whose_tool_hangs_ends_at_its_deadline() {
    let gate = Gate::shut();
    let tool = Scriptool::waiting("it", Repeat::Safe, &gate);
    let mut world = World::new(Scripted::new(let_it_be_called), tools([tool])).await;
    world.spec.setup.agents[0].limits.timeout = SOON;

    let report = world.run().await;

    let failure = AgentFailure::TimeLimit { timeout: SOON };
    assert_eq!(finding_of_worker(&report), &Err(failure));
    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    world.all_tasks_end().await;
    assert_eq!(gate.inside(), 0);
}

#[tokio::test]
async fn paor_7_a_tool_that_ignores_its_cancellation_does_not_delay_the_run() {
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let tool = Scriptool::new("it", Repeat::Safe, move |_, _| {
        let released = released.clone();
        async move {
            let wait = tokio::task::spawn_blocking(move || released.lock().unwrap().recv());
            let _ = wait.await;
            ToolResult::success(Value::Null)
        }
    });
    let mut world = World::new(Scripted::new(let_it_be_called), tools([tool])).await;
    world.spec.setup.agents[0].limits.timeout = SOON;

    let report = world.run().await;

    let failure = AgentFailure::TimeLimit { timeout: SOON };
    assert_eq!(finding_of_worker(&report), &Err(failure));
    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    drop(release);
    world.all_tasks_end().await;
}

#[tokio::test]
async fn loop_5_a_tool_knows_when_the_time_of_its_agent_ends() {
    const LIMIT: u64 = 100;
    let left = Arc::new(Mutex::new(None));
    let recorded = left.clone();
    let tool = Scriptool::new("it", Repeat::Safe, move |context, _| {
        let until = |deadline: tokio::time::Instant| deadline - tokio::time::Instant::now();
        *recorded.lock().unwrap() = context.deadline.map(until);
        std::future::ready(ToolResult::success(Value::Null))
    });
    let mut world = World::new(Scripted::new(let_it_be_called), tools([tool])).await;
    world.spec.setup.agents[0].limits.timeout = Millis::from_secs(LIMIT);
    world.run().await;
    let left = left.lock().unwrap().unwrap();
    assert!(
        !left.is_zero() && left <= std::time::Duration::from_secs(LIMIT),
        "{left:?}"
    );
}

#[derive(Clone, Copy)]
enum Fault {
    Panics,
    Hangs,
    Fails,
}

/// A model with this fault in requests of this agent.
fn faulty(who: &'static str, fault: Fault) -> Arc<Scripted> {
    Scripted::new(move |asked| async move {
        if asked.who() == who {
            return match fault {
                Fault::Panics => panic!("no such weights"),
                Fault::Hangs => std::future::pending().await,
                Fault::Fails => Err(ModelFailure {
                    kind: ModelFailureKind::Configuration,
                    message: "the key is wrong".to_owned(),
                }),
            };
        }
        match asked.who() {
            "lead" => plan_work(),
            "worker" => say("worked"),
            _ => achieved(),
        }
    })
}

#[tokio::test]
async fn paor_7_a_sub_agent_whose_model_breaks_is_an_observation() {
    for (fault, expected) in [
        (
            Fault::Panics,
            "the model did not answer: the model client panicked: no such weights",
        ),
        (
            Fault::Hangs,
            "the agent reached its time limit of 50 ms before it finished: raise `timeout` in this agent's limits",
        ),
        (Fault::Fails, "the model did not answer: the key is wrong"),
    ] {
        let mut world = World::new(faulty("worker", fault), tools([])).await;
        world.spec.setup.agents[0].limits.timeout = match fault {
            Fault::Hangs => SOON,
            Fault::Panics | Fault::Fails => Millis::from_secs(3_600),
        };

        let report = world.run().await;

        let failure = finding_of_worker(&report).as_ref().unwrap_err();
        assert_eq!(failure.to_string(), expected);
        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        world.all_tasks_end().await;
    }
}

#[tokio::test]
async fn paor_12_a_lead_or_reflector_whose_model_breaks_is_a_recorded_failure() {
    for (who, what) in [("lead", "an answer"), ("reflector", "a reflection")] {
        for (fault, expected) in [
            (
                Fault::Panics,
                "the model did not answer: the model client panicked: no such weights",
            ),
            (
                Fault::Hangs,
                "the agent reached its time limit of 50 ms before it finished: raise `timeout` in this agent's limits",
            ),
            (Fault::Fails, "the model did not answer: the key is wrong"),
        ] {
            let mut world = World::new(faulty(who, fault), tools([])).await;
            if let Fault::Hangs = fault {
                let broken = if who == "lead" {
                    &mut world.spec.setup.lead
                } else {
                    &mut world.spec.setup.reflector
                };
                broken.limits.timeout = SOON;
            }

            let report = world.run().await;

            assert_eq!(
                failed(&report),
                format!("the {who} ended without {what}: {expected}")
            );
            world.all_tasks_end().await;
        }
    }
}

#[tokio::test]
async fn a_model_that_panics_before_it_returns_a_future_is_also_a_failure() {
    let model = Scripted::new(|_| -> std::future::Ready<Reply> { panic!("no such weights") });
    let world = World::new(model, tools([])).await;

    let report = world.run().await;

    assert_eq!(
        failed(&report),
        "the lead ended without an answer: the model did not answer: the model client panicked: no such weights"
    );
}

//! HOST-8: a run can be cancelled in any phase, and leaves nothing behind.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};

use dirigent_core::phase::Phase;
use dirigent_core::tool::{Repeat, ToolResult};
use dirigent_core::view::EventKind;
use dirigent_runtime::{RuntimeError, UserPresence};
use serde_json::{Value, json};

use crate::script::{
    Gate, Scripted, Scriptool, achieved, ask_user, call, plan, plan_call, plan_work, say, tools, work,
};
use crate::world::{World, event, within};

/// A model whose reply to this agent with this task waits at the gate. An empty task matches any.
fn blocked(who: &'static str, task: &'static str, gate: &Arc<Gate>) -> Arc<Scripted> {
    Scripted::gated(gate, move |asked, gate| async move {
        if asked.who() == who && asked.task().contains(task) {
            gate.pass().await;
        }
        match asked.who() {
            "lead" => plan("two", json!([work("left", &[]), work("right", &[])])),
            "worker" => say("worked"),
            _ => achieved(),
        }
    })
}

async fn cancel_while_blocked(who: &'static str, waiting: usize) {
    let gate = Gate::shut();
    let world = World::new(blocked(who, "", &gate), tools([])).await;

    let handle = world.start(UserPresence::Present).await;
    for _ in 0..waiting {
        within(gate.entered()).await;
    }
    assert_eq!(gate.inside(), waiting);
    let report = world.cancel(&handle).await;

    assert_eq!(report.phase, Phase::Failed);
    assert_eq!(gate.inside(), 0);
}

#[tokio::test]
async fn host_8_cancel_while_planning() {
    cancel_while_blocked("lead", 1).await;
}

#[tokio::test]
async fn host_8_cancel_while_acting_with_two_sub_agents() {
    cancel_while_blocked("worker", 2).await;
}

#[tokio::test]
async fn host_8_cancel_while_reflecting() {
    cancel_while_blocked("reflector", 1).await;
}

#[tokio::test]
async fn host_8_cancel_while_observing() {
    let gate = Gate::shut();
    let world = World::new(blocked("worker", "right", &gate), tools([])).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    event(&handle, |kind| matches!(kind, EventKind::SubTaskFinished { .. })).await;
    let report = world.cancel(&handle).await;

    assert_eq!(report.iterations[0].observations[0].title, "left");
    assert_eq!(report.iterations[0].observations.len(), 1);
    assert_eq!(gate.inside(), 0);
}

#[tokio::test]
async fn host_8_cancel_while_a_question_waits() {
    let model = Scripted::new(|asked| async move {
        match asked.who() {
            "lead" => plan_work(),
            "worker" => say("worked"),
            _ => ask_user(),
        }
    });
    let world = World::new(model, tools([])).await;

    let handle = world.start(UserPresence::Present).await;
    event(&handle, |kind| matches!(kind, EventKind::QuestionAsked { .. })).await;
    world.cancel(&handle).await;
}

#[tokio::test]
async fn host_8_a_second_cancellation_has_no_effect() {
    let gate = Gate::shut();
    let world = World::new(blocked("lead", "", &gate), tools([])).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    handle.cancel().unwrap();
    // The run may have handled the first cancellation by now.
    let again = handle.cancel();
    assert!(matches!(again, Ok(()) | Err(RuntimeError::Ended { .. })));
    world.cancelled(&handle).await;
    assert!(matches!(handle.cancel(), Err(RuntimeError::Ended { .. })));
}

/// The tool `it`, called by the plan or by the worker.
fn caller(by: &'static str, parameters: Value) -> Arc<Scripted> {
    Scripted::new(move |asked| {
        let parameters = parameters.clone();
        async move {
            match (asked.who(), by) {
                ("lead", "plan") => {
                    let calls = json!([{"tool": "it", "parameters": parameters}]);
                    plan(
                        "call it",
                        json!([{"id": "call", "title": "call it", "calls": calls}]),
                    )
                }
                ("lead", _) => plan_work(),
                _ => call("it", parameters),
            }
        }
    })
}

#[tokio::test]
async fn host_8_cancel_while_a_tool_runs() {
    for by in ["plan", "worker"] {
        let gate = Gate::shut();
        let tool = Scriptool::waiting("it", Repeat::Unsafe, &gate);
        let world = World::new(caller(by, json!({})), tools([tool])).await;

        let handle = world.start(UserPresence::Present).await;
        within(gate.entered()).await;
        world.cancel(&handle).await;

        assert_eq!(gate.inside(), 0);
    }
}

#[tokio::test]
async fn host_8_cancelling_ends_child_processes() {
    let program = "echo $$ > started; exec sleep 1000";
    let parameters = json!({"command": ["sh", "-c", program]});
    for by in ["plan", "worker"] {
        let command = dirigent_tools::execute_command(&dirigent_tools::Sandbox::default());
        let it = {
            let command = Arc::new(command);
            Scriptool::new("it", Repeat::Unsafe, move |context, parameters| {
                dirigent_tools::Tool::call(command.as_ref(), context, parameters)
            })
        };
        let world = World::new(caller(by, parameters.clone()), tools([it])).await;
        let started = world.folder.path().join("started");
        assert!(Command::new("mkfifo").arg(&started).status().unwrap().success());

        let handle = world.start(UserPresence::Present).await;
        // Reading a pipe waits for its writer.
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(started).unwrap());
        let process = within(read).await.unwrap();
        let process = Path::new("/proc").join(process.trim());
        assert!(process.join("cmdline").exists());
        world.cancel(&handle).await;

        // A killed process exists until its parent waits for it.
        within(async {
            while process.exists() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn host_8_a_tool_that_ignores_its_cancellation_does_not_delay_the_end_of_the_run() {
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let gate = Gate::shut();
    let at_gate = gate.clone();
    let tool = Scriptool::new("it", Repeat::Unsafe, move |_, _| {
        let released = released.clone();
        let arrived = at_gate.clone().pass();
        async move {
            let wait = tokio::task::spawn_blocking(move || released.lock().unwrap().recv());
            arrived.await;
            let _ = wait.await;
            ToolResult::success(Value::Null)
        }
    });
    gate.open();
    let world = World::new(caller("plan", json!({})), tools([tool])).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    world.cancel(&handle).await;

    drop(release);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn host_8_a_tool_that_blocks_its_thread_does_not_delay_the_end_of_the_run() {
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let gate = Gate::shut();
    let at_gate = gate.clone();
    let tool = Scriptool::new("it", Repeat::Unsafe, move |_, _| {
        let (released, arrived) = (released.clone(), at_gate.clone().pass());
        async move {
            arrived.await;
            let _ = released.lock().unwrap().recv();
            ToolResult::success(Value::Null)
        }
    });
    gate.open();
    let world = World::new(caller("worker", json!({})), tools([tool])).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    handle.cancel().unwrap();
    let report = crate::world::ended(&handle).await.unwrap();

    assert_eq!(report.phase, Phase::Failed);
    assert_eq!(
        world.status(handle.id()).as_deref(),
        Some(r#"{"reason":"cancelled"}"#)
    );
    drop(release);
    world.all_tasks_end().await;
}

#[tokio::test]
async fn dropping_the_orchestrator_stops_its_runs_where_they_are() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match asked.who() {
            "lead" => plan_call("none"),
            _ => {
                gate.pass().await;
                achieved()
            }
        }
    });
    let (none, _) = crate::script::counting("none", Repeat::Safe);
    let world = World::new(model, tools([none])).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    let World {
        orchestrator,
        journal,
        folder: _folder,
        ..
    } = world;
    drop(orchestrator);
    let error = crate::world::ended(&handle).await.unwrap_err();

    assert_eq!(
        error.to_string(),
        "the orchestrator is not running: it was shut down while the run was active"
    );
    assert_eq!(journal.run(handle.id()).unwrap().status, None);
    within(async {
        while gate.inside() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

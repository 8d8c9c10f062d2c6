//! Messages to a run and calls that wait for approval, while actors crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dirigent_core::agent::AgentInput;
use dirigent_core::approval::{Approval, ApprovalAnswer, Decision};
use dirigent_core::end_reason::EndReason;
use dirigent_core::journal::Input;
use dirigent_core::observation::SubTaskResult;
use dirigent_core::run::RunInput;
use dirigent_core::steering::Steering;
use dirigent_core::tool::Repeat;
use dirigent_core::view::EventKind;
use dirigent_runtime::run_log::{MessageState, Position};
use dirigent_runtime::{RunHandle, RuntimeError, UserPresence};
use dirigent_tools::ToolRegistry;
use serde_json::json;

use super::fragile::{CRASH, crash, crash_agent};
use super::script::{self, Asked, Gate, Reply, Scripted, call, plan, say, tools, work};
use super::supervision::{REFLECTOR, WORKER, blocked, inputs, resumptions, usual};
use super::world::{World, ended, within};

/// The tool `risk`, which needs approval, and the counter of its calls.
fn risky() -> (ToolRegistry, Arc<AtomicUsize>) {
    let (tool, called) = script::counting("risk", Repeat::Unsafe);
    (tools([tool.needing_approval()]), called)
}

async fn take_a_risk(asked: Asked) -> Reply {
    match (asked.who(), asked.turn()) {
        ("worker", 0) => call("risk", json!({})),
        ("worker", _) => say(asked.last()),
        _ => usual(asked).await,
    }
}

/// The first call that waits for approval.
async fn approval(handle: &RunHandle) -> Arc<Approval> {
    let mut events = handle.events(0);
    within(async {
        while let Some(event) = events.next().await {
            if let EventKind::ApprovalAsked { approval } = &event.unwrap().kind {
                return approval.clone();
            }
        }
        panic!("the run ended");
    })
    .await
}

fn approve(approval: &Approval) -> Decision {
    Decision {
        digest: approval.digest.clone(),
        answer: ApprovalAnswer::Approve,
    }
}

#[tokio::test]
async fn approve_3_an_approval_survives_a_supervisor_crash_and_applies_once() {
    let (registry, called) = risky();
    let world = World::new(Scripted::new(take_a_risk), registry).await;
    let handle = world.start(UserPresence::Present).await;
    let asked = approval(&handle).await;

    // The decision waits in the mailbox until the supervisor is rebuilt, and then until the call's agent is restarted.
    crash(&handle);
    within(handle.decide(asked.effect, approve(&asked)))
        .await
        .unwrap();
    let again = within(handle.decide(asked.effect, approve(&asked)))
        .await
        .unwrap_err();
    let report = ended(&handle).await.unwrap();

    assert!(
        matches!(again, RuntimeError::Decision { .. } | RuntimeError::Ended { .. }),
        "{again}"
    );
    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(called.load(Ordering::SeqCst), 1);
    assert_eq!(resumptions(&world, &handle), 1);
}

#[tokio::test]
async fn paor_7_an_agent_that_crashes_while_its_call_waits_is_an_observation() {
    let (registry, called) = risky();
    let world = World::new(Scripted::new(take_a_risk), registry).await;
    let handle = world.start(UserPresence::Present).await;
    let asked = approval(&handle).await;

    crash_agent(&handle, WORKER).await;
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert!(!report.iterations[0].observations[0].succeeded());
    assert_eq!(called.load(Ordering::SeqCst), 0);
    assert!(handle.approvals().await.unwrap().is_empty());
    let late = handle.decide(asked.effect, approve(&asked)).await.unwrap_err();
    assert!(matches!(late, RuntimeError::Ended { .. }), "{late}");
}

#[tokio::test]
async fn paor_7_a_crashed_delegate_is_a_failed_call_of_its_caller() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked, gate| async move {
        match (asked.who(), asked.turn()) {
            ("worker", 0) if asked.task().contains("break") => {
                gate.pass().await;
                say("worked")
            }
            ("worker", 0) => call("delegate", json!({"agent": "worker", "task": "break"})),
            ("worker", _) => say(asked.last()),
            _ => usual(asked).await,
        }
    });
    let mut world = World::new(model, tools([])).await;
    world.spec.setup.agents[0].tools.push("delegate".to_owned());

    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    // Agent 3 is the reflector in other tests. Here it is the agent to which the worker delegates.
    crash_agent(&handle, REFLECTOR).await;
    let report = ended(&handle).await.unwrap();

    match &report.iterations[0].observations[0].finding {
        SubTaskResult::Agent { agent, result, .. } => {
            assert_eq!(*agent, WORKER);
            let findings = result.as_ref().unwrap();
            assert!(
                findings.contains("the agent panicked: broken on purpose"),
                "{findings}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(gate.inside(), 0);
}

#[tokio::test]
async fn host_2_messages_of_other_processes_are_accepted_once_despite_crashes() {
    // The gates keep the run from ending before the last message is delivered.
    let (gate, end) = (Gate::shut(), Gate::shut());
    let at_end = end.clone();
    let model = Scripted::gated(&gate, move |asked, gate| {
        let end = at_end.clone();
        async move {
            match asked.who() {
                "worker" => gate.pass().await,
                "reflector" => end.pass().await,
                _ => {}
            }
            usual(asked).await
        }
    });
    let world = World::new(model, tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    let post = |steering: &Steering| {
        let body = serde_json::to_string(steering).unwrap();
        world
            .journal
            .post(handle.id(), Default::default(), body, Position::Last)
            .unwrap()
    };
    let guide = |words: &str| {
        let guidance = words.to_owned();
        post(&Steering::Guide { guidance })
    };

    let first = guide("first");
    crash(&handle);
    let second = guide("second");
    within(gate.entered()).await;
    let to_worker = post(&Steering::GuideAgent {
        agent: WORKER,
        guidance: "third".to_owned(),
    });
    crash_agent(&handle, WORKER).await;
    let last = guide("last");
    let far_away = Duration::from_secs(60);
    for message in [first, second, last] {
        let state = world.journal.wait_settled(message, far_away).await.unwrap();
        assert_eq!(state, MessageState::Accepted);
    }
    let to_worker = world.journal.message(to_worker).unwrap();
    gate.open();
    end.open();
    ended(&handle).await.unwrap();

    let inputs = inputs(&world, &handle);
    let by_run: Vec<&str> = inputs
        .iter()
        .filter_map(|input| match input {
            Input::Run(RunInput::Guided { guidance }) => Some(guidance.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(by_run, ["first", "second", "last"]);
    let by_worker = inputs
        .iter()
        .filter(|input| matches!(input, Input::Agent(AgentInput::Guided { .. })))
        .count();
    match to_worker {
        MessageState::Accepted => assert_eq!(by_worker, 1),
        MessageState::Rejected { reason } => {
            assert!(reason.contains("no active agent a2"), "{reason}");
            assert_eq!(by_worker, 0);
        }
        MessageState::Pending => panic!("still pending"),
    }
}

fn guide(guidance: &str) -> Steering {
    let guidance = guidance.to_owned();
    Steering::Guide { guidance }
}

#[tokio::test]
async fn host_2_a_message_that_may_have_been_accepted_is_not_sent_again() {
    let gate = Gate::shut();
    let world = World::new(blocked("worker", &gate), tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;

    // The supervisor crashes while it handles the message.
    let steering = world.orchestrator.steer(handle.id(), guide(CRASH));
    let open = within(steering).await.unwrap_err();

    assert!(matches!(open, RuntimeError::DeliveryUnknown { .. }), "{open}");
    assert!(!world.journal.has_pending_messages(handle.id()).unwrap());
    gate.open();
    ended(&handle).await.unwrap();
}

#[tokio::test]
async fn host_2_a_message_to_a_run_whose_end_crashes_is_settled() {
    let gate = Gate::shut();
    let lead_gate = gate.clone();
    let model = Scripted::new(move |asked| {
        let gate = lead_gate.clone();
        async move {
            gate.pass().await;
            usual(asked).await
        }
    });
    let world = World::new(model, tools([])).await;
    world.log.crash_at_end();
    let handle = world.start(UserPresence::Absent).await;
    let body = serde_json::to_string(&guide("go on")).unwrap();
    let position = Position::Last;
    let posted = world
        .journal
        .post(handle.id(), Default::default(), body, position);
    gate.open();
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    let far_away = Duration::from_secs(60);
    let state = world
        .journal
        .wait_settled(posted.unwrap(), far_away)
        .await
        .unwrap();
    assert_ne!(state, MessageState::Pending);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_to_an_ending_agent_is_accepted_or_rejected() {
    let plan = || {
        let ids: Vec<String> = (0..20).map(|number| format!("work {number}")).collect();
        plan("many", ids.iter().map(|id| work(id, &[])).collect())
    };
    let model = Scripted::new(move |asked| async move {
        match asked.who() {
            "lead" => plan(),
            _ => usual(asked).await,
        }
    });
    let world = World::new(model, tools([])).await;

    let handle = world.start(UserPresence::Absent).await;
    let mut senders = tokio::task::JoinSet::new();
    for agent in 2..=21 {
        let handle = handle.clone();
        senders.spawn(async move {
            loop {
                match handle
                    .guide_agent(dirigent_core::id::AgentId(agent), "be quick")
                    .await
                {
                    Err(error @ RuntimeError::DeliveryUnknown { .. }) => panic!("{error}"),
                    Err(RuntimeError::Ended { .. }) => return,
                    Ok(()) | Err(_) => tokio::task::yield_now().await,
                }
            }
        });
    }
    ended(&handle).await.unwrap();
    while let Some(sent) = within(senders.join_next()).await {
        sent.unwrap();
    }
}

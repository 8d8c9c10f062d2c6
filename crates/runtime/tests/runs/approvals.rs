//! APPROVE-1 to APPROVE-3 and HOST-11: calls of agents and of a plan wait for approval, and each is decided once.

use std::sync::Arc;
use std::sync::Mutex;

use dirigent_core::agent::AgentInput;
use dirigent_core::agent_report::AgentFailure;
use dirigent_core::approval::{Approval, ApprovalAnswer, Decision, DecisionError};
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::RunId;
use dirigent_core::journal::Input;
use dirigent_core::observation::SubTaskResult;
use dirigent_core::run::{Report, RunInput};
use dirigent_core::spec::RunSpec;
use dirigent_core::steering::Steering;
use dirigent_core::time::Millis;
use dirigent_core::tool::{Repeat, ToolResult};
use dirigent_core::view::EventKind;
use dirigent_runtime::{Resume, RunHandle, RuntimeError, SteerOutcome, UserPresence, read_run, record_run};
use dirigent_tools::ToolRegistry;
use serde_json::{Value, json};

use crate::script::{
    Asked, Gate, Reply, Scripted, Scriptool, achieved, call, plan, plan_call, plan_work, say, tools, work,
};
use crate::world::{World, ended, event, start_up, within};

/// A timeout for calls that never end; nothing else depends on it.
const SOON: Millis = Millis(50);

pub type Calls = Arc<Mutex<Vec<Value>>>;

/// The tool `risk`, which needs approval, and the recorded parameters of its calls.
pub fn risky() -> (ToolRegistry, Calls) {
    let calls = Calls::default();
    let noted = calls.clone();
    let tool = Scriptool::new("risk", Repeat::Unsafe, move |_, parameters| {
        noted.lock().unwrap().push(parameters);
        std::future::ready(ToolResult::success(json!("risked")))
    });
    (tools([tool.needing_approval()]), calls)
}

/// Two workers that both call `risk`.
async fn two_risks(asked: Asked) -> Reply {
    let side = if asked.task().contains("left") {
        "left"
    } else {
        "right"
    };
    match (asked.who(), asked.turn()) {
        ("lead", _) => plan("two", json!([work("left", &[]), work("right", &[])])),
        ("worker", 0) => call("risk", json!({"side": side})),
        ("worker", _) => say(asked.last()),
        _ => achieved(),
    }
}

/// A worker that calls `risk`.
async fn one_risk(asked: Asked) -> Reply {
    match (asked.who(), asked.turn()) {
        ("lead", _) => plan_work(),
        ("worker", 0) => call("risk", json!({"side": "left"})),
        ("worker", _) => say(asked.last()),
        _ => achieved(),
    }
}

/// A model in which the plan, the worker, or the worker's delegate calls `risk`.
pub fn risk_of(by: &'static str) -> Arc<Scripted> {
    Scripted::new(move |asked| async move {
        match asked.who() {
            "lead" if by == "plan" => plan_call("risk"),
            "worker" if by == "delegate" && asked.turn() == 0 && !asked.task().contains("risk it") => {
                call("delegate", json!({"agent": "worker", "task": "risk it"}))
            }
            _ => one_risk(asked).await,
        }
    })
}

pub fn approve(approval: &Approval) -> Decision {
    Decision {
        digest: approval.digest.clone(),
        answer: ApprovalAnswer::Approve,
    }
}

fn decide(approval: &Approval) -> Steering {
    Steering::Decide {
        effect: approval.effect,
        decision: approve(approval),
    }
}

/// The waiting calls, once there are this many.
async fn approvals(handle: &RunHandle, count: usize) -> Vec<Arc<Approval>> {
    let mut events = handle.events(0);
    within(async {
        loop {
            let approvals = handle.approvals().await.unwrap();
            if approvals.len() == count {
                return approvals;
            }
            events.next().await.expect("the run ended").unwrap();
        }
    })
    .await
}

fn left_and_right(mut approvals: Vec<Arc<Approval>>) -> (Arc<Approval>, Arc<Approval>) {
    approvals.sort_by_key(|approval| approval.parameters.to_string());
    let right = approvals.pop().unwrap();
    (approvals.pop().unwrap(), right)
}

fn fault(result: Result<(), RuntimeError>) -> DecisionError {
    match result {
        Err(RuntimeError::Decision { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

fn finding(report: &Report) -> &Result<String, AgentFailure> {
    match &report.iterations[0].observations[0].finding {
        SubTaskResult::Agent { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

fn decisions(world: &World, run: RunId) -> usize {
    let entries = world.entries(run).into_iter();
    let decided = entries.filter(|entry| {
        matches!(
            entry.input,
            Input::Agent(AgentInput::Decided { .. }) | Input::Run(RunInput::Decided { .. })
        )
    });
    decided.count()
}

#[tokio::test]
async fn approve_1_nothing_runs_until_the_call_is_approved() {
    for by in ["worker", "plan"] {
        let (registry, calls) = risky();
        let world = World::new(risk_of(by), registry).await;

        let handle = world.start(UserPresence::Present).await;
        let asked = approvals(&handle, 1).await;
        assert_eq!(calls.lock().unwrap().len(), 0);
        handle.decide(asked[0].effect, approve(&asked[0])).await.unwrap();
        let report = ended(&handle).await.unwrap();

        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        assert!(report.iterations[0].observations[0].succeeded());
        assert_eq!(calls.lock().unwrap().len(), 1);
        assert_eq!(asked[0].tool, "risk");
        assert_eq!(asked[0].agent.as_deref(), (by == "worker").then_some("worker"));
        let late = handle
            .decide(asked[0].effect, approve(&asked[0]))
            .await
            .unwrap_err();
        assert!(matches!(late, RuntimeError::Ended { .. }), "{late}");
    }
}

#[tokio::test]
async fn approve_3_an_approval_that_has_expired_is_a_failed_call() {
    let (registry, calls) = risky();
    let mut world = World::new(Scripted::new(one_risk), registry).await;
    world.spec.limits.approval_timeout = Some(SOON);

    let handle = world.start(UserPresence::Present).await;
    let mut shown = None;
    let mut events = handle.events(0);
    while let Some(event) = within(events.next()).await {
        if let EventKind::ApprovalAsked { approval } = &event.unwrap().kind {
            shown = Some(approval.clone());
        }
    }
    let report = ended(&handle).await.unwrap();

    let told = finding(&report).clone().unwrap();
    assert!(
        told.contains("the user neither approved nor rejected it in time"),
        "{told}"
    );
    assert_eq!(calls.lock().unwrap().len(), 0);
    assert!(shown.is_some());
    event(&handle, |kind| matches!(kind, EventKind::ApprovalExpired { .. })).await;
}

#[tokio::test]
async fn host_11_a_pending_approval_survives_the_process_and_works_once() {
    let (registry, calls) = risky();
    let world = World::new(Scripted::new(two_risks), registry.clone()).await;
    let handle = world.start(UserPresence::Present).await;
    let (left, right) = left_and_right(approvals(&handle, 2).await);
    handle.decide(right.effect, approve(&right)).await.unwrap();
    event(&handle, |kind| matches!(kind, EventKind::SubTaskFinished { .. })).await;
    let run = handle.id();

    let World {
        orchestrator,
        journal,
        model,
        folder,
        ..
    } = world;
    drop(orchestrator);
    let stopped = ended(&handle).await.unwrap_err();
    assert!(matches!(stopped, RuntimeError::Stopped { .. }), "{stopped}");
    let orchestrator = start_up(&journal, &model, &registry).await;
    let handle = within(orchestrator.resume(run, Resume::new().user(UserPresence::Present)))
        .await
        .unwrap();
    let pending = approvals(&handle, 1).await;
    assert_eq!(
        (pending[0].effect, &pending[0].digest),
        (left.effect, &left.digest)
    );
    // A decision about the version that was shown earlier is also accepted.
    let effect = left.effect;
    let (first, second) = tokio::join!(
        handle.decide(effect, approve(&left)),
        handle.decide(effect, approve(&pending[0]))
    );
    first.unwrap();
    assert_eq!(fault(second), DecisionError::NotPending { effect });
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(
        *calls.lock().unwrap(),
        [json!({"side": "right"}), json!({"side": "left"})]
    );
    drop(folder);
}

#[tokio::test]
async fn paor_9_without_a_user_the_run_pauses_and_keeps_its_pending_calls() {
    for by in ["worker", "plan", "delegate"] {
        let (registry, calls) = risky();
        let mut world = World::new(risk_of(by), registry).await;
        world.spec.setup.agents[0].tools.push("delegate".to_owned());

        let handle = world.start(UserPresence::Absent).await;
        let stopped = ended(&handle).await.unwrap();
        assert_eq!(stopped.end, Some(EndReason::UserRequired));
        let pending = handle.approvals().await.unwrap();
        assert_eq!(pending.len(), 1);

        // Resumed without a decision, the run pauses again.
        let run = handle.id();
        let resume = world.orchestrator.resume(run, Resume::new());
        let again = ended(&resume.await.unwrap()).await.unwrap();
        assert_eq!(again.end, Some(EndReason::UserRequired));

        // A decision is stored until the run is resumed.
        let steered = world.orchestrator.steer(run, decide(&pending[0])).await.unwrap();
        assert_eq!(steered, SteerOutcome::Pending);
        let resume = world.orchestrator.resume(run, Resume::new());
        let report = ended(&resume.await.unwrap()).await.unwrap();

        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        assert_eq!(calls.lock().unwrap().len(), 1);
        assert_eq!(decisions(&world, run), 1);
    }
}

#[tokio::test]
async fn paor_9_the_run_does_not_wait_for_a_user_who_leaves() {
    for leaves in ["before the call waits", "while it waits"] {
        let gate = Gate::shut();
        let (registry, calls) = risky();
        let model = Scripted::gated(&gate, |asked, gate| async move {
            gate.pass().await;
            one_risk(asked).await
        });
        let world = World::new(model, registry).await;

        let handle = world.start(UserPresence::Present).await;
        within(gate.entered()).await;
        if leaves == "before the call waits" {
            handle.set_user_absent().unwrap();
            gate.open();
        } else {
            gate.open();
            approvals(&handle, 1).await;
            handle.set_user_absent().unwrap();
        }
        let report = ended(&handle).await.unwrap();

        assert_eq!(report.end, Some(EndReason::UserRequired), "{leaves}");
        assert_eq!(calls.lock().unwrap().len(), 0);
    }
}

#[tokio::test]
async fn host_11_other_branches_continue_while_the_user_is_absent() {
    let gate = Gate::shut();
    let (registry, calls) = risky();
    let model = Scripted::gated(&gate, |asked, gate| async move {
        if asked.who() == "worker" && asked.task().contains("right") {
            gate.pass().await;
            return say("worked");
        }
        two_risks(asked).await
    });
    let world = World::new(model, registry).await;

    let handle = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    approvals(&handle, 1).await;
    gate.open();
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::UserRequired));
    let ended: Vec<_> = report.iterations[0]
        .observations
        .iter()
        .map(|seen| seen.title.as_str())
        .collect();
    assert_eq!(ended, ["right"]);
    assert_eq!(calls.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn approve_3_decisions_of_another_process_apply_once() {
    let (registry, calls) = risky();
    let world = World::new(Scripted::new(one_risk), registry.clone()).await;
    let journal = dirigent_store::Journal::open(&world.folder.path().join("journal.db")).unwrap();
    let other = start_up(&journal, &world.model, &registry).await;

    let handle = world.start(UserPresence::Present).await;
    let asked = approvals(&handle, 1).await;
    // On a slow machine the decision is accepted a little later; then the run ends.
    within(other.steer(handle.id(), decide(&asked[0]))).await.unwrap();
    ended(&handle).await.unwrap();

    let late = other.steer(handle.id(), decide(&asked[0])).await.unwrap_err();
    assert!(matches!(late, RuntimeError::Ended { .. }), "{late}");
    assert_eq!(calls.lock().unwrap().len(), 1);
    assert_eq!(decisions(&world, handle.id()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn paor_9_pending_decisions_apply_before_the_run_pauses_for_its_user() {
    for _ in 0..10 {
        let (registry, calls) = risky();
        let world = World::new(Scripted::new(two_risks), registry).await;
        let handle = world.start(UserPresence::Absent).await;
        let stopped = ended(&handle).await.unwrap();
        assert_eq!(stopped.end, Some(EndReason::UserRequired));

        let run = handle.id();
        for asked in handle.approvals().await.unwrap() {
            let steered = world.orchestrator.steer(run, decide(&asked)).await.unwrap();
            assert_eq!(steered, SteerOutcome::Pending);
        }
        let resume = world.orchestrator.resume(run, Resume::new());
        let report = ended(&resume.await.unwrap()).await.unwrap();

        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        assert_eq!(calls.lock().unwrap().len(), 2);
    }
}

fn allowing(calls: &str) -> Steering {
    Steering::AllowCalls {
        calls: calls.parse().unwrap(),
    }
}

#[tokio::test]
async fn approve_1_a_rule_sent_to_a_run_decides_calls_that_wait_and_later_ones_of_every_machine() {
    for by in ["worker", "plan", "delegate"] {
        let (registry, calls) = risky();
        let mut world = World::new(risk_of(by), registry).await;
        world.spec.setup.agents[0].tools.push("delegate".to_owned());
        let handle = world.start(UserPresence::Present).await;
        approvals(&handle, 1).await;
        handle.steer(allowing("risk(side: right)")).await.unwrap();
        assert_eq!(handle.approvals().await.unwrap().len(), 1);
        handle.steer(allowing("risk")).await.unwrap();
        let report = ended(&handle).await.unwrap();
        assert_eq!(report.end, Some(EndReason::GoalAchieved), "{by}");
        assert_eq!(calls.lock().unwrap().len(), 1);

        // A replay decides by the same rules, without a model.
        let recording = record_run(&world.journal, handle.id()).unwrap();
        let (view, _) = read_run(&world.journal, handle.id()).unwrap();
        let spec = RunSpec::clone(view.run().spec());
        let replayed = world.orchestrator.replay(recording, spec).await.unwrap();
        assert_eq!(ended(&replayed).await.unwrap().end, Some(EndReason::GoalAchieved));
        assert_eq!(calls.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn approve_1_a_rule_for_a_paused_run_waits_for_its_resumption_and_then_needs_no_user() {
    let (registry, calls) = risky();
    let world = World::new(risk_of("worker"), registry).await;
    let handle = world.start(UserPresence::Absent).await;
    assert_eq!(ended(&handle).await.unwrap().end, Some(EndReason::UserRequired));
    let sent = world.orchestrator.steer(handle.id(), allowing("risk")).await;
    assert_eq!(sent.unwrap(), SteerOutcome::Pending);
    let resumed = world
        .orchestrator
        .resume(handle.id(), Resume::new())
        .await
        .unwrap();
    assert_eq!(ended(&resumed).await.unwrap().end, Some(EndReason::GoalAchieved));
    assert_eq!(calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn approve_1_a_run_is_resumed_and_forked_with_rules_that_were_added_meanwhile() {
    let (registry, calls) = risky();
    let world = World::new(risk_of("worker"), registry).await;
    let handle = world.start(UserPresence::Absent).await;
    assert_eq!(ended(&handle).await.unwrap().end, Some(EndReason::UserRequired));
    let rules = || vec!["risk".parse().unwrap()];
    let fork = world
        .orchestrator
        .fork(handle.id(), None, None, rules(), UserPresence::Absent);
    assert_eq!(
        ended(&fork.await.unwrap()).await.unwrap().end,
        Some(EndReason::GoalAchieved)
    );
    let resume = Resume::new().allow(rules()).allow(rules());
    let resumed = world.orchestrator.resume(handle.id(), resume).await.unwrap();
    assert_eq!(ended(&resumed).await.unwrap().end, Some(EndReason::GoalAchieved));
    assert_eq!(calls.lock().unwrap().len(), 2);
    let is_rule = |input: &Input| matches!(input, Input::Run(RunInput::CallsAllowed { .. }));
    let entries = world.entries(handle.id());
    assert_eq!(entries.iter().filter(|entry| is_rule(&entry.input)).count(), 1);

    // A fork shares the rules of the entries that it shares.
    let last = entries.iter().rposition(|entry| is_rule(&entry.input)).unwrap();
    let at = Some(entries[last].seq);
    let fork = world
        .orchestrator
        .fork(handle.id(), at, None, Vec::new(), UserPresence::Absent);
    assert_eq!(
        ended(&fork.await.unwrap()).await.unwrap().end,
        Some(EndReason::GoalAchieved)
    );
}

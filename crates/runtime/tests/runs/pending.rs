//! Messages to a run that no process owns: they are stored until it is resumed, or rejected at once if the run would reject them.

use std::sync::Arc;

use dirigent_core::approval::{Approval, ApprovalAnswer, Decision, DecisionError, Digest};
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::steering::Steering;
use dirigent_core::time::Timestamp;
use dirigent_core::view::EventKind;
use dirigent_runtime::{Resume, RuntimeError, SteerOutcome, UserPresence, pending_messages};
use dirigent_store::{MessageState, Position};
use serde_json::{Value, json};

use crate::approvals::{Calls, risk_of, risky};
use crate::questions::asking;
use crate::script::tools;
use crate::world::{World, ended};

/// A run that is paused because a call of `risk`, by a worker or by the plan, waits for approval.
async fn risking(by: &'static str) -> (World, RunId, Arc<Approval>, Calls) {
    let (registry, calls) = risky();
    let world = World::new(risk_of(by), registry).await;
    let handle = world.start(UserPresence::Absent).await;
    assert_eq!(ended(&handle).await.unwrap().end, Some(EndReason::UserRequired));
    let approval = handle.approvals().await.unwrap().remove(0);
    (world, handle.id(), approval, calls)
}

fn decide(approval: &Approval, answer: ApprovalAnswer) -> Steering {
    let digest = approval.digest.clone();
    Steering::Decide {
        effect: approval.effect,
        decision: Decision { digest, answer },
    }
}

async fn fault(world: &World, run: RunId, steering: Steering) -> DecisionError {
    match world.orchestrator.steer(run, steering).await {
        Err(RuntimeError::Decision { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn approve_3_a_second_decision_is_rejected_while_the_first_is_pending() {
    for by in ["worker", "plan"] {
        let (world, run, approval, calls) = risking(by).await;
        let approve = decide(&approval, ApprovalAnswer::Approve);
        let reject = decide(&approval, ApprovalAnswer::Reject { reason: None });

        let first = world.orchestrator.steer(run, approve.clone()).await.unwrap();
        let second = fault(&world, run, reject).await;

        let effect = approval.effect;
        assert_eq!(
            (first, second),
            (SteerOutcome::Pending, DecisionError::NotPending { effect })
        );
        let words: Vec<Steering> = pending_messages(&world.journal, run)
            .unwrap()
            .into_iter()
            .map(|kept| kept.steering)
            .collect();
        assert_eq!(words, [approve]);
        let resume = world.orchestrator.resume(run, Resume::new());
        let report = ended(&resume.await.unwrap()).await.unwrap();
        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        assert_eq!(calls.lock().unwrap().len(), 1);
        assert_eq!(pending_messages(&world.journal, run).unwrap(), []);
    }
}

#[tokio::test]
async fn approve_3_an_invalid_decision_is_rejected_rather_than_posted() {
    for by in ["worker", "plan"] {
        let (world, run, approval, _) = risking(by).await;
        let parameters = json!([]);
        let misfit = fault(
            &world,
            run,
            decide(&approval, ApprovalAnswer::Edit { parameters }),
        )
        .await;
        let altered = Approval {
            digest: Digest("0000".to_owned()),
            ..Approval::clone(&approval)
        };
        let altered = fault(&world, run, decide(&altered, ApprovalAnswer::Approve)).await;

        assert!(matches!(misfit, DecisionError::Parameters(_)), "{misfit}");
        let effect = approval.effect;
        assert_eq!(altered, DecisionError::DigestMismatch { effect });
        assert_eq!(pending_messages(&world.journal, run).unwrap(), []);
    }
}

#[tokio::test]
async fn guidance_is_rejected_if_a_pending_rejection_will_end_its_agent() {
    let (world, run, approval, _) = risking("worker").await;
    let reject = decide(&approval, ApprovalAnswer::Reject { reason: None });
    let Scope::Agent(agent) = approval.effect.scope else {
        panic!("{approval:?}");
    };
    let tell = |agent| Steering::GuideAgent {
        agent,
        guidance: "Mind the gap.".to_owned(),
    };

    let unknown = world.orchestrator.steer(run, tell(AgentId(9))).await.unwrap_err();
    let before = world.orchestrator.steer(run, tell(agent)).await.unwrap();
    world.orchestrator.steer(run, reject).await.unwrap();
    let after = world.orchestrator.steer(run, tell(agent)).await.unwrap_err();

    assert_eq!(before, SteerOutcome::Pending);
    for refused in [unknown, after] {
        assert!(matches!(refused, RuntimeError::NoAgent { .. }), "{refused}");
    }
}

#[tokio::test]
async fn paor_9_a_second_answer_is_rejected_while_the_first_is_pending() {
    let world = World::new(asking(), tools([])).await;
    let handle = world.start(UserPresence::Absent).await;
    ended(&handle).await.unwrap();
    let run = handle.id();
    let (view, _) = dirigent_runtime::read_run(&world.journal, run).unwrap();
    let (effect, _) = view.run().question().unwrap();
    let answer = |answer: &str| Steering::Answer {
        effect,
        answer: answer.to_owned(),
    };

    let first = world
        .orchestrator
        .steer(run, answer("the blue one"))
        .await
        .unwrap();
    let second = world
        .orchestrator
        .steer(run, answer("the red one"))
        .await
        .unwrap_err();

    assert_eq!(first, SteerOutcome::Pending);
    assert!(matches!(second, RuntimeError::NoQuestion { .. }), "{second}");
    let resume = world.orchestrator.resume(run, Resume::new());
    let report = ended(&resume.await.unwrap()).await.unwrap();
    assert_eq!(report.summary, "The blue one it is.");
}

#[tokio::test]
async fn host_8_an_unowned_run_is_cancelled_at_once() {
    for by in ["worker", "plan"] {
        let (world, run, approval, calls) = risking(by).await;
        let asked = world.model.asked();
        let approve = decide(&approval, ApprovalAnswer::Approve);
        world.orchestrator.steer(run, approve).await.unwrap();

        let cancelled = world.orchestrator.steer(run, Steering::Cancel).await.unwrap();

        assert_eq!(cancelled, SteerOutcome::Accepted);
        assert_eq!(world.status(run).as_deref(), Some(r#"{"reason":"cancelled"}"#));
        assert_eq!(world.model.asked(), asked);
        assert_eq!(*calls.lock().unwrap(), [] as [Value; 0]);
        let late = world.orchestrator.steer(run, Steering::Cancel).await.unwrap_err();
        assert!(matches!(late, RuntimeError::Ended { .. }), "{late}");
        world.all_tasks_end().await;
    }
}

#[tokio::test]
async fn paor_10_a_resumed_run_drops_an_old_message_about_a_shared_workspace() {
    let (world, run, _, _) = risking("worker").await;
    let sharing = Steering::ShareWorkspace { runs: vec![run] };
    let body = serde_json::to_string(&sharing).unwrap();
    let message = world
        .journal
        .post(run, Timestamp(1), body, Position::Last)
        .unwrap();

    assert_eq!(pending_messages(&world.journal, run).unwrap(), []);
    let resumed = world.orchestrator.resume(run, Resume::new()).await.unwrap();
    ended(&resumed).await.unwrap();

    let state = world.journal.message(message).unwrap();
    assert!(matches!(state, MessageState::Rejected { .. }), "{state:?}");
    let (_, events) = dirigent_runtime::read_run(&world.journal, run).unwrap();
    let is_shared = |kind: &EventKind| matches!(kind, EventKind::WorkspaceShared { .. });
    assert!(!events.iter().any(|event| is_shared(&event.kind)));
}

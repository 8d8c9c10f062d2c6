//! Approvals with delegating agents (APPROVE-1 to APPROVE-3): the call that is shown is the call that runs, once, however deep the agent
//! that makes it.

use dirigent::{ApprovalAnswer, DecisionError, EventKind, RuntimeError, UserPresence};
use dirigent_core::id::Scope;
use dirigent_tests::probes::{LAUNCHED, launch};
use dirigent_tests::scripted::{Scripted, achieved, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, decide, findings, next_approval, until};
use serde_json::json;

#[tokio::test]
async fn approve_3_a_nested_delegates_call_waits_alone_and_its_findings_reach_the_caller() {
    // given a pilot that delegates the launch to an engineer, while a scout of the same plan continues
    let stage = Stage::new();
    let model = Scripted::new()
        .lead([plan(
            "Launch and look.",
            [
                delegate("go", "pilot", "Launch a probe."),
                delegate("look", "scout", "Look at the sky."),
            ],
        )])
        .agent(
            "pilot",
            [
                call(
                    "delegate",
                    json!({"agent": "engineer", "task": "Launch the probe."}),
                ),
                says("The engineer says that it is up."),
            ],
        )
        .agent(
            "engineer",
            [call("launch", json!({"what": "probe"})), says("It is up.")],
        )
        .agent("scout", [says("The sky is clear.")])
        .reflector([achieved("Launched.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(launch())
        .agent(agent("pilot", &["delegate"]))
        .agent(agent("engineer", &["launch"]))
        .agent(agent("scout", &[]))
        .build()
        .await
        .unwrap();
    let goal = stage.goal("Launch").user(UserPresence::Present);
    let run = dirigent.start(goal).await.unwrap();
    let mut events = run.events(0);

    // when it waits for the user
    let approval = next_approval(&mut events).await;
    assert_eq!(approval.agent.as_deref(), Some("engineer"));
    assert_ne!(approval.effect.scope, Scope::Run);
    assert_eq!(approval.tool, "launch");
    assert_eq!(approval.parameters, json!({"what": "probe"}));
    assert_eq!(
        std::path::Path::new(&approval.workspace),
        stage.workspace().canonicalize().unwrap()
    );
    let mut again = run.events(0);
    until(
        &mut again,
        |kind| matches!(kind, EventKind::SubTaskFinished { observation } if observation.subtask.0 == "look"),
    )
    .await;
    assert_eq!(run.approvals().await.unwrap(), std::slice::from_ref(&approval));

    // A decision for a call other than the one shown is refused.
    let mut other = dirigent_tests::stage::decision(&approval, ApprovalAnswer::Approve);
    other.digest.0 = "0".repeat(64);
    match run.decide(approval.effect, other).await {
        Err(RuntimeError::Decision {
            error: DecisionError::DigestMismatch { effect },
            ..
        }) => assert_eq!(effect, approval.effect),
        other => panic!("{other:?}"),
    }
    assert!(!stage.workspace().join(LAUNCHED).exists());

    decide(&run, &approval, ApprovalAnswer::Approve).await.unwrap();
    // A second decision is refused: the call no longer waits.
    match decide(&run, &approval, ApprovalAnswer::Approve).await {
        Err(RuntimeError::Decision {
            error: DecisionError::NotPending { effect },
            ..
        }) => assert_eq!(effect, approval.effect),
        Err(RuntimeError::Ended { .. }) => {}
        other => panic!("{other:?}"),
    }
    let report = achieved_report(&run).await;

    // then
    assert_eq!(stage.read(LAUNCHED), "probe\n");
    let told = model.agent_asked("pilot")[1].result();
    assert_eq!(told["output"], "It is up.");
    assert_eq!(
        findings(&report, 0, "go").unwrap(),
        "The engineer says that it is up."
    );
}

//! Approvals where agents work for agents (APPROVE-1 to APPROVE-3): what is shown is what runs, once, however deep it is asked for.

use dirigent::core::id::Scope;
use dirigent::{ApprovalAnswer, DecisionError, EventKind, RuntimeError, UserPresence};
use dirigent_tests::probes::{LAUNCHED, launch};
use dirigent_tests::scripted::{Scripted, achieved, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, decide, findings, next_approval, until};
use serde_json::{Value, json};

/// A plan whose sub-agent `pilot` launches a probe.
fn launching() -> Scripted {
    Scripted::new()
        .planner([plan("Launch.", [delegate("go", "pilot", "Launch a probe.")])])
        .agent(
            "pilot",
            [call("launch", json!({"what": "probe"})), says("It is up.")],
        )
        .reflector([achieved("Launched.")])
}

async fn launched_by_a_pilot(stage: &Stage, model: &Scripted) -> (dirigent::Dirigent, dirigent::RunHandle) {
    let dirigent = stage
        .builder(model.clone())
        .tool(launch())
        .agent(agent("pilot", &["launch"]))
        .build()
        .await
        .unwrap();
    let goal = stage.goal("Launch").user(UserPresence::Present);
    let run = dirigent.start(goal).await.unwrap();
    (dirigent, run)
}

fn result_told_to(model: &Scripted, agent: &str) -> Value {
    model.agent_asked(agent)[1].result()
}

#[tokio::test]
async fn approve_1_a_subagents_call_waits_until_it_is_approved_and_runs_once() {
    let (stage, model) = (Stage::new(), launching());
    let (_dirigent, run) = launched_by_a_pilot(&stage, &model).await;
    let mut events = run.events();

    let approval = next_approval(&mut events).await;

    // It shows all of the call, and nothing has run.
    assert_eq!(approval.agent.as_deref(), Some("pilot"));
    assert_eq!(approval.tool, "launch");
    assert_eq!(approval.parameters, json!({"what": "probe"}));
    assert_eq!(
        std::path::Path::new(&approval.workspace),
        stage.workspace().canonicalize().unwrap()
    );
    assert_eq!(run.approvals().await.unwrap(), std::slice::from_ref(&approval));
    assert!(!stage.workspace().join(LAUNCHED).exists());

    decide(&run, &approval, ApprovalAnswer::Approve).await.unwrap();
    // A second answer finds nothing to answer.
    match decide(&run, &approval, ApprovalAnswer::Approve).await {
        Err(RuntimeError::Decision {
            fault: DecisionError::NotPending { effect },
            ..
        }) => assert_eq!(effect, approval.effect),
        Err(RuntimeError::Ended { .. }) => {}
        other => panic!("{other:?}"),
    }
    let report = achieved_report(&run).await;

    assert_eq!(stage.read(LAUNCHED), "probe\n");
    assert_eq!(findings(&report, 0, "go").unwrap(), "It is up.");
    assert_eq!(
        result_told_to(&model, "pilot"),
        json!({"success": true, "output": "launched probe"})
    );
}

#[tokio::test]
async fn approve_2_edited_parameters_are_those_that_run_and_the_model_is_told() {
    let (stage, model) = (Stage::new(), launching());
    let (_dirigent, run) = launched_by_a_pilot(&stage, &model).await;
    let approval = next_approval(&mut run.events()).await;

    let parameters = json!({"what": "balloon"});
    decide(&run, &approval, ApprovalAnswer::Edit { parameters })
        .await
        .unwrap();
    achieved_report(&run).await;

    assert_eq!(stage.read(LAUNCHED), "balloon\n");
    let told = model.agent_asked("pilot")[1].last().to_owned();
    assert!(told.contains("launched balloon"), "{told}");
}

#[tokio::test]
async fn approve_2_guidance_in_place_of_an_approval_goes_to_the_model_and_nothing_runs() {
    let (stage, model) = (Stage::new(), launching());
    let (_dirigent, run) = launched_by_a_pilot(&stage, &model).await;
    let approval = next_approval(&mut run.events()).await;

    let guidance = "wait for the wind to turn".to_owned();
    decide(&run, &approval, ApprovalAnswer::Guide { guidance })
        .await
        .unwrap();
    achieved_report(&run).await;

    assert!(!stage.workspace().join(LAUNCHED).exists());
    let told = model.agent_asked("pilot")[1].last().to_owned();
    assert!(told.contains("wait for the wind to turn"), "{told}");
}

#[tokio::test]
async fn approve_3_a_call_deep_in_a_delegation_waits_by_itself_and_its_findings_come_up() {
    // given a pilot that has an engineer launch it, while a scout of the same plan is not held up
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan(
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
    let mut events = run.events();

    // when it waits for the user
    let approval = next_approval(&mut events).await;
    assert_eq!(approval.agent.as_deref(), Some("engineer"));
    assert_ne!(approval.effect.scope, Scope::Run);
    let mut again = run.events();
    until(
        &mut again,
        |kind| matches!(kind, EventKind::SubTaskFinished { observation } if observation.subtask.0 == "look"),
    )
    .await;
    assert_eq!(run.approvals().await.unwrap(), std::slice::from_ref(&approval));

    // A decision for another call than the one that is shown does not count.
    let mut other = dirigent_tests::stage::decision(&approval, ApprovalAnswer::Approve);
    other.digest.0 = "0".repeat(64);
    match run.decide(approval.effect, other).await {
        Err(RuntimeError::Decision {
            fault: DecisionError::DigestMismatch { effect },
            ..
        }) => assert_eq!(effect, approval.effect),
        other => panic!("{other:?}"),
    }
    assert!(!stage.workspace().join(LAUNCHED).exists());

    decide(&run, &approval, ApprovalAnswer::Approve).await.unwrap();
    let report = achieved_report(&run).await;

    // then
    assert_eq!(stage.read(LAUNCHED), "probe\n");
    let told = result_told_to(&model, "pilot");
    assert_eq!(told["output"]["findings"], "It is up.");
    assert_eq!(
        findings(&report, 0, "go").unwrap(),
        "The engineer says that it is up."
    );
}

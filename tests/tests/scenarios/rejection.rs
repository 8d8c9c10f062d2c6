//! A rejected call ends its loop (APPROVE-2): no later call runs, and everybody who comes after knows.

use dirigent::core::agent_report::AgentFailure;
use dirigent::core::observation::{ObservationStatus, SubTaskResult};
use dirigent::{ApprovalAnswer, Detail, Report, UserPresence, render};
use dirigent_tests::probes::{LAUNCHED, Notes, launch, note};
use dirigent_tests::scripted::{Scripted, achieved, after, call, calls, delegate, native, plan, says};
use dirigent_tests::stage::{
    Stage, achieved_report, agent, decide, finding, findings, next_approval, timeless,
};
use serde_json::{Value, json};

const REASON: &str = "not on a Friday";

async fn rejected(stage: &Stage, model: &Scripted, notes: &Notes) -> Report {
    let dirigent = stage
        .builder(model.clone())
        .tool(launch())
        .tool(note(notes))
        .agent(agent("pilot", &["launch", "note"]))
        .agent(agent("captain", &["delegate"]))
        .build()
        .await
        .unwrap();
    let goal = stage.goal("Launch").user(UserPresence::Present);
    let run = dirigent.start(goal).await.unwrap();
    let approval = next_approval(&mut run.events()).await;
    let reason = Some(REASON.to_owned());
    decide(&run, &approval, ApprovalAnswer::Reject { reason })
        .await
        .unwrap();
    timeless(&*achieved_report(&run).await)
}

fn seen_by_reflection(model: &Scripted) -> Vec<Value> {
    model.reflector_asked()[0].json_lines("OBSERVATIONS")
}

#[tokio::test]
async fn approve_2_a_rejection_ends_the_subagent_and_no_later_call_runs() {
    // given a reply with a call that is asked about between two that are not
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .planner([plan(
            "Launch, and look.",
            [
                delegate("go", "pilot", "Launch a probe."),
                after(calls("celebrate", [("note", json!({"text": "hooray"}))]), ["go"]),
                calls("look", [("note", json!({"text": "looked"}))]),
            ],
        )])
        .agent(
            "pilot",
            [
                native([
                    ("note", json!({"text": "before"})),
                    ("launch", json!({"what": "probe"})),
                    ("note", json!({"text": "after"})),
                ]),
                says("never said"),
            ],
        )
        .reflector([achieved(
            "Nothing was launched, as the user does not want it on a Friday.",
        )]);

    let report = rejected(&stage, &model, &notes).await;

    // then nothing ran after it, nor what depends on it, and the rest did
    assert!(!stage.workspace().join(LAUNCHED).exists());
    let mut noted = notes.all();
    noted.sort();
    assert_eq!(noted, ["before", "looked"]);
    assert_eq!(model.agent_asked("pilot").len(), 1);
    // and the report and reflection know why
    match finding(&report, 0, "go") {
        SubTaskResult::Agent { result, .. } => assert_eq!(
            result,
            &Err(AgentFailure::Rejected {
                tool: "launch".to_owned(),
                reason: Some(REASON.to_owned()),
            })
        ),
        other => panic!("{other:?}"),
    }
    let seen = seen_by_reflection(&model);
    let go = seen.iter().find(|line| line["subtask"] == "go").unwrap();
    assert_eq!(go["status"], "failed");
    assert!(
        go.to_string()
            .contains("the user rejected a call of `launch`: not on a Friday"),
        "{go}"
    );
    insta::assert_snapshot!(render::report(&report, Detail::Concise));
    let verbose = render::report(&report, Detail::Verbose);
    assert!(
        verbose.contains("the user rejected a call of `launch`: not on a Friday"),
        "{verbose}"
    );
}

#[tokio::test]
async fn approve_2_a_rejection_ends_a_sequence_of_calls_and_skips_what_depends_on_it() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .planner([plan(
            "Launch.",
            [
                calls(
                    "go",
                    [
                        ("note", json!({"text": "before"})),
                        ("launch", json!({"what": "probe"})),
                        ("note", json!({"text": "after"})),
                    ],
                ),
                after(calls("celebrate", [("note", json!({"text": "hooray"}))]), ["go"]),
            ],
        )])
        .reflector([achieved("Nothing was launched.")]);

    let report = rejected(&stage, &model, &notes).await;

    assert!(!stage.workspace().join(LAUNCHED).exists());
    assert_eq!(notes.all(), ["before"]);
    let statuses: Vec<ObservationStatus> = report.iterations[0]
        .observations
        .iter()
        .map(|seen| seen.status())
        .collect();
    assert_eq!(statuses, [ObservationStatus::Failed, ObservationStatus::Skipped]);
    let seen = seen_by_reflection(&model);
    assert!(seen[0].to_string().contains("not on a Friday"), "{}", seen[0]);
    insta::assert_snapshot!(render::report(&report, Detail::Verbose));
}

#[tokio::test]
async fn approve_2_a_rejection_deep_in_a_delegation_ends_that_agent_and_its_caller_decides() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .planner([plan("Launch.", [delegate("go", "captain", "Launch a probe.")])])
        .agent(
            "captain",
            [
                call("delegate", json!({"agent": "pilot", "task": "Launch it."})),
                says("We stay on the ground."),
            ],
        )
        .agent(
            "pilot",
            [call("launch", json!({"what": "probe"})), says("never said")],
        )
        .reflector([achieved("Nothing was launched.")]);

    let report = rejected(&stage, &model, &notes).await;

    assert!(!stage.workspace().join(LAUNCHED).exists());
    assert_eq!(model.agent_asked("pilot").len(), 1);
    let told = model.agent_asked("captain")[1].result();
    assert_eq!(told["success"], false);
    assert_eq!(
        told["error"],
        "the agent `pilot` ended without findings: the user rejected a call of `launch`: not on a Friday"
    );
    assert_eq!(findings(&report, 0, "go").unwrap(), "We stay on the ground.");
    assert!(
        seen_by_reflection(&model)[0]
            .to_string()
            .contains("not on a Friday")
    );
}

//! PAOR-4: decomposition.

use dirigent::core::observation::SubTaskResult;
use dirigent::{EventKind, RunLimits};
use dirigent_tests::probes::{Crowd, Notes, fail, meet, note};
use dirigent_tests::scripted::{Scripted, achieved, after, calls, delegate, go_on, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, all_events, finding};
use serde_json::{Value, json};

fn noted(id: &str) -> Value {
    calls(id, [("note", json!({"text": id}))])
}

#[tokio::test]
async fn paor_4_a_subtask_runs_only_when_all_that_it_depends_on_succeeded() {
    // given a diamond, listed backwards
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .planner([plan(
            "A diamond.",
            [
                after(noted("roof"), ["left", "right"]),
                after(noted("right"), ["ground"]),
                after(noted("left"), ["ground"]),
                noted("ground"),
            ],
        )])
        .reflector([achieved("Built.")]);
    let dirigent = stage.builder(model).tool(note(&notes)).build().await.unwrap();

    let run = dirigent.start(stage.goal("Build")).await.unwrap();
    achieved_report(&run).await;

    // then each starts after the ends of what it depends on
    let mut order = Vec::new();
    for event in all_events(&run).await {
        match event.kind {
            EventKind::SubTaskStarted { subtask, .. } => order.push(format!("{subtask} starts")),
            EventKind::SubTaskFinished { observation } => order.push(format!("{} ends", observation.subtask)),
            _ => {}
        }
    }
    let at = |what: &str| order.iter().position(|line| line == what).unwrap();
    assert_eq!(order.len(), 8);
    assert!(at("ground ends") < at("left starts"));
    assert!(at("ground ends") < at("right starts"));
    assert!(at("left ends") < at("roof starts"));
    assert!(at("right ends") < at("roof starts"));
    assert_eq!(notes.all().first().unwrap(), "ground");
    assert_eq!(notes.all().last().unwrap(), "roof");
}

#[tokio::test]
async fn paor_4_independent_subtasks_run_at_the_same_time_up_to_max_parallel() {
    // given six sub-tasks, each of which ends only beside another one
    let (stage, crowd) = (Stage::new(), Crowd::default());
    let meeting = |id: &str| calls(id, [("meet", json!({}))]);
    let model = Scripted::new()
        .planner([plan("Meet.", ["a", "b", "c", "d", "e", "f"].map(meeting))])
        .reflector([achieved("Met.")]);
    let dirigent = stage.builder(model).tool(meet(2, &crowd)).build().await.unwrap();

    // when two may run at once
    let limits = RunLimits {
        max_parallel: 2,
        ..RunLimits::default()
    };
    let run = dirigent.start(stage.goal("Meet").limits(limits)).await.unwrap();
    let report = achieved_report(&run).await;

    // then all met, and never were there more
    assert_eq!(report.iterations[0].observations.len(), 6);
    assert_eq!(crowd.most(), 2);
}

#[tokio::test]
async fn paor_4_a_cyclic_dangling_or_duplicate_plan_goes_back_with_every_fault_named() {
    // given a model whose first plan has every fault of shape
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .planner([
            plan(
                "A knot.",
                [
                    after(noted("first"), ["third"]),
                    after(noted("second"), ["first"]),
                    after(noted("third"), ["second"]),
                    after(noted("fourth"), ["secnd"]),
                    noted("twice"),
                    noted("twice"),
                ],
            ),
            plan("Untied.", [noted("only")]),
        ])
        .reflector([achieved("Noted.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(note(&notes))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Note")).await.unwrap();
    let report = achieved_report(&run).await;

    // then it is told what is wrong, and plans again in the same iteration
    insta::assert_snapshot!(model.planner_asked()[1].result()["error"].as_str().unwrap(), @r#"
    the plan was refused; correct these errors and submit it again:
    - 2 sub-tasks have the id `twice`: give each one a unique id
    - sub-task `fourth` depends on `secnd`, which is not in the plan (did you mean `second`?): use the id of a sub-task of this plan, or remove the dependency
    - sub-tasks depend on each other in a cycle: `first` → `third` → `second` → `first`. Remove one of these dependencies
    "#);
    assert_eq!(notes.all(), ["only"], "nothing of the refused plan ran");
    assert_eq!(report.iteration_count, 1);
}

#[tokio::test]
async fn paor_4_dependents_of_a_failed_subtask_are_skipped_and_reflection_sees_both() {
    // given a chain whose first link fails, and a sub-task beside it
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .planner([
            plan(
                "A chain.",
                [
                    calls(
                        "open",
                        [
                            ("fail", json!({})),
                            ("note", json!({"text": "after the failure"})),
                        ],
                    ),
                    after(noted("fill"), ["open"]),
                    after(delegate("seal", "scout", "Seal it."), ["fill"]),
                    noted("beside"),
                ],
            ),
            plan("Leave it.", []),
        ])
        .reflector([go_on("The valve is shut."), achieved("Left.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(note(&notes))
        .tool(fail())
        .agent(agent("scout", &[]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Fill")).await.unwrap();
    let report = achieved_report(&run).await;

    // then nothing that needs it ran, and all else did
    assert_eq!(notes.all(), ["beside"]);
    assert_eq!(model.agent_asked("scout").len(), 0);
    for skipped in ["fill", "seal"] {
        assert_eq!(
            finding(&report, 0, skipped),
            &SubTaskResult::Skipped {
                because: Some("open".into())
            }
        );
    }
    // and reflection and the next plan see the failed, the skipped and the done
    for asked in [&model.reflector_asked()[0], &model.planner_asked()[1]] {
        let mut seen: Vec<String> = asked
            .json_lines("OBSERVATIONS")
            .iter()
            .map(|line| {
                format!(
                    "{} {} {}",
                    line["subtask"].as_str().unwrap(),
                    line["status"].as_str().unwrap(),
                    line["because"]
                )
            })
            .collect();
        seen.sort();
        assert_eq!(
            seen,
            [
                "beside succeeded null",
                "fill skipped \"open\"",
                "open failed null",
                "seal skipped \"open\""
            ]
        );
        assert!(
            asked
                .section("OBSERVATIONS")
                .unwrap()
                .contains("the valve is shut; open it first")
        );
    }
}

#[tokio::test]
async fn paor_4_findings_reach_what_depends_on_them_and_nothing_else() {
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan(
            "Look, then act.",
            [
                delegate("look", "scout", "Look for the key."),
                delegate("rest", "sleeper", "Rest."),
                after(delegate("open", "locksmith", "Open the door."), ["look"]),
            ],
        )])
        .agent("scout", [says("The key is under the mat.")])
        .agent("sleeper", [says("Slept well.")])
        .agent("locksmith", [says("The door is open.")])
        .reflector([achieved("Open.")]);
    let mut builder = stage.builder(model.clone());
    for name in ["scout", "sleeper", "locksmith"] {
        builder = builder.agent(agent(name, &[]));
    }
    let dirigent = builder.build().await.unwrap();

    let run = dirigent.start(stage.goal("Get in")).await.unwrap();
    achieved_report(&run).await;

    let brief = model.agent_asked("locksmith")[0].task().to_owned();
    assert!(brief.contains("Open the door."));
    assert!(brief.contains("The key is under the mat."));
    assert!(!brief.contains("Slept well."));
    assert_eq!(model.agent_asked("scout")[0].section("FINDINGS"), None);
}

//! A first approach fails, reflection says why, and the second plan does it another way.

use dirigent::core::observation::ObservationStatus;
use dirigent::{Detail, render};
use dirigent_tests::scripted::{Scripted, achieved, after, calls, go_on, plan};
use dirigent_tests::stage::{Stage, achieved_report, timeless};
use serde_json::json;

const WHY: &str = "version.txt is generated from version.in: editing it has no effect, so change version.in and generate it.";

#[tokio::test]
async fn paor_1_a_run_whose_first_approach_fails_reaches_its_goal_by_another() {
    // given a file that is generated, which the first plan does not know
    let stage = Stage::new()
        .file("version.in", "1.0\n")
        .file("generate.sh", "sed 's/^/version /' version.in > version.txt\n")
        .file("version.txt", "version 1.0\n");
    let generate = ("execute_command", json!({"command": ["sh", "generate.sh"]}));
    let check = (
        "execute_command",
        json!({"command": ["grep", "-qx", "version 2.0", "version.txt"]}),
    );
    let edit = |path: &str, old: &str, new: &str| {
        (
            "file_operations",
            json!({"operation": "edit", "path": path, "old": old, "new": new}),
        )
    };
    let model = Scripted::new()
        .planner([
            plan(
                "Edit the file.",
                [
                    calls("edit", [edit("version.txt", "1.0", "2.0"), generate.clone()]),
                    after(calls("check", [check.clone()]), ["edit"]),
                ],
            ),
            plan(
                "Change what it is made from.",
                [
                    calls("edit", [edit("version.in", "1.0", "2.0"), generate]),
                    after(calls("check", [check]), ["edit"]),
                ],
            ),
        ])
        .reflector([go_on(WHY), achieved("The version is 2.0, by way of version.in.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();

    let run = dirigent
        .start(stage.goal("Raise the version to 2.0"))
        .await
        .unwrap();
    let report = achieved_report(&run).await;

    // then the second plan was made by somebody who knew what failed and why
    let asked = &model.planner_asked()[1];
    assert!(asked.task().contains(WHY), "{}", asked.task());
    let observed = asked.json_lines("OBSERVATIONS");
    let statuses: Vec<&str> = observed
        .iter()
        .map(|line| line["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["succeeded", "failed"]);
    // and it did it another way
    let ends = |iteration: usize| -> Vec<ObservationStatus> {
        let observations = report.iterations[iteration].observations.iter();
        observations.map(|seen| seen.status()).collect()
    };
    assert_eq!(ends(0), [ObservationStatus::Succeeded, ObservationStatus::Failed]);
    assert_eq!(
        ends(1),
        [ObservationStatus::Succeeded, ObservationStatus::Succeeded]
    );
    assert_eq!(stage.read("version.txt"), "version 2.0\n");
    insta::assert_snapshot!(render::report(&timeless(&report), Detail::Concise));
}

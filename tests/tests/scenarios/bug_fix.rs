//! A bug fixed in five steps, and what the user reads of it: explore, reproduce, edit, test, review (PAOR-10, PAOR-11).

use dirigent::core::tool::Access;
use dirigent::{Detail, Report, render};
use dirigent_tests::scripted::{Scripted, achieved, after, call, calls, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, timeless};
use serde_json::json;

const SCRIPT: &str = "total=1\nfor n in \"$@\"; do total=$((total + n)); done\necho \"$total\"\n";
const TEST: &str = "test \"$(sh sum.sh 1 2 3)\" = 6\n";

/// What only the steps in between say.
const INTERMEDIATE: [&str; 3] = ["total=1", "it printed 7", "I see nothing wrong"];

async fn fixed() -> Report {
    let stage = Stage::new().file("sum.sh", SCRIPT).file("test.sh", TEST);
    let read = || call("file_operations", json!({"operation": "read", "path": "sum.sh"}));
    let run = |line: &str| call("execute_command", json!({"command": ["sh", "-c", line]}));
    let edit = json!({"operation": "edit", "path": "sum.sh", "old": "total=1", "new": "total=0"});
    let test = ("execute_command", json!({"command": ["sh", "test.sh"]}));
    let model = Scripted::new()
        .planner([plan(
            "Find the fault, show it, mend it, test it, look at it again.",
            [
                delegate("explore", "scout", "Find where sums are made."),
                after(delegate("reproduce", "tester", "Show the fault."), ["explore"]),
                after(delegate("edit", "mender", "Mend the fault."), ["reproduce"]),
                after(calls("test", [test]), ["edit"]),
                after(delegate("review", "critic", "Review the change."), ["test"]),
            ],
        )])
        .agent("scout", [read(), says("sum.sh:1 begins with total=1.")])
        .agent(
            "tester",
            [
                run("sh sum.sh 1 2 3"),
                says("`sh sum.sh 1 2 3`: it printed 7 in place of 6."),
            ],
        )
        .agent(
            "mender",
            [
                read(),
                call("file_operations", edit),
                says("sum.sh begins with total=0 now."),
            ],
        )
        .agent("critic", [read(), says("I see nothing wrong with the change.")])
        .reflector([achieved("Sums were one too high, as they began with 1.")]);
    let dirigent = stage
        .builder(model)
        .agent(agent("scout", &["file_operations"]))
        .agent(agent("tester", &["execute_command"]).access(Access::ReadWrite))
        .agent(agent("mender", &["file_operations"]).access(Access::ReadWrite))
        .agent(agent("critic", &["file_operations"]))
        .build()
        .await
        .unwrap();

    let run = dirigent
        .start(stage.goal("Sums are wrong: mend them"))
        .await
        .unwrap();
    let report = achieved_report(&run).await;

    assert_eq!(stage.read("sum.sh"), SCRIPT.replace("total=1", "total=0"));
    timeless(&report)
}

#[tokio::test]
async fn paor_10_the_concise_summary_has_what_changed_and_how_it_was_confirmed_alone() {
    let text = render::report(&fixed().await, Detail::Concise);

    insta::assert_snapshot!(text);
    for intermediate in INTERMEDIATE {
        assert!(!text.contains(intermediate), "{intermediate}");
    }
}

#[tokio::test]
async fn paor_11_the_verbose_summary_has_every_step() {
    let text = render::report(&fixed().await, Detail::Verbose);

    insta::with_settings!({filters => vec![(r#""duration_ms":\d+"#, r#""duration_ms":0"#)]}, {
        insta::assert_snapshot!(text);
    });
    for intermediate in INTERMEDIATE {
        assert!(text.contains(intermediate), "{intermediate}");
    }
}

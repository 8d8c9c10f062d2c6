//! HOST-4: what the offline default does with a goal, and what it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

use dirigent::{EndReason, OfflineModel, Report};
use dirigent_tests::stage::Stage;

async fn offline(stage: &Stage, goal: &str) -> std::sync::Arc<Report> {
    let dirigent = stage.builder(OfflineModel).build().await.unwrap();
    let run = dirigent.start(stage.goal(goal)).await.unwrap();
    run.outcome().await.unwrap()
}

#[tokio::test]
async fn host_4_offline_renames_a_symbol_checks_the_project_and_leaves_no_usage() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples/ledger");
    let stage = Stage::new().copy_of(&sample);

    let report = offline(
        &stage,
        "Find all usages of function `parse_amount` and rename it to `parse_money`",
    )
    .await;

    assert!(report.is_achieved(), "{}", report.summary);
    assert!(
        report
            .confirmed_by
            .iter()
            .any(|confirmed| confirmed.command.contains("cargo test") && confirmed.exit_code == Some(0)),
        "{:?}",
        report.confirmed_by
    );
    // The remaining matches are prose and strings, which a rename of code does not change; the user is told about them.
    let left = Command::new("grep")
        .args(["-rnw", "parse_amount", "src", "tests"])
        .current_dir(stage.workspace())
        .output();
    let left = String::from_utf8(left.unwrap().stdout).unwrap();
    let places: Vec<String> = left
        .lines()
        .map(|line| line.splitn(3, ':').take(2).collect::<Vec<_>>().join(":"))
        .collect();
    assert_eq!(
        places,
        ["src/amount.rs:16", "src/amount.rs:51", "src/import.rs:22"]
    );
    for place in places {
        assert!(
            report.summary.contains(&place),
            "{place} is not in: {}",
            report.summary
        );
    }
    assert!(stage.read("src/amount.rs").contains("pub fn parse_money"));
}

fn prose() -> Stage {
    Stage::new()
        .file("docs/a.md", "The colour of the sky.\nNo other colour.\n")
        .file("docs/b.md", "A colour again.\n")
        .file("notes.txt", "colour\n")
}

#[tokio::test]
async fn host_4_offline_finds_usages_with_file_and_line() {
    let stage = Stage::new()
        .file("src/lib.rs", "fn load() {}\n\nfn main() {\n    load();\n}\n")
        .file("src/other.rs", "fn loaded() {}\n");

    let report = offline(&stage, "Find all usages of `load`").await;

    assert!(report.is_achieved());
    assert!(report.summary.contains("src/lib.rs:1"), "{}", report.summary);
    assert!(report.summary.contains("src/lib.rs:4"), "{}", report.summary);
    assert!(!report.summary.contains("other.rs"), "{}", report.summary);
}

#[tokio::test]
async fn host_4_offline_replaces_a_text_in_the_given_places() {
    let stage = prose();

    let report = offline(&stage, r#"Replace "colour" with "color" in *.md"#).await;

    assert!(report.is_achieved(), "{}", report.summary);
    assert_eq!(
        stage.read("docs/a.md"),
        "The color of the sky.\nNo other color.\n"
    );
    assert_eq!(stage.read("docs/b.md"), "A color again.\n");
    assert_eq!(stage.read("notes.txt"), "colour\n");
}

#[tokio::test]
async fn host_4_offline_runs_a_check_and_says_how_it_ended() {
    let passes = offline(&prose(), "Make sure that `grep -q colour notes.txt` passes").await;
    let fails = offline(&prose(), "Make sure that `grep -q flavour notes.txt` passes").await;

    assert!(passes.is_achieved(), "{}", passes.summary);
    let [confirmed] = &passes.confirmed_by[..] else {
        panic!("{:?}", passes.confirmed_by);
    };
    assert_eq!(confirmed.command, "grep -q colour notes.txt");
    assert_eq!((confirmed.exit_code, &confirmed.line), (Some(0), &None));
    assert!(!fails.is_achieved());
    assert!(fails.summary.contains("exit code 1"), "{}", fails.summary);
}

#[tokio::test]
async fn host_4_offline_counts_and_lists() {
    let lines = offline(&prose(), "Count the lines in docs").await;
    let occurs = offline(&prose(), "How many times does `colour` occur?").await;
    let files = offline(&prose(), "List the files ending in .md").await;

    assert!(
        lines.is_achieved() && lines.summary.contains('3'),
        "{}",
        lines.summary
    );
    assert!(
        occurs.is_achieved() && occurs.summary.contains('4'),
        "{}",
        occurs.summary
    );
    assert!(files.is_achieved(), "{}", files.summary);
    assert!(
        files.summary.contains("docs/a.md") && files.summary.contains("docs/b.md"),
        "{}",
        files.summary
    );
    assert!(!files.summary.contains("notes.txt"), "{}", files.summary);
}

#[tokio::test]
async fn host_4_offline_an_unsupported_goal_is_refused_and_changes_nothing() {
    let stage = prose();

    let report = offline(&stage, "Write a poem about the sky into notes.txt").await;

    assert!(
        matches!(report.end, Some(EndReason::Failed { .. })),
        "{:?}",
        report.end
    );
    assert_eq!(report.usage.tool_calls, 0);
    assert_eq!(stage.read("notes.txt"), "colour\n");
    insta::assert_snapshot!(report.summary, @r#"
    This goal is beyond the offline model. It can:
    - rename a symbol: Find all usages of function `parse_amount` and rename it to `parse_money`
    - find usages: Find all usages of `parse_amount` in src
    - replace a text: Replace "old text" with "new text" in docs/
    - create a project: Create a minimal Rust project `my-app`; create a minimal Python project `my-app`
    - run a check: Run the tests; make sure that `cargo clippy` passes
    - count or list: Count the lines in src; list the files ending in .rs
    For anything else choose a language model: set DIRIGENT_MODEL, such as openai/gpt-4.1-mini, or [model] in dirigent.toml; from Rust, `Dirigent::builder().config(…)` or `.model(…)`.
    "#);
}

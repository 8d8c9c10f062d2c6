//! The run's net diff, which is read before the reflector starts (PAOR-6, LEAD-3).

use dirigent_core::machine::Machine;
use dirigent_core::phase::Phase;
use dirigent_core::run::{FileChangeKind, Run, RunInput};
use dirigent_core::run_diff::{DiffedFile, ReflectorDiff};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Millis;
use dirigent_core::tool::{StateChange, ToolResult};
use serde_json::{Value, json};

use crate::driver::{acting, ended, give, reflecting, refused, told};
use crate::fixture::{at, effect, resumed, run_outline, spec};
use crate::renamed::edited;

fn reading() -> RunSpec {
    RunSpec {
        reads_diff: true,
        ..spec()
    }
}

/// A run whose only call has changed a file, and the last commands.
fn changed(spec: RunSpec) -> (Run, Vec<String>) {
    let one = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "calls": [{"tool": "change", "parameters": {"path": "src/a.rs"}}]}
    ]});
    let (mut run, _) = acting(spec, &one);
    let change = ToolResult::success(Value::Null).with_changes(vec![edited("src/a.rs")]);
    let commands = give(&mut run, 10, ended("run.2", change));
    (run, commands)
}

fn file(path: &str, lines: usize) -> DiffedFile {
    let diff = format!(
        "diff --git a/{path} b/{path}\n@@ -0,0 +1,{lines} @@\n{}",
        "+x\n".repeat(lines)
    );
    DiffedFile::new(path.to_owned(), Some(FileChangeKind::Created), diff)
}

fn diff_read(of: &str, diff: ReflectorDiff) -> RunInput {
    RunInput::DiffRead {
        effect: effect(of),
        diff,
    }
}

#[test]
fn lead_3_the_reflector_starts_with_the_real_diff() {
    let (mut run, commands) = changed(reading());
    assert_eq!(
        commands,
        [
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "read diff run.3"
        ]
    );
    let diff = ReflectorDiff::bounded(vec![file("src/a.rs", 1)]);
    assert_eq!(
        give(&mut run, 20, diff_read("run.3", diff)),
        ["start run.4 a2 reflector"]
    );
    let request = told(&run, "run.4");
    let section = "<DIFF>\ndiff --git a/src/a.rs b/src/a.rs\n@@ -0,0 +1,1 @@\n+x\n</DIFF>\nJudge";
    assert!(request.contains(section), "{request}");

    let (mut run, _) = changed(reading());
    let diff = ReflectorDiff::bounded(vec![file("src/a.rs", 1), file("src/b.rs", 10_000)]);
    give(&mut run, 20, diff_read("run.3", diff));
    let request = told(&run, "run.4");
    let section = "</DIFF>\nThe whole diff is the output `diff.1`.";
    assert!(request.contains(section), "{request}");
}

#[test]
fn paor_10_the_reflector_sees_what_changed_while_a_command_ran() {
    let one = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "calls": [{"tool": "change", "parameters": {"path": "src/a.rs"}}]}
    ]});
    let (mut run, _) = acting(reading(), &one);
    let ran = StateChange::ProcessExited {
        command: "sed -i s/a/b/ src/b.rs".to_owned(),
        code: Some(0),
        files: vec![edited("src/b.rs")],
    };
    let result = ToolResult::success(Value::Null).with_changes(vec![ran]);
    let commands = give(&mut run, 10, ended("run.2", result));
    assert_eq!(commands.last().unwrap(), "read diff run.3");

    let changed = file("src/b.rs", 1).during(vec!["sed -i s/a/b/ src/b.rs".to_owned()], false);
    give(
        &mut run,
        20,
        diff_read("run.3", ReflectorDiff::bounded(vec![changed])),
    );

    let request = told(&run, "run.4");
    let section = "<CHANGED_FILES>\n- src/b.rs (created; changed while command 1 ran)\nCommands, during which they or something else changed files:\n1. `sed -i s/a/b/ src/b.rs`\n</CHANGED_FILES>\n<DIFF>\n# src/b.rs: changed while command 1 ran\ndiff --git";
    assert!(request.contains(section), "{request}");
}

#[test]
fn lead_3_the_texts_of_edits_appear_only_in_the_diff() {
    let parameters = json!({"path": "src/a.rs", "old": "x".repeat(500)});
    let one = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "calls": [{"tool": "change", "parameters": parameters}]}
    ]});
    for (diff, shown) in [
        (ReflectorDiff::bounded(vec![file("src/a.rs", 1)]), false),
        (ReflectorDiff::unreadable("no such folder"), true),
    ] {
        let (mut run, _) = acting(reading(), &one);
        let change = ToolResult::success(json!("12\tthe new line")).with_changes(vec![edited("src/a.rs")]);
        give(&mut run, 10, ended("run.2", change));
        give(&mut run, 20, diff_read("run.3", diff));
        let request = told(&run, "run.4");
        assert_eq!(request.contains("the new line"), shown, "{request}");
        assert_eq!(request.contains(&"x".repeat(400)), shown, "{request}");
    }
}

#[test]
fn lead_3_no_diff_is_read_without_file_changes_or_in_journals_of_earlier_versions() {
    let run = reflecting(reading());
    assert_eq!(run_outline(&run.outstanding()), ["start run.3 a2 reflector"]);
    let (run, commands) = changed(spec());
    assert_eq!(commands.last().unwrap(), "start run.3 a2 reflector");
    assert!(!told(&run, "run.3").contains("DIFF"));
}

#[test]
fn paor_7_the_reflector_is_told_that_the_diff_cannot_be_read() {
    let (mut run, _) = changed(reading());
    give(
        &mut run,
        20,
        diff_read("run.3", ReflectorDiff::unreadable("no such folder")),
    );
    let request = told(&run, "run.4");
    assert!(
        request.contains("The diff could not be read: no such folder"),
        "{request}"
    );
}

#[test]
fn host_2_the_diff_is_read_again_after_a_restart() {
    let (mut run, _) = changed(reading());
    assert_eq!(give(&mut run, 20, resumed()), ["read diff run.3+1"]);
    let diff = ReflectorDiff::default();
    assert!(refused(&mut run, 30, diff_read("run.3", diff.clone())).contains("run.3"));
    give(&mut run, 30, diff_read("run.3+1", diff.clone()));
    refused(&mut run, 40, diff_read("run.3+1", diff));
}

#[test]
fn paor_8_guidance_and_cancelling_do_not_wait_for_the_diff() {
    let (mut run, _) = changed(reading());
    let guidance = "Only in src/utils.".to_owned();
    assert_eq!(
        give(&mut run, 20, RunInput::Redirected { guidance }),
        ["Reflecting -> Planning (2)", "continue run.4 a1 lead"]
    );
    refused(&mut run, 30, diff_read("run.3", ReflectorDiff::default()));

    let (mut run, _) = changed(reading());
    give(&mut run, 20, RunInput::Cancelled);
    assert!(
        run.handle(at(30), diff_read("run.3", ReflectorDiff::default()))
            .is_err()
    );
}

#[test]
fn paor_1_a_run_that_ended_while_its_diff_was_read_plans_again() {
    let mut spec = reading();
    spec.limits.timeout = Some(Millis(100));
    let (mut run, _) = changed(spec);
    let timer = dirigent_core::run::RunTimer::Deadline;
    give(&mut run, 100, RunInput::TimerFired { timer });
    assert_eq!(run.phase(), Phase::Failed);
    let limits = dirigent_core::limits::RunLimits::default();
    let again = RunInput::Resumed {
        last_seen: at(100),
        forked: false,
        limits: Some(Box::new(limits)),
        interrupted: Default::default(),
    };
    give(&mut run, 200, again);
    assert_eq!(run.phase(), Phase::Planning);
    refused(&mut run, 210, diff_read("run.3", ReflectorDiff::default()));
}

#[test]
fn paor_6_whole_files_are_omitted_from_a_diff_before_one_is_cut() {
    let diff = ReflectorDiff::bounded(vec![
        file("big.rs", 9_000),
        file("small.rs", 2),
        file("a.rs", 1_000),
    ]);
    let shown: Vec<(&str, usize, bool)> = diff
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.added, file.diff.is_some()))
        .collect();
    assert_eq!(
        shown,
        [
            ("a.rs", 1_000, true),
            ("big.rs", 9_000, false),
            ("small.rs", 2, true)
        ]
    );
    assert_eq!(diff.omitted, 0);

    let alone = ReflectorDiff::bounded(vec![file("big.rs", 9_000), file("bigger.rs", 9_001)]);
    let cut = alone.files[0].diff.as_ref().unwrap();
    assert!(
        cut.contains("characters left out") && cut.len() < 21_000,
        "{}",
        cut.len()
    );
    assert_eq!(alone.files[1].diff, None);

    let many = (0..2_000).map(|number| file(&format!("src/{number:04}.rs"), 20));
    let many = ReflectorDiff::bounded(many.collect());
    assert!(many.files.len() + many.omitted == 2_000 && many.omitted > 1_000);
    assert!(
        json!(many).to_string().len() < 60_000,
        "{}",
        json!(many).to_string().len()
    );
}

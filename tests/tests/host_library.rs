//! HOST, as far as it is the library's: embedding, resuming, the offline default, cancelling, several at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dirigent::core::id::Scope;
use dirigent::core::journal::Input;
use dirigent::core::run::RunInput;
use dirigent::core::tool::{Access, Repeat};
use dirigent::{
    DirigentError, EndReason, EventKind, OfflineModel, Phase, Report, Resume, RuntimeError, UserPresence,
};
use dirigent_tests::probes::{Notes, note, wait};
use dirigent_tests::scripted::{
    Gate, Reply, Scripted, achieved, after, ask_user, call, calls, delegate, plan, says,
};
use dirigent_tests::stage::{
    Stage, achieved_report, agent, all_events, error_of, findings, observed_calls, until, until_free,
};
use serde_json::json;

// HOST-1

#[tokio::test]
async fn host_1_build_register_tools_and_agents_submit_watch_and_await() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .planner([plan(
            "Let the clerk do it.",
            [delegate("file", "clerk", "Note the date.")],
        )])
        .agent(
            "clerk",
            [call("note", json!({"text": "21 June"})), says("Noted.")],
        )
        .reflector([achieved("The date is noted.")]);

    let dirigent = stage
        .builder(model)
        .tool(note(&notes))
        .agent(agent("clerk", &["note"]))
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Note the date")).await.unwrap();
    let events = all_events(&run).await;
    let report = run.outcome().await.unwrap();

    assert_eq!(notes.all(), ["21 June"]);
    assert!(report.is_achieved());
    assert!(matches!(&events[0].kind, EventKind::RunStarted { goal, .. } if goal == "Note the date"));
    assert!(matches!(
        &events[events.len() - 1].kind,
        EventKind::RunFinished { reason: EndReason::GoalAchieved, summary } if summary == "The date is noted."
    ));
}

#[test]
fn host_1_the_example_embeds_an_orchestrator_in_under_twenty_lines() {
    let example = include_str!("../../examples/embed.rs");

    let lines = example
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"));
    assert!(lines.count() < 20);
}

#[tokio::test]
async fn host_1_what_is_wrong_with_a_goal_or_an_agent_is_said_before_anything_starts() {
    let stage = Stage::new();
    let dirigent = stage.builder(Scripted::new()).build().await.unwrap();

    let empty = dirigent.start(stage.goal("  ")).await.err().unwrap();
    let nowhere = dirigent
        .start(stage.goal("Look").workspace("/no/such/folder"))
        .await
        .err()
        .unwrap();
    let toolless = stage
        .builder(Scripted::new())
        .agent(agent("scout", &["serch"]))
        .build()
        .await
        .err()
        .unwrap();

    assert!(matches!(empty, DirigentError::EmptyGoal));
    assert_eq!(
        nowhere.to_string(),
        "the workspace /no/such/folder cannot be used: there is no such folder"
    );
    assert_eq!(
        toolless.to_string(),
        "agent `scout`: there is no tool `serch`; available: apply_patch, execute_command, file_operations, find_definition, git, http_request, \
         list_symbols, read_output, rename_symbol, search"
    );
    assert_eq!(dirigent.runs().unwrap().len(), 0);
}

// HOST-2

#[tokio::test]
async fn host_2_a_resumed_run_repeats_no_finished_model_call_or_tool_call() {
    // given a run that noted something, whose scout has made a call and waits for its model
    let (stage, notes) = (Stage::new(), Notes::default());
    let before = Scripted::new()
        .planner([plan(
            "Note, then ask.",
            [
                calls("note", [("note", json!({"text": "by the plan"}))]),
                after(delegate("ask", "scout", "Note it too."), ["note"]),
            ],
        )])
        .agent(
            "scout",
            [call("note", json!({"text": "by the scout"})), Reply::Never],
        );
    let scout = || agent("scout", &["note"]);
    let dirigent = stage
        .builder(before.clone())
        .tool(note(&notes))
        .agent(scout())
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Note it")).await.unwrap();
    let mut events = run.events();
    for _ in 0..2 {
        until(&mut events, |kind| matches!(kind, EventKind::ToolFinished { .. })).await;
    }
    drop(dirigent);
    assert!(run.outcome().await.is_err(), "it stopped where it was");

    // when another orchestrator goes on with it
    let after = Scripted::new()
        .agent("scout", [says("Noted.")])
        .reflector([achieved("All noted.")]);
    let dirigent = stage
        .builder(after.clone())
        .tool(note(&notes))
        .agent(scout())
        .build()
        .await
        .unwrap();
    until_free(&dirigent, run.id()).await;
    let resumed = dirigent.resume(run.id(), Resume::new()).await.unwrap();
    let report = achieved_report(&resumed).await;

    // then it went on where it was
    assert_eq!(notes.all(), ["by the plan", "by the scout"]);
    assert_eq!(after.planner_asked().len(), 0);
    assert_eq!(after.agent_asked("scout").len(), 1);
    assert_eq!(
        after.agent_asked("scout")[0].result(),
        json!({"success": true, "output": "noted by the scout"})
    );
    assert_eq!(findings(&report, 0, "ask").unwrap(), "Noted.");
    assert_eq!(resumed.id(), run.id());
    let resumed = all_events(&resumed)
        .await
        .into_iter()
        .any(|event| event.kind == EventKind::Resumed);
    assert!(resumed, "watchers see that it was resumed");
}

/// Stops a run while its scout's call and its plan's call of `hold` are under way, and goes on with it.
async fn resumed_in_the_middle_of_calls(repeat: Repeat) -> (Notes, Scripted, std::sync::Arc<Report>) {
    let (stage, notes, gate) = (Stage::new(), Notes::default(), Gate::shut());
    let before = Scripted::new()
        .planner([plan(
            "Hold twice.",
            [
                calls("planned", [("hold", json!({}))]),
                delegate("asked", "scout", "Hold it."),
            ],
        )])
        .agent("scout", [call("hold", json!({}))]);
    let scout = || agent("scout", &["hold"]);
    let hold = wait("hold", repeat.clone(), &notes, &gate);
    let dirigent = stage
        .builder(before)
        .tool(hold)
        .agent(scout())
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Hold it")).await.unwrap();
    let mut events = run.events();
    for _ in 0..2 {
        until(&mut events, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    }
    while notes.all().iter().filter(|note| *note == "started").count() < 2 {
        tokio::task::yield_now().await;
    }
    drop(dirigent);
    assert!(run.outcome().await.is_err());

    gate.open();
    let after = Scripted::new()
        .agent("scout", [says("Held.")])
        .reflector([achieved("Held.")]);
    let hold = wait("hold", repeat, &notes, &gate);
    let dirigent = stage
        .builder(after.clone())
        .tool(hold)
        .agent(scout())
        .build()
        .await
        .unwrap();
    until_free(&dirigent, run.id()).await;
    let resumed = dirigent.resume(run.id(), Resume::new()).await.unwrap();
    let report = achieved_report(&resumed).await;
    (notes, after, report)
}

const INTERRUPTED: &str = "`hold` was interrupted: the process ended while it ran, so it may or may not have taken effect. Check the \
                           current state before you decide whether to call it again";

#[tokio::test]
async fn host_2_a_call_under_way_that_is_not_safe_to_repeat_is_reported_as_interrupted() {
    let (notes, model, report) = resumed_in_the_middle_of_calls(Repeat::Unsafe).await;

    assert_eq!(
        notes.all().iter().filter(|note| *note == "started").count(),
        2,
        "not called again"
    );
    assert_eq!(
        model.agent_asked("scout")[0].result(),
        json!({"success": false, "code": "interrupted", "error": INTERRUPTED})
    );
    assert_eq!(error_of(&observed_calls(&report, 0, "planned")[0]), INTERRUPTED);
    assert!(
        model.reflector_asked()[0]
            .task()
            .contains("may or may not have taken effect")
    );
}

#[tokio::test]
async fn host_2_a_call_under_way_that_is_safe_to_repeat_is_made_again() {
    let (notes, model, report) = resumed_in_the_middle_of_calls(Repeat::Safe).await;

    assert_eq!(
        notes.all().iter().filter(|note| *note == "started").count(),
        4,
        "each called again"
    );
    assert_eq!(
        model.agent_asked("scout")[0].result(),
        json!({"success": true, "output": "waited"})
    );
    assert!(observed_calls(&report, 0, "planned")[0].result.succeeded());
}

#[tokio::test]
async fn host_2_a_run_that_has_ended_is_not_resumed_and_its_history_stays() {
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan("Nothing.", [])])
        .reflector([achieved("Done.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(stage.goal("Rest")).await.unwrap();
    achieved_report(&run).await;
    drop(dirigent);

    let dirigent = stage.builder(Scripted::new()).build().await.unwrap();
    let refused = dirigent.resume(run.id(), Resume::new()).await.err().unwrap();

    assert!(
        matches!(refused, DirigentError::Runtime(RuntimeError::Ended { run: ended }) if ended == run.id())
    );
    let (view, events) = dirigent.read(run.id()).unwrap();
    assert_eq!(view.run().phase(), Phase::Complete);
    assert_eq!(events, all_events(&run).await);
}

// HOST-4

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
            .any(|command| command.contains("cargo test")),
        "{:?}",
        report.confirmed_by
    );
    // What is left is prose and text, which a rename of code leaves alone and the user is told of.
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
async fn host_4_offline_replaces_a_text_where_it_is_told_to() {
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
    assert_eq!(passes.confirmed_by, ["grep -q colour notes.txt"]);
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
async fn host_4_offline_a_goal_beyond_it_is_refused_plainly_and_nothing_is_touched() {
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
    - run a check: Run the tests; make sure that `cargo clippy` passes
    - count or list: Count the lines in src; list the files ending in .rs
    For anything else choose a language model: set DIRIGENT_MODEL, such as openai/gpt-4.1-mini, or [model] in dirigent.toml; from Rust, `Dirigent::builder().config(…)` or `.model(…)`.
    "#);
}

// HOST-8

/// Whether a process of that id runs; one that ended and was not yet collected does not.
fn runs(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
}

/// Waits until it is so. What never comes is a failed test rather than one that hangs.
async fn comes_true(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let far_away = Duration::from_secs(120);
    tokio::time::timeout(far_away, waiting)
        .await
        .expect("it never comes true");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_8_cancel_stops_agents_requests_and_child_processes_and_journals_the_end() {
    // given a run with a command and its child under way, one of the plan and one of an agent, and a request besides
    let stage = Stage::new();
    let command = |pipe: &str| {
        assert!(
            Command::new("mkfifo")
                .arg(stage.workspace().join(pipe))
                .status()
                .unwrap()
                .success()
        );
        let script = format!("sleep 1000 & echo $$ $! > {pipe}; wait");
        json!({"command": ["sh", "-c", script]})
    };
    let model = Scripted::new()
        .planner([plan(
            "Keep busy.",
            [
                calls("planned", [("execute_command", command("planned.pipe"))]),
                delegate("asked", "worker", "Run it."),
                delegate("thinking", "thinker", "Think."),
            ],
        )])
        .agent("worker", [call("execute_command", command("asked.pipe"))])
        .agent("thinker", [Reply::Never]);
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("worker", &["execute_command"]).access(Access::ReadWrite))
        .agent(agent("thinker", &[]))
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Keep busy")).await.unwrap();
    let mut pids = Vec::new();
    for pipe in ["planned.pipe", "asked.pipe"] {
        let pipe = stage.workspace().join(pipe);
        let line = tokio::task::spawn_blocking(move || std::fs::read_to_string(pipe).unwrap())
            .await
            .unwrap();
        pids.extend(line.split_whitespace().map(str::to_owned));
    }
    assert_eq!(pids.iter().filter(|pid| runs(pid)).count(), 4);
    comes_true(|| model.agent_asked("thinker").len() == 1).await;

    // when
    run.cancel().unwrap();
    let report = run.outcome().await.unwrap();

    // then nothing of it is left
    assert_eq!(report.end, Some(EndReason::Cancelled));
    comes_true(|| !pids.iter().any(|pid| runs(pid))).await;
    comes_true(|| model.dropped() == 1).await;
    assert_eq!(stage.journaled_end(), json!({"reason": "cancelled"}));
    // What its agents did until they ended may be journaled behind it.
    let entries = stage.entries();
    let last = entries.iter().rfind(|entry| entry.scope == Scope::Run).unwrap();
    assert_eq!(last.input, Input::Run(RunInput::Cancelled));
    assert!(matches!(run.cancel(), Err(RuntimeError::Ended { .. })));
}

// HOST-11

#[tokio::test]
async fn host_11_while_runs_wait_for_their_users_others_go_on_and_each_is_answered_on_its_own() {
    // given two runs that ask, and one that does not
    let stage = Stage::new();
    let model = Scripted::new()
        .planner([plan("First.", []), plan("Second.", []), plan("Third.", [])])
        .reflector([
            ask_user("Two.", "Which colour?"),
            ask_user("Two.", "Which shape?"),
            achieved("Rested."),
        ])
        .planner([plan("Paint.", []), plan("Cut.", [])])
        .reflector([achieved("Cut."), achieved("Painted.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let asks = |kind: &EventKind| matches!(kind, EventKind::QuestionAsked { .. });
    let paint = dirigent
        .start(stage.goal("Paint it").user(UserPresence::Present))
        .await
        .unwrap();
    until(&mut paint.events(), asks).await;
    let cut = dirigent
        .start(stage.goal("Cut it").user(UserPresence::Present))
        .await
        .unwrap();
    until(&mut cut.events(), asks).await;

    // then the third ends while both wait
    let rest = dirigent.start(stage.goal("Rest")).await.unwrap();
    assert_eq!(achieved_report(&rest).await.summary, "Rested.");

    // and each takes its own answer, the later one first
    cut.answer("iteration").await.unwrap();
    assert_eq!(achieved_report(&cut).await.summary, "Cut.");
    paint.answer("red").await.unwrap();
    assert_eq!(achieved_report(&paint).await.summary, "Painted.");
    let answers: Vec<_> = model.planner_asked()[3..]
        .iter()
        .map(|asked| {
            (
                asked.section("GOAL").unwrap().to_owned(),
                asked.json_lines("ANSWERS"),
            )
        })
        .collect();
    assert_eq!(
        answers,
        [
            (
                "Cut it".to_owned(),
                vec![json!({"question": "Which shape?", "answer": "iteration"})]
            ),
            (
                "Paint it".to_owned(),
                vec![json!({"question": "Which colour?", "answer": "red"})]
            ),
        ]
    );
}

#[tokio::test]
async fn host_11_cancelling_one_run_leaves_the_others_alone() {
    let (stage, gate) = (Stage::new(), Gate::shut());
    let model = Scripted::new()
        .planner([Reply::Never, plan("Nothing.", []).behind(&gate)])
        .reflector([achieved("Done.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let one = dirigent.start(stage.goal("One")).await.unwrap();
    until(&mut one.events(), |kind| {
        matches!(kind, EventKind::AgentStarted { .. })
    })
    .await;
    let other = dirigent.start(stage.goal("Other")).await.unwrap();
    until(&mut other.events(), |kind| {
        matches!(kind, EventKind::AgentStarted { .. })
    })
    .await;

    one.cancel().unwrap();
    assert_eq!(one.outcome().await.unwrap().end, Some(EndReason::Cancelled));
    gate.open();

    assert_eq!(achieved_report(&other).await.goal, "Other");
}

#[tokio::test]
async fn host_11_a_slow_branch_does_not_hold_up_the_others() {
    // given a branch that waits until the chain beside it is through
    let (stage, notes, gate) = (Stage::new(), Notes::default(), Gate::shut());
    let model = Scripted::new()
        .planner([plan(
            "Two branches.",
            [
                delegate("slow", "sleeper", "Sleep."),
                calls("first", [("note", json!({"text": "first"}))]),
                after(calls("second", [("note", json!({"text": "second"}))]), ["first"]),
            ],
        )])
        .agent("sleeper", [says("Slept.").behind(&gate)])
        .reflector([achieved("Done.")]);
    let dirigent = stage
        .builder(model)
        .tool(note(&notes))
        .agent(agent("sleeper", &[]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Both")).await.unwrap();
    until(
        &mut run.events(),
        |kind| matches!(kind, EventKind::SubTaskFinished { observation } if observation.subtask.0 == "second"),
    )
    .await;
    gate.open();
    let report = achieved_report(&run).await;

    let order: Vec<&str> = report.iterations[0]
        .observations
        .iter()
        .map(|seen| seen.subtask.0.as_str())
        .collect();
    assert_eq!(order, ["first", "second", "slow"]);
}

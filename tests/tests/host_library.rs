//! HOST requirements of the library: embedding, the offline default, several runs at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

use dirigent::tools::Repeat;
use dirigent::{
    Dirigent, DirigentError, EndReason, EventKind, OfflineModel, Policy, Report, Resume, Rule, Ruling,
    RunFilter, RunId, RunState, RuntimeError, UserPresence, WhenShared,
};
use dirigent_store::Journal;
use dirigent_tests::probes::{Notes, note, wait};
use dirigent_tests::scripted::{Gate, Scripted, achieved, ask_user, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, all_events, until};
use serde_json::json;

// HOST-1

#[tokio::test]
async fn host_1_build_register_tools_and_agents_submit_watch_and_await() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .lead([plan(
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
async fn host_1_errors_in_a_goal_or_an_agent_are_reported_before_anything_starts() {
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
    assert_eq!(dirigent.runs(RunFilter::new()).await.unwrap().runs.len(), 0);
}

#[tokio::test]
async fn host_1_after_a_shutdown_no_run_starts_and_the_active_ones_can_be_resumed() {
    let stage = Stage::new();
    let asking = Scripted::new()
        .lead([plan("Choose.", [])])
        .reflector([ask_user("Two.", "Which colour?")]);
    let dirigent = stage.builder(asking).build().await.unwrap();
    let goal = || stage.goal("Paint it").user(UserPresence::Present);
    let run = dirigent.start(goal()).await.unwrap();
    until(&mut run.events(0), |kind| {
        matches!(kind, EventKind::QuestionAsked { .. })
    })
    .await;

    dirigent.shutdown().await.unwrap();

    assert!(matches!(run.outcome().await, Err(RuntimeError::Stopped { .. })));
    for refused in [
        dirigent.start(goal()).await,
        dirigent.resume(run.id(), Resume::new()).await,
    ] {
        let error = refused.err().unwrap().to_string();
        assert_eq!(error, "the orchestrator is not running: it was shut down");
    }
    let record = dirigent.record(run.id()).await.unwrap();
    assert_eq!(RunState::from_record(&record), RunState::Interrupted);
    let model = Scripted::new()
        .lead([plan("Paint.", [])])
        .reflector([achieved("Painted.")]);
    let other = stage.builder(model).build().await.unwrap();
    let answer = Resume::new().answer("red".to_owned());
    let resumed = other.resume(run.id(), answer).await.unwrap();
    assert_eq!(achieved_report(&resumed).await.summary, "Painted.");
}

#[test]
fn host_1_while_the_async_runtime_shuts_down_calls_return_an_error() {
    let stage = Stage::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dirigent = runtime.block_on(stage.builder(Scripted::new()).build()).unwrap();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();

    let runs = handle.block_on(dirigent.runs(RunFilter::new())).err().unwrap();
    let started = handle.block_on(dirigent.start(stage.goal("Look"))).err().unwrap();

    for error in [runs, started] {
        assert!(
            matches!(error, DirigentError::Runtime(RuntimeError::Stopped { .. })),
            "{error}"
        );
    }
}

#[tokio::test]
async fn host_1_runs_are_listed_by_pages_of_what_a_filter_selects() {
    let stage = Stage::new().file("notes.txt", "one\n");
    let dirigent = stage.builder(OfflineModel).build().await.unwrap();
    let mut counts = Vec::new();
    for goal in [
        "Count the lines in notes.txt",
        "Write a poem",
        "Count the lines in notes.txt",
    ] {
        let run = dirigent.start(stage.goal(goal)).await.unwrap();
        run.outcome().await.unwrap();
        if goal.starts_with("Count") {
            counts.insert(0, run.id());
        }
    }

    // A run that has just ended is listed as running until its process has released it.
    dirigent.shutdown().await.unwrap();
    let filter = RunFilter::new().state(RunState::GoalAchieved).limit(1);
    let first = dirigent.runs(filter.clone()).await.unwrap();
    let second = dirigent.runs(filter.after(first.next.unwrap())).await.unwrap();

    let listed: Vec<_> = first
        .runs
        .iter()
        .chain(&second.runs)
        .map(|record| record.run)
        .collect();
    assert_eq!(listed, counts);
    assert_eq!(second.next, None);
}

/// A model whose clerk notes the date.
fn noting() -> Scripted {
    Scripted::new()
        .lead([plan(
            "Let the clerk do it.",
            [delegate("file", "clerk", "Note the date.")],
        )])
        .agent(
            "clerk",
            [call("note", json!({"text": "21 June"})), says("Noted.")],
        )
        .reflector([achieved("The date is noted.")])
}

#[tokio::test]
async fn host_1_a_goal_can_have_its_own_model_tools_and_agents() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let shared = Scripted::new()
        .lead([plan("Rest.", [])])
        .reflector([achieved("Rested.")]);
    let dirigent = stage.builder(shared).build().await.unwrap();
    let goal = stage
        .goal("Note the date")
        .model(noting())
        .tool(note(&notes))
        .agent(agent("clerk", &["note"]));

    let own = dirigent.start(goal).await.unwrap();
    let other = dirigent.start(stage.goal("Rest")).await.unwrap();

    assert_eq!(achieved_report(&own).await.summary, "The date is noted.");
    assert_eq!(notes.all(), ["21 June"]);
    assert_eq!(achieved_report(&other).await.summary, "Rested.");
    let (view, _) = dirigent.read(other.id()).await.unwrap();
    let setup = &view.run().spec().setup;
    assert!(setup.agent("clerk").is_none());
    assert!(setup.tools.iter().all(|tool| tool.name != "note"));
}

#[tokio::test]
async fn approve_1_the_rules_of_a_goal_apply_to_its_run() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let builder = stage.builder(noting()).tool(note(&notes));
    let dirigent = builder.agent(agent("clerk", &["note"])).build().await.unwrap();
    let deny = Rule {
        ruling: Ruling::Deny,
        calls: "note".parse().unwrap(),
    };

    let goal = stage.goal("Note the date").policy(Policy { rules: vec![deny] });
    let run = dirigent.start(goal).await.unwrap();
    run.outcome().await.unwrap();

    assert_eq!(notes.all(), Vec::<String>::new());
}

#[tokio::test]
async fn host_1_a_goals_invalid_agent_is_refused_before_anything_starts() {
    let stage = Stage::new();
    let dirigent = stage.builder(Scripted::new()).build().await.unwrap();
    let goal = || stage.goal("Note the date");

    let unknown = dirigent.start(goal().agent(agent("clerk", &["note"]))).await;
    let reserved = dirigent.start(goal().agent(agent("lead", &[]))).await;

    let errors = [unknown, reserved].map(|refused| refused.err().unwrap().to_string());
    assert!(
        errors[0].starts_with("agent `clerk`: there is no tool `note`"),
        "{}",
        errors[0]
    );
    assert!(
        errors[1].starts_with("agent `lead`: this is the name of a built-in agent"),
        "{}",
        errors[1]
    );
    assert_eq!(dirigent.runs(RunFilter::new()).await.unwrap().runs.len(), 0);
}

/// A run with its own model, tool and agent that has stopped with a question.
async fn paused(dirigent: &Dirigent, stage: &Stage, notes: &Notes) -> RunId {
    let asking = Scripted::new()
        .lead([plan("Choose.", [])])
        .reflector([ask_user("Two.", "Which date?")]);
    let goal = stage.goal("Note the date").model(asking).tool(note(notes));
    let run = dirigent
        .start(goal.agent(agent("clerk", &["note"])))
        .await
        .unwrap();
    let report = run.outcome().await.unwrap();
    assert_eq!(report.end, Some(EndReason::UserRequired));
    run.id()
}

#[tokio::test]
async fn host_2_a_run_is_resumed_with_its_own_model_and_tools() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let dirigent = stage.builder(Scripted::new()).build().await.unwrap();
    let run = paused(&dirigent, &stage, &notes).await;

    let resume = Resume::new()
        .answer("21 June".to_owned())
        .model(noting())
        .tool(note(&notes));
    let run = dirigent.resume(run, resume).await.unwrap();

    assert_eq!(achieved_report(&run).await.summary, "The date is noted.");
    assert_eq!(notes.all(), ["21 June"]);
}

#[tokio::test]
async fn host_2_a_run_resumed_without_its_own_tools_reports_them_missing_to_the_model() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let dirigent = stage.builder(noting()).build().await.unwrap();
    let run = paused(&dirigent, &stage, &notes).await;

    let answer = Resume::new().answer("21 June".to_owned());
    let run = dirigent.resume(run, answer).await.unwrap();
    let events = all_events(&run).await;

    achieved_report(&run).await;
    assert_eq!(notes.all(), Vec::<String>::new());
    let errors: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ToolFinished { error, .. } => error.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(errors, ["there is no tool `note` in this process"]);
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

#[tokio::test]
async fn host_1_a_tool_with_a_reserved_name_is_refused() {
    let stage = Stage::new();
    let own = wait("report", Repeat::Safe, &Notes::default(), &Gate::shut());
    let refused = stage.builder(Scripted::new()).tool(own).build().await;
    assert_eq!(
        refused.err().unwrap().to_string(),
        "a tool must not have the name `report`, because every agent has a tool with this name: rename it"
    );
}

// HOST-11

#[tokio::test]
async fn host_11_questions_of_several_agents_are_each_answered_by_their_ids() {
    // given two agents that ask
    let stage = Stage::new();
    let asks = |question: &str| call("ask_user", json!({"question": question, "choices": ["x", "y"]}));
    let model = Scripted::new()
        .lead([plan(
            "Both.",
            [
                delegate("a", "painter", "Paint."),
                delegate("b", "cutter", "Cut."),
            ],
        )])
        .agent("painter", [asks("Which colour?"), says("Painted.")])
        .agent("cutter", [asks("Which shape?"), says("Cut.")])
        .reflector([achieved("Done.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(agent("painter", &[]))
        .agent(agent("cutter", &[]))
        .build()
        .await
        .unwrap();
    let goal = stage.goal("Paint and cut it").user(UserPresence::Present);
    let run = dirigent.start(goal).await.unwrap();
    let asked = |kind: &EventKind| matches!(kind, EventKind::QuestionAsked { .. });
    let mut events = run.events(0);
    until(&mut events, asked).await;
    until(&mut events, asked).await;

    // then an answer must say which question it is for
    let open = run.questions().await.unwrap();
    let several = run.answer("x").await.unwrap_err();
    assert!(matches!(several, RuntimeError::Question { .. }), "{several}");
    for question in open.iter().rev() {
        assert!(matches!(
            run.answer_question(question.effect, "3").await,
            Err(RuntimeError::Answer { .. })
        ));
        run.answer_question(question.effect, "2").await.unwrap();
        // An answered question is closed. After the last answer, the run ends.
        assert!(matches!(
            run.answer_question(question.effect, "1").await,
            Err(RuntimeError::NoQuestion { .. } | RuntimeError::Ended { .. })
        ));
    }
    achieved_report(&run).await;
    for name in ["painter", "cutter"] {
        assert_eq!(model.agent_asked(name)[1].result()["output"], r#"{"answer":"y"}"#);
    }
}

#[tokio::test]
async fn host_11_waiting_runs_do_not_delay_others_and_are_answered_independently() {
    // given two runs that ask, and one that does not
    let stage = Stage::new();
    let model = Scripted::new()
        .lead([plan("First.", []), plan("Second.", []), plan("Third.", [])])
        .reflector([
            ask_user("Two.", "Which colour?"),
            ask_user("Two.", "Which shape?"),
            achieved("Rested."),
        ])
        .lead([plan("Paint.", []), plan("Cut.", [])])
        .reflector([achieved("Cut."), achieved("Painted.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let asks = |kind: &EventKind| matches!(kind, EventKind::QuestionAsked { .. });
    let paint = dirigent
        .start(stage.goal("Paint it").user(UserPresence::Present))
        .await
        .unwrap();
    until(&mut paint.events(0), asks).await;
    let cut = dirigent
        .start(stage.goal("Cut it").user(UserPresence::Present))
        .await
        .unwrap();
    until(&mut cut.events(0), asks).await;

    // then the third ends while the other two wait
    let rest = dirigent.start(stage.goal("Rest")).await.unwrap();
    assert_eq!(achieved_report(&rest).await.summary, "Rested.");

    // and each gets its own answer, the later question first
    cut.answer("iteration").await.unwrap();
    assert_eq!(achieved_report(&cut).await.summary, "Cut.");
    paint.answer("red").await.unwrap();
    assert_eq!(achieved_report(&paint).await.summary, "Painted.");
    let answers: Vec<_> = model.lead_asked()[3..]
        .iter()
        .map(|asked| {
            (
                asked.section("GOAL").unwrap().to_owned(),
                asked.section("ANSWERS").unwrap(),
            )
        })
        .collect();
    assert_eq!(
        answers,
        [
            (
                "Cut it".to_owned(),
                json!({"question": "Which shape?", "answer": "iteration"}).to_string()
            ),
            (
                "Paint it".to_owned(),
                json!({"question": "Which colour?", "answer": "red"}).to_string()
            ),
        ]
    );
}

// PAOR-10

#[tokio::test]
async fn paor_10_a_run_waits_for_others_in_its_folder_joins_them_or_is_refused() {
    let stage = Stage::new();
    let model = Scripted::new()
        .lead([
            plan("First.", []),
            says("Beside it."),
            plan("Paint.", []),
            says("After it."),
            says("Alone."),
        ])
        .reflector([ask_user("Two.", "Which colour?"), achieved("Painted.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let first = dirigent
        .start(stage.goal("Paint it").user(UserPresence::Present))
        .await
        .unwrap();
    let mut events = first.events(0);
    until(&mut events, |kind| {
        matches!(kind, EventKind::QuestionAsked { .. })
    })
    .await;

    let refused = dirigent
        .start(stage.goal("Refused").when_shared(WhenShared::Refuse))
        .await;
    let is_other = |runs: &[RunId]| runs == [first.id()];
    assert!(matches!(&refused, Err(DirigentError::WorkspaceShared { runs, .. }) if is_other(runs)));
    let beside = dirigent.start(stage.goal("Beside")).await.unwrap();
    let is_shared = |kind: &EventKind| matches!(kind, EventKind::WorkspaceShared { .. });
    let told = until(&mut events, is_shared).await;
    assert!(matches!(&told.kind, EventKind::WorkspaceShared { runs } if *runs == [beside.id()]));
    let all = all_events(&beside).await;
    assert_eq!(all.iter().filter(|event| is_shared(&event.kind)).count(), 1);

    let (waiting, goal) = (dirigent.clone(), stage.goal("After"));
    let waiting = tokio::spawn(async move { waiting.start(goal.when_shared(WhenShared::Wait)).await });
    first.answer("red").await.unwrap();
    assert_eq!(achieved_report(&first).await.summary, "Painted.");
    let after = waiting.await.unwrap().unwrap();
    let began = dirigent.record(after.id()).await.unwrap().created_at;
    assert!(dirigent.record(first.id()).await.unwrap().ended_at.unwrap() <= began);
    achieved_report(&after).await;
    let alone = dirigent
        .start(stage.goal("Alone").when_shared(WhenShared::Refuse))
        .await;
    achieved_report(&alone.unwrap()).await;
}

#[tokio::test]
async fn paor_10_runs_that_start_at_the_same_time_in_one_folder_know_of_each_other() {
    let (stage, gate) = (Stage::new(), Gate::shut());
    let model = Scripted::new().lead([says("One.").behind(&gate), says("Two.").behind(&gate)]);
    let dirigent = stage.builder(model).build().await.unwrap();

    let (one, two) = tokio::join!(
        dirigent.start(stage.goal("Count")),
        dirigent.start(stage.goal("Count again"))
    );

    let (one, two) = (one.unwrap(), two.unwrap());
    for (run, other) in [(&one, &two), (&two, &one)] {
        let is_shared = |kind: &EventKind| matches!(kind, EventKind::WorkspaceShared { .. });
        let told = until(&mut run.events(0), is_shared).await;
        assert!(matches!(&told.kind, EventKind::WorkspaceShared { runs } if *runs == [other.id()]));
    }
    gate.open();
    achieved_report(&one).await;
    achieved_report(&two).await;
}

#[test]
fn host_11_more_runs_than_threads_for_blocking_work_can_be_started_at_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stage = Stage::new();
        let model = Scripted::new().lead((0..12).map(|_| says("Nothing to do.")));
        let dirigent = stage.builder(model).build().await.unwrap();
        let starts = (0..12).map(|_| dirigent.start(stage.goal("Look around")));
        for started in futures::future::join_all(starts).await {
            achieved_report(&started.unwrap()).await;
        }
    });
}

#[tokio::test]
async fn paor_10_a_run_does_not_start_while_another_process_holds_the_start_lock() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("Done.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let other = Journal::open(&stage.journal()).unwrap();
    let lock = other.try_lock_starts().unwrap().unwrap();

    // With the clock paused, the time limit of the start expires at once.
    tokio::time::pause();
    let refused = dirigent.start(stage.goal("Look")).await;
    tokio::time::resume();

    assert!(matches!(refused, Err(DirigentError::StartsBlocked)));
    drop(lock);
    let run = dirigent.start(stage.goal("Look")).await.unwrap();
    achieved_report(&run).await;
}

#[tokio::test]
async fn host_8_a_start_that_waits_for_another_process_can_be_cancelled() {
    let stage = Stage::new();
    let dirigent = stage.builder(Scripted::new()).build().await.unwrap();
    let other = Journal::open(&stage.journal()).unwrap();
    let _lock = other.try_lock_starts().unwrap().unwrap();

    let waits = dirigent.clone();
    let goal = stage.goal("Look");
    let start = tokio::spawn(async move { waits.start(goal).await.map(drop) });
    tokio::task::yield_now().await;
    dirigent.cancel_starts();

    assert!(matches!(start.await.unwrap(), Err(DirigentError::StartCancelled)));
    assert_eq!(dirigent.runs(RunFilter::new()).await.unwrap().runs.len(), 0);
}

//! HOST-1 and HOST-2 of the library: embedding, goals with their own model, tools and agents, and resuming them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent::tools::Repeat;
use dirigent::{
    Dirigent, DirigentError, EndReason, EventKind, OfflineModel, Policy, Resume, Rule, Ruling, RunFilter,
    RunId, RunState, RuntimeError, UserPresence,
};
use dirigent_tests::probes::{Notes, note, wait};
use dirigent_tests::scripted::{Gate, Scripted, achieved, ask_user, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, all_events, until};
use serde_json::json;

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

#[tokio::test]
async fn host_1_a_tool_with_a_reserved_name_is_refused() {
    let stage = Stage::new();
    let own = wait("give_up", Repeat::Safe, &Notes::default(), &Gate::shut());
    let refused = stage.builder(Scripted::new()).tool(own).build().await;
    assert_eq!(
        refused.err().unwrap().to_string(),
        "a tool must not have the name `give_up`, because every agent has a tool with this name: rename it"
    );
}

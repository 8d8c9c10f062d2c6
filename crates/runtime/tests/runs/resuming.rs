//! HOST-2: a run that was interrupted after any of its entries continues from there, and no recorded work is repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dirigent_core::agent::AgentInput;
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::{Report, RunInput};
use dirigent_core::tool::Repeat;
use dirigent_runtime::{Resume, RuntimeError, UserPresence};
use dirigent_store::{Durability, Journal, NewEntry, NewRun};
use dirigent_tools::ToolRegistry;
use serde_json::{Value, json};

use crate::script::{Asked, Reply, Scripted, achieved, call, counting, plan, say, tools, work};
use crate::world::{World, ended, start_up};

/// Two iterations: two parallel workers and calls that depend on the first one, then only calls.
async fn two_iterations(asked: Asked) -> Reply {
    let note = json!({"tool": "note", "parameters": {}});
    match (asked.who(), asked.turn()) {
        ("lead", _) if asked.task().contains("<JUDGEMENT>") => plan(
            "the second half",
            json!([{"id": "rest", "title": "rest", "calls": [note]}]),
        ),
        ("lead", _) => plan(
            "the first half",
            json!([
                work("left", &[]),
                work("right", &[]),
                {"id": "notes", "title": "notes", "depends_on": ["left"], "calls": [note, note]},
            ]),
        ),
        ("worker", 0 | 1) => call("note", json!({})),
        ("worker", _) => say("worked"),
        _ if asked.task().contains("the second half") => achieved(),
        _ => call(
            "submit_reflection",
            json!({"verdict": "continue", "summary": "Half of it."}),
        ),
    }
}

/// The tool `note`, which always succeeds with the same result.
fn noting(repeat: Repeat) -> (ToolRegistry, Arc<AtomicUsize>) {
    let (_, count) = counting("note", repeat.clone());
    let counter = count.clone();
    let note = crate::script::Scriptool::new("note", repeat, move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        std::future::ready(dirigent_core::tool::ToolResult::success(json!("noted")))
    });
    (tools([note]), count)
}

/// A journal with only these entries.
pub fn cut_off(folder: &std::path::Path, run: RunId, entries: &[Entry]) -> Journal {
    let journal = Journal::open(&folder.join(format!("cut-{}.db", entries.len()))).unwrap();
    let claim = journal
        .create(run, NewRun::new("Make it so", "/", entries[0].at))
        .unwrap();
    for entry in entries {
        let entry = NewEntry {
            at: entry.at,
            scope: entry.scope,
            body: serde_json::to_string(&entry.input).unwrap(),
            shared: Vec::new(),
            durability: Durability::Normal,
            consumes: None,
        };
        journal.append(&claim, entry, |stored| {
            stored.unwrap();
        });
    }
    drop(claim);
    journal.flush().unwrap();
    journal
}

fn count(entries: &[Entry], is_meant: impl Fn(&Input) -> bool) -> usize {
    entries.iter().filter(|entry| is_meant(&entry.input)).count()
}

fn is_reply(input: &Input) -> bool {
    matches!(input, Input::Agent(AgentInput::ModelReplied { .. }))
}

fn is_result(input: &Input) -> bool {
    matches!(
        input,
        Input::Agent(AgentInput::ToolFinished { .. }) | Input::Run(RunInput::ToolFinished { .. })
    )
}

fn is_start(input: &Input) -> bool {
    matches!(
        input,
        Input::Agent(AgentInput::ToolStarted { .. }) | Input::Run(RunInput::ToolStarted { .. })
    )
}

/// The report without the parts that differ between runs: times, attempts, and the order in which parallel sub-tasks ended.
fn essence(report: &Report) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.retain(|key, _| key != "duration" && key != "effect");
                object.values_mut().for_each(strip);
                if let Some(Value::Array(observations)) = object.get_mut("observations") {
                    observations.sort_by_key(|seen| seen["subtask"].to_string());
                }
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut essence = serde_json::to_value(report).unwrap();
    strip(&mut essence);
    // The numbers of two agents that start together can be swapped.
    let text = essence.to_string().replace(r#""agent":3"#, r#""agent":2"#);
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn host_2_a_run_interrupted_at_any_entry_reaches_the_same_end_and_repeats_nothing() {
    let (registry, _) = noting(Repeat::Safe);
    let world = World::new(Scripted::new(two_iterations), registry).await;
    let handle = world.start(UserPresence::Absent).await;
    let whole = ended(&handle).await.unwrap();
    assert_eq!(whole.end, Some(EndReason::GoalAchieved));
    assert_eq!((whole.usage.model_calls, whole.usage.tool_calls), (10, 7));
    let entries = world.entries(handle.id());
    let (replies, results) = (count(&entries, is_reply), count(&entries, is_result));

    for cut in 1..=entries.len() {
        let past = &entries[..cut];
        let journal = cut_off(world.folder.path(), handle.id(), past);
        let (model, (registry, called)) = (Scripted::new(two_iterations), noting(Repeat::Safe));
        let orchestrator = start_up(&journal, &model, &registry).await;

        let resume = orchestrator.resume(handle.id(), Resume::new());
        let report = ended(&resume.await.unwrap()).await.unwrap();

        assert_eq!(essence(&report), essence(&whole), "cut off after {cut}");
        assert_eq!(
            model.asked(),
            replies - count(past, is_reply),
            "requests after {cut}"
        );
        assert_eq!(
            called.load(Ordering::SeqCst),
            results - count(past, is_result),
            "calls after {cut}"
        );
        let after = journal.entries(handle.id(), 0, 10_000).unwrap();
        assert_eq!(&after[..cut], past);
        assert_eq!(count(&after, is_reply), replies);
        let status = journal.run(handle.id()).unwrap().status;
        assert_eq!(status.as_deref(), Some(r#"{"reason":"goal_achieved"}"#));
    }
}

#[tokio::test]
async fn host_2_an_unsafe_call_that_had_started_is_reported_as_interrupted() {
    let script = |asked: Asked| async move {
        let planned = json!([{"tool": "note", "parameters": {}}]);
        match (asked.who(), asked.turn()) {
            ("lead", _) => plan(
                "both ways",
                json!([
                    {"id": "calls", "title": "calls", "calls": planned},
                    {"id": "work", "title": "work", "agent": "worker", "task": "work"},
                ]),
            ),
            ("worker", 0) => call("note", json!({})),
            ("worker", _) => say(asked.last()),
            _ => achieved(),
        }
    };
    let (registry, _) = noting(Repeat::Unsafe);
    let world = World::new(Scripted::new(script), registry).await;
    let handle = world.start(UserPresence::Absent).await;
    ended(&handle).await.unwrap();
    let entries = world.entries(handle.id());
    let mut interrupted = 0;

    for cut in 1..=entries.len() {
        let past = &entries[..cut];
        let under_way = count(past, is_start) - count(past, is_result);
        let journal = cut_off(world.folder.path(), handle.id(), past);
        let (model, (registry, called)) = (Scripted::new(script), noting(Repeat::Unsafe));
        let orchestrator = start_up(&journal, &model, &registry).await;

        let resume = orchestrator.resume(handle.id(), Resume::new());
        let report = ended(&resume.await.unwrap()).await.unwrap();

        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        assert_eq!(
            called.load(Ordering::SeqCst),
            2 - count(past, is_start),
            "calls after {cut}"
        );
        let told = serde_json::to_string(&report.iterations[0].observations).unwrap();
        let said = told.matches("was interrupted: the process ended while it ran");
        // The report has the worker's interrupted call in the worker's list of calls and text, and the plan's interrupted call in the
        // observed call.
        assert_eq!(said.count() > 0, under_way > 0, "cut off after {cut}: {told}");
        interrupted += under_way;
    }
    assert!(interrupted >= 2);
}

#[tokio::test]
async fn host_2_a_run_that_was_cut_off_before_its_first_entry_is_not_resumed() {
    let (registry, _) = noting(Repeat::Safe);
    let world = World::new(Scripted::new(two_iterations), registry).await;
    let run: RunId = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab".parse().unwrap();
    drop(
        world
            .journal
            .create(run, NewRun::new("Make it so", "/", Default::default()))
            .unwrap(),
    );

    let resume = world.orchestrator.resume(run, Resume::new()).await;

    let error = resume.err().unwrap();
    assert!(matches!(error, RuntimeError::NeverBegan { .. }), "{error}");
    assert!(error.to_string().contains("start a new run with its goal"));
    assert_eq!(world.model.asked(), 0);
}

#[tokio::test]
async fn host_2_a_journal_with_an_input_in_the_wrong_scope_is_not_resumed() {
    let (registry, _) = noting(Repeat::Safe);
    let world = World::new(Scripted::new(two_iterations), registry.clone()).await;
    let handle = world.start(UserPresence::Absent).await;
    ended(&handle).await.unwrap();
    let whole = world.entries(handle.id());

    for wrong in [Scope::Run, Scope::Agent(AgentId(7))] {
        let is_meant = |entry: &Entry| (entry.scope == Scope::Run) != (wrong == Scope::Run);
        let at = whole.iter().rposition(is_meant).unwrap();
        let mut entries = whole[..=at].to_vec();
        entries[at].scope = wrong;
        let folder = tempfile::tempdir().unwrap();
        let journal = cut_off(folder.path(), handle.id(), &entries);
        let orchestrator = start_up(&journal, &world.model, &registry).await;

        let resume = orchestrator.resume(handle.id(), Resume::new()).await;

        let error = resume.err().unwrap();
        assert!(
            matches!(error, RuntimeError::Replay { seq, .. } if seq == entries[at].seq),
            "{error}"
        );
    }
}

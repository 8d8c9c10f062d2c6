//! Recorded runs replay exactly, without a model or tools (HOST-9), and any change since the recording is reported as the first difference.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use dirigent::model::{OpenAiModel, OpenAiOptions, RetryPolicy, Retrying};
use dirigent::{
    AgentDefinition, Builder, Difference, DirigentError, EndReason, EventKind, Goal, Recording, RunFilter,
    RunHandle, RunId, RunLimits, RuntimeError, UserPresence, read_recording, write_recording,
};
use dirigent_core::journal::Entry;
use dirigent_core::recording::{FormatError, Part};
use dirigent_model_server::{Matcher, ModelServer, Rule, Script, Turn};
use dirigent_store::Journal;
use dirigent_tests::cli::{self, Place};
use dirigent_tests::probes::{Notes, note};
use dirigent_tests::scripted::{Reply, Scripted, achieved, ask_user, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, agent, until};
use serde_json::{Value, json};

/// Adds a tool and an agent of the tests.
fn crew(builder: Builder, notes: &Notes) -> Builder {
    builder.tool(note(notes)).agent(agent("scout", &["note"]))
}

/// Records a run in which a scout takes a note; nothing in it happens in parallel.
async fn recorded(stage: &Stage) -> Recording {
    let model = Scripted::new()
        .lead([plan("Note it.", [delegate("a", "scout", "Note the milk.")])])
        .agent(
            "scout",
            [call("note", json!({"text": "milk"})), says("It is noted.")],
        )
        .reflector([achieved("The milk is noted.")]);
    let dirigent = crew(stage.builder(model), &Notes::default())
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Note the milk")).await.unwrap();
    run.outcome().await.unwrap();
    dirigent.recording(run.id()).await.unwrap()
}

/// Replays the recording with the same tool and agent, and a model that answers nothing.
async fn replayed(recording: &Recording, goal: Goal) -> Result<RunHandle, DirigentError> {
    let notes = Notes::default();
    let stage = Stage::new();
    let dirigent = crew(stage.builder(Scripted::new()), &notes)
        .build()
        .await
        .unwrap();
    let run = dirigent.replay(recording, goal).await;
    assert_eq!(notes.all(), Vec::<String>::new(), "a tool ran");
    assert_eq!(
        dirigent.runs(RunFilter::new()).await.unwrap().runs.len(),
        usize::from(run.is_ok())
    );
    run
}

#[track_caller]
fn difference(replayed: Result<RunHandle, DirigentError>) -> Difference {
    match replayed {
        Err(DirigentError::Runtime(RuntimeError::ReplayMismatch(difference))) => *difference,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("there is no difference"),
    }
}

/// Returns the recording with a replacement in its text.
#[track_caller]
fn changed(recording: &Recording, from: &str, to: &str) -> Recording {
    let text = recording.to_string();
    assert!(text.contains(from), "{from} is not in the recording");
    Recording::parse(text.replacen(from, to, 1)).unwrap()
}

/// All journal entries of a run, byte for byte, without its id.
fn journaled(journal: &Path, run: RunId) -> Vec<(u64, u64, String, String)> {
    let entries = Journal::open(journal).unwrap().entries(run, 0, 10_000).unwrap();
    let line = |entry: Entry| {
        let input = serde_json::to_string(&entry.input).unwrap();
        (entry.seq, entry.at.0, entry.scope.to_string(), input)
    };
    entries.into_iter().map(line).collect()
}

fn says_call(tool: &str, parameters: Value, terminate: bool) -> Turn {
    Turn::text(json!({"tool": tool, "parameters": parameters, "terminate": terminate}).to_string())
}

fn look(id: &str, task: &str) -> Value {
    json!({"id": id, "title": format!("Read {id}"), "agent": "explore", "task": task})
}

/// Two parallel scouts, one of which first makes a malformed call; a question to the user; a second iteration after the answer.
fn script() -> Script {
    let system = |part: &str| Matcher::system(part);
    let read = |path: &str| {
        says_call(
            "file_operations",
            json!({"operation": "read", "path": path}),
            false,
        )
    };
    let judge = |judgement: Value| [says_call("submit_reflection", judgement, true)];
    let first = json!({"summary": "Read both.", "subtasks": [look("one", "Read one.txt."), look("two", "Read two.txt.")]});
    let second = json!({"summary": "Read it again.", "subtasks": [look("again", "Read one.txt again.")]});
    Script::rules([
        Rule::new(
            system("## submit_plan").and_user("Only milk counts"),
            [says_call("submit_plan", second, true)],
        ),
        Rule::new(system("## submit_plan"), [says_call("submit_plan", first, true)]),
        Rule::new(
            system("You explore a workspace").and_user("Read two.txt"),
            [
                Turn::text(r#"{"tool": "file_operations", "parameters": {"operation": "read""#),
                read("two.txt"),
                Turn::text("two.txt says: bread"),
            ],
        ),
        Rule::new(
            system("You explore a workspace"),
            [read("one.txt"), Turn::text("one.txt says: milk")],
        ),
        Rule::new(
            system("## submit_reflection").and_user("Only milk counts"),
            judge(json!({"verdict": "achieved", "summary": "It is milk."})),
        ),
        Rule::new(
            system("## submit_reflection"),
            judge(json!({"verdict": "ask_user", "summary": "Two candidates.", "question": "Which one?"})),
        ),
    ])
}

#[tokio::test]
async fn host_9_a_run_recorded_from_a_model_server_replays_byte_for_byte_without_it() {
    let stage = Stage::new().file("one.txt", "milk\n").file("two.txt", "bread\n");
    let file = stage.journal().with_file_name("run.jsonl");
    let server = ModelServer::start(script()).await.unwrap();
    let options = OpenAiOptions::new(server.url(), "scripted").api_key("sk-canary");
    let model = Retrying::new(OpenAiModel::new(options).unwrap(), RetryPolicy::default());
    let dirigent = stage.builder(model).build().await.unwrap();
    let goal = stage.goal("What do the files say?").user(UserPresence::Present);
    let run = dirigent.start(goal).await.unwrap();
    let mut events = run.events(0);
    until(&mut events, |kind| {
        matches!(kind, EventKind::QuestionAsked { .. })
    })
    .await;
    run.guide("Only milk counts").unwrap();
    run.answer("The first").await.unwrap();
    let report = run.outcome().await.unwrap();
    assert_eq!(report.end, Some(EndReason::GoalAchieved), "{}", report.summary);
    assert!(server.violations().is_empty(), "{:?}", server.violations());
    let recording = dirigent.recording(run.id()).await.unwrap();
    write_recording(&file, recording).await.unwrap();
    let asked = server.requests().len();
    assert_eq!(asked, 11);
    drop((server, dirigent));
    std::fs::remove_dir_all(stage.workspace()).unwrap();

    let recording = read_recording(&file).await.unwrap();
    let dirigent = stage.builder(Scripted::new()).build().await.unwrap();
    let again = dirigent
        .replay(&recording, Goal::from_recording(&recording))
        .await
        .unwrap();

    assert_eq!(json!(*again.outcome().await.unwrap()), json!(*report));
    let (first, second) = (
        journaled(&stage.journal(), run.id()),
        journaled(&stage.journal(), again.id()),
    );
    assert!(first.len() > 30, "{}", first.len());
    assert_eq!(second, first);
    let canary = b"sk-canary";
    for file in [&file, &stage.journal()] {
        let bytes = std::fs::read(file).unwrap();
        assert!(
            !bytes.windows(canary.len()).any(|bytes| bytes == canary),
            "{}",
            file.display()
        );
    }
}

#[tokio::test]
async fn host_9_each_answer_is_recorded_once_with_the_request_that_it_answers() {
    let recording = recorded(&Stage::new()).await;

    let asked: Vec<Value> = recording
        .entries()
        .iter()
        .filter_map(|entry| {
            Some(json!({"seq": entry.seq, "scope": entry.scope, "answers": entry.answers.as_ref()?}))
        })
        .collect();

    let scouts: Vec<&Value> = asked.iter().filter(|asked| asked["scope"] == "a2").collect();
    let [first, call, second] = scouts.as_slice() else {
        panic!("{scouts:?}")
    };
    let request = &first["answers"]["request"];
    assert_eq!(request["tools"], json!(["note", "ask_user", "give_up"]));
    assert_eq!(request["messages"].as_array().unwrap().len(), 2);
    assert_eq!(call["answers"]["call"]["parameters"], json!({"text": "milk"}));
    let request = &second["answers"]["request"];
    assert_eq!(request["shared"], 2);
    let roles: Vec<&Value> = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["role"])
        .collect();
    assert_eq!(roles, ["assistant", "tool"]);
}

#[tokio::test]
async fn host_9_a_run_that_waits_for_its_user_replays_to_its_question() {
    let stage = Stage::new();
    let model = Scripted::new()
        .lead([plan("Nothing to do.", [])])
        .reflector([ask_user("Two are alike.", "Which one?")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(stage.goal("Rename it")).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().end, Some(EndReason::UserRequired));
    let recording = dirigent.recording(run.id()).await.unwrap();

    let again = replay_with_defaults(&recording).await.unwrap();

    assert_eq!(again.outcome().await.unwrap().end, Some(EndReason::UserRequired));
}

#[tokio::test]
async fn host_9_a_cancelled_run_replays_to_its_cancellation() {
    let stage = Stage::new();
    let model = Scripted::new().lead([Reply::Never]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(stage.goal("Rename it")).await.unwrap();
    until(&mut run.events(0), |kind| {
        matches!(kind, EventKind::AgentStarted { .. })
    })
    .await;
    run.cancel().unwrap();
    assert_eq!(run.outcome().await.unwrap().end, Some(EndReason::Cancelled));
    let recording = dirigent.recording(run.id()).await.unwrap();

    let again = replay_with_defaults(&recording).await.unwrap();

    assert_eq!(again.outcome().await.unwrap().end, Some(EndReason::Cancelled));
}

async fn replay_with_defaults(recording: &Recording) -> Result<RunHandle, DirigentError> {
    let stage = Stage::new();
    let dirigent = stage.builder(Scripted::new()).build().await.unwrap();
    dirigent.replay(recording, Goal::from_recording(recording)).await
}

#[tokio::test]
async fn host_9_a_changed_system_prompt_is_the_first_difference() {
    let recording = recorded(&Stage::new()).await;
    let stage = Stage::new();
    let other = AgentDefinition::new(
        "scout",
        "Does what scout does.",
        "You are scout. You never sleep.",
    )
    .tools(["note"]);
    let dirigent = crew(stage.builder(Scripted::new()), &Notes::default())
        .agent(other)
        .build()
        .await
        .unwrap();

    let difference = difference(
        dirigent
            .replay(&recording, Goal::from_recording(&recording))
            .await,
    );

    assert_eq!(
        difference.part,
        Part::SystemPrompt {
            agent: "scout".to_owned()
        }
    );
    insta::assert_snapshot!(difference);
}

#[tokio::test]
async fn host_9_a_request_that_differs_is_noticed_at_that_request() {
    let recording = recorded(&Stage::new()).await;
    // As if the result had been formatted differently in a request when the run was recorded.
    let recording = changed(
        &recording,
        r#""content":"noted milk""#,
        r#""content":"Noted milk""#,
    );

    let difference = difference(replayed(&recording, Goal::from_recording(&recording)).await);

    insta::assert_snapshot!(difference);
}

#[tokio::test]
async fn host_9_a_changed_call_in_a_recording_is_reported_as_the_difference() {
    let recording = recorded(&Stage::new()).await;
    // The difference is in the model's reply.
    let recording = changed(
        &recording,
        r#"\"parameters\":{\"text\":\"milk\"}"#,
        r#"\"parameters\":{\"text\":\"beer\"}"#,
    );

    let difference = difference(replayed(&recording, Goal::from_recording(&recording)).await);

    insta::assert_snapshot!(difference);
}

#[tokio::test]
async fn host_9_another_goal_or_limit_is_a_difference() {
    let recording = recorded(&Stage::new()).await;

    let goal = difference(
        replayed(
            &recording,
            Goal::from_recording(&recording).text("Note the bread"),
        )
        .await,
    );
    let limits = RunLimits {
        max_parallel: 1,
        ..RunLimits::default()
    };
    let limits = difference(replayed(&recording, Goal::from_recording(&recording).limits(limits)).await);

    insta::assert_snapshot!(format!("{goal}\n{limits}"));
}

#[tokio::test]
async fn host_9_an_entry_missing_from_a_recording_is_a_difference() {
    let recording = recorded(&Stage::new()).await;
    let lines: Vec<Value> = recording
        .to_string()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Numbers the entries, and leaves out one at a time.
    for missing in 2..lines.len() - 1 {
        let mut left = lines.clone();
        left.remove(missing);
        for (seq, line) in (1..).zip(&mut left[1..]) {
            match line.get_mut("seq") {
                Some(number) => *number = json!(seq),
                None => line["entries"] = json!(seq - 1),
            }
        }
        let text: String = left.iter().map(|line| format!("{line}\n")).collect();
        let recording = Recording::parse(text).unwrap();

        let replayed = replayed(&recording, Goal::from_recording(&recording)).await;

        // The start of a call is journaled only for recovery after a crash: no decision depends on it.
        if lines[missing]["input"].to_string().contains("tool_started") {
            continue;
        }
        let place = difference(replayed).location;
        assert!(place.seq >= missing as u64 - 1, "{place}, {}", lines[missing]);
    }
}

#[tokio::test]
async fn host_9_a_cut_recording_is_refused_with_the_line() {
    let text = recorded(&Stage::new()).await.to_string();
    let lines = text.lines().count();

    // Cut in the middle of a line, cut after a line, and without the last line.
    let half = &text[..text.floor_char_boundary(text.len() / 2)];
    let line = half.lines().count();
    assert_eq!(
        Recording::parse(half).unwrap_err(),
        FormatError::Truncated { line }
    );
    let whole = text
        .lines()
        .take(4)
        .fold(String::new(), |text, line| text + line + "\n");
    assert_eq!(Recording::parse(whole), Err(FormatError::Truncated { line: 4 }));
    let last = text.trim_end().rfind('\n').unwrap();
    assert_eq!(
        Recording::parse(&text[..last]),
        Err(FormatError::Truncated { line: lines - 1 })
    );
}

#[tokio::test]
async fn a_file_that_is_not_a_recording_is_refused_with_the_line() {
    let text = recorded(&Stage::new()).await.to_string();
    let with = |number: usize, line: &str| {
        let lines = text
            .lines()
            .enumerate()
            .map(|(index, old)| if index + 1 == number { line } else { old });
        lines.fold(String::new(), |text, line| text + line + "\n")
    };
    let third = text.lines().nth(2).unwrap();
    let nested = format!(
        r#"{{"seq":2,"at":1,"scope":"a1","input":{{"agent":{{"tool_finished":{{"effect":"a1.1","result":{{"output":{}"#,
        "[".repeat(100_000)
    );
    let long = format!(
        r#"{{"seq":2,"at":1,"scope":"a1","input":{{"agent":{{"guided":{{"guidance":"{}"}}}}}},"x":1}}"#,
        "x".repeat(10_000_000)
    );
    let cases = [
        (String::new(), "it is not a recording"),
        ("[]\n".to_owned(), "it is not a recording"),
        ("\u{0}\u{1}SQLite format 3".to_owned(), "it is not a recording"),
        (with(1, r#"{"dirigent_recording": 7}"#), "version 7"),
        (
            with(1, r#"{"dirigent_recording": 1}"#),
            "line 1: missing field `goal`",
        ),
        (
            with(
                1,
                r#"{"dirigent_recording": 1, "goal": "another", "started_at": 1}"#,
            ),
            "line 2: the goal",
        ),
        (with(2, third), "line 2: expected entry 1, but found entry 2"),
        (with(3, ""), "line 3: EOF"),
        (with(3, "{}"), "line 3: missing field `seq`"),
        (with(3, &nested), "line 3: recursion limit exceeded"),
        (with(3, &long), "line 3: unknown field `x`"),
        (
            with(3, &third.replace(r#""a1""#, r#""a99999999999""#)),
            "line 3: `a99999999999` is not a scope",
        ),
        (with(5, text.lines().nth(3).unwrap()), "line 5: expected entry 4"),
        (
            with(text.lines().count(), r#"{"end":null,"entries":3}"#),
            "expected 3 entries before this line",
        ),
    ];
    for (text, expected) in cases {
        let error = Recording::parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, and not {expected}");
    }
    let error = Recording::parse(b"{\"dirigent_recording\": 1, \"goal\": \"\xff\", \"started_at\": 1}\n")
        .unwrap_err();
    assert!(
        error.to_string().starts_with("line 1: invalid unicode"),
        "{error}"
    );
}

#[tokio::test]
async fn a_recorded_input_that_no_machine_requested_is_a_difference() {
    let recording = recorded(&Stage::new()).await;
    let text = recording.to_string();
    for (from, to) in [
        (r#""effect":"a1.1""#, r#""effect":"a1.9""#),
        (r#""effect":"a1.1""#, r#""effect":"run.1""#),
        (r#""effect":"run.1""#, r#""effect":"run.4294967295+4294967295""#),
        (r#""scope":"a2""#, r#""scope":"a4294967295""#),
        (r#""scope":"a2""#, r#""scope":"run""#),
        (r#"{"agent":{"tool_started""#, r#"{"run":{"tool_started""#),
    ] {
        assert!(text.contains(from), "{from}");
        let recording = Recording::parse(text.replacen(from, to, 1)).unwrap();
        difference(replayed(&recording, Goal::from_recording(&recording)).await);
    }
}

#[test]
fn host_9_the_demos_goal_recorded_by_the_command_replays_anywhere() {
    let (place, elsewhere) = (Place::with_sample(), Place::new());
    let file = place.folder().join("rename.jsonl");
    let goal = "Find all usages of function parse_amount and rename it to parse_money";
    let record = [
        "run",
        goal,
        "--workspace",
        "work",
        "--json",
        "--record",
        "rename.jsonl",
    ];
    let recorded = place.dirigent(record).with_code(0);
    assert!(
        recorded.stderr.contains("dirigent run --replay rename.jsonl"),
        "{recorded}"
    );
    std::fs::remove_dir_all(place.work()).unwrap();
    let before = cli::files(elsewhere.folder());

    let replay = elsewhere
        .dirigent(["run", "--json", "--replay", file.to_str().unwrap()])
        .with_code(0);

    let without_run = |line: &mut Value| line["run"] = Value::Null;
    let (mut first, mut second) = (recorded.json_lines(), replay.json_lines());
    first.iter_mut().chain(&mut second).for_each(without_run);
    assert_eq!(second, first);
    let only = |place: &Place| {
        let runs = Journal::open(&place.db()).unwrap().runs().unwrap();
        assert_eq!(runs.len(), 1);
        journaled(&place.db(), runs[0].run)
    };
    assert_eq!(only(&elsewhere), only(&place));
    let left: Vec<String> = cli::files(elsewhere.folder())
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert!(
        left.iter()
            .all(|name| name.starts_with("journal.db") || before.iter().any(|(old, _)| old == name)),
        "{left:?}"
    );

    // A finished run can be recorded afterwards too; its replay prints the same.
    let _ = place
        .dirigent(["show", "last", "--record", "again.jsonl"])
        .with_code(0);
    assert_eq!(
        std::fs::read(place.folder().join("again.jsonl")).unwrap(),
        std::fs::read(&file).unwrap()
    );
    let shown = elsewhere
        .dirigent(["run", "--diff", "--replay", file.to_str().unwrap()])
        .with_code(0);
    assert!(shown.stdout.contains("+pub fn parse_money"), "{shown}");
    // The replay's tools changed nothing, so there is nothing to undo.
    let told = elsewhere
        .dirigent(["run", "--replay", file.to_str().unwrap()])
        .with_code(0);
    assert!(!told.stdout.contains("dirigent undo"), "{told}");
}

#[test]
fn host_9_a_difference_has_its_own_exit_code_and_says_what_to_do() {
    let place = Place::with_sample();
    let _ = place
        .dirigent([
            "run",
            "count the usages of parse_amount",
            "--workspace",
            "work",
            "--record",
            "count.jsonl",
        ])
        .with_code(0);

    let other = place
        .dirigent([
            "run",
            "count the usages of parse_money",
            "--replay",
            "count.jsonl",
        ])
        .with_code(6);

    assert!(
        other
            .stderr
            .contains("-count the usages of parse_amount\n+count the usages of parse_money"),
        "{other}"
    );
    assert!(
        other.stderr.contains("dirigent run GOAL --record FILE"),
        "{other}"
    );
    assert_eq!(other.stdout, "");
    assert_eq!(Journal::open(&place.db()).unwrap().runs().unwrap().len(), 1);
}

#[test]
fn host_9_a_file_that_cannot_be_written_is_refused_before_the_run() {
    let place = Place::with_sample();
    std::fs::write(place.folder().join("precious.txt"), "mine\n").unwrap();
    for (file, expected) in [
        ("precious.txt", "is not a recording"),
        ("work", "is not a recording"),
        ("nowhere/run.jsonl", "cannot be written"),
    ] {
        let refused = place
            .dirigent(["run", "run the tests", "--workspace", "work", "--record", file])
            .with_code(2);
        assert!(refused.stderr.contains(expected), "{refused}");
    }
    assert_eq!(
        std::fs::read_to_string(place.folder().join("precious.txt")).unwrap(),
        "mine\n"
    );
    assert!(!place.db().exists(), "a run was started");
    for both in [
        &["--record", "a.jsonl"][..],
        &["--workspace", "work"],
        &["--max-parallel", "2"],
    ] {
        let refused = place
            .dirigent([&["run", "--replay", "b.jsonl"], both].concat())
            .with_code(2);
        assert!(refused.stderr.contains("cannot be used with"), "{refused}");
    }
    let missing = place.dirigent(["run", "--replay", "b.jsonl"]).with_code(2);
    let said = "error: the recording b.jsonl cannot be read: No such file or directory (os error 2)\n";
    assert_eq!(missing.stderr, said);
}

//! HOST-8: the stream over all runs, and pages of the events of one.

use std::collections::HashSet;
use std::sync::mpsc;
use std::time::Instant;

use dirigent::events::Timestamp;
use dirigent::{OfflineModel, RunId};
use dirigent_store::{Journal, NewRun, PausedRuns, PruneFilter, RunClaim, RunEnding};
use dirigent_tests::http_client::{EventSource, ServerEvent};
use dirigent_tests::scripted::{Gate, Scripted, achieved, calls, plan, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};

/// Reads changes until this field of the run has this value, and returns the last change.
async fn until_run_has(events: &mut EventSource, run: &str, field: &str, value: &str) -> ServerEvent {
    events
        .wait_for(|event| {
            let told = &event.data["run"];
            event.name == "run" && run.ends_with(told["run"].as_str().unwrap()) && told[field] == value
        })
        .await
}

#[tokio::test]
async fn host_8_one_stream_tells_the_states_of_all_runs_and_goes_on_after_an_interruption() {
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("One."), says("Two.").behind(&gate), says("Three.")]);
    let server = TestServer::start(Stage::new(), model).await;
    let one = server.start_run(&json!({"goal": "Say one"})).await;
    server.until_ended(&one).await;
    let snapshot = server.client.get("/v1/events").await.with_status(200);
    assert_eq!(snapshot["runs"][0]["state"], "goal_achieved");

    let mut all = server.client.stream("GET", "/v1/events", &[], None).await;
    let first = all.next().await.unwrap();
    assert_eq!(
        (first.name.as_str(), &first.data["runs"]),
        ("snapshot", &snapshot["runs"])
    );
    let two = server.start_run(&json!({"goal": "Say two"})).await;
    let active = until_run_has(&mut all, &two, "state", "running").await.id;
    let live = until_run_has(&mut all, &two, "phase", "planning").await.data;
    assert_eq!(live["run"]["waiting"], json!({"approvals": 0, "questions": 0}));
    assert_eq!(live["counts"]["running"], 1);
    drop(all);

    // Whoever connects again is told what has changed meanwhile, and nothing else.
    gate.open();
    server.until_ended(&two).await;
    let headers = [("last-event-id", active.as_str())];
    let mut again = server.client.stream("GET", "/v1/events", &headers, None).await;
    let changed = again.next().await.unwrap();
    assert_eq!(changed.name, "run");
    assert!(
        two.ends_with(changed.data["run"]["run"].as_str().unwrap()),
        "{changed:?}"
    );
    // An id of another server is none.
    let foreign = [("last-event-id", "0.1")];
    let mut fresh = server.client.stream("GET", "/v1/events", &foreign, None).await;
    assert_eq!(fresh.next().await.unwrap().name, "snapshot");
    server.stop().await;
}

/// A run of another process, which has a handle of its own of the journal.
fn begin_elsewhere(journal: &Journal, number: u128) -> RunClaim {
    let created_at = Timestamp(1_000 + u64::try_from(number).unwrap());
    let new = NewRun::new(format!("Goal {number}"), "/elsewhere", created_at);
    let run: RunId = format!("{number:032x}").parse().unwrap();
    journal.create(run, new).unwrap()
}

fn end_elsewhere(journal: &Journal, claim: RunClaim) {
    let (stored, wait) = mpsc::channel();
    let status = r#"{"reason":"goal_achieved"}"#.to_owned();
    let told = move |result| stored.send(result).unwrap();
    journal.end(&claim, Timestamp(9_000), status, RunEnding::Finished, told);
    wait.recv().unwrap().unwrap();
    drop(claim);
    journal.flush().unwrap();
}

fn prune(journal: &Journal) -> usize {
    let old = PruneFilter {
        ended_before: Timestamp(10_000),
        paused: PausedRuns::Keep,
    };
    journal.prune(old).unwrap().runs.len()
}

#[tokio::test]
async fn host_8_runs_of_other_processes_are_told_from_their_beginning_to_their_deletion() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let mut all = server.client.stream("GET", "/v1/events", &[], None).await;
    assert_eq!(all.next().await.unwrap().name, "snapshot");
    let other = Journal::open(&server.stage.journal()).unwrap();
    let claim = begin_elsewhere(&other, 7);
    let run = format!("/v1/runs/{}", claim.run());
    let begun = until_run_has(&mut all, &run, "state", "running").await;
    assert_eq!(begun.data["counts"]["running"], 1);
    end_elsewhere(&other, claim);
    until_run_has(&mut all, &run, "state", "goal_achieved").await;
    assert_eq!(prune(&other), 1);
    let removed = all.wait_for(|event| event.data["run"]["removed"] == true).await;
    assert!(run.ends_with(removed.data["run"]["run"].as_str().unwrap()));
    // Whoever comes later is told nothing about it.
    let snapshot = server.client.get("/v1/events").await.with_status(200);
    assert_eq!(snapshot["runs"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn host_8_a_client_that_has_missed_too_much_gets_a_new_snapshot() {
    const RUNS: usize = 300;
    let server = TestServer::start(Stage::new().file("notes.txt", "one\n"), OfflineModel).await;
    let mut all = server.client.stream("GET", "/v1/events", &[], None).await;
    let begin = all.next().await.unwrap().id;
    let other = Journal::open(&server.stage.journal()).unwrap();
    for number in 1..=RUNS {
        let claim = begin_elsewhere(&other, number as u128);
        let run = format!("/v1/runs/{}", claim.run());
        end_elsewhere(&other, claim);
        // The server of the test runs on this thread, so it reads the runs only now. It may send a snapshot instead.
        if number % 20 == 0 {
            all.wait_for(|event| {
                let told = &event.data["run"];
                event.name == "snapshot"
                    || run.ends_with(told["run"].as_str().unwrap()) && told["state"] == "goal_achieved"
            })
            .await;
        }
    }
    assert_eq!(prune(&other), RUNS);
    all.wait_for(|event| event.name == "snapshot" || event.data["run"]["removed"] == true)
        .await;
    let last = server
        .start_run(&json!({"goal": "Count the lines in notes.txt"}))
        .await;
    let told = until_run_has(&mut all, &last, "state", "goal_achieved").await;

    // What is known of deleted runs is bounded, so the first id is too old, and a later one is not.
    let (old, new) = (
        [("last-event-id", begin.as_str())],
        [("last-event-id", told.id.as_str())],
    );
    let mut behind = server.client.stream("GET", "/v1/events", &old, None).await;
    let snapshot = behind.next().await.unwrap();
    assert_eq!(snapshot.name, "snapshot");
    assert_eq!(snapshot.data["runs"].as_array().unwrap().len(), 1);
    let mut current = server.client.stream("GET", "/v1/events", &new, None).await;
    let more = server
        .start_run(&json!({"goal": "Count the lines in notes.txt"}))
        .await;
    let first = current.next().await.unwrap();
    assert_eq!(first.name, "run");
    // States in quick succession come together.
    if first.data["run"]["state"] != "goal_achieved" {
        until_run_has(&mut current, &more, "state", "goal_achieved").await;
    }
    server.stop().await;
}

/// Prints how the stream keeps up: `cargo nextest run -p dirigent-tests keeps_up --no-capture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_8_the_stream_of_all_runs_keeps_up_with_many_events_of_fifty_runs() {
    const RUNS: usize = 50;
    let look = || {
        std::array::from_fn::<_, 20, _>(|_| ("file_operations", json!({"operation": "list", "path": "."})))
    };
    let model = Scripted::new()
        .lead(
            (0..RUNS)
                .map(|_| plan("Look.", [calls("look", look())]))
                .collect::<Vec<_>>(),
        )
        .reflector((0..RUNS).map(|_| achieved("Looked.")).collect::<Vec<_>>());
    let server = TestServer::start(Stage::new(), model).await;
    let mut all = server.client.stream("GET", "/v1/events", &[], None).await;
    assert_eq!(all.next().await.unwrap().name, "snapshot");
    let begin = Instant::now();
    let dirigent = server.dirigent.clone();
    let goals: Vec<_> = (0..RUNS)
        .map(|number| server.goal(&format!("Look {number}")))
        .collect();
    let working = tokio::spawn(async move {
        let mut runs = Vec::new();
        for goal in goals {
            runs.push(dirigent.start(goal).await.unwrap());
        }
        for run in &runs {
            run.outcome().await.unwrap();
        }
        Instant::now()
    });
    let (mut finished, mut messages) = (HashSet::new(), 0);
    while finished.len() < RUNS {
        let event = all.next().await.unwrap();
        messages += 1;
        let told = &event.data["run"];
        if event.name == "run" && told["state"] == "goal_achieved" {
            finished.insert(told["run"].to_string());
        }
    }
    let told = Instant::now();
    let ended = working.await.unwrap();
    let listed = server.client.get("/v1/runs?limit=50").await.with_status(200);
    let runs = listed["runs"].as_array().unwrap();
    let entries: u64 = runs.iter().map(|run| run["entries"].as_u64().unwrap()).sum();
    println!(
        "{entries} journal entries of {RUNS} runs in {:?} ({:.0} a second): {messages} messages, the last {:?} after the end of the last run",
        ended - begin,
        entries as f64 / (ended - begin).as_secs_f64(),
        told.saturating_duration_since(ended),
    );
    // States in between are left out, so the stream has no backlog.
    assert!(messages < entries, "{messages} messages about {entries} entries");
    server.stop().await;
}

#[tokio::test]
async fn host_8_the_events_of_a_run_come_in_pages_from_either_end() {
    let look = || [("file_operations", json!({"operation": "list", "path": "."}))];
    let model = Scripted::new()
        .lead([plan("Look.", [calls("look", look()), calls("again", look())])])
        .reflector([achieved("Looked.")]);
    let server = TestServer::start(Stage::new(), model).await;
    let run = server.start_run(&json!({"goal": "Look"})).await;
    server.until_ended(&run).await;
    let page = async |query: &str| {
        let path = format!("{run}/events?format=json{query}");
        server.client.get(&path).await.with_status(200)
    };
    let all = page("&limit=500").await;
    let ids = |page: &Value| -> Vec<String> {
        let events = page["events"].as_array().unwrap();
        events
            .iter()
            .map(|event| event["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(all["next"], Value::Null);
    // The same events, with the same ids, as the stream.
    let mut stream = server
        .client
        .stream("GET", &format!("{run}/events"), &[], None)
        .await;
    let streamed: Vec<String> = stream.rest().await.into_iter().map(|event| event.id).collect();
    assert_eq!(ids(&all), streamed[..streamed.len() - 1]);

    let (mut forwards, mut after) = (Vec::new(), String::new());
    loop {
        let next = page(&format!("&limit=3{after}")).await;
        forwards.extend(ids(&next));
        let Some(last) = next["next"].as_str() else { break };
        after = format!("&after={last}");
    }
    assert_eq!(forwards, ids(&all));
    let (mut backwards, mut before) = (Vec::new(), String::new());
    loop {
        let next = page(&format!("&from=end&limit=4{before}")).await;
        backwards.splice(0..0, ids(&next));
        let Some(first) = next["next"].as_str() else { break };
        before = format!("&before={first}");
    }
    assert_eq!(backwards, ids(&all));

    let finished = page("&kind=subtask_finished,run_finished").await;
    assert_eq!(finished["total"], 3);
    let of_one = page("&subtask=look").await;
    let kinds: Vec<&str> = of_one["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert!(
        kinds.contains(&"subtask_started") && kinds.contains(&"subtask_finished"),
        "{kinds:?}"
    );
    assert!(page("&agent=a1").await["total"].as_u64().unwrap() > 0);
    let wrong = server
        .client
        .get(&format!("{run}/events?format=json&after=x"))
        .await;
    assert_eq!(wrong.problem(), (400, "invalid_position".to_owned()));
    server.stop().await;
}

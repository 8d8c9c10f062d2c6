//! HOST-8: the stream over all runs, and pages of the events of one.

use dirigent_tests::http_client::{EventSource, ServerEvent};
use dirigent_tests::scripted::{Gate, Scripted, calls, plan, says};
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

#[tokio::test]
async fn host_8_the_events_of_a_run_come_in_pages_from_either_end() {
    let look = || [("file_operations", json!({"operation": "list", "path": "."}))];
    let model = Scripted::new()
        .lead([plan("Look.", [calls("look", look()), calls("again", look())])])
        .reflector([dirigent_tests::scripted::achieved("Looked.")]);
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

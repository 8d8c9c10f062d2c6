//! HOST-2, APPROVE-2, PAOR-8, PAOR-9: runs over HTTP.

use dirigent::{OfflineModel, Policy, Rule, Ruling};
use dirigent_tests::http_client::{Client, ServerEvent};
use dirigent_tests::scripted::{Gate, Scripted, achieved, after, ask_user, call, calls, plan, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};

/// Whether an event belongs to the run's journal.
fn is_journaled(event: &ServerEvent) -> bool {
    !event.id.is_empty()
}

fn ids(events: &[ServerEvent]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| is_journaled(event))
        .map(|event| event.id.as_str())
        .collect()
}

#[tokio::test]
async fn host_2_a_run_is_started_watched_shown_and_listed() {
    let stage = Stage::new().file("notes.txt", "one\ntwo\n");
    let server = TestServer::start(stage, OfflineModel).await;
    let started = server
        .client
        .post("/v1/runs", &json!({"goal": "Count the lines in notes.txt"}))
        .await;
    let run = started.with_status(201);
    let address = started.header("location").to_owned();
    assert_eq!(address, format!("/v1/runs/{}", run["run"].as_str().unwrap()));

    let mut stream = server
        .client
        .stream("GET", &format!("{address}/events"), &[], None)
        .await;
    assert_eq!(stream.status, 200);
    let events = stream.rest().await;
    assert_eq!(events[0].data["event"], "run_started");
    assert_eq!(events[events.len() - 2].data["reason"], "goal_achieved");
    let last = events.last().unwrap();
    assert_eq!(
        (last.name.as_str(), &last.data),
        ("end", &json!({"reason": "ended"}))
    );

    let shown = server.client.get(&address).await.with_status(200);
    assert_eq!(shown["state"], "goal_achieved");
    assert_eq!(shown["seq"], events[events.len() - 2].data["seq"]);
    assert!(
        shown["report"]["summary"].as_str().unwrap().contains('2'),
        "{shown}"
    );
    let by_short_id = server.client.get("/v1/runs/last").await.with_status(200);
    assert_eq!(by_short_id["run"], run["run"]);

    server.until_ended(&address).await;
    let listed = server
        .client
        .get("/v1/runs?state=goal_achieved,failed&q=NOTES&limit=10")
        .await
        .with_status(200);
    assert_eq!(
        (&listed["total"], &listed["runs"][0]["run"]),
        (&json!(1), &run["run"])
    );
    assert_eq!(
        server.client.get("/v1/runs?state=running").await.json()["total"],
        0
    );
    server.stop().await;
}

#[tokio::test]
async fn host_2_pages_of_runs_follow_each_other() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let mut started = Vec::new();
    for _ in 0..3 {
        let run = server.start_run(&json!({"goal": "Count the files"})).await;
        server.until_ended(&run).await;
        started.push(run.rsplit('/').next().unwrap().to_owned());
    }
    let mut seen = Vec::new();
    let mut page = server.client.get("/v1/runs?limit=2").await.with_status(200);
    loop {
        assert_eq!(page["total"], 3);
        seen.extend(
            page["runs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|run| run["run"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else { break };
        page = server
            .client
            .get(&format!("/v1/runs?limit=2&after={next}"))
            .await
            .with_status(200);
    }
    started.reverse();
    assert_eq!(seen, started);
    server.stop().await;
}

#[tokio::test]
async fn host_2_a_client_that_connects_again_misses_nothing_and_gets_nothing_twice() {
    let stage = Stage::new().file("notes.txt", "one\ntwo\n");
    let server = TestServer::start(stage, OfflineModel).await;
    let run = server
        .start_run(&json!({"goal": "Count the lines in notes.txt"}))
        .await;
    let path = format!("{run}/events");
    let all = server.client.stream("GET", &path, &[], None).await.rest().await;
    let all: Vec<ServerEvent> = all.into_iter().filter(is_journaled).collect();
    // Some entry caused several events.
    assert!(ids(&all).iter().any(|id| id.ends_with(".2")), "{:?}", ids(&all));
    let (last, others) = all.split_last().unwrap();
    for (place, event) in others.iter().enumerate() {
        let headers = [("last-event-id", event.id.as_str())];
        let rest = server
            .client
            .stream("GET", &path, &headers, None)
            .await
            .rest()
            .await;
        assert_eq!(ids(&rest), ids(&all[place + 1..]), "after {}", event.id);
    }
    // The browser does not connect again after the last event.
    server.until_ended(&run).await;
    let headers = [("last-event-id", last.id.as_str())];
    assert_eq!(
        server.client.stream("GET", &path, &headers, None).await.status,
        204
    );
    // A number of an entry means all its events.
    let from_third = server
        .client
        .stream("GET", &format!("{path}?after=2"), &[], None)
        .await
        .rest()
        .await;
    assert_eq!(from_third[0].id, "3.1");
    for wrong in ["x", "1.", ".1", "-1", "1.x"] {
        let refused = server.client.get(&format!("{path}?after={wrong}")).await;
        assert_eq!(refused.problem(), (400, "invalid_position".to_owned()), "{wrong}");
    }
    server.stop().await;
}

#[tokio::test]
async fn host_2_two_clients_that_watch_a_run_see_the_same_and_neither_ends_it() {
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("Done.").behind(&gate)]);
    let server = TestServer::start(Stage::new(), model).await;
    let run = server.start_run(&json!({"goal": "Say done"})).await;
    let path = format!("{run}/events");
    let mut one = server.client.stream("GET", &path, &[], None).await;
    let mut other = server.client.stream("GET", &path, &[], None).await;
    let mut gone = server.client.stream("GET", &path, &[], None).await;
    gone.wait_for_run_event("agent_started").await;
    drop(gone);
    gate.open();
    let (one, other) = (one.rest().await, other.rest().await);
    assert_eq!(one, other);
    assert_eq!(one[one.len() - 2].data["reason"], "goal_achieved");
    server.stop().await;
}

/// A model whose lead runs a tool that needs approval, and then says `after`.
fn asking_model(after: &str) -> Scripted {
    Scripted::new().lead([
        call(
            "file_operations",
            json!({"operation": "write", "path": "a.txt", "content": "one\n"}),
        ),
        says(after),
    ])
}

/// A server whose runs ask before files are changed.
async fn asking_server(model: Scripted) -> (TestServer, String) {
    let server = TestServer::start(Stage::new().file("dirigent.md", ""), model).await;
    let rule = Rule {
        ruling: Ruling::Ask,
        calls: "file_operations(operation: write)".parse().unwrap(),
    };
    let goal = server.goal("Write a.txt").policy(Policy { rules: vec![rule] });
    let goal = goal.user(dirigent::UserPresence::Present);
    let run = server.dirigent.start(goal).await.unwrap();
    (server, format!("/v1/runs/{}", run.id()))
}

/// Waits until the run asks for an approval, and returns what waits.
async fn waiting(client: &Client, run: &str) -> Value {
    let mut events = client.stream("GET", &format!("{run}/events"), &[], None).await;
    events.wait_for_run_event("approval_asked").await;
    client.get(&format!("{run}/approvals")).await.with_status(200)
}

#[tokio::test]
async fn approve_2_a_call_is_shown_with_its_digest_and_approved_once() {
    let (server, run) = asking_server(asking_model("Written.")).await;
    let shown = waiting(&server.client, &run).await;
    let approval = &shown["approvals"][0];
    assert_eq!(approval["parameters"]["path"], "a.txt");
    assert!(approval["suggestions"].is_array(), "{approval}");
    let all = server.client.get("/v1/approvals").await.with_status(200);
    assert_eq!(all["runs"][0]["approvals"][0]["digest"], approval["digest"]);

    let path = format!("{run}/approvals/{}", approval["effect"].as_str().unwrap());
    let changed = json!({"digest": "0".repeat(64), "answer": "approve"});
    assert_eq!(
        server.client.post(&path, &changed).await.problem(),
        (409, "call_changed".to_owned())
    );
    let edited = json!({"digest": approval["digest"], "answer": "edit", "parameters": {"operation": "fly"}});
    assert_eq!(
        server.client.post(&path, &edited).await.problem(),
        (422, "invalid_parameters".to_owned())
    );
    let unknown = json!({"digest": approval["digest"], "answer": "maybe"});
    assert_eq!(
        server.client.post(&path, &unknown).await.problem(),
        (422, "invalid_value".to_owned())
    );
    let approved = json!({"digest": approval["digest"], "answer": "approve"});
    assert_eq!(
        server.client.post(&path, &approved).await.with_status(200)["state"],
        "accepted"
    );
    let again = server.client.post(&path, &approved).await;
    assert_eq!(again.status, 409, "{again:?}");

    server.until_ended(&run).await;
    assert_eq!(server.stage.read("a.txt"), "one\n");
    assert_eq!(server.client.get("/v1/approvals").await.json()["runs"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn approve_2_an_approval_with_other_parameters_runs_these() {
    let (server, run) = asking_server(asking_model("Written.")).await;
    let approval = waiting(&server.client, &run).await["approvals"][0].clone();
    let path = format!("{run}/approvals/{}", approval["effect"].as_str().unwrap());
    let parameters = json!({"operation": "write", "path": "b.txt", "content": "two\n"});
    let edited = json!({"digest": approval["digest"], "answer": "edit", "parameters": parameters});
    server.client.post(&path, &edited).await.with_status(200);
    server.until_ended(&run).await;
    assert_eq!(server.stage.read("b.txt"), "two\n");
    assert!(!server.stage.workspace().join("a.txt").exists());
    server.stop().await;
}

#[tokio::test]
async fn paor_9_a_question_is_answered_by_the_number_of_a_choice_or_refused() {
    let steps = calls(
        "look",
        [("file_operations", json!({"operation": "list", "path": "."}))],
    );
    let model = Scripted::new()
        .lead([plan("Look.", [steps.clone()]), plan("Look again.", [steps])])
        .reflector([ask_user("It is not clear.", "Which one?"), achieved("Done.")]);
    let server = TestServer::start(Stage::new(), model).await;
    let run = server.start_run(&json!({"goal": "Look"})).await;
    let mut events = server
        .client
        .stream("GET", &format!("{run}/events"), &[], None)
        .await;
    let asked = events.wait_for_run_event("question_asked").await;
    assert_eq!(asked.data["question"], "Which one?");
    let path = format!("{run}/answers");
    let unknown = json!({"answer": "The first", "question": "a99.1"});
    assert_eq!(
        server.client.post(&path, &unknown).await.problem(),
        (409, "no_such_question".to_owned())
    );
    let wrong = [
        json!({"answer": "The first", "question": "x"}),
        json!({"answer": " \n"}),
    ];
    for wrong in wrong {
        assert_eq!(
            server.client.post(&path, &wrong).await.problem(),
            (422, "invalid_value".to_owned()),
            "{wrong}"
        );
    }
    let listed = server.client.get("/v1/approvals").await.json();
    assert_eq!(listed["runs"][0]["questions"][0]["question"], "Which one?");
    server
        .client
        .post(&path, &json!({"answer": "The first"}))
        .await
        .with_status(200);
    let again = server.client.post(&path, &json!({"answer": "The second"})).await;
    assert_eq!(again.status, 409, "{again:?}");
    server.until_ended(&run).await;
    assert_eq!(server.client.get(&run).await.json()["report"]["summary"], "Done.");
    server.stop().await;
}

#[tokio::test]
async fn paor_8_guidance_reaches_a_run_and_a_cancelled_run_accepts_none() {
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("Done.").behind(&gate), says("Really done.")]);
    let server = TestServer::start(Stage::new(), model.clone()).await;
    let run = server.start_run(&json!({"goal": "Say done"})).await;
    let mut events = server
        .client
        .stream("GET", &format!("{run}/events"), &[], None)
        .await;
    events.wait_for_run_event("agent_started").await;
    let path = format!("{run}/guidance");
    server
        .client
        .post(&path, &json!({"guidance": "Be brief"}))
        .await
        .with_status(200);
    let told = events.wait_for_run_event("guided").await;
    assert_eq!(told.data["guidance"], "Be brief");
    for (body, field) in [
        (json!({"guidance": " "}), "guidance"),
        (json!({"guidance": "x", "agent": "b2"}), "agent"),
        (json!({"guidance": "x", "agent": "a1", "when": "now"}), "when"),
        (json!({"guidance": "x", "when": "later"}), "when"),
        (json!({"guidance": "x", "why": "because"}), "why"),
        (json!({"guidance": 7}), "guidance"),
    ] {
        let refused = server.client.post(&path, &body).await;
        assert_eq!(refused.problem(), (422, "invalid_value".to_owned()), "{body}");
        assert!(
            refused.json()["detail"].as_str().unwrap().contains(field),
            "{refused:?}"
        );
    }
    let nobody = json!({"guidance": "x", "agent": "a99"});
    assert_eq!(
        server.client.post(&path, &nobody).await.problem(),
        (409, "no_such_agent".to_owned())
    );
    server
        .client
        .post_nothing(&format!("{run}/cancel"))
        .await
        .with_status(200);
    server.until_ended(&run).await;
    assert_eq!(server.client.get(&run).await.json()["state"], "cancelled");
    let late = server.client.post(&path, &json!({"guidance": "Too late"})).await;
    assert_eq!(late.problem(), (409, "run_ended".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn host_9_a_run_is_forked_compared_drawn_and_undone() {
    let write = json!({"operation": "write", "path": "a.txt", "content": "one\n"});
    let model = Scripted::new()
        .lead([
            plan("Write a file.", [calls("write", [("file_operations", write)])]),
            says("Nothing else to do."),
        ])
        .reflector([achieved("Written.")]);
    let server = TestServer::start(Stage::new(), model).await;
    let run = server
        .start_run(&json!({"goal": "Write a.txt", "user": "absent"}))
        .await;
    server.until_ended(&run).await;

    let graph = server.client.get(&format!("{run}/graph")).await.with_status(200);
    let subtask = &graph["iterations"][0]["subtasks"][0];
    assert_eq!(
        (&subtask["id"], &subtask["state"]),
        (&json!("write"), &json!("succeeded"))
    );
    let drawing = server
        .client
        .get(&format!("{run}/graph?format=mermaid&iteration=1"))
        .await;
    assert!(drawing.body.starts_with("flowchart TD\n"), "{drawing:?}");

    let diff = server.client.get(&format!("{run}/diff")).await.with_status(200);
    assert_eq!(diff["files"][0]["path"], "a.txt");
    let patch = server
        .client
        .send("GET", &format!("{run}/diff"), &[("accept", "text/x-diff")], None)
        .await;
    assert_eq!(patch.body, diff["diff"].as_str().unwrap());

    let preview = server.client.get(&format!("{run}/undo")).await.with_status(200);
    assert_eq!(preview["steps"], json!([{"action": "delete", "path": "a.txt"}]));
    assert_eq!(server.stage.read("a.txt"), "one\n");
    std::fs::write(server.stage.workspace().join("a.txt"), "changed\n").unwrap();
    let refused = server.client.post_nothing(&format!("{run}/undo")).await;
    assert_eq!(refused.problem(), (409, "undo_refused".to_owned()));
    let refused = refused.json();
    assert_eq!(
        refused["detail"],
        "nothing was undone: a.txt has changed since the run"
    );
    assert_eq!(
        refused["refused"],
        json!([{"path": "a.txt", "reason": "changed"}])
    );
    std::fs::write(server.stage.workspace().join("a.txt"), "one\n").unwrap();
    let undone = server
        .client
        .post(&format!("{run}/undo"), &json!({"include_commands": false}))
        .await;
    assert_eq!(undone.with_status(200)["done"], preview["steps"]);
    assert!(!server.stage.workspace().join("a.txt").exists());

    let forked = server
        .client
        .post(&format!("{run}/fork"), &json!({"at": 1, "user": "absent"}))
        .await;
    assert_eq!(forked.with_status(201)["forked_from"]["at"], 1);
    server.until_ended(forked.header("location")).await;
    let nowhere = server
        .client
        .post(&format!("{run}/fork"), &json!({"at": 999}))
        .await;
    assert_eq!(nowhere.problem(), (409, "cannot_fork".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn host_6_limits_and_a_model_are_set_for_a_run() {
    let model = Scripted::new().lead([says("Done."), says("Done.")]);
    let server = TestServer::start(Stage::new(), model.clone()).await;
    let limits = json!({"max_iterations": 3, "timeout": "90s", "max_cost": "2.50"});
    let run = server
        .start_run(&json!({"goal": "Say done", "limits": limits, "model": "fast"}))
        .await;
    server.until_ended(&run).await;
    // Numbers have the units of all answers. What is shown can be sent back.
    let shown = server.client.get(&run).await.with_status(200)["limits"].clone();
    assert_eq!(shown["max_iterations"], 3);
    assert_eq!(shown["timeout"], 90_000);
    assert_eq!(shown["max_cost"], 2_500_000_000_u64);
    assert!(shown.get("max_tokens").is_none(), "{shown}");
    let again = server
        .start_run(&json!({"goal": "Say done", "limits": shown, "user": "absent"}))
        .await;
    server.until_ended(&again).await;
    assert_eq!(server.client.get(&again).await.json()["limits"], shown);
    assert_eq!(model.asked()[0].model.as_deref(), Some("fast"));
    for (body, detail) in [
        (
            json!({"goal": "x", "limits": {"max_iterations": 0}}),
            "`limits.max_iterations` must be a whole number of at least 1",
        ),
        (
            json!({"goal": "x", "limits": {"max_cost": 2.5}}),
            "`limits.max_cost` must be a whole number of nano-dollars above 0, or a text in US dollars above 0",
        ),
        (
            json!({"goal": "x", "limits": {"timeout": 0}}),
            "`limits.timeout` must be a whole number of milliseconds above 0, or a time",
        ),
        (
            json!({"goal": "x", "limits": {"most": 1}}),
            "there is no such limit",
        ),
        (json!({"goal": "x", "workspace": "work"}), "not an absolute path"),
        (json!({"goal": "x", "mode": "fly"}), "`mode`"),
        (json!({"goal": "x", "tools": []}), "unknown field `tools`"),
        (json!({"text": "x"}), "unknown field `text`"),
        (json!([1]), "the body is invalid"),
    ] {
        let refused = server.client.post("/v1/runs", &body).await;
        assert_eq!(refused.problem(), (422, "invalid_value".to_owned()), "{body}");
        assert!(
            refused.json()["detail"].as_str().unwrap().contains(detail),
            "{refused:?}"
        );
    }
    for (body, code) in [
        (json!({"goal": " "}), "empty_goal"),
        (
            json!({"goal": "x", "workspace": "/nowhere/at/all"}),
            "unusable_workspace",
        ),
        (
            json!({"goal": "x", "system_prompt": "none"}),
            "unknown_system_prompt",
        ),
    ] {
        let refused = server.client.post("/v1/runs", &body).await;
        assert_eq!(refused.problem(), (422, code.to_owned()), "{body}");
    }
    assert_eq!(server.client.get("/v1/runs").await.json()["total"], 2);
    server.stop().await;
}

#[tokio::test]
async fn host_2_unknown_runs_and_invalid_requests_have_codes() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let run = "/v1/runs/0190a1b2-c3d4-7e5f-8a6b-0123456789ab";
    for path in ["", "/events", "/graph", "/diff", "/undo", "/approvals"] {
        let reply = server.client.get(&format!("{run}{path}")).await;
        assert_eq!(reply.problem(), (404, "unknown_run".to_owned()), "{path}");
    }
    assert_eq!(
        server.client.get("/v1/runs/xyz").await.problem(),
        (404, "unknown_run".to_owned())
    );
    for query in ["state=flying", "limit=x", "page=2"] {
        let reply = server.client.get(&format!("/v1/runs?{query}")).await;
        assert!([400, 422].contains(&reply.problem().0), "{query}");
    }
    let text = [("content-type", "application/json")];
    for (body, code) in [
        ("{", "invalid_json"),
        ("{\"goal\": \"x\"} {}", "invalid_json"),
        ("", "no_body"),
    ] {
        let mut request = server.client.request(
            "POST",
            "/v1/runs",
            &[text[0], ("content-length", &body.len().to_string())],
            None,
        );
        request.extend(body.bytes());
        assert_eq!(
            server.client.raw(&request).await.problem(),
            (400, code.to_owned()),
            "{body}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn host_3_a_query_or_an_array_in_place_of_the_body_is_refused() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let client = &server.client;
    let goal = json!({"goal": "Count the files"});
    let run = server.start_run(&goal).await;
    server.until_ended(&run).await;
    let posts = [
        (format!("{run}/undo?after=1"), json!({})),
        (format!("{run}/fork?at=1"), json!({})),
        ("/v1/runs?mode=plan".to_owned(), goal),
    ];
    for (path, body) in posts {
        let refused = client.post(&path, &body).await.problem();
        assert_eq!(refused, (400, "invalid_query".to_owned()), "{path}");
    }
    let refused = client
        .post("/v1/runs", &json!(["Count the files"]))
        .await
        .problem();
    assert_eq!(refused, (422, "invalid_value".to_owned()));
    assert_eq!(client.get("/v1/runs").await.json()["total"], 1);
    server.stop().await;
}

#[tokio::test]
async fn host_3_unknown_kinds_and_positions_of_events_are_refused() {
    let server = TestServer::start(Stage::new(), Scripted::new().lead([says("Done.")])).await;
    let context = server.begin_conversation(&json!({})).await;
    let message = json!({"message": "Say done"});
    let answered = server.client.post(&format!("{context}/messages"), &message).await;
    let run = format!("/v1/runs/{}", answered.with_status(200)["run"].as_str().unwrap());
    let page = format!("{run}/events?format=json&kind=");
    let known = server
        .client
        .get(&format!("{page}run_started,run_finished"))
        .await
        .with_status(200);
    assert_eq!(known["total"], 2);
    for kind in ["tool_start", "run_started,", "run_started,colour"] {
        let refused = server.client.get(&format!("{page}{kind}")).await;
        assert_eq!(refused.problem(), (400, "invalid_query".to_owned()), "{kind}");
        assert!(
            refused.body.contains("tool_started, tool_finished"),
            "{refused:?}"
        );
    }
    // The same code for all streams of events.
    for path in [format!("{run}/events"), format!("{context}/events")] {
        for last in ["x", "1.x", "1.2.3.4", "-1"] {
            let headers = [("accept", "text/event-stream"), ("last-event-id", last)];
            let refused = server.client.send("GET", &path, &headers, None).await;
            assert_eq!(
                refused.problem(),
                (400, "invalid_position".to_owned()),
                "{path} {last}"
            );
        }
    }
    let refused = server.client.get(&format!("{context}/events?after=x")).await;
    assert_eq!(refused.problem(), (400, "invalid_position".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn paor_6_an_output_is_read_by_its_handle_whole_or_in_part() {
    let lines: String = (1..=2_000).map(|line| format!("line {line} ä\n")).collect();
    let stage = Stage::new().file("long.txt", &lines);
    let read = json!({"command": ["cat", "long.txt"]});
    let model = Scripted::new().lead([call("execute_command", read), says("Read.")]);
    let server = TestServer::start(stage, model).await;
    let run = server
        .start_run(&json!({"goal": "Read long.txt", "user": "absent"}))
        .await;
    server.until_ended(&run).await;
    let page = server
        .client
        .get(&format!("{run}/events?format=json&kind=tool_started"))
        .await
        .with_status(200);
    let handle = page["events"][0]["effect"].as_str().unwrap();
    let output = format!("{run}/outputs/{handle}");
    let whole = server.client.get(&output).await.with_status(200);
    let text = whole["text"].as_str().unwrap();
    assert!(text.contains(&lines), "{whole}");
    assert_eq!(whole["handle"], handle);
    assert_eq!(whole["characters"], text.chars().count());
    assert_eq!(whole["texts"][0]["name"], "output");
    assert_eq!(whole["texts"][0]["line"], 1);
    let part = async |query: &str| {
        let part = server
            .client
            .get(&format!("{output}?{query}"))
            .await
            .with_status(200);
        assert_eq!(part["characters"], whole["characters"]);
        part["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(part("start_line=2&end_line=3").await, "line 2 ä\nline 3 ä\n");
    assert_eq!(part("offset=5&length=4").await, "1 ä\n");
    assert_eq!(part("offset=99999999").await, "");
    assert!(
        part("start_line=1999")
            .await
            .starts_with("line 1999 ä\nline 2000 ä\n")
    );
    // As agents see the rest.
    let findings = server.client.get(&format!("{run}/outputs/a1")).await;
    assert!(
        findings.with_status(200)["text"]
            .as_str()
            .unwrap()
            .contains("Read.")
    );
    for (query, status, code) in [
        ("outputs/a9.9", 404, "unknown_output"),
        ("outputs/iteration.9", 404, "unknown_output"),
        ("outputs/colour", 422, "invalid_value"),
        ("outputs/a1.2?start_line=0", 400, "invalid_query"),
        ("outputs/a1.2?start_line=1&offset=1", 400, "invalid_query"),
        ("outputs/a1.2?lines=1", 400, "invalid_query"),
    ] {
        let refused = server.client.get(&format!("{run}/{query}")).await;
        assert_eq!(refused.problem(), (status, code.to_owned()), "{query}");
    }
    server.stop().await;
}

#[tokio::test]
async fn paor_4_a_plan_that_waits_for_approval_is_drawn() {
    let write = json!({"operation": "write", "path": "a.txt", "content": "one\n"});
    let model = Scripted::new()
        .lead([plan(
            "Write a file.",
            [
                calls("write", [("file_operations", write.clone())]),
                after(calls("again", [("file_operations", write)]), ["write"]),
            ],
        )])
        .reflector([achieved("Written.")]);
    let server = TestServer::start(Stage::new(), model).await;
    let run = server
        .start_run(&json!({"goal": "Write a.txt", "mode": "plan"}))
        .await;
    let mut events = server
        .client
        .stream("GET", &format!("{run}/events"), &[], None)
        .await;
    let asked = events.wait_for_run_event("approval_asked").await;
    let approval = &asked.data["approval"];
    let graph = server.client.get(&format!("{run}/graph")).await.with_status(200);
    assert_eq!(
        graph["iterations"],
        json!([{
            "iteration": 1,
            "approval": approval["effect"],
            "summary": "Write a file.",
            "subtasks": graph["iterations"][0]["subtasks"],
        }])
    );
    let subtasks = graph["iterations"][0]["subtasks"].as_array().unwrap();
    let shown: Vec<_> = subtasks
        .iter()
        .map(|subtask| {
            (
                subtask["id"].as_str().unwrap(),
                subtask["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(shown, [("write", "waiting"), ("again", "waiting")]);
    assert_eq!(subtasks[1]["depends_on"], json!(["write"]));
    let drawing = server.client.get(&format!("{run}/graph?format=mermaid")).await;
    assert!(drawing.body.contains("Title of again"), "{drawing:?}");

    let path = format!("{run}/approvals/{}", approval["effect"].as_str().unwrap());
    let decision = json!({"digest": approval["digest"], "answer": "approve"});
    server.client.post(&path, &decision).await.with_status(200);
    server.until_ended(&run).await;
    let graph = server.client.get(&format!("{run}/graph")).await.with_status(200);
    assert_eq!(graph["iterations"].as_array().unwrap().len(), 1);
    assert_eq!(graph["iterations"][0]["approval"], json!(null));
    server.stop().await;
}

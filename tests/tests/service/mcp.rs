//! HOST-3, HOST-8: Dirigent as an MCP server at `/mcp` of the service.

use std::time::Duration;

use dirigent::{EndReason, OfflineModel, RunId, UserPresence};
use dirigent_tests::http_client::{Client, EventSource};
use dirigent_tests::scripted::{Gate, Reply, Scripted, call as calls, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::{Stage, pass, until_free};
use serde_json::{Value, json};

const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn initialize() -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    request(1, "initialize", &params)
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
    request(id, "tools/call", &params)
}

/// A client with a session.
struct Session {
    client: Client,
    id: String,
}

impl Session {
    async fn begin(client: &Client) -> Session {
        let mut stream = client
            .stream("POST", "/mcp", &[ACCEPT], Some(&initialize()))
            .await;
        let header = stream.headers.iter().find(|(name, _)| name == "mcp-session-id");
        let id = header.expect("a session").1.clone();
        let hello = response(&mut stream, 1).await;
        assert_eq!(hello["result"]["serverInfo"]["name"], "dirigent");
        let session = Session {
            client: client.clone(),
            id,
        };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let headers = [ACCEPT, ("mcp-session-id", session.id.as_str())];
        let accepted = client.send("POST", "/mcp", &headers, Some(&ready)).await;
        assert_eq!(accepted.status, 202);
        session
    }

    async fn post(&self, message: &Value) -> EventSource {
        let headers = [ACCEPT, ("mcp-session-id", self.id.as_str())];
        self.client.stream("POST", "/mcp", &headers, Some(message)).await
    }

    async fn call(&self, id: u64, tool: &str, arguments: &Value) -> Value {
        let mut stream = self.post(&call(id, tool, arguments)).await;
        response(&mut stream, id).await["result"].clone()
    }
}

async fn response(stream: &mut EventSource, id: u64) -> Value {
    stream.wait_for(|event| event.data["id"] == id).await.data
}

#[tokio::test]
async fn host_3_a_goal_is_delegated_over_http_with_progress() {
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("2 lines.").behind(&gate)]);
    let server = TestServer::start(Stage::new(), model).await;
    let session = Session::begin(&server.client).await;
    let goal = json!({"goal": "Count the lines in notes.txt", "workspace": server.stage.workspace()});
    let started = session.call(2, "start_goal", &goal).await;
    let run = started["structuredContent"]["run"].clone();
    let mut stream = session.post(&call(3, "wait_run", &json!({"run": run}))).await;
    let mut progress = 0;
    let ended = loop {
        let event = stream.next().await.expect("the stream ends with the response");
        match event.data["method"].as_str() {
            Some("notifications/progress") => {
                progress += 1;
                gate.open();
            }
            _ if event.data["id"] == 3 => break event.data,
            _ => {}
        }
    };
    assert!(progress > 0);
    let status = &ended["result"]["structuredContent"];
    assert_eq!(status["state"], "goal_achieved", "{ended}");
    assert!(
        status["summary"].as_str().unwrap().contains("2 lines"),
        "{status}"
    );
    // Another interface sees the same run.
    let listed = server.client.get("/v1/runs/last").await.with_status(200);
    assert_eq!(listed["run"], run);
    server.stop().await;
}

/// Waits until `/mcp` answers a message of a session with this status.
async fn until_status(client: &Client, session: &str, status: u16) {
    let headers = [ACCEPT, ("mcp-session-id", session)];
    let ping = request(9, "ping", &json!({}));
    while client.send("POST", "/mcp", &headers, Some(&ping)).await.status != status {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn host_3_sessions_are_bounded_and_end_by_delete() {
    let server = TestServer::with_options(Stage::new(), OfflineModel, |mut options| {
        options.limits.mcp_sessions = 2;
        options
    })
    .await;
    let client = &server.client;
    let (first, _second) = (Session::begin(client).await, Session::begin(client).await);
    let refused = client.send("POST", "/mcp", &[ACCEPT], Some(&initialize())).await;
    assert_eq!(refused.header("retry-after"), "60");
    assert_eq!(refused.problem(), (429, "too_many_sessions".to_owned()));

    let headers = [ACCEPT, ("mcp-session-id", first.id.as_str())];
    let ended = client.send("DELETE", "/mcp", &headers, None).await;
    assert_eq!(ended.status, 202, "{ended:?}");
    until_status(client, &first.id, 404).await;
    // Its place is free, though perhaps not at the same moment.
    let mut again = client.send("POST", "/mcp", &[ACCEPT], Some(&initialize())).await;
    while again.status == 429 {
        tokio::task::yield_now().await;
        again = client.send("POST", "/mcp", &[ACCEPT], Some(&initialize())).await;
    }
    assert_eq!(again.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn host_3_an_idle_session_ends_and_one_with_a_call_under_way_does_not() {
    let model = Scripted::new().lead([Reply::Never]);
    let server = TestServer::with_options(Stage::new(), model, |mut options| {
        options.limits.mcp_idle_time = Duration::from_secs(600);
        options
    })
    .await;
    let (idle, busy) = (
        Session::begin(&server.client).await,
        Session::begin(&server.client).await,
    );
    let started = busy.call(2, "start_goal", &json!({"goal": "Say done"})).await;
    let run = &started["structuredContent"]["run"];
    // Without a token for progress, nothing happens in the session while it waits.
    let wait = json!({"name": "wait_run", "arguments": {"run": run, "timeout": 3600}});
    let mut waiting = busy.post(&request(3, "tools/call", &wait)).await;
    pass(Duration::from_secs(601)).await;
    until_status(&server.client, &idle.id, 404).await;
    pass(Duration::from_secs(3_000)).await;
    // The session is there until the call returns.
    let ended = response(&mut waiting, 3).await;
    assert_eq!(ended["result"]["structuredContent"]["run"], *run, "{ended}");
    server.stop().await;
}

#[tokio::test]
async fn host_3_a_message_that_no_slot_is_free_for_is_not_stored() {
    let stage = Stage::new();
    let question = json!({"question": "Which town?", "choices": ["Ulm", "Bonn"]});
    let model = Scripted::new().lead([calls("ask_user", question), Reply::Never]);
    let alone = stage.builder(model.clone()).build().await.unwrap();
    let goal = stage.goal("Choose a town").user(UserPresence::Absent);
    let run = alone.start(goal).await.unwrap();
    let report = run.outcome().await.unwrap();
    assert_eq!(report.end, Some(EndReason::UserRequired));
    let id: RunId = run.id();
    drop(run);
    alone.shutdown().await.unwrap();
    until_free(&alone, id).await;

    let server = TestServer::with_options(stage, model, |mut options| {
        options.limits.runs = 1;
        options
    })
    .await;
    server.start_run(&json!({"goal": "Say done"})).await;
    let session = Session::begin(&server.client).await;
    for (tool, arguments) in [
        ("answer_run", json!({"run": id, "answer": "1"})),
        ("guide_run", json!({"run": id, "guidance": "Take Ulm"})),
    ] {
        let refused = session.call(2, tool, &arguments).await;
        assert_eq!(refused["isError"], true, "{refused}");
        let text = refused["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("runs of this server are active"), "{text}");
        assert_eq!(server.dirigent.pending_messages(id).await.unwrap(), [], "{tool}");
    }
    server.stop().await;
}

/// A request of version 2026-07-28, which has no session: each request says its version, and headers repeat it.
async fn stateless(client: &Client, version: &str, method: &str, name: Option<&str>, more: Value) -> Value {
    let mut params = more;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut headers = vec![ACCEPT, ("mcp-protocol-version", version), ("mcp-method", method)];
    headers.extend(name.map(|name| ("mcp-name", name)));
    let message = request(1, method, &params);
    let reply = client.send("POST", "/mcp", &headers, Some(&message)).await;
    match reply.header("content-type").starts_with("text/event-stream") {
        true => {
            let data = reply.body.lines().filter_map(|line| line.strip_prefix("data:"));
            let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
            messages.next_back().unwrap_or_else(|| panic!("{reply:?}"))
        }
        false => reply.json(),
    }
}

#[tokio::test]
async fn host_3_the_newest_version_needs_no_session_and_unknown_versions_are_refused_with_the_known_ones() {
    const NEWEST: &str = "2026-07-28";
    let server = TestServer::start(Stage::new().file("notes.txt", "one\n"), OfflineModel).await;
    let client = &server.client;
    let discovered = stateless(client, NEWEST, "server/discover", None, json!({})).await;
    let supported = discovered["result"]["supportedVersions"]
        .as_array()
        .unwrap_or_else(|| panic!("{discovered}"));
    assert!(
        supported.contains(&json!(NEWEST)) && supported.contains(&json!("2025-06-18")),
        "{discovered}"
    );

    let goal = json!({"name": "start_goal", "arguments": {"goal": "Count the lines in notes.txt"}});
    let started = stateless(client, NEWEST, "tools/call", Some("start_goal"), goal).await;
    let run = &started["result"]["structuredContent"]["run"];
    let wait = json!({"name": "wait_run", "arguments": {"run": run}});
    let ended = stateless(client, NEWEST, "tools/call", Some("wait_run"), wait).await;
    assert_eq!(
        ended["result"]["structuredContent"]["state"], "goal_achieved",
        "{ended}"
    );

    let refused = stateless(client, "2099-01-01", "tools/list", None, json!({})).await;
    assert_eq!(refused["error"]["data"]["requested"], "2099-01-01", "{refused}");
    assert_eq!(
        refused["error"]["data"]["supported"],
        json!(supported),
        "{refused}"
    );
    server.stop().await;
}

#[tokio::test]
async fn host_3_mcp_needs_the_token_an_own_host_and_no_other_site() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let (client, hello) = (&server.client, initialize());
    let stranger = client.without_token();
    for method in ["GET", "POST", "DELETE"] {
        let refused = stranger.send(method, "/mcp", &[ACCEPT], Some(&hello)).await;
        assert_eq!(refused.problem(), (401, "no_token".to_owned()), "{method}");
    }
    let wrong_host = [ACCEPT, ("host", "evil.example")];
    let refused = client.send("POST", "/mcp", &wrong_host, Some(&hello)).await;
    assert_eq!(refused.problem(), (421, "wrong_host".to_owned()));
    let other_site = [ACCEPT, ("origin", "https://evil.example")];
    let refused = client.send("POST", "/mcp", &other_site, Some(&hello)).await;
    assert_eq!(refused.problem(), (403, "cross_site".to_owned()));
    let unknown = [ACCEPT, ("mcp-session-id", "0badcafe")];
    let refused = client
        .send(
            "POST",
            "/mcp",
            &unknown,
            Some(&request(2, "tools/list", &json!({}))),
        )
        .await;
    assert_eq!(refused.status, 404);
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x".repeat(2 << 20)}});
    let refused = client.send("POST", "/mcp", &[ACCEPT], Some(&large)).await;
    assert_eq!(refused.problem(), (413, "body_too_large".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn host_8_the_end_of_the_server_ends_a_wait_and_leaves_the_run_resumable() {
    let mut server = TestServer::start(Stage::new(), Scripted::new().lead([Reply::Never])).await;
    let session = Session::begin(&server.client).await;
    let started = session.call(2, "start_goal", &json!({"goal": "Say done"})).await;
    let run = started["structuredContent"]["run"].clone();
    let mut stream = session
        .post(&call(3, "wait_run", &json!({"run": run, "timeout": 3600})))
        .await;
    let first = stream.next().await;
    assert!(first.is_some());
    let dirigent = server.dirigent.clone();
    server.begin_to_stop();
    while stream.next().await.is_some() {}
    let _stage = server.stopped().await;
    let record = dirigent
        .record(run.as_str().unwrap().parse().unwrap())
        .await
        .unwrap();
    assert_eq!(
        dirigent::RunState::from_record(&record),
        dirigent::RunState::Interrupted
    );
}

//! HOST-3, HOST-8: Dirigent as an MCP server at `/mcp` of the service.

use dirigent::OfflineModel;
use dirigent_tests::http_client::{Client, EventSource};
use dirigent_tests::scripted::{Gate, Reply, Scripted, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
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

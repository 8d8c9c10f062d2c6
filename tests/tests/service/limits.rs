//! HOST-3, HOST-8: the limits of the service, and its end.

use std::time::Duration;

use dirigent::OfflineModel;
use dirigent_server::{ServerLimits, ServerOptions};
use dirigent_tests::scripted::{Gate, Scripted, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn limited(change: impl FnOnce(&mut ServerLimits)) -> impl FnOnce(ServerOptions) -> ServerOptions {
    |mut options| {
        change(&mut options.limits);
        options
    }
}

#[tokio::test]
async fn host_3_bodies_and_headers_that_are_too_long_are_refused_before_they_are_read() {
    let change = limited(|limits| limits.body_bytes = 1_000);
    let server = TestServer::with_options(Stage::new(), OfflineModel, change).await;
    let long = json!({"goal": "x".repeat(2_000)});
    let refused = server.client.post("/v1/runs", &long).await;
    assert_eq!(refused.problem(), (413, "body_too_large".to_owned()));
    // A declared gigabyte, none of which is sent.
    let declared = server.client.request(
        "POST",
        "/v1/runs",
        &[
            ("content-length", "1073741824"),
            ("content-type", "application/json"),
        ],
        None,
    );
    assert_eq!(
        server.client.raw(&declared).await.problem(),
        (413, "body_too_large".to_owned())
    );
    // A body without a declared length.
    let mut chunked = server.client.request(
        "POST",
        "/v1/runs",
        &[
            ("transfer-encoding", "chunked"),
            ("content-length", ""),
            ("content-type", "application/json"),
        ],
        None,
    );
    let text = String::from_utf8(chunked)
        .unwrap()
        .replace("content-length: \r\n", "");
    chunked = text.into_bytes();
    for _ in 0..20 {
        chunked.extend(format!("64\r\n{}\r\n", "x".repeat(100)).bytes());
    }
    assert_eq!(
        server.client.raw(&chunked).await.problem(),
        (413, "body_too_large".to_owned())
    );
    let header = "x".repeat(100_000);
    let refused = server
        .client
        .send("GET", "/v1/runs", &[("x", &header)], None)
        .await;
    assert_eq!(refused.status, 431);
    assert_eq!(server.client.get("/v1/runs").await.json()["total"], 0);
    server.stop().await;
}

#[tokio::test]
async fn host_3_slow_clients_lose_their_connection() {
    let change = limited(|limits| {
        limits.header_time = Duration::from_millis(100);
        limits.body_time = Duration::from_millis(100);
    });
    let server = TestServer::with_options(Stage::new(), OfflineModel, change).await;
    let mut slow = TcpStream::connect(server.client.address).await.unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: local")
        .await
        .unwrap();
    let mut received = Vec::new();
    slow.read_to_end(&mut received).await.unwrap();
    assert!(
        !received.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&received)
    );
    let half = server.client.request(
        "POST",
        "/v1/runs",
        &[("content-length", "10"), ("content-type", "application/json")],
        None,
    );
    assert_eq!(
        server.client.raw(&half).await.problem(),
        (408, "body_timeout".to_owned())
    );
    server.client.get("/health").await.with_status(200);
    server.stop().await;
}

#[tokio::test]
async fn host_3_requests_beyond_the_limit_are_refused_until_one_ends() {
    let change = limited(|limits| limits.requests = 2);
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("Done.").behind(&gate)]);
    let server = TestServer::with_options(Stage::new(), model, change).await;
    let run = server.start_run(&json!({"goal": "Say done"})).await;
    let mut first = server
        .client
        .stream("GET", &format!("{run}/events"), &[], None)
        .await;
    let second = server
        .client
        .stream("GET", &format!("{run}/events"), &[], None)
        .await;
    assert_eq!((first.status, second.status), (200, 200));
    let refused = server.client.get("/v1/runs").await;
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.problem(), (429, "too_many_requests".to_owned()));
    // A client that goes away frees its place. A second event shows that the server has noticed.
    drop(second);
    gate.open();
    first.rest().await;
    let mut listed = server.client.get("/v1/runs").await;
    while listed.status == 429 {
        tokio::task::yield_now().await;
        listed = server.client.get("/v1/runs").await;
    }
    listed.with_status(200);
    server.stop().await;
}

#[tokio::test]
async fn host_3_runs_beyond_the_limit_are_refused() {
    let change = limited(|limits| limits.runs = 1);
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("Done.").behind(&gate)]);
    let server = TestServer::with_options(Stage::new(), model, change).await;
    let run = server.start_run(&json!({"goal": "Say done"})).await;
    let refused = server.client.post("/v1/runs", &json!({"goal": "Say more"})).await;
    assert_eq!(refused.header("retry-after"), "10");
    assert_eq!(refused.problem(), (429, "too_many_runs".to_owned()));
    gate.open();
    server.until_ended(&run).await;
    server.stop().await;
}

#[tokio::test]
async fn host_3_concurrent_starts_do_not_exceed_the_limit_of_runs_together() {
    let change = limited(|limits| limits.runs = 3);
    let gate = Gate::shut();
    let replies = (0..20).map(|_| says("Done.").behind(&gate));
    let model = Scripted::new().lead(replies.collect::<Vec<_>>());
    let server = TestServer::with_options(Stage::new(), model, change).await;
    let context = server.begin_conversation(&json!({})).await;
    let message = format!("{context}/messages");
    let mut starting = tokio::task::JoinSet::new();
    for number in 0..12 {
        let client = server.client.clone();
        let goal = json!({"goal": format!("Say done {number}")});
        starting.spawn(async move { client.post("/v1/runs", &goal).await });
    }
    let (mut started, mut refused) = (Vec::new(), 0);
    for reply in starting.join_all().await {
        match reply.status {
            201 => started.push(reply.header("location").to_owned()),
            _ => {
                assert_eq!(reply.problem(), (429, "too_many_runs".to_owned()));
                refused += 1;
            }
        }
    }
    assert_eq!((started.len(), refused), (3, 9));
    for path in [format!("{}/fork", started[0]), format!("{}/resume", started[0])] {
        let refused = server.client.post_nothing(&path).await;
        assert_eq!(refused.problem(), (429, "too_many_runs".to_owned()), "{path}");
    }
    let refused = server.client.post(&message, &json!({"message": "Hello"})).await;
    assert_eq!(refused.problem(), (429, "too_many_runs".to_owned()));
    gate.open();
    for run in &started {
        server.until_ended(run).await;
    }
    let mut answered = server.client.post(&message, &json!({"message": "Hello"})).await;
    while answered.status == 429 {
        tokio::task::yield_now().await;
        answered = server.client.post(&message, &json!({"message": "Hello"})).await;
    }
    assert_eq!(answered.with_status(200)["answer"], "Done.");
    server.stop().await;
}

#[tokio::test]
async fn host_3_guidance_for_an_active_turn_is_accepted_even_if_no_other_run_may_start() {
    let change = limited(|limits| limits.runs = 1);
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("Done.").behind(&gate), says("Done, twice.")]);
    let server = TestServer::with_options(Stage::new(), model, change).await;
    let context = server.begin_conversation(&json!({})).await;
    let body = json!({"message": "Say done"});
    let path = format!("{context}/messages");
    let mut turn = server.client.stream("POST", &path, &[], Some(&body)).await;
    turn.wait_for_run_event("agent_started").await;
    let guided = server
        .client
        .post(&path, &json!({"message": "Say it twice"}))
        .await;
    assert_eq!(guided.with_status(200)["state"], "accepted");
    gate.open();
    turn.wait_for_run_event("run_finished").await;
    server.stop().await;
}

#[tokio::test]
async fn host_3_lists_have_a_length_from_1_to_500() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let context = server.begin_conversation(&json!({})).await;
    for path in ["/v1/runs?limit=", "/context?limit=", &format!("{context}?turns=")] {
        for (length, status) in [("0", 400), ("501", 400), ("-1", 400), ("1", 200), ("500", 200)] {
            let reply = server.client.get(&format!("{path}{length}")).await;
            assert_eq!(reply.status, status, "{path}{length}: {reply:?}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn host_8_a_server_that_stops_tells_its_streams_and_leaves_runs_resumable() {
    let model = Scripted::new().lead([says("Done.").behind(&Gate::shut())]);
    let mut server = TestServer::start(Stage::new(), model).await;
    let run = server.start_run(&json!({"goal": "Say done"})).await;
    let mut events = server
        .client
        .stream("GET", &format!("{run}/events"), &[], None)
        .await;
    events.wait_for_run_event("agent_started").await;
    server.begin_to_stop();
    let last = events.rest().await.pop().unwrap();
    assert_eq!(
        (last.name.as_str(), &last.data),
        ("end", &json!({"reason": "shutting_down"}))
    );
    let stage = server.stopped().await;

    // A new server finds the run, and goes on with it.
    let server = TestServer::start(stage, Scripted::new().lead([says("Done.")])).await;
    assert_eq!(server.client.get(&run).await.json()["state"], "interrupted");
    server
        .client
        .post_nothing(&format!("{run}/resume"))
        .await
        .with_status(202);
    server.until_ended(&run).await;
    let ended = server.client.get(&run).await.json();
    assert_eq!(
        (&ended["state"], &ended["report"]["summary"]),
        (&json!("goal_achieved"), &json!("Done."))
    );
    server.stop().await;
}

#[tokio::test]
async fn host_8_a_client_that_waits_for_an_answer_is_told_that_the_server_stops() {
    let model = Scripted::new().lead([says("Done.").behind(&Gate::shut())]);
    let mut server = TestServer::start(Stage::new(), model.clone()).await;
    let context = server.begin_conversation(&json!({})).await;
    let client = server.client.clone();
    let path = format!("{context}/messages");
    let waiting = tokio::spawn(async move { client.post(&path, &json!({"message": "Say done"})).await });
    model.until_asked().await;
    server.begin_to_stop();
    let told = waiting.await.unwrap();
    assert_eq!(told.problem(), (503, "shutting_down".to_owned()));
    assert_ne!(told.header("retry-after"), "");
    server.stopped().await;
}

#[tokio::test]
async fn host_3_many_slow_clients_do_not_keep_others_out() {
    let change = limited(|limits| {
        limits.header_time = Duration::from_millis(200);
        limits.connections = 8;
    });
    let server = TestServer::with_options(Stage::new(), OfflineModel, change).await;
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut client = TcpStream::connect(server.client.address).await.unwrap();
        client.write_all(b"GET /health HTTP/1.1\r\nho").await.unwrap();
        slow.push(client);
    }
    server.client.get("/health").await.with_status(200);
    server.stop().await;
}

#[tokio::test]
async fn host_3_a_thousand_idle_streams_do_not_disturb_the_server_or_its_runs() {
    const STREAMS: usize = 1_000;
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let raised = rustix::process::Rlimit {
        current: most,
        maximum: most,
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let change = limited(|limits| {
        limits.requests = STREAMS + 1;
        limits.connections = STREAMS + 10;
    });
    let gate = Gate::shut();
    let model = Scripted::new().lead([says("Done.").behind(&gate)]);
    let server = TestServer::with_options(Stage::new(), model, change).await;
    let run = server.start_run(&json!({"goal": "Say done"})).await;
    let events = format!("{run}/events");
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let stream = server.client.stream("GET", &events, &[], None).await;
        assert_eq!(stream.status, 200);
        streams.push(stream);
    }
    server.client.get("/health").await.with_status(200);
    gate.open();
    for stream in &mut streams {
        let finished = stream.wait_for_run_event("run_finished").await;
        assert_eq!(finished.data["summary"], "Done.");
    }
    server.stop().await;
}

/// The bytes that buffers between client and server may hold at most.
const BUFFERS: usize = 32 << 20;

#[tokio::test]
async fn host_3_a_body_without_end_is_read_up_to_the_limit_and_its_connection_closed() {
    let change = limited(|limits| limits.body_bytes = 1 << 20);
    let server = TestServer::with_options(Stage::new(), OfflineModel, change).await;
    for path in ["/v1/runs", "/v1/chat/completions", "/mcp"] {
        let head = server.client.request(
            "POST",
            path,
            &[
                ("transfer-encoding", "chunked"),
                ("content-type", "application/json"),
                ("content-length", ""),
            ],
            None,
        );
        let head = String::from_utf8(head).unwrap();
        // A client that wants to keep the connection is cut off as well.
        let head = head
            .replace("content-length: \r\n", "")
            .replace("connection: close\r\n", "");
        let stream = TcpStream::connect(server.client.address).await.unwrap();
        let (mut reading, mut writing) = stream.into_split();
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        let sending = tokio::spawn(async move {
            let mut sent = 0;
            writing.write_all(head.as_bytes()).await.unwrap();
            // 1 GiB, unless the server closes the connection before.
            while sent < 1 << 30 && writing.write_all(chunk.as_bytes()).await.is_ok() {
                sent += chunk.len();
            }
            sent
        });
        let mut received = Vec::new();
        // The connection may be reset, as the client still sends.
        let _ = reading.read_to_end(&mut received).await;
        let received = String::from_utf8_lossy(&received).into_owned();
        assert!(received.starts_with("HTTP/1.1 413 "), "{path}: {received}");
        let limit = if path == "/v1/chat/completions" {
            32 << 20
        } else {
            1 << 20
        };
        let sent = sending.await.unwrap();
        assert!(sent <= limit + BUFFERS, "{path}: {sent}");
    }
    assert_eq!(server.client.get("/v1/runs").await.json()["total"], 0);
    server.stop().await;
}

//! Holding answers, clients that go away, and the server's own end.

use std::time::Duration;

use dirigent_model_server::{Gate, ModelServer, Script, Turn};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::socket::{asking, open, post, read_until, streaming};

async fn server_with(turn: Turn) -> ModelServer {
    ModelServer::start(Script::turns([turn])).await.unwrap()
}

#[tokio::test]
async fn headers_wait_for_the_gate() {
    let gate = Gate::new();
    let server = server_with(Turn::text("Hi").wait_before_headers(&gate)).await;

    let mut socket = open(&server, "application/json", &asking("Hi").to_string()).await;
    server.wait_for_requests(1).await;
    let early = socket.try_read(&mut [0; 16]).unwrap_err();
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);

    gate.open();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"));
    assert!(server.hang_ups().is_empty());
}

#[tokio::test]
async fn a_body_stops_after_its_first_part_until_the_gate_opens() {
    for (body, first, last) in [
        (
            streaming(asking("Hi")),
            "\"delta\":{\"role\":\"assistant\"",
            "[DONE]",
        ),
        (asking("Hi"), "chatcmpl-1", "total_tokens"),
    ] {
        let gate = Gate::new();
        let server = server_with(Turn::text("Hi").wait_in_body(&gate)).await;

        let mut socket = open(&server, "application/json", &body.to_string()).await;
        let mut read = String::new();
        read_until(&mut socket, &mut read, first).await;
        assert!(!read.contains(last));

        gate.open();
        read_until(&mut socket, &mut read, last).await;
    }
}

#[tokio::test]
async fn delays_only_delay() {
    let turn = Turn::text("Hi")
        .wait_before_headers(Duration::from_millis(1))
        .wait_in_body(Duration::from_millis(1));
    let server = server_with(turn).await;
    let answer = post(&server, &streaming(asking("Hi"))).await.unwrap();
    assert_eq!(answer.streamed_text(), "Hi");
    assert!(answer.complete);
}

#[tokio::test]
async fn a_client_that_goes_away_is_seen_before_the_headers_and_in_the_body() {
    let gate = Gate::new();
    let turns = [
        Turn::text("Hi").wait_before_headers(&gate),
        Turn::text("Hi").wait_in_body(&gate),
        Turn::text("Hi"),
    ];
    let server = ModelServer::start(Script::turns(turns)).await.unwrap();
    let body = streaming(asking("Hi")).to_string();

    let socket = open(&server, "application/json", &body).await;
    server.wait_for_requests(1).await;
    drop(socket);
    assert_eq!(server.wait_for_hang_ups(1).await, [1]);

    let mut socket = open(&server, "application/json", &body).await;
    read_until(&mut socket, &mut String::new(), "assistant").await;
    drop(socket);
    assert_eq!(server.wait_for_hang_ups(2).await, [1, 2]);

    assert!(post(&server, &streaming(asking("Hi"))).await.unwrap().complete);
    assert_eq!(
        server.hang_ups(),
        [1, 2],
        "an answer read to its end is no hang-up"
    );
}

#[tokio::test]
async fn the_server_ends_with_its_handle_and_takes_connections_along() {
    let gate = Gate::new();
    let server = server_with(Turn::text("Hi").wait_before_headers(&gate)).await;
    let mut socket = open(&server, "application/json", &asking("Hi").to_string()).await;
    server.wait_for_requests(1).await;

    drop(server);
    let mut answer = Vec::new();
    // The connection ends or is reset; either way without an answer.
    let _ = socket.read_to_end(&mut answer).await;
    assert_eq!(answer, b"");

    // Its port is free again, unless it was at once given to somebody else, which does not happen every time.
    let mut free_again = false;
    for _ in 0..10 {
        let server = server_with(Turn::text("Hi")).await;
        let address = server.address();
        assert!(address.ip().is_loopback());
        server.stop().await;
        free_again |= TcpListener::bind(address).await.is_ok();
    }
    assert!(free_again);
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let server = server_with(Turn::text("Hi")).await;
    let port = server.address().port();
    let error = ModelServer::start_on(port, Script::turns([])).await.unwrap_err();
    assert_eq!(error.port, port);
    assert!(
        error
            .to_string()
            .starts_with(&format!("cannot listen on 127.0.0.1:{port}: "))
    );
}

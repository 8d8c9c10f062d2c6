//! The servers as a client sees them: refused requests, the turn that answers each request, and what happens on the socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_model_server::{
    Fault, Flaw, Gate, HttpAnswer, HttpServer, Matcher, ModelServer, Reply, Rule, Script, Turn,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends a request and leaves the connection open.
async fn open(url: &str, body: &str) -> TcpStream {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut socket = TcpStream::connect(host).await.unwrap();
    let length = body.len();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

/// Returns the whole response to a request.
async fn post(url: &str, body: &str) -> String {
    let mut bytes = Vec::new();
    open(url, body).await.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the response to a chat request.
async fn ask(server: &ModelServer, body: &Value) -> String {
    post(&format!("{}/chat/completions", server.url()), &body.to_string()).await
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn says(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

fn calls(ids: &[&str]) -> Value {
    let function = json!({ "name": "read", "arguments": "{}" });
    let call = |id: &&str| json!({ "id": id, "type": "function", "function": function });
    let calls: Vec<Value> = ids.iter().map(call).collect();
    json!({ "role": "assistant", "content": null, "tool_calls": calls })
}

fn result(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "done" })
}

fn named_result(tool: &str) -> Value {
    json!({ "role": "tool", "name": tool, "content": "done" })
}

fn asking(messages: &[Value]) -> Value {
    json!({ "model": "m", "messages": messages })
}

fn with(field: &str, value: Value) -> Value {
    let mut body = asking(&[user("Hi")]);
    body[field] = value;
    body
}

#[tokio::test]
async fn a_request_that_breaks_a_rule_is_refused_with_the_place_and_the_reason() {
    let hi = || user("Hi");
    let two = r#"{"tool": "read"} {"tool": "find"}"#;
    let bad_call = json!({ "id": "", "type": "tool", "function": { "name": "a b", "arguments": {} } });
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "parameters": {} } });
    let rows = [
        // Native calls and their results.
        (
            asking(&[hi(), calls(&["a", "b"]), result("b"), result("a"), hi()]),
            "",
        ),
        (
            asking(&[hi(), calls(&["a"])]),
            "messages: the tool call `a` has no result",
        ),
        (
            asking(&[hi(), calls(&["a"]), hi()]),
            "messages[2]: the tool call `a` has no result",
        ),
        (
            asking(&[hi(), result("a")]),
            "messages[1].tool_call_id: no preceding assistant message has a call `a`",
        ),
        (
            asking(&[hi(), calls(&["a"]), result("a"), result("a")]),
            "messages[3].tool_call_id: the call `a` already has a result",
        ),
        (
            asking(&[hi(), calls(&["a"]), result("a"), calls(&["a"]), result("a")]),
            "messages[3].tool_calls[0].id: there are two",
        ),
        (
            asking(&[hi(), json!({ "role": "assistant", "tool_calls": [bad_call] })]),
            "messages[1].tool_calls[0].type: `type` must be",
        ),
        // Calls in the text, whose results have the tool's name.
        (
            asking(&[
                hi(),
                says(two),
                named_result("find"),
                named_result("read"),
                says("Done."),
            ]),
            "",
        ),
        (asking(&[hi(), says(two), user("One call at a time.")]), ""),
        (
            asking(&[hi(), says("{'tool': 'read'}"), named_result("read")]),
            "",
        ),
        (
            asking(&[hi(), says("Done."), named_result("read")]),
            "messages[2].name: the preceding assistant message does not call `read`",
        ),
        (
            asking(&[hi(), says(two), named_result("read"), hi()]),
            "messages[3]: the call of `find` has no result",
        ),
        (
            asking(&[hi(), says(two), named_result("read"), named_result("read")]),
            "messages[3].name: every call of `read` already has",
        ),
        (
            asking(&[
                hi(),
                says(two),
                user("Result of read:\n{}\n\nResult of find:\n{}"),
            ]),
            "",
        ),
        (
            asking(&[hi(), says("Done."), user("Result of read:\n{}")]),
            "messages[2].content: the preceding assistant message does",
        ),
        // Roles and contents.
        (asking(&[hi(), hi()]), "messages[1].role: `user` follows `user`"),
        (
            asking(&[hi(), json!({ "role": "system", "content": "x" })]),
            "messages[1].role: system messages must come first",
        ),
        (
            asking(&[hi(), json!({ "role": "robot", "content": "x" })]),
            "messages[1].role: \"robot\" is not a role",
        ),
        (
            asking(&[json!({ "role": "user", "content": null })]),
            "messages[0].content: `content` must be",
        ),
        (
            asking(&[json!({ "role": "user", "content": [{ "type": "text" }] })]),
            "messages[0].content[0]: a part of the content",
        ),
        // Options.
        (json!([]), "the body is not a JSON object"),
        (with("model", json!("")), "model: `model` must be a name"),
        (
            with("messages", json!([])),
            "messages: `messages` must be a non-empty list",
        ),
        (with("stream", json!("yes")), "stream: `stream` must be a boolean"),
        (
            with("stream_options", json!({})),
            "stream_options: `stream_options` is only allowed",
        ),
        (
            with("tool_choice", json!("auto")),
            "tool_choice: `tool_choice` is only allowed with `tools`",
        ),
        (with("tools", json!([tool("read"), tool("find")])), ""),
        (
            with("tools", json!([tool("read"), tool("read")])),
            "tools[1].function.name: there are two tools named `read`",
        ),
        (
            with("tools", json!([tool("a b")])),
            "tools[0].function.name: \"a b\" is not a valid tool name",
        ),
    ];
    for (body, reason) in rows {
        let server = ModelServer::start(Script::from_fn(|_| Turn::text("Fine.")))
            .await
            .unwrap();
        let response = ask(&server, &body).await;
        let violations = server.violations();
        if reason.is_empty() {
            assert_eq!(violations, [], "{body}");
            assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        } else {
            let first = violations[0].to_string();
            let place = first
                .trim_start_matches("request 1")
                .trim_start_matches([',', ':', ' ']);
            assert!(place.starts_with(reason), "{body}: {first}");
            assert!(response.starts_with("HTTP/1.1 400"), "{response}");
        }
    }
}

#[tokio::test]
async fn each_conversation_goes_through_the_rules_and_each_attempt_gets_the_next_turn() {
    let server = ModelServer::start(Script::rules([
        Rule::always(Matcher::user("again").and_turn(2), Turn::text("repeated")),
        Rule::always(
            Matcher::user("C").and_attempt(1),
            Fault::Status(502, "Bad gateway.").into(),
        ),
        Rule::new(
            Matcher::any(),
            [Fault::Status(500, "Oops.").into(), Turn::text("one")],
        ),
    ]))
    .await
    .unwrap();
    let ([a, b, c], again) = (["A", "B", "C"].map(user), user("again"));
    let further = asking(&[a.clone(), says("one"), again]);
    let first = asking(std::slice::from_ref(&a));
    for (body, expected) in [
        (first.clone(), "HTTP/1.1 500"),
        (asking(&[b]), "HTTP/1.1 500"),
        (first, "HTTP/1.1 200"),
        (further.clone(), "HTTP/1.1 200"),
        (further, "HTTP/1.1 200"),
        (asking(&[c]), "HTTP/1.1 502"),
        (asking(&[a, says("one"), user("more")]), "HTTP/1.1 400"),
    ] {
        let response = ask(&server, &body).await;
        assert!(response.starts_with(expected), "{body}: {response}");
    }
    let places = |request: &_| {
        let dirigent_model_server::Request {
            conversation,
            turn,
            attempt,
            ..
        } = request;
        (*conversation, *turn, *attempt)
    };
    let places: Vec<_> = server.requests().iter().map(|request| places(request)).collect();
    let expected = [
        (1, 1, 1),
        (2, 1, 1),
        (1, 1, 2),
        (1, 2, 1),
        (1, 2, 2),
        (3, 1, 1),
        (1, 3, 1),
    ];
    assert_eq!(places, expected);
    assert_eq!(
        server.violations()[0].to_string(),
        "request 7: the script has no turn for request 3 of conversation 1 (attempt 1)"
    );
}

#[tokio::test]
async fn a_script_can_delay_cut_or_close_a_connection() {
    let gate = Gate::new();
    let reply = || Reply::text("Once upon a time");
    let server = ModelServer::start(Script::turns([
        Fault::ClosedBeforeHeaders.into(),
        reply().with_flaw(Flaw::CutBetweenEvents).into(),
        Turn::from(reply()).wait_before_headers(&gate),
        Turn::from(reply()).wait_in_body(&gate),
        reply().into(),
    ]))
    .await
    .unwrap();
    let mut body = asking(&[user("Hi")]);
    body["stream"] = true.into();
    let (url, text) = (format!("{}/chat/completions", server.url()), body.to_string());

    assert_eq!(ask(&server, &body).await, "");

    let cut = ask(&server, &body).await;
    assert!(cut.contains("upo") && cut.ends_with("\n\n\r\n"), "{cut}");

    let held = open(&url, &text).await;
    server.wait_for_requests(3).await;
    assert!(held.try_read(&mut [0; 16]).is_err(), "nothing was sent yet");
    drop(held);
    server.wait_for_hang_ups(1).await;

    let mut stalled = open(&url, &text).await;
    let mut read = String::new();
    while !read.contains("assistant") {
        let mut bytes = Vec::new();
        stalled.read_buf(&mut bytes).await.unwrap();
        read.push_str(&String::from_utf8(bytes).unwrap());
    }
    assert!(!read.contains("Once"), "{read}");
    gate.open();
    stalled.read_to_string(&mut read).await.unwrap();
    assert!(read.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{read}");

    drop(server);
    assert!(
        TcpStream::connect(url[7..].split_once('/').unwrap().0)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn canned_answers_come_in_order_byte_by_byte() {
    let answers = [
        HttpAnswer::new("418 Tea", &["x: y"], "hello"),
        HttpAnswer::stream("hello").in_chunks(&[3, 1]),
    ];
    let server = HttpServer::start(answers).await.unwrap();
    let url = server.url("/a?b");

    assert_eq!(
        post(&url, "1").await,
        "HTTP/1.1 418 Tea\r\nconnection: close\r\nx: y\r\n\r\nhello"
    );
    let chunks = post(&url, "2").await;
    assert!(
        chunks.ends_with("\r\n\r\n3\r\nhel\r\n1\r\nl\r\n1\r\no\r\n0\r\n\r\n"),
        "{chunks}"
    );
    assert_eq!(post(&url, "3").await, "");

    let requests = server.requests();
    assert_eq!(requests[1].line(), "POST /a?b HTTP/1.1");
    assert_eq!(
        (requests[1].header("CONTENT-LENGTH"), requests[1].json()),
        (Some("1"), json!(2))
    );
}

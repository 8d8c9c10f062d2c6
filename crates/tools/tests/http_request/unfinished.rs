//! Responses that are endless, late, broken off or missing, and calls that are cancelled.

use std::time::Duration;

use dirigent_core::tool::ToolResult;
use dirigent_model_server::{HttpAnswer, HttpServer, Then};
use dirigent_tools::{HttpRules, Tool, http_request};
use serde_json::{Value, json};

use super::{answer, call, failure, get, got, parts, rules, serve};
use crate::folder::{Folder, error};

/// Rules with a timeout that expires only in [`out_of_time`].
fn impatient(server: &HttpServer) -> HttpRules {
    HttpRules {
        timeout: Duration::from_secs(600),
        ..rules(&[server])
    }
}

/// Returns the result of a call whose timeout expires once `is_far` returns true.
async fn out_of_time(rules: &HttpRules, parameters: Value, is_far: impl Fn() -> bool) -> ToolResult {
    let passing = async {
        while !is_far() {
            tokio::task::yield_now().await;
        }
        let stopped = StoppedClock::new();
        tokio::time::advance(rules.timeout).await;
        drop(stopped);
        std::future::pending().await
    };
    tokio::select! {
        result = call(rules, parameters) => result,
        never = passing => never,
    }
}

/// Pauses the clock until dropped, even if the call ends before the clock has advanced.
struct StoppedClock;

impl StoppedClock {
    fn new() -> Self {
        tokio::time::pause();
        StoppedClock
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

/// An endless response of plain text.
fn endless(piece: &'static [u8]) -> HttpAnswer {
    answer("200 OK", &["content-type: text/plain"], b"").then(Then::Repeat(piece))
}

#[tokio::test]
async fn an_endless_body_is_cut() {
    let result = got(|| endless(&[b'x'; 1000])).await;
    assert_eq!(
        result["notes"],
        json!(["Note: the body is incomplete: 524288 bytes of it were read"])
    );
}

#[tokio::test]
async fn an_endless_body_ends_at_the_call_timeout() {
    let server = serve(|_| endless(&[b'x'; 16 * 1024])).await;
    let rules = HttpRules {
        max_bytes: u64::MAX,
        ..impatient(&server)
    };
    let parameters = json!({"method": "GET", "url": server.url("/")});
    // More than the buffers between server and client can hold: some of it has been read.
    let result = out_of_time(&rules, parameters, || server.repeated() > 16 * 1024 * 1024).await;
    let (code, error, output) = failure(&result);
    assert_eq!((code, error), ("timed_out", "no complete response within 600s"));
    assert!(output.as_str().unwrap().starts_with("200 OK "));
    assert!(output.as_str().unwrap().contains("\n\nxxx"));
}

#[tokio::test]
async fn a_request_without_an_answer_may_have_reached_the_server() {
    let server = serve(|_| HttpAnswer::silence()).await;
    let rules = impatient(&server);
    let look = json!({"method": "GET", "url": server.url("/")});
    let looked = out_of_time(&rules, look, || server.requests().len() == 1).await;
    assert_eq!(error(looked), "no complete response within 600s");
    let post = json!({"method": "POST", "url": server.url("/"), "body": "x"});
    let result = out_of_time(&rules, post, || server.requests().len() == 2).await;
    let expected = "no complete response within 600s; the POST request may have arrived anyway: check before you send it again";
    assert_eq!(failure(&result), ("timed_out", expected, &Value::Null));
    assert_eq!(result.changes, []);
}

#[tokio::test]
async fn endless_headers_are_not_stored() {
    let many = serve(|_| HttpAnswer::raw("HTTP/1.1 200 OK\r\n").then(Then::Repeat(b"a: b\r\n"))).await;
    let result = get(&rules(&[&many]), &many.url("/")).await;
    assert_eq!(failure(&result).0, "unreachable");
    let long = serve(|_| HttpAnswer::raw("HTTP/1.1 200 OK\r\na: ").then(Then::Repeat(&[b'x'; 1000]))).await;
    let result = get(&rules(&[&long]), &long.url("/")).await;
    assert_eq!(failure(&result).0, "unreachable");
    let length = "a".repeat(5000);
    let result = got(move || answer("200 OK", &[&format!("x-long: {length}")], b"")).await;
    assert_eq!(result["headers"]["x-long"], format!("{}…", "a".repeat(500)));
}

#[tokio::test]
async fn the_received_part_of_an_interrupted_response_is_shown() {
    let headers = ["content-type: text/plain", "content-length: 10"];
    let server = serve(move |_| answer("200 OK", &headers, b"half")).await;
    let result = get(&rules(&[&server]), &server.url("/")).await;
    let (code, error, output) = failure(&result);
    assert_eq!(code, "unreachable");
    assert!(
        error.starts_with("the response broke off after 4 bytes: "),
        "{error}"
    );
    let output = parts(output.as_str().unwrap());
    assert_eq!(output["body"], "half");
    assert_eq!(
        output["notes"],
        json!(["Note: the body is incomplete: 4 bytes of it were read"])
    );
    for said in ["", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 999999 X\r\n\r\n"] {
        let server = serve(move |_| HttpAnswer::raw(said)).await;
        let result = get(&rules(&[&server]), &server.url("/")).await;
        assert_eq!(failure(&result).0, "unreachable", "{said}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_unreachable_and_reports_no_sent_request() {
    // The socket stays bound, so that no other process can listen on the port, but does not listen itself.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let rules = HttpRules {
        allow: vec!["127.0.0.1".to_owned()],
        ..HttpRules::default()
    };
    let post = json!({"method": "POST", "url": format!("http://127.0.0.1:{port}/"), "body": "x"});
    let result = call(&rules, post).await;
    let (code, error, _) = failure(&result);
    assert_eq!(code, "unreachable");
    assert!(!error.contains("may have arrived"), "{error}");
}

#[tokio::test]
async fn a_cancelled_call_ends() {
    let server = serve(|_| HttpAnswer::silence()).await;
    let folder = Folder::with(&[]);
    let context = folder.context();
    let cancel = context.cancel.clone();
    let tool = http_request(&rules(&[&server]));
    let call = tokio::spawn(tool.call(context, json!({"method": "GET", "url": server.url("/")})));
    server.wait_for_requests(1).await;
    cancel.cancel();
    assert_eq!(failure(&call.await.unwrap()).0, "cancelled");
}

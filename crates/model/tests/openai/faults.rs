//! The outcome of each fault, compared with the table in the documentation of `dirigent_model::openai`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use dirigent_core::message::{FinishReason, ModelFailure, ModelFailureKind, ModelReply};
use dirigent_model::openai::{Delivery, OpenAiModel, OpenAiOptions};
use dirigent_model::{ChatModel, HttpClient, Timeouts};
use dirigent_model_server::{HttpAnswer, HttpServer, Then};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use super::server::{request, serve};

const DOCUMENTED: &str = include_str!("../../src/openai/faults.md");

type Reply = Result<ModelReply, ModelFailure>;

/// The source of a fault.
enum Fault {
    /// A response, depending on how the reply is delivered.
    Answer(fn(Delivery) -> HttpAnswer),
    /// The address of the server.
    Address(String),
    /// Bytes sent instead of a TLS handshake.
    Handshake(&'static [u8]),
}

/// The outcome of a request, in the words of the table.
fn outcome(reply: Reply) -> String {
    match reply {
        Ok(reply) => {
            let finish = match reply.finish {
                FinishReason::Stop => "reply",
                FinishReason::ToolCalls => "reply with calls",
                FinishReason::Length => "reply cut for length",
                FinishReason::Interrupted => "interrupted reply",
                FinishReason::Filtered => "filtered reply",
                FinishReason::Oversized => "oversized reply",
            };
            let calls = reply
                .calls
                .iter()
                .map(|call| format!("{} {}", call.id, call.tool));
            let calls: Vec<String> = calls.collect();
            match calls.as_slice() {
                [] => finish.to_owned(),
                calls => format!("{finish}: {}", calls.join(", ")),
            }
        }
        Err(failure) => match failure.kind {
            ModelFailureKind::Unavailable { retry_after: None } => "`Unavailable`".to_owned(),
            ModelFailureKind::Unavailable {
                retry_after: Some(wait),
            } => format!("`Unavailable`, after {wait}"),
            kind => format!("`{kind:?}`"),
        },
    }
}

/// The name of a fault in the table, and its response.
type Named = (&'static str, fn(Delivery) -> HttpAnswer);

/// Where a fault makes the client wait.
#[derive(Clone, Copy)]
enum Hangs {
    Nowhere,
    Before,
    Within,
    After,
}

/// Timeouts that are short only where the client waits in vain, so that a busy machine causes no other timeouts.
fn timeouts(hangs: Hangs, delivery: Delivery) -> Timeouts {
    let soon = Duration::from_millis(50);
    let default = Timeouts::default();
    match (hangs, delivery) {
        (Hangs::Nowhere, _) | (Hangs::After, Delivery::Whole) => default,
        (Hangs::Before, Delivery::Streamed) => Timeouts {
            first: soon,
            ..default
        },
        (Hangs::Within | Hangs::After, Delivery::Streamed) => Timeouts {
            between: soon,
            ..default
        },
        (Hangs::Before | Hangs::Within, Delivery::Whole) => Timeouts {
            total: soon,
            ..default
        },
    }
}

async fn ends_in(client: &HttpClient, fault: &Fault, hangs: Hangs, delivery: Delivery) -> String {
    let server;
    let base_url = match fault {
        Fault::Answer(answer) => {
            server = serve([answer(delivery)]).await;
            server.url("/v1")
        }
        Fault::Address(address) => address.clone(),
        Fault::Handshake(bytes) => {
            server = HttpServer::greeting(bytes).await.unwrap();
            server.url("/v1").replace("http:", "https:")
        }
    };
    let options = OpenAiOptions {
        delivery,
        timeouts: timeouts(hangs, delivery),
        ..OpenAiOptions::new(base_url, "m")
    };
    let model = OpenAiModel::with_client(options, client).unwrap();
    outcome(model.chat(request()).await)
}

const NO_HEADERS: &str = "no headers in time";
const ONLY_COMMENTS: &str = "endless comments (in one piece: white space)";
const COMMENTS_WITHIN: &str = "endless comments after the reply began";
const SILENCE_WITHIN: &str = "silence after the reply began";
const STAYS_OPEN: &str = "the reply is complete, and the connection stays open";

const HELLO: &str = r#"{"choices": [{"index": 0, "delta": {"content": "Hel"}}]}"#;
const THE_END: &str = r#"{"choices": [{"index": 0, "delta": {"content": "lö"}, "finish_reason": "stop"}]}"#;

fn refusal(status: &str, message: &str) -> HttpAnswer {
    HttpAnswer::json(status, json!({"error": {"message": message}}).to_string())
}

fn limited(retry_after: &str) -> HttpAnswer {
    HttpAnswer::new(
        "429 Too Many Requests",
        &[&format!("retry-after: {retry_after}")],
        "slow down",
    )
}

/// A reply with these choices, in one event or in one piece.
fn choices(delivery: Delivery, said: &Value, finish_reasons: &[Value]) -> HttpAnswer {
    match delivery {
        Delivery::Whole => {
            let finish = finish_reasons.first();
            let reply = json!({"choices": [{"message": said, "finish_reason": finish}]});
            HttpAnswer::json("200 OK", reply.to_string())
        }
        Delivery::Streamed => {
            let first = json!({"choices": [{"delta": said}]}).to_string();
            let ends = finish_reasons
                .iter()
                .map(|finish| json!({"choices": [{"delta": {}, "finish_reason": finish}]}).to_string());
            let events: Vec<String> = [first]
                .into_iter()
                .chain(ends)
                .chain(["[DONE]".to_owned()])
                .collect();
            HttpAnswer::events(&events.iter().map(String::as_str).collect::<Vec<_>>())
        }
    }
}

fn call(index: u64, id: &str) -> Value {
    json!({"index": index, "id": id, "function": {"name": "look", "arguments": "{}"}})
}

/// The reply `Hellö` without this many bytes at its end.
fn cut(delivery: Delivery, bytes: usize) -> HttpAnswer {
    match delivery {
        Delivery::Streamed => {
            let body = format!("data: {HELLO}\n\ndata: {THE_END}\n\n");
            HttpAnswer::stream(&body.as_bytes()[..body.len() - bytes])
        }
        Delivery::Whole => {
            let body =
                json!({"choices": [{"finish_reason": "stop", "message": {"content": "Hellö"}}]}).to_string();
            HttpAnswer::json("200 OK", &body.as_bytes()[..body.len() - bytes])
        }
    }
}

fn said(text: &str) -> Value {
    json!({"content": text})
}

fn error_in_the_reply(delivery: Delivery, begun: bool, error: &str) -> HttpAnswer {
    match delivery {
        Delivery::Streamed if begun => HttpAnswer::events(&[HELLO, error]),
        Delivery::Streamed => HttpAnswer::events(&[error]),
        Delivery::Whole => HttpAnswer::json("200 OK", error),
    }
}

/// All faults, with their names in the table.
#[rustfmt::skip]
fn faults() -> Vec<(&'static str, Fault, Hangs)> {
    let answers: Vec<Named> = vec![
        ("300 to 399; no redirect is followed", |_| HttpAnswer::new("307 Moved", &["location: https://elsewhere.example/v1"], "")),
        ("400", |_| refusal("400 Bad Request", "temperature is odd")),
        ("400, the conversation is too long (in any wording)", |_| refusal("400 Bad Request", "maximum context length is 10")),
        ("400, code `model_not_found`", |_| HttpAnswer::json("400 Bad Request", r#"{"error": {"code": "model_not_found"}}"#)),
        ("401", |_| refusal("401 Unauthorized", "bad key")),
        ("402", |_| refusal("402 Payment Required", "pay")),
        ("403", |_| refusal("403 Forbidden", "not you")),
        ("404", |_| refusal("404 Not Found", "no such model")),
        ("408", |_| refusal("408 Request Timeout", "too slow")),
        ("409", |_| refusal("409 Conflict", "busy")),
        ("413", |_| refusal("413 Payload Too Large", "too large")),
        ("422", |_| refusal("422 Unprocessable Entity", "odd")),
        ("429", |_| refusal("429 Too Many Requests", "slow down")),
        ("429, `Retry-After` in seconds", |_| limited("7")),
        ("429, `Retry-After` is a date (here in the past)", |_| limited("Thu, 01 Jan 1970 00:00:00 GMT")),
        ("429, `Retry-After` is invalid", |_| limited("soon")),
        ("429, `Retry-After` is longer than a day", |_| limited("99999999999")),
        ("429, the account is empty (`insufficient_quota`)", |_| HttpAnswer::json("429 Too Many Requests", r#"{"error": {"code": "insufficient_quota"}}"#)),
        ("429, the request alone exceeds the limit of tokens per minute", |_| refusal("429 Too Many Requests", "Request too large for m")),
        ("500", |_| refusal("500 Internal Server Error", "oops")),
        ("500, the conversation is too long", |_| refusal("500 Internal Server Error", "the prompt is too long")),
        ("502", |_| HttpAnswer::new("502 Bad Gateway", &["content-type: text/html"], "<html>")),
        ("503, `Retry-After` in seconds", |_| HttpAnswer::new("503 Service Unavailable", &["retry-after: 2"], "")),
        ("504", |_| HttpAnswer::new("504 Gateway Timeout", &[], "")),
        ("529", |_| refusal("529 Overloaded", "overloaded")),
        ("the connection is reset before a response", |_| HttpAnswer::silence().then(Then::Reset)),
        ("the connection closes before a response", |_| HttpAnswer::silence().then(Then::Close)),
        (NO_HEADERS, |_| HttpAnswer::silence()),
        ("a web page (`text/html`)", |_| HttpAnswer::new("200 OK", &["content-type: text/html"], "<html>Log in</html>")),
        ("an unexpected content type", |delivery| match delivery {
            Delivery::Streamed => HttpAnswer::new("200 OK", &["content-type: text/plain"], format!("data: {HELLO}\n\ndata: {THE_END}\n\n")),
            Delivery::Whole => HttpAnswer::new("200 OK", &["content-type: text/plain"], r#"{"choices": [{"message": {"content": "Hellö"}}]}"#),
        }),
        ("an empty body", |_| HttpAnswer::new("200 OK", &[], "")),
        ("garbage in place of a reply", |delivery| match delivery {
            Delivery::Streamed => HttpAnswer::stream("data: \u{0}garbage\n\n"),
            Delivery::Whole => HttpAnswer::json("200 OK", "\u{0}garbage"),
        }),
        ("garbage after the reply began", |delivery| match delivery {
            Delivery::Streamed => HttpAnswer::events(&[HELLO, "garbage", THE_END, "[DONE]"]),
            Delivery::Whole => HttpAnswer::json("200 OK", r#"{"choices": [{"message" garbage"#),
        }),
        (ONLY_COMMENTS, |delivery| match delivery {
            Delivery::Streamed => HttpAnswer::stream("").then(Then::Repeat(b": wait\n\n")),
            Delivery::Whole => HttpAnswer::json("200 OK", "").then(Then::Pour(b"  \n")),
        }),
        (COMMENTS_WITHIN, |delivery| match delivery {
            Delivery::Streamed => HttpAnswer::events(&[HELLO]).then(Then::Repeat(b": wait\n\n")),
            Delivery::Whole => HttpAnswer::json("200 OK", "{").then(Then::Pour(b"  \n")),
        }),
        (SILENCE_WITHIN, |delivery| match delivery {
            Delivery::Streamed => HttpAnswer::events(&[HELLO]).then(Then::Hang),
            Delivery::Whole => HttpAnswer::json("200 OK", "{").then(Then::Hang),
        }),
        ("cut in the middle of an event", |delivery| cut(delivery, 20)),
        ("cut in the middle of a character", |delivery| match delivery {
            Delivery::Streamed => cut(delivery, r#""}, "finish_reason": "stop"}]}"#.len() + 3),
            Delivery::Whole => cut(delivery, r#""}}]}"#.len() + 1),
        }),
        ("cut after the finish reason", |delivery| match delivery {
            Delivery::Streamed => HttpAnswer::stream(format!("data: {HELLO}\n\ndata: {THE_END}\n\ndata: {{\"choi")),
            Delivery::Whole => cut(delivery, 1),
        }),
        (STAYS_OPEN, |delivery| match delivery {
            Delivery::Streamed => HttpAnswer::events(&[HELLO, THE_END]).then(Then::Hang),
            Delivery::Whole => HttpAnswer::new("200 OK", &["content-length: 47"], r#"{"choices": [{"message": {"content": "Hey!"}}]}"#).then(Then::Hang),
        }),
        ("no finish reason", |delivery| choices(delivery, &said("Hey!"), &[])),
        ("two finish reasons", |delivery| choices(delivery, &said("Hey!"), &[json!("stop"), json!("end_turn")])),
        ("two finish reasons, one of them `length`", |delivery| choices(delivery, &said("Hey!"), &[json!("length"), json!("stop")])),
        ("finish reason `length`", |delivery| choices(delivery, &said("Hey!"), &[json!("length")])),
        ("finish reason `content_filter`", |delivery| choices(delivery, &said("Hey!"), &[json!("content_filter")])),
        ("calls with the finish reason `stop`", |delivery| choices(delivery, &json!({"tool_calls": [call(0, "a")]}), &[json!("stop")])),
        ("calls out of order", |delivery| choices(delivery, &json!({"tool_calls": [call(1, "b"), call(0, "a")]}), &[json!("tool_calls")])),
        ("calls without ids", |delivery| choices(delivery, &json!({"tool_calls": [call(0, ""), call(1, "")]}), &[json!("tool_calls")])),
        ("calls with equal ids", |delivery| choices(delivery, &json!({"tool_calls": [call(0, "a"), call(1, "a")]}), &[json!("tool_calls")])),
        ("a response without a reply in it", |delivery| match delivery {
            Delivery::Streamed => HttpAnswer::events(&[r#"{"choices": []}"#, "[DONE]"]),
            Delivery::Whole => HttpAnswer::json("200 OK", r#"{"choices": []}"#),
        }),
        ("an error object with status 200: overloaded", |delivery| error_in_the_reply(delivery, false, r#"{"error": {"type": "overloaded_error"}}"#)),
        ("an error object with status 200: code 401", |delivery| error_in_the_reply(delivery, false, r#"{"error": {"code": "401", "message": "bad key"}}"#)),
        ("an error object with status 200: too long", |delivery| error_in_the_reply(delivery, false, r#"{"error": {"code": "context_length_exceeded"}}"#)),
        ("an error object after the reply began", |delivery| error_in_the_reply(delivery, true, r#"{"error": {"message": "overloaded"}}"#)),
    ];
    let hangs = |name: &str| match name {
        NO_HEADERS | ONLY_COMMENTS => Hangs::Before,
        COMMENTS_WITHIN | SILENCE_WITHIN => Hangs::Within,
        STAYS_OPEN => Hangs::After,
        _ => Hangs::Nowhere,
    };
    answers.into_iter().map(|(name, answer)| (name, Fault::Answer(answer), hangs(name))).collect()
}

/// Nothing listens at `closed`.
fn addresses(closed: SocketAddr) -> [(&'static str, Fault); 5] {
    // A TLS alert: the handshake has failed.
    let alert = &[0x15, 3, 3, 0, 2, 2, 40];
    [
        (
            "the connection is refused",
            Fault::Address(format!("http://{closed}/v1")),
        ),
        (
            "the server's name is unknown",
            Fault::Address("http://nowhere.invalid/v1".to_owned()),
        ),
        (
            "the server does not speak TLS",
            Fault::Handshake(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ),
        ("the TLS handshake fails", Fault::Handshake(alert)),
        (
            "the server does not speak HTTP",
            Fault::Answer(|_| HttpAnswer::raw("SSH-2.0-x\r\n\r\n")),
        ),
    ]
}

#[tokio::test]
async fn every_fault_has_the_documented_outcome() {
    let mut found = "| fault | streamed | in one piece |\n| --- | --- | --- |\n".to_owned();
    let client = HttpClient::new(Duration::from_secs(10)).unwrap();
    // Kept bound until the end, so that no other process can listen on it.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let addresses = addresses(closed.local_addr().unwrap()).into_iter();
    let addresses = addresses.map(|(name, fault)| (name, fault, Hangs::Nowhere));
    for (name, fault, hangs) in addresses.chain(faults()) {
        let [streamed, whole] = [Delivery::Streamed, Delivery::Whole];
        let ends_in = |delivery| ends_in(&client, &fault, hangs, delivery);
        let (streamed, whole) = tokio::join!(ends_in(streamed), ends_in(whole));
        writeln!(found, "| {name} | {streamed} | {whole} |").unwrap();
    }
    assert_eq!(found, DOCUMENTED, "found:\n{found}");
}

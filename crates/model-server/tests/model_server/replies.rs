//! Good answers: the form of the API, streaming and not.

use dirigent_model_server::{FinishReason, ModelServer, Reply, Script, ToolCall, Turn, Usage};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::socket::{Answer, answer_to, asking, plain_of, post, stream_of, streaming};

fn without_time(mut value: Value) -> Value {
    assert!(value["created"].as_i64().unwrap() > 1_700_000_000);
    value.as_object_mut().unwrap().shift_remove("created");
    value
}

#[tokio::test]
async fn plain_text_is_one_chat_completion() {
    let answer = plain_of(Reply::text("Hello there")).await;

    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-request-id"), Some("req_1"));
    assert!(answer.complete);
    assert_eq!(
        without_time(answer.json()),
        json!({
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "m",
            "system_fingerprint": null,
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": "Hello there", "refusal": null },
                "logprobs": null,
                "finish_reason": "stop",
            }],
            "usage": { "prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3 },
        })
    );
}

#[tokio::test]
async fn plain_tool_calls_have_no_content_and_no_index() {
    let reply = Reply::calls([
        ToolCall::new("read_file", &json!({ "path": "a" })),
        ToolCall::raw("list", "{broken").with_id("mine"),
    ]);
    let answer = plain_of(reply).await.json();

    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(
        answer["choices"][0]["message"],
        json!({
            "role": "assistant",
            "content": null,
            "refusal": null,
            "tool_calls": [
                { "id": "call_1_0", "type": "function", "function": { "name": "read_file", "arguments": "{\"path\":\"a\"}" } },
                { "id": "mine", "type": "function", "function": { "name": "list", "arguments": "{broken" } },
            ],
        })
    );
}

#[tokio::test]
async fn a_stream_is_a_role_the_text_the_reason_and_done() {
    let answer = stream_of(Reply::text("Hello")).await;

    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    assert!(answer.complete);
    let first = answer.chunks().swap_remove(0);
    assert_eq!(
        without_time(first),
        json!({
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "model": "m",
            "system_fingerprint": null,
            "choices": [{
                "index": 0,
                "delta": { "role": "assistant", "content": "" },
                "logprobs": null,
                "finish_reason": null,
            }],
        })
    );
    assert_eq!(
        answer.deltas(),
        [
            json!({ "role": "assistant", "content": "" }),
            json!({ "content": "Hell" }),
            json!({ "content": "o" }),
            json!({}),
        ]
    );
    assert_eq!(answer.chunks()[3]["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer.events().last().unwrap(), "[DONE]");
    assert_eq!(answer.frames.len(), 5, "each event is a frame");
}

#[tokio::test]
async fn a_streamed_tool_call_starts_with_id_and_name_and_goes_on_by_index() {
    let reply =
        Reply::calls([ToolCall::raw("read", "{\"a\":1}"), ToolCall::raw("stop", "")]).with_text("So:");
    let answer = stream_of(reply).await;

    assert_eq!(
        answer.call_fragments(),
        [
            json!({ "index": 0, "id": "call_1_0", "type": "function", "function": { "name": "read", "arguments": "" } }),
            json!({ "index": 0, "function": { "arguments": "{\"a\"" } }),
            json!({ "index": 0, "function": { "arguments": ":1}" } }),
            json!({ "index": 1, "id": "call_1_1", "type": "function", "function": { "name": "stop", "arguments": "" } }),
        ]
    );
    assert_eq!(answer.streamed_text(), "So:");
    assert_eq!(
        answer.chunks().last().unwrap()["choices"][0]["finish_reason"],
        "tool_calls"
    );
}

async fn stream_with_usage(usage: Usage) -> Answer {
    let mut body = streaming(asking("Hi"));
    body["stream_options"] = json!({ "include_usage": true });
    answer_to(Reply::text("Hello").with_usage(usage), body).await
}

#[tokio::test]
async fn a_stream_tells_its_usage_last_and_only_when_asked() {
    let asked = stream_with_usage(Usage::Tokens {
        prompt: 7,
        completion: 5,
    })
    .await
    .chunks();
    let last = asked.last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(
        last["usage"],
        json!({ "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12 })
    );
    assert!(
        asked[..asked.len() - 1]
            .iter()
            .all(|chunk| chunk.get("usage") == Some(&Value::Null))
    );

    let absent = stream_with_usage(Usage::Absent).await.chunks();
    assert_eq!(absent.last().unwrap()["choices"][0]["finish_reason"], "stop");

    let unasked = stream_of(Reply::text("Hello")).await.chunks();
    assert!(unasked.iter().all(|chunk| chunk.get("usage").is_none()));
}

#[tokio::test]
async fn a_reply_gives_the_reason_that_the_script_names() {
    let reasons = [
        (FinishReason::Stop, "stop"),
        (FinishReason::Length, "length"),
        (FinishReason::ToolCalls, "tool_calls"),
        (FinishReason::ContentFilter, "content_filter"),
        (FinishReason::Other("eos".to_owned()), "eos"),
    ];
    for (reason, word) in reasons {
        let reply = Reply::text("Cut").with_finish_reason(reason);
        assert_eq!(
            plain_of(reply.clone()).await.json()["choices"][0]["finish_reason"],
            word
        );
        assert_eq!(
            stream_of(reply).await.chunks().last().unwrap()["choices"][0]["finish_reason"],
            word
        );
    }
}

async fn get(server: &ModelServer, path: &str) -> String {
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn models_are_listed_and_others_are_not_found() {
    let script = Script::from_fn(|_| Turn::text("Hi")).with_models(["large", "m"]);
    let server = ModelServer::start(script).await.unwrap();

    let list = get(&server, "/v1/models").await;
    assert!(list.ends_with(
        r#"{"object":"list","data":[{"id":"large","object":"model","created":0,"owned_by":"dirigent"},{"id":"m","object":"model","created":0,"owned_by":"dirigent"}]}"#
    ), "{list}");
    assert!(
        get(&server, "/v1/models/large")
            .await
            .contains(r#"{"id":"large","object":"model""#)
    );
    assert!(get(&server, "/v1/models/other").await.starts_with("HTTP/1.1 404"));
    assert!(get(&server, "/v2").await.contains("Invalid URL (GET /v2)"));

    let mut body = asking("Hi");
    assert_eq!(post(&server, &body).await.unwrap().status, 200);
    body["model"] = "other".into();
    let refused = post(&server, &body).await.unwrap();
    assert_eq!(refused.status, 404);
    assert_eq!(refused.json()["error"]["code"], "model_not_found");
}

#[tokio::test]
async fn a_key_is_asked_for_where_the_script_has_one() {
    let server = ModelServer::start(Script::turns([Turn::text("Hi")]).with_api_key("other-key"))
        .await
        .unwrap();
    let refused = post(&server, &asking("Hi")).await.unwrap();
    assert_eq!(
        (refused.status, refused.json()["error"]["code"].clone()),
        (401, json!("invalid_api_key"))
    );

    let server = ModelServer::start(Script::turns([Turn::text("Hi")]).with_api_key("test-key"))
        .await
        .unwrap();
    assert_eq!(post(&server, &asking("Hi")).await.unwrap().status, 200);
    let request = &server.requests()[0];
    assert_eq!(request.header("authorization"), Some("Bearer test-key"));
    assert!(
        !format!("{request:?}").contains("test-key"),
        "a key is never shown"
    );
}

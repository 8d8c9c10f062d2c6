//! How Anthropic's streams are parsed.

use std::sync::{Arc, Mutex};

use dirigent_core::message::{FinishReason, ModelFailureKind, ModelReply};
use dirigent_model::genai::{HostedApi, HostedModel};
use dirigent_model::{ChatModel, DeltaSink, Timeouts};
use dirigent_model_server::{HttpAnswer, Then};
use serde_json::{Value, json};
use std::time::Duration;

use super::server::{anthropic_stream, ask, calls, model, options, request, serve};

const ENDLESS: &[u8] = b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"again and again \"}}\n\n";

fn start() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-20260101", "content": [],
        "stop_reason": null,
        "usage": {"input_tokens": 12, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 400, "output_tokens": 1}
    }})
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn text_block(index: u64) -> Value {
    block(index, json!({"type": "text", "text": ""}))
}

fn call_block(index: u64, id: &str, name: &str) -> Value {
    block(
        index,
        json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
    )
}

fn text(index: u64, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}})
}

fn arguments(index: u64, json: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": json}})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn ping() -> Value {
    json!({"type": "ping"})
}

async fn reply(events: &[Value]) -> ModelReply {
    ask(HostedApi::Anthropic, anthropic_stream(events)).await.unwrap()
}

#[tokio::test]
async fn a_text_reply_has_its_model_and_all_tokens_sent() {
    let [delta, done] = end("end_turn");
    let events = [
        start(),
        ping(),
        text_block(0),
        text(0, "Größe: "),
        text(0, "5 €"),
        stop(0),
        delta,
        done,
    ];
    let server = serve([anthropic_stream(&events)]).await;
    let told = Arc::<Mutex<Vec<String>>>::default();
    let telling = told.clone();
    let deltas = DeltaSink::new(move |text| telling.lock().unwrap().push(text.to_owned()));
    let reply = model(&server, HostedApi::Anthropic)
        .chat(request().deltas(deltas))
        .await
        .unwrap();
    assert_eq!(reply.content, "Größe: 5 €");
    assert_eq!(*told.lock().unwrap(), ["Größe: ", "5 €"]);
    assert_eq!(reply.finish, FinishReason::Stop);
    assert_eq!(reply.model.as_deref(), Some("claude-test-20260101"));
    assert_eq!(reply.usage.model_calls, 1);
    assert_eq!(reply.usage.input_tokens, 442);
    assert_eq!(reply.usage.cached_input_tokens, 400);
    assert_eq!(reply.usage.output_tokens, 9);
}

#[tokio::test]
async fn call_2_calls_are_assembled_from_their_pieces() {
    let [delta, done] = end("tool_use");
    let events = [
        start(),
        text_block(0),
        text(0, "Let me look."),
        stop(0),
        call_block(1, "toolu_1", "look"),
        arguments(1, ""),
        arguments(1, "{\"pa"),
        arguments(1, "th\": \"ä\"}"),
        stop(1),
        call_block(2, "toolu_2", "list"),
        arguments(2, ""),
        stop(2),
        call_block(3, "toolu_3", "look"),
        arguments(3, "{\"path\": \"b\"}"),
        stop(3),
        delta,
        done,
    ];
    let reply = reply(&events).await;
    assert_eq!(reply.content, "Let me look.");
    assert_eq!(
        calls(&reply),
        [r#"look {"path":"ä"}"#, "list {}", r#"look {"path":"b"}"#]
    );
    let ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["toolu_1", "toolu_2", "toolu_3"]);
    assert_eq!(reply.finish, FinishReason::ToolCalls);
}

#[tokio::test]
async fn call_2_a_malformed_call_does_not_affect_the_other_calls() {
    let [delta, done] = end("tool_use");
    let events = [
        start(),
        call_block(0, "toolu_1", "look"),
        arguments(0, "{\"path\": \"a\"}"),
        stop(0),
        call_block(1, "toolu_2", "write"),
        arguments(1, "{\"path\": \"a\", \"text"),
        stop(1),
        call_block(2, "toolu_3", "list"),
        arguments(2, "[1]"),
        stop(2),
        delta,
        done,
    ];
    let reply = reply(&events).await;
    assert_eq!(
        calls(&reply),
        [
            r#"look {"path":"a"}"#,
            r#"! write {"path": "a", "text"#,
            "! list [1]"
        ]
    );
    assert_eq!(reply.finish, FinishReason::ToolCalls);
}

#[tokio::test]
async fn the_stop_reason_is_interpreted_and_calls_take_precedence() {
    for (reason, expected) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("tool_use", FinishReason::ToolCalls),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("refusal", FinishReason::Filtered),
        ("pause_turn", FinishReason::Interrupted),
        ("something_new", FinishReason::Interrupted),
    ] {
        let [delta, done] = end(reason);
        let events = [start(), text_block(0), text(0, "So"), stop(0), delta, done];
        assert_eq!(reply(&events).await.finish, expected, "{reason}");
    }
    let [delta, done] = end("end_turn");
    let events = [start(), call_block(0, "toolu_1", "look"), stop(0), delta, done];
    assert_eq!(reply(&events).await.finish, FinishReason::ToolCalls);
    let [delta, done] = end("refusal");
    let refused = reply(&[start(), delta, done]).await;
    assert_eq!(
        (refused.content.as_str(), refused.finish),
        ("", FinishReason::Filtered)
    );
}

#[tokio::test]
async fn thinking_is_not_part_of_the_content() {
    let [delta, done] = end("end_turn");
    let thought = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let events = [
        start(),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        thought(json!({"type": "thinking_delta", "thinking": "Hm. {\"tool\":"})),
        thought(json!({"type": "signature_delta", "signature": "c2ln"})),
        stop(0),
        block(1, json!({"type": "redacted_thinking", "data": "c2VjcmV0"})),
        stop(1),
        text_block(2),
        text(2, "Yes."),
        stop(2),
        delta,
        done,
    ];
    let reply = reply(&events).await;
    assert_eq!(
        (reply.content.as_str(), reply.finish),
        ("Yes.", FinishReason::Stop)
    );
}

#[tokio::test]
async fn call_7_a_reply_whose_stream_breaks_off_is_interrupted() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let [delta, _] = end("end_turn");
    let call = [call_block(1, "toolu_1", "look"), arguments(1, "{\"path\"")];
    let begun = [start(), text_block(0), text(0, "Hello")];
    for rest in [
        vec![],
        vec![stop(0), delta],
        [vec![stop(0)], call.to_vec()].concat(),
        vec![error],
        vec![json!({"type": "content_block_delta", "index": 0, "delta": {"type": "surprise"}})],
    ] {
        let events = [begun.to_vec(), rest].concat();
        let reply = reply(&events).await;
        assert_eq!(
            (reply.content.as_str(), reply.finish),
            ("Hello", FinishReason::Interrupted),
            "{events:?}"
        );
        // The text of the request: "Be brief." and "Hello?".
        assert_eq!(reply.usage.input_tokens, 13);
        assert_eq!(reply.usage.estimated_calls, 1);
        assert!(reply.usage.output_tokens > 0);
    }
}

#[tokio::test]
async fn call_7_overlapping_blocks_interrupt_the_reply() {
    let [delta, done] = end("tool_use");
    let events = [
        start(),
        call_block(0, "toolu_1", "delete"),
        call_block(1, "toolu_2", "look"),
        arguments(0, "{\"path\": \"a\"}"),
        stop(0),
        stop(1),
        delta,
        done,
    ];
    assert_eq!(reply(&events).await.finish, FinishReason::Interrupted);
}

#[tokio::test]
async fn call_7_an_unreadable_event_interrupts_the_reply() {
    let [delta, done] = end("end_turn");
    let event = |data: &Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    let nameless = format!("data: {}\n\n", text(0, "not "));
    let stream: String = [
        event(&start()),
        event(&text_block(0)),
        event(&text(0, "Do ")),
        nameless,
        event(&text(0, "go on.")),
        event(&stop(0)),
        event(&delta),
        event(&done),
    ]
    .concat();
    let reply = ask(HostedApi::Anthropic, HttpAnswer::stream(stream))
        .await
        .unwrap();
    assert_eq!(reply.finish, FinishReason::Interrupted);
}

#[tokio::test]
async fn splitting_a_stream_differently_gives_the_same_reply() {
    let [delta, done] = end("tool_use");
    let events = [
        start(),
        ping(),
        text_block(0),
        text(0, "Größe: 5 € 🦀"),
        stop(0),
        call_block(1, "toolu_1", "look"),
        arguments(1, "{\"path\":"),
        arguments(1, " \"ä\"}"),
        stop(1),
        delta,
        done,
    ];
    for size in 1..40 {
        let answer = anthropic_stream(&events).in_chunks(&[size]);
        let reply = ask(HostedApi::Anthropic, answer).await.unwrap();
        assert_eq!(reply.content, "Größe: 5 € 🦀");
        assert_eq!(calls(&reply), [r#"look {"path":"ä"}"#]);
        assert_eq!(reply.finish, FinishReason::ToolCalls);
    }
}

#[tokio::test]
async fn a_stream_without_a_reply_is_a_failure() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let limited = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}});
    for (events, said) in [
        (vec![], "its stream ended without a reply"),
        (vec![start()], "its stream ended without a reply"),
        (vec![start(), overloaded], "Overloaded"),
        (vec![limited], "Slow down"),
    ] {
        let failure = ask(HostedApi::Anthropic, anthropic_stream(&events))
            .await
            .unwrap_err();
        assert_eq!(failure.kind, ModelFailureKind::Unavailable { retry_after: None });
        assert!(failure.message.contains(said), "{failure}");
    }
    let page = HttpAnswer::new(
        "200 OK",
        &["content-type: text/html"],
        "<html><body>\n\nHello</body></html>",
    );
    let failure = ask(HostedApi::Anthropic, page).await.unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Unavailable { retry_after: None });
}

async fn with_timeouts(timeouts: Timeouts, answer: HttpAnswer) -> Result<ModelReply, String> {
    let server = serve([answer]).await;
    let mut options = options(&server, HostedApi::Anthropic);
    options.timeouts = timeouts;
    let model = HostedModel::new(options).unwrap();
    model.chat(request()).await.map_err(|failure| failure.message)
}

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_stream_that_stalls_is_abandoned_after_a_timeout() {
    let begun = || anthropic_stream(&[start(), text_block(0), text(0, "Hello")]).then(Then::Hang);
    let between = Timeouts {
        between: SHORT,
        ..Timeouts::default()
    };
    let stalled = with_timeouts(between, begun()).await.unwrap();
    assert_eq!(
        (stalled.content.as_str(), stalled.finish),
        ("Hello", FinishReason::Interrupted)
    );

    let total = Timeouts {
        total: SHORT,
        ..Timeouts::default()
    };
    let late = with_timeouts(total, anthropic_stream(&[start()]).then(Then::Hang)).await;
    assert!(late.unwrap_err().contains("no reply received: timed out after"));

    let first = Timeouts {
        first: SHORT,
        ..Timeouts::default()
    };
    for keep_alive in [Then::Hang, Then::Repeat(b": still here\n\n")] {
        let silent = with_timeouts(first, HttpAnswer::stream("").then(keep_alive)).await;
        assert!(silent.unwrap_err().contains("no reply received: timed out"));
    }
}

#[tokio::test]
async fn reading_of_a_reply_stops_at_the_size_limit() {
    let events = [start(), text_block(0)];
    let server = serve([anthropic_stream(&events).then(Then::Repeat(ENDLESS))]).await;
    let mut options = options(&server, HostedApi::Anthropic);
    options.max_reply_bytes = 1_000;
    let reply = HostedModel::new(options).unwrap().chat(request()).await.unwrap();
    assert_eq!(reply.finish, FinishReason::Oversized);
    assert_eq!(reply.content.len(), 1_008);
}

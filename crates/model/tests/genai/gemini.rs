//! How Gemini's streams are parsed.

use dirigent_core::message::{FinishReason, Message, ModelFailureKind, ModelReply};
use dirigent_model::genai::HostedApi;
use dirigent_model::{ChatModel, ChatRequest};
use dirigent_model_server::{HttpAnswer, Then};
use serde_json::{Value, json};

use super::server::{ask, calls, gemini_stream, model, serve, user};

fn said(parts: Value) -> Value {
    json!({
        "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 500, "totalTokenCount": 500},
        "modelVersion": "gemini-test-001",
        "responseId": "x",
    })
}

fn text(text: &str) -> Value {
    said(json!([{"text": text}]))
}

fn end(reason: &str) -> Value {
    json!({
        "candidates": [{"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": reason, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 500, "cachedContentTokenCount": 300, "candidatesTokenCount": 7, "thoughtsTokenCount": 20,
            "totalTokenCount": 527,
        },
        "modelVersion": "gemini-test-001",
    })
}

async fn reply(events: &[Value]) -> ModelReply {
    ask(HostedApi::Gemini, gemini_stream(events)).await.unwrap()
}

#[tokio::test]
async fn a_text_reply_has_its_model_and_all_tokens_sent() {
    let thought = said(json!([{"text": "Hm.", "thought": true}]));
    let reply = reply(&[thought, text("Größe: "), text("5 €"), end("STOP")]).await;
    assert_eq!(
        (reply.content.as_str(), reply.finish),
        ("Größe: 5 €", FinishReason::Stop)
    );
    assert_eq!(reply.model.as_deref(), Some("gemini-test-001"));
    assert_eq!(reply.usage.input_tokens, 500);
    assert_eq!(reply.usage.cached_input_tokens, 300);
    assert_eq!(reply.usage.output_tokens, 27);
}

#[tokio::test]
async fn splitting_a_stream_differently_gives_the_same_reply() {
    let call = said(json!([{"functionCall": {"name": "look", "args": {"path": "ä"}}}]));
    for size in 1..40 {
        let events = [text("Größe: "), text("5 € 🦀"), call.clone(), end("STOP")];
        let answer = gemini_stream(&events).in_chunks(&[size]);
        let reply = ask(HostedApi::Gemini, answer).await.unwrap();
        assert_eq!(reply.content, "Größe: 5 € 🦀");
        assert_eq!(calls(&reply), [r#"look {"path":"ä"}"#]);
        assert_eq!(reply.finish, FinishReason::ToolCalls);
    }
}

#[tokio::test]
async fn a_complete_reply_does_not_wait_for_the_connection_to_close() {
    let answer = gemini_stream(&[text("Hello"), end("STOP")]).then(Then::Hang);
    assert_eq!(
        ask(HostedApi::Gemini, answer).await.unwrap().finish,
        FinishReason::Stop
    );
}

#[tokio::test]
async fn call_2_calls_count_even_if_the_finish_reason_is_stop() {
    let call = |name: &str, args: Value| json!({"functionCall": {"name": name, "args": args}});
    let events = [
        text("Let me look."),
        said(json!([
            call("look", json!({"path": "ä"})),
            call("look", json!({"path": "b"}))
        ])),
        said(json!([call("look", json!({"path": "c"})), {"functionCall": {"name": "list"}}])),
        said(
            json!([{"functionCall": {"id": "own", "name": "list", "args": {}}, "thoughtSignature": "c2ln"}]),
        ),
        end("STOP"),
    ];
    let reply = reply(&events).await;
    assert_eq!(reply.content, "Let me look.");
    assert_eq!(
        calls(&reply),
        [
            r#"look {"path":"ä"}"#,
            r#"look {"path":"b"}"#,
            r#"look {"path":"c"}"#,
            "list {}",
            "list {}"
        ]
    );
    // The ids are unique in the conversation: they contain the number of messages before the reply.
    let ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "call#gemini#2",
            "call#gemini#3",
            "call#gemini#4",
            "call#gemini#5",
            "own"
        ]
    );
    assert_eq!(reply.finish, FinishReason::ToolCalls);
}

#[tokio::test]
async fn call_2_ids_that_gemini_did_not_assign_are_not_sent_back() {
    let events = [
        said(
            json!([{"functionCall": {"name": "look", "args": {}}}, {"functionCall": {"id": "own", "name": "list"}}]),
        ),
        end("STOP"),
    ];
    let server = serve([gemini_stream(&events), gemini_stream(&[end("STOP")])]).await;
    let model = model(&server, HostedApi::Gemini);
    let reply = model
        .chat(super::requests::with_tools(vec![user("Look.")]))
        .await
        .unwrap();
    let result = |call: &dirigent_core::message::ToolCall| Message::Tool {
        call_id: call.id.clone(),
        name: call.tool.clone(),
        content: "{}".to_owned(),
    };
    let results: Vec<Message> = reply.calls.iter().map(result).collect();
    let asked = Message::Assistant {
        content: reply.content.clone(),
        calls: reply.calls,
    };
    let messages = [vec![user("Look."), asked], results].concat();
    model.chat(super::requests::with_tools(messages)).await.unwrap();
    assert_eq!(
        server.requests()[1].json()["contents"],
        json!([
            {"role": "user", "parts": [{"text": "Look."}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "look", "args": {}}},
                {"functionCall": {"id": "own", "name": "list", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "look", "response": {"name": "look", "content": "{}"}}},
                {"functionResponse": {"id": "own", "name": "list", "response": {"name": "list", "content": "{}"}}},
            ]},
        ])
    );
}

#[tokio::test]
async fn call_2_a_malformed_call_does_not_affect_the_other_calls() {
    let events = [
        said(json!([
            {"functionCall": {"name": "look", "args": {"path": "a"}}},
            {"functionCall": {"name": "write", "args": "text"}},
            {"functionCall": {"args": {}}},
        ])),
        end("STOP"),
    ];
    let reply = reply(&events).await;
    assert_eq!(
        calls(&reply),
        [r#"look {"path":"a"}"#, r#"! write "text""#, "!  {}"]
    );
    assert_eq!(reply.finish, FinishReason::ToolCalls);
}

#[tokio::test]
async fn loop_3_a_call_that_gemini_cannot_parse_is_malformed() {
    let end = json!({
        "candidates": [{
            "content": {}, "finishReason": "MALFORMED_FUNCTION_CALL",
            "finishMessage": "Malformed function call: print(look(path=", "index": 0,
        }],
        "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5},
    });
    let reply = reply(&[end]).await;
    assert_eq!(calls(&reply), ["!  Malformed function call: print(look(path="]);
    assert_eq!(
        reply.malformed_calls[0].problem,
        "the provider could not parse it (MALFORMED_FUNCTION_CALL)"
    );
    assert_eq!(reply.finish, FinishReason::ToolCalls);
}

#[tokio::test]
async fn the_stop_reason_is_interpreted() {
    for (reason, expected) in [
        ("STOP", FinishReason::Stop),
        ("MAX_TOKENS", FinishReason::Length),
        ("SAFETY", FinishReason::Filtered),
        ("RECITATION", FinishReason::Filtered),
        ("OTHER", FinishReason::Interrupted),
        ("SOMETHING_NEW", FinishReason::Interrupted),
    ] {
        assert_eq!(
            reply(&[text("So"), end(reason)]).await.finish,
            expected,
            "{reason}"
        );
    }
    let thought_too_long = json!({
        "candidates": [{"finishReason": "MAX_TOKENS", "index": 0}],
        "usageMetadata": {"promptTokenCount": 5, "thoughtsTokenCount": 90, "totalTokenCount": 95},
    });
    let reply = reply(&[thought_too_long]).await;
    assert_eq!((reply.content.as_str(), reply.finish), ("", FinishReason::Length));
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (5, 90));
}

#[tokio::test]
async fn call_7_a_reply_whose_stream_breaks_off_is_interrupted() {
    let error = json!({"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}});
    for events in [
        vec![text("Hello")],
        vec![text("Hello"), said(json!([{"functionCall": {"name": "look"}}]))],
        vec![text("Hello"), error],
        vec![text("Hello"), json!("surprise")],
    ] {
        let reply = reply(&events).await;
        assert_eq!(
            (reply.content.as_str(), reply.finish),
            ("Hello", FinishReason::Interrupted),
            "{events:?}"
        );
    }
    let cut = HttpAnswer::stream(format!("data: {}\n\ndata: {{\"candidates\": [", text("Hello")));
    let reply = ask(HostedApi::Gemini, cut).await.unwrap();
    assert_eq!(
        (reply.content.as_str(), reply.finish),
        ("Hello", FinishReason::Interrupted)
    );
}

#[tokio::test]
async fn a_stream_without_a_reply_is_a_failure() {
    let unavailable = ModelFailureKind::Unavailable { retry_after: None };
    let blocked = json!({
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5},
    });
    let overloaded = json!({"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}});
    for (events, kind, said) in [
        (vec![], unavailable, "its stream ended without a reply"),
        (vec![overloaded], unavailable, "Overloaded."),
        (
            vec![json!({})],
            unavailable,
            "an event has neither a part of a reply nor an error",
        ),
        (
            vec![blocked],
            ModelFailureKind::Rejected,
            "it refuses to answer this conversation (PROHIBITED_CONTENT)",
        ),
    ] {
        let failure = ask(HostedApi::Gemini, gemini_stream(&events)).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.ends_with(said), "{failure}");
    }
    let not_json = ask(HostedApi::Gemini, HttpAnswer::stream("data: <html>\n\n"))
        .await
        .unwrap_err();
    assert_eq!(not_json.kind, unavailable);
    assert!(
        not_json.message.contains("an event is not valid JSON"),
        "{not_json}"
    );
}

#[tokio::test]
async fn a_request_without_messages_sends_empty_contents() {
    let server = serve([gemini_stream(&[text("Hello"), end("STOP")])]).await;
    let model = model(&server, HostedApi::Gemini);
    model
        .chat(ChatRequest::new(std::sync::Arc::default()))
        .await
        .unwrap();
    assert_eq!(server.requests()[0].json(), json!({"contents": []}));
}

//! Streams: how they are split, how they end, and how they break off (CALL-2, CALL-7).

use std::time::Duration;

use dirigent_core::message::{FinishReason, ModelFailureKind, ModelReply};
use dirigent_model::openai::{Delivery, OpenAiModel, OpenAiOptions};
use dirigent_model::{ChatModel, Timeouts};
use dirigent_model_server::{HttpAnswer, HttpServer, Then};
use proptest::prelude::*;

use super::server::{ask, options, request, serve};

const HELLO: &str = r#"{"choices": [{"index": 0, "delta": {"content": "Hel"}}]}"#;
const THE_END: &str = r#"{"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]}"#;
const USAGE: &str = r#"{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}"#;

const RECORDED: &str = "\u{feff}: welcome\r\n\r\n\
    data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Größe: 5 €\"}}]}\r\n\r\n\
    event: message\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" 🦀\\n\",\"reasoning_content\":\"hm\"}}],\ndata: \"usage\":null}\n\n\
    : keep-alive\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"pa\"}}]}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"find\",\"arguments\":\"\"}}]}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"th\\\": \\\"ä\\\"}\"}}]}}]}\r\n\r\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n\
    data: [DONE]\n\n";

fn check_recorded(reply: &ModelReply) {
    assert_eq!(reply.content, "Größe: 5 € 🦀\n");
    let calls: Vec<String> = reply
        .calls
        .iter()
        .map(|call| format!("{} {} {}", call.id, call.tool, call.parameters))
        .collect();
    assert_eq!(calls, ["a find {}", r#"b look {"path":"ä"}"#]);
    assert_eq!(reply.finish, FinishReason::ToolCalls);
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (7, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn splitting_a_stream_differently_gives_the_same_reply(sizes in prop::collection::vec(1_usize..80, 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = HttpAnswer::stream(RECORDED).in_chunks(&sizes);
        check_recorded(&runtime.block_on(ask(Delivery::Streamed, answer)).unwrap());
    }
}

#[tokio::test]
async fn a_stream_with_a_finish_reason_may_end_without_done() {
    for events in [
        &[HELLO, THE_END, USAGE, "[DONE]"][..],
        &[HELLO, THE_END, USAGE],
        &[HELLO, "", THE_END],
        &[HELLO, r#"{"choices": [{"delta": {"content": "lo"}}]}"#, "[DONE]"],
    ] {
        let reply = ask(Delivery::Streamed, HttpAnswer::events(events)).await.unwrap();
        assert_eq!(
            (reply.content.as_str(), reply.finish),
            ("Hello", FinishReason::Stop),
            "{events:?}"
        );
    }
}

#[tokio::test]
async fn call_7_a_stream_without_a_finish_reason_is_interrupted() {
    let cut_in_an_event = format!("data: {HELLO}\n\ndata: {}", &THE_END[..40]);
    let no_json = format!("data: {HELLO}\n\ndata: <html>\n\ndata: {THE_END}\n\ndata: [DONE]\n\n");
    let error = format!("data: {HELLO}\n\ndata: {{\"error\": {{\"message\": \"overloaded\"}}}}\n\n");
    for body in [format!("data: {HELLO}\n\n"), cut_in_an_event, no_json, error] {
        let reply = ask(Delivery::Streamed, HttpAnswer::stream(&body)).await.unwrap();
        assert_eq!(
            (reply.content.as_str(), reply.finish),
            ("Hel", FinishReason::Interrupted),
            "{body}"
        );
    }
}

#[tokio::test]
async fn call_7_a_connection_that_breaks_in_a_stream_leaves_it_interrupted() {
    let headers = ["content-type: text/event-stream", "content-length: 100000"];
    let answer = HttpAnswer::new("200 OK", &headers, format!("data: {HELLO}\n\n"));
    let reply = ask(Delivery::Streamed, answer).await.unwrap();
    assert_eq!(
        (reply.content.as_str(), reply.finish),
        ("Hel", FinishReason::Interrupted)
    );
}

#[tokio::test]
async fn a_stream_without_a_reply_is_a_failure() {
    for body in [
        "",
        ": only a comment\n\n",
        "data: [DONE]\n\n",
        "data: {\"choices\": []}\n\n",
        "data: nonsense\n\n",
    ] {
        let failure = ask(Delivery::Streamed, HttpAnswer::stream(body))
            .await
            .unwrap_err();
        let expected = ModelFailureKind::Unavailable { retry_after: None };
        assert_eq!(failure.kind, expected, "{body}: {failure}");
    }
}

#[tokio::test]
async fn an_error_at_the_start_of_a_stream_is_classified() {
    for (error, kind) in [
        (
            r#"{"error": {"message": "slow down", "code": 429}}"#,
            ModelFailureKind::Unavailable { retry_after: None },
        ),
        (
            r#"{"error": {"message": "busy", "type": "overloaded_error"}}"#,
            ModelFailureKind::Unavailable { retry_after: None },
        ),
        (
            r#"{"error": {"message": "x", "type": "authentication_error"}}"#,
            ModelFailureKind::Configuration,
        ),
        (
            r#"{"error": "maximum context length is 10"}"#,
            ModelFailureKind::TooLong,
        ),
        (
            r#"{"object": "error", "message": "bad", "type": "invalid_request_error", "code": 400}"#,
            ModelFailureKind::Rejected,
        ),
    ] {
        let failure = ask(Delivery::Streamed, HttpAnswer::events(&[error]))
            .await
            .unwrap_err();
        assert_eq!(failure.kind, kind, "{error}");
        let failure = ask(Delivery::Whole, HttpAnswer::json("200 OK", error))
            .await
            .unwrap_err();
        assert_eq!(failure.kind, kind, "{error}");
    }
}

fn with_timeouts(server: &HttpServer, timeouts: Timeouts) -> OpenAiModel {
    OpenAiModel::new(OpenAiOptions {
        timeouts,
        ..options(server, Delivery::Streamed)
    })
    .unwrap()
}

const SOON: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_stream_that_stops_sending_counts_as_interrupted() {
    for then in [
        Then::Hang,
        Then::Repeat(b": still here\n\n"),
        Then::Repeat(b"data:\n\n"),
    ] {
        let server = serve([HttpAnswer::events(&[HELLO]).then(then)]).await;
        let model = with_timeouts(
            &server,
            Timeouts {
                between: SOON,
                ..Timeouts::default()
            },
        );
        let reply = model.chat(request()).await.unwrap();
        assert_eq!(
            (reply.content.as_str(), reply.finish),
            ("Hel", FinishReason::Interrupted)
        );
    }
}

#[tokio::test]
async fn a_complete_reply_does_not_wait_for_the_connection_to_close() {
    for events in [&[HELLO, THE_END, "[DONE]"][..], &[HELLO, THE_END]] {
        let server = serve([HttpAnswer::events(events).then(Then::Hang)]).await;
        let model = with_timeouts(
            &server,
            Timeouts {
                between: SOON,
                ..Timeouts::default()
            },
        );
        let reply = model.chat(request()).await.unwrap();
        assert_eq!(
            (reply.content.as_str(), reply.finish),
            ("Hello", FinishReason::Stop)
        );
    }
}

#[tokio::test]
async fn a_server_that_sends_no_event_in_time_is_unavailable() {
    for answer in [
        HttpAnswer::silence(),
        HttpAnswer::stream("").then(Then::Hang),
        HttpAnswer::stream("").then(Then::Repeat(b":\n\n")),
    ] {
        let server = serve([answer]).await;
        let model = with_timeouts(
            &server,
            Timeouts {
                first: SOON,
                ..Timeouts::default()
            },
        );
        let failure = model.chat(request()).await.unwrap_err();
        assert_eq!(failure.kind, ModelFailureKind::Unavailable { retry_after: None });
    }
}

//! The key is sent to the provider and nowhere else, even if the provider echoes it.

use std::sync::{Arc, Mutex};

use dirigent_model::genai::{HostedApi, HostedModel, HostedOptions};
use dirigent_model::{ChatModel, DeltaSink};
use dirigent_model_server::HttpAnswer;
use serde_json::{Value, json};

use super::server::{anthropic_stream, gemini_stream, options, request, serve};
use crate::log;

const KEY: &str = r#"sk-canary/"quoted"\key"#;

fn check(text: &str) {
    assert!(!text.contains("canary"), "{text}");
}

#[tokio::test]
async fn the_key_is_in_no_error_no_log_and_no_debug_output() {
    log::begin();
    let in_json = serde_json::to_string(KEY).unwrap();
    let said = json!({"type": "error", "error": {"type": KEY, "message": format!("no such key: {KEY}"), "status": KEY}});
    let bodies = [
        said.to_string(),
        format!(r#"{{"sent": {{"x-api-key": {in_json}}}}}"#),
        format!("your key is {KEY}"),
        format!("{}{KEY}", " x".repeat(245)),
    ];
    let text =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}});
    let part = json!({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]});
    for (provider, stream, begun) in [
        (
            HostedApi::Anthropic,
            anthropic_stream as fn(&[Value]) -> HttpAnswer,
            text,
        ),
        (HostedApi::Gemini, gemini_stream, part),
    ] {
        let mut answers = Vec::new();
        for body in &bodies {
            for status in [
                "200 OK",
                "400 Bad Request",
                "401 Unauthorized",
                "429 Too Many",
                "500 Oops",
            ] {
                answers.push(HttpAnswer::json(status, body));
            }
        }
        answers.push(HttpAnswer::stream(format!(
            "event: message_delta\ndata: {KEY}\n\n"
        )));
        answers.push(HttpAnswer::new(
            "302 Found",
            &[&format!("location: https://example.com/{KEY}")],
            "",
        ));
        answers.push(stream(std::slice::from_ref(&said)));
        let fails = answers.len();
        answers.push(stream(&[begun, said.clone()]));
        let server = serve(answers).await;
        let model = HostedModel::new(options(&server, provider).api_key(format!(" {KEY}\n"))).unwrap();
        check(&format!("{model:?}"));
        for _ in 0..fails {
            let failure = model.chat(request()).await.unwrap_err();
            check(&format!("{failure} {failure:?}"));
        }
        assert_eq!(model.chat(request()).await.unwrap().content, "Hi");
        let sent = format!("api-key: {KEY}\r\n");
        assert!(
            server.requests()[0].head.contains(&sent),
            "{}",
            server.requests()[0].head
        );
    }
    let log = log::text();
    assert!(log.contains("a model's reply was cut off"), "{log}");
    check(&log);
}

#[tokio::test]
async fn the_key_is_redacted_from_the_text_and_calls_of_a_reply() {
    let (half, rest) = KEY.split_at(9);
    let text = |text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}}]});
    let call = json!({"candidates": [
        {"content": {"parts": [{"functionCall": {"name": "files_read_feef3122", "args": {"path": KEY}}}]}, "finishReason": "STOP"},
    ]});
    let server = serve([gemini_stream(&[text("It is "), text(half), text(rest), call])]).await;
    let model = HostedModel::new(options(&server, HostedApi::Gemini).api_key(KEY)).unwrap();
    let told = Arc::<Mutex<String>>::default();
    let telling = told.clone();
    let deltas = DeltaSink::new(move |text| telling.lock().unwrap().push_str(text));
    let reply = model.chat(request().deltas(deltas)).await.unwrap();
    assert_eq!(reply.content, "It is [secret]");
    assert_eq!(*told.lock().unwrap(), "It is [secret]");
    assert_eq!(reply.calls[0].parameters, json!({"path": "[secret]"}));
}

#[test]
fn debug_output_of_options_shows_neither_the_key_nor_the_query() {
    let options = HostedOptions::new(
        HostedApi::Gemini,
        "https://me:canary@example.com/v1?key=canary",
        "m",
    )
    .api_key(KEY);
    check(&format!("{options:?}"));
    check(&HostedModel::new(options).unwrap_err().to_string());
}

//! The key is sent to the server and nowhere else, even if the server echoes it.

use std::sync::{Arc, Mutex};

use dirigent_core::call::CallForm;
use dirigent_core::message::ModelFailureKind;
use dirigent_model::openai::{Delivery, OpenAiModel, OpenAiOptions};
use dirigent_model::{ChatModel, DeltaSink};
use dirigent_model_server::HttpAnswer;
use serde_json::{Value, json};

use super::server::{options, request, serve};
use crate::log;

const KEY: &str = r#"sk-canary/"quoted"\key"#;

const BOTH: [Delivery; 2] = [Delivery::Streamed, Delivery::Whole];

fn check(text: &str) {
    assert!(!text.contains("canary"), "{text}");
}

/// Responses of a server that echoes the key: unchanged, in JSON, in an address, and its first twenty characters.
fn echoes() -> Vec<String> {
    let in_json = serde_json::to_string(KEY).unwrap();
    vec![
        format!(r#"{{"error": {{"message": {in_json}, "type": {in_json}}}}}"#),
        format!(r#"{{"sent": {{"authorization": {in_json}}}}}"#),
        format!("your key is {KEY}"),
        format!("{}{KEY}", " x".repeat(245)),
        "https://example.com/?key=sk-canary%2F%22quoted%22%5Ckey".to_owned(),
        r#"{"error": "Incorrect API key provided: sk-canary/\"quoted\"\\k***y"}"#.to_owned(),
    ]
}

#[tokio::test]
async fn the_key_is_in_no_error_no_debug_output_and_no_log() {
    log::begin();
    for delivery in BOTH {
        let mut answers = Vec::new();
        for body in &echoes() {
            for status in [
                "200 OK",
                "400 Bad Request",
                "401 Unauthorized",
                "429 Too Many",
                "500 Oops",
            ] {
                let header = format!("x-you-sent: Bearer {KEY}");
                answers.push(HttpAnswer::new(
                    status,
                    &["content-type: application/json", &header],
                    body,
                ));
            }
            answers.push(HttpAnswer::events(&[body]));
        }
        let moved = format!("location: https://example.com/{KEY}");
        answers.push(HttpAnswer::new("302 Found", &[&moved], ""));
        let asked = answers.len();
        let server = serve(answers).await;
        let model = OpenAiModel::new(options(&server, delivery).api_key(format!(" {KEY}\n"))).unwrap();
        check(&format!("{model:?}"));
        for _ in 0..asked {
            let failure = model.chat(request()).await.unwrap_err();
            check(&format!("{failure} {failure:?}"));
        }
        let sent = format!("authorization: Bearer {KEY}\r\n");
        assert!(
            server.requests()[0].head.contains(&sent),
            "{}",
            server.requests()[0].head
        );
    }
    check(&log::text());
}

/// A reply that contains the key in every possible place.
fn telling(delivery: Delivery) -> HttpAnswer {
    let arguments = json!({"key": KEY, "list": [KEY], KEY: 1}).to_string();
    let call = |index: u64, id: &str, name: &str, arguments: &str| json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
    let calls = [
        call(0, KEY, "look", &arguments),
        call(1, "b", KEY, &arguments[..arguments.len() - 1]),
    ];
    let model = format!("m {KEY}");
    match delivery {
        Delivery::Whole => {
            let said = json!({"content": format!("It is {KEY}."), "tool_calls": calls});
            HttpAnswer::json(
                "200 OK",
                json!({"model": model, "choices": [{"message": said}]}).to_string(),
            )
        }
        Delivery::Streamed => {
            let chunk = |delta: Value| json!({"model": model, "choices": [{"delta": delta}]}).to_string();
            let pieces = ["It is sk-c", "ana", r#"ry/"quo"#, r#"ted"\key."#];
            let mut events: Vec<String> = pieces
                .iter()
                .map(|text| chunk(json!({"content": text})))
                .collect();
            events.push(chunk(json!({"tool_calls": calls})));
            // The reply breaks off, which is logged.
            events.push(format!("no JSON: {KEY}"));
            HttpAnswer::events(&events.iter().map(String::as_str).collect::<Vec<_>>())
        }
    }
}

#[tokio::test]
async fn the_key_is_in_no_reply_and_in_no_delta() {
    log::begin();
    for delivery in BOTH {
        let server = serve([telling(delivery)]).await;
        let model = OpenAiModel::new(options(&server, delivery).api_key(KEY)).unwrap();
        let told = Arc::new(Mutex::new(String::new()));
        let hearer = told.clone();
        let deltas = DeltaSink::new(move |text| hearer.lock().unwrap().push_str(text));
        let request = request().call_form(CallForm::Native).deltas(deltas);
        let reply = model.chat(request).await.unwrap();
        check(&format!("{reply:?}"));
        assert_eq!(reply.content, "It is [secret].");
        assert_eq!(*told.lock().unwrap(), "It is [secret].");
        assert_eq!(reply.model.as_deref(), Some("m [secret]"));
        let expected = json!({"key": "[secret]", "list": ["[secret]"], "[secret]": 1});
        assert_eq!(reply.calls[0].parameters, expected);
        assert_eq!(reply.calls[0].id, "[secret]");
        assert_eq!(reply.malformed_calls[0].name, "[secret]");
    }
    let log = log::text();
    assert!(log.contains("was cut off"), "{log}");
    check(&log);
}

#[tokio::test]
async fn the_key_is_in_no_list_of_models() {
    let list = json!({"data": [{"id": format!("m-{KEY}"), "owner": KEY, KEY: [KEY]}]}).to_string();
    let server = serve([HttpAnswer::json("200 OK", list)]).await;
    let model = OpenAiModel::new(options(&server, Delivery::Whole).api_key(KEY)).unwrap();
    let models = model.models().await.unwrap();
    assert_eq!(models[0].id, "m-[secret]");
    check(&format!("{models:?}"));
}

#[tokio::test]
async fn a_key_in_the_query_of_the_base_url_is_also_a_secret() {
    let echo = "no such resource: /v1/chat/completions?api-version=2024-10-21&key=canary-in-the-query";
    let server = serve([HttpAnswer::json("404 Not Found", echo)]).await;
    let base_url = format!(
        "{}?api-version=2024-10-21&key=canary-in-the-query",
        server.url("/v1")
    );
    let model = OpenAiModel::new(OpenAiOptions::new(base_url, "m")).unwrap();
    let failure = model.chat(request()).await.unwrap_err();
    check(&failure.message);
    assert!(failure.message.contains("api-version=2024-10-21"), "{failure}");
    assert!(
        server.requests()[0].head.contains("key=canary-in-the-query"),
        "{}",
        server.requests()[0].head
    );
}

#[tokio::test]
async fn the_key_is_not_sent_to_another_server_after_a_redirect() {
    for delivery in BOTH {
        for status in [
            "301 Moved",
            "302 Found",
            "303 See Other",
            "307 Moved",
            "308 Moved",
        ] {
            let other = serve([HttpAnswer::json("200 OK", "{}")]).await;
            let location = format!("location: {}/chat/completions", other.url("/v1"));
            let server = serve([HttpAnswer::new(status, &[&location], "")]).await;
            let model = OpenAiModel::new(options(&server, delivery).api_key(KEY)).unwrap();
            let failure = model.chat(request()).await.unwrap_err();
            assert_eq!(failure.kind, ModelFailureKind::Configuration, "{failure}");
            assert!(failure.message.contains(&other.url("/v1")), "{failure}");
            assert!(other.requests().is_empty());
        }
    }
}

#[tokio::test]
async fn a_placeholder_key_is_not_redacted_from_replies() {
    let reply = r#"{"choices": [{"message": {"content": "ollama runs models."}}]}"#;
    let server = serve([HttpAnswer::json("200 OK", reply)]).await;
    let model = OpenAiModel::new(options(&server, Delivery::Whole).api_key("ollama")).unwrap();
    assert_eq!(
        model.chat(request()).await.unwrap().content,
        "ollama runs models."
    );
}

#[test]
fn debug_output_of_options_shows_neither_the_key_nor_the_query() {
    let options = OpenAiOptions::new("https://me:canary@example.com/v1?key=canary", "m").api_key(KEY);
    check(&format!("{options:?}"));
    check(&OpenAiModel::new(options).unwrap_err().to_string());
}

//! What goes over the wire, and what is left out of it once a server has refused it.

use std::sync::Arc;

use dirigent_core::message::ModelFailureKind;
use dirigent_core::tool::{Repeat, ToolSpec};
use dirigent_model::openai::{CallForm, Delivery, OpenAiModel};
use dirigent_model::{ChatModel, ReplyFormat};
use serde_json::{Value, json};

use crate::server::{Answer, Server, request};

const DONE: &str = r#"{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}"#;

fn ok() -> Answer {
    Answer::json("200 OK", DONE)
}

fn refuses(message: &str) -> Answer {
    Answer::json(
        "400 Bad Request",
        json!({"error": {"message": message}}).to_string(),
    )
}

fn look() -> Arc<Vec<ToolSpec>> {
    Arc::new(vec![ToolSpec {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({"type": "object"}),
        repeat: Repeat::Safe,
        example: Value::Null,
    }])
}

fn as_json() -> ReplyFormat {
    ReplyFormat::JsonSchema {
        name: "plan".to_owned(),
        schema: Arc::new(json!({"type": "object"})),
    }
}

#[tokio::test]
async fn a_request_says_what_was_asked_and_no_more() {
    let server = Server::start([ok(), ok()]).await;
    server.model(Delivery::Streamed).chat(request()).await.unwrap();
    let mut options = server.options(Delivery::Whole);
    options.extra.insert("temperature".to_owned(), json!(0.5));
    let full = request()
        .model("other".to_owned())
        .tools(look())
        .format(as_json())
        .max_output_tokens(100);
    OpenAiModel::new(options).unwrap().chat(full).await.unwrap();

    let got = server.got();
    assert!(got[0].head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]);
    assert_eq!(
        got[0].json(),
        json!({"model": "test-model", "messages": messages, "stream": true, "stream_options": {"include_usage": true}})
    );
    assert_eq!(
        got[1].json(),
        json!({
            "model": "other",
            "messages": messages,
            "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "plan", "schema": {"type": "object"}}},
            "max_tokens": 100,
            "temperature": 0.5,
        })
    );
}

#[tokio::test]
async fn call_4_a_model_that_calls_in_its_text_is_offered_no_native_tools() {
    let server = Server::start([ok()]).await;
    let mut options = server.options(Delivery::Whole);
    options.calls = CallForm::Text;
    OpenAiModel::new(options)
        .unwrap()
        .chat(request().tools(look()))
        .await
        .unwrap();
    assert_eq!(server.got()[0].json().get("tools"), None);
}

#[tokio::test]
async fn a_form_that_the_server_refuses_is_asked_for_once() {
    let server = Server::start([refuses("response_format is not supported"), ok(), ok()]).await;
    let model = server.model(Delivery::Whole);
    for _ in 0..2 {
        assert_eq!(
            model.chat(request().format(as_json())).await.unwrap().content,
            "ok"
        );
    }
    let asked: Vec<bool> = server
        .got()
        .iter()
        .map(|got| got.json().get("response_format").is_some())
        .collect();
    assert_eq!(asked, [true, false, false]);
}

#[tokio::test]
async fn a_refusal_that_leaving_out_does_not_help_is_not_remembered() {
    let server = Server::start([refuses("no response_format"), refuses("no, not at all"), ok()]).await;
    let model = server.model(Delivery::Whole);
    let failure = model.chat(request().format(as_json())).await.unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Rejected);
    model.chat(request().format(as_json())).await.unwrap();
    assert!(server.got()[2].json().get("response_format").is_some());
}

#[tokio::test]
async fn a_token_limit_goes_by_the_name_that_the_server_wants() {
    let server = Server::start([
        refuses("use max_completion_tokens"),
        refuses("unknown field stream_options"),
        ok(),
    ])
    .await;
    let model = server.model(Delivery::Streamed);
    model.chat(request().max_output_tokens(9)).await.unwrap();
    let last = server.got()[2].json();
    assert_eq!(last.get("max_tokens"), None);
    assert_eq!(last["max_completion_tokens"], 9);
    assert_eq!(last.get("stream_options"), None);
}

#[tokio::test]
async fn a_server_says_which_models_it_offers() {
    let list = r#"{"object": "list", "data": [{"id": "a", "context_length": 8192}, {"id": "b"}]}"#;
    let server = Server::start([
        Answer::json("200 OK", list),
        Answer::json("200 OK", "{}"),
        Answer::json("401 Unauthorized", "{}"),
    ])
    .await;
    let model = server.model(Delivery::Streamed);
    let models = model.models().await.unwrap();
    assert_eq!(models[0].id, "a");
    assert_eq!(models[0].extra["context_length"], 8192);
    assert_eq!(models[1].id, "b");
    for _ in 0..2 {
        assert_eq!(
            model.models().await.unwrap_err().kind,
            ModelFailureKind::Configuration
        );
    }
    assert!(server.got()[0].head.starts_with("GET /v1/models HTTP/1.1\r\n"));
}

#[tokio::test]
async fn host_8_dropping_the_future_drops_the_request() {
    let server = Server::start([Answer::silence(), ok()]).await;
    let model = server.model(Delivery::Whole);
    let waiting = model.chat(request());
    let asked = async {
        while server.got().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = waiting => panic!("it was answered"),
        () = asked => {}
    }
    assert_eq!(model.chat(request()).await.unwrap().content, "ok");
}

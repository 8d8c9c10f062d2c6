//! A client that others wrote, against the good cases and the usual errors.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::chat::{CreateChatCompletionRequest, CreateChatCompletionStreamResponse};
use dirigent_model_server::{Fault, Flaw, ModelServer, Reply, Script, ToolCall, Turn};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::socket::asking;

fn client(server: &ModelServer) -> Client<OpenAIConfig> {
    // The client wants one even where it speaks plain HTTP. An error means that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = OpenAIConfig::new()
        .with_api_base(server.url())
        .with_api_key("test-key");
    // The server is on this machine, whatever proxy the environment names.
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    Client::with_config(config).with_http_client(http)
}

fn request(body: Value) -> CreateChatCompletionRequest {
    serde_json::from_value(body).unwrap()
}

fn a_reply() -> Reply {
    Reply::calls([ToolCall::new("read", &json!({ "path": "caf\u{e9}.txt" }))]).with_text("Let me look.")
}

#[tokio::test]
async fn it_reads_a_plain_reply() {
    let server = ModelServer::start(Script::turns([a_reply().into()]))
        .await
        .unwrap();
    let reply = client(&server)
        .chat()
        .create(request(asking("Hi")))
        .await
        .unwrap();

    assert_eq!(
        (reply.id.as_str(), reply.object.as_str()),
        ("chatcmpl-1", "chat.completion")
    );
    let choice = serde_json::to_value(&reply.choices[0]).unwrap();
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], "Let me look.");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(
        (&call["id"], &call["function"]["name"]),
        (&json!("call_1_0"), &json!("read"))
    );
    assert_eq!(call["function"]["arguments"], "{\"path\":\"caf\u{e9}.txt\"}");
    assert_eq!(reply.usage.unwrap().total_tokens, 6);
    assert_eq!(server.violations(), []);
}

async fn stream(server: &ModelServer) -> Vec<CreateChatCompletionStreamResponse> {
    let mut body = asking("Hi");
    body["stream"] = true.into();
    body["stream_options"] = json!({ "include_usage": true });
    let stream = client(server).chat().create_stream(request(body)).await.unwrap();
    stream.map(Result::unwrap).collect().await
}

#[tokio::test]
async fn it_reads_a_stream_however_the_events_are_written() {
    let replies = [
        a_reply(),
        a_reply()
            .with_flaw(Flaw::CrlfLines)
            .with_flaw(Flaw::MultiLineData),
        a_reply()
            .with_flaw(Flaw::KeepAliveComments)
            .with_flaw(Flaw::NoSpaceAfterColon),
        a_reply()
            .with_flaw(Flaw::SmallFrames { bytes: 5 })
            .with_flaw(Flaw::SplitArguments),
    ];
    for reply in replies {
        let server = ModelServer::start(Script::turns([reply.into()])).await.unwrap();
        let chunks = stream(&server).await;

        let choices = || chunks.iter().filter_map(|chunk| chunk.choices.first());
        let text: String = choices()
            .filter_map(|choice| choice.delta.content.clone())
            .collect();
        let calls = choices().flat_map(|choice| choice.delta.tool_calls.clone().unwrap_or_default());
        let arguments: String = calls
            .filter_map(|call| call.function)
            .filter_map(|function| function.arguments)
            .collect();
        assert_eq!(text, "Let me look.");
        assert_eq!(arguments, "{\"path\":\"caf\u{e9}.txt\"}");
        assert_eq!(chunks.last().unwrap().usage.as_ref().unwrap().total_tokens, 6);
        assert_eq!(server.violations(), []);
    }
}

#[tokio::test]
async fn it_reads_an_error_and_the_models() {
    let script = Script::turns([Turn::from(Fault::InvalidApiKey)]).with_models(["m"]);
    let server = ModelServer::start(script).await.unwrap();
    let error = client(&server)
        .chat()
        .create(request(asking("Hi")))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("Incorrect API key provided."),
        "{error}"
    );

    let models = client(&server).models().list().await.unwrap();
    assert_eq!(
        models
            .data
            .iter()
            .map(|model| model.id.as_str())
            .collect::<Vec<_>>(),
        ["m"]
    );
}

#[tokio::test]
async fn it_comes_back_after_a_rate_limit() {
    let server = ModelServer::start(Script::turns([
        Fault::RateLimited { retry_after: None }.into(),
        Turn::text("Hi"),
    ]))
    .await
    .unwrap();
    let reply = client(&server)
        .chat()
        .create(request(asking("Hi")))
        .await
        .unwrap();
    assert_eq!(reply.choices[0].message.content.as_deref(), Some("Hi"));
    assert_eq!(server.requests()[1].attempt, 2);
}

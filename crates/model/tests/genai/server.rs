//! Servers with canned answers, and models that use them.

use std::sync::Arc;

use dirigent_core::message::{Message, ModelFailure, ModelReply};
use dirigent_model::genai::{HostedApi, HostedModel, HostedOptions};
use dirigent_model::{ChatModel, ChatRequest};
use dirigent_model_server::{HttpAnswer, HttpServer};
use serde_json::Value;

use crate::log;

pub async fn serve(answers: impl IntoIterator<Item = HttpAnswer>) -> HttpServer {
    log::listen();
    HttpServer::start(answers).await.unwrap()
}

pub fn options(server: &HttpServer, api: HostedApi) -> HostedOptions {
    HostedOptions::new(api, server.url("/v1"), "test-model").api_key("the-whole-secret-key")
}

pub fn model(server: &HttpServer, api: HostedApi) -> HostedModel {
    HostedModel::new(options(server, api)).unwrap()
}

/// An Anthropic stream, in which each event is named after its `type`.
pub fn anthropic_stream(events: &[Value]) -> HttpAnswer {
    let event = |data: &Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    HttpAnswer::stream(events.iter().map(event).collect::<String>())
}

/// A Gemini stream.
pub fn gemini_stream(events: &[Value]) -> HttpAnswer {
    let event = |data: &Value| format!("data: {data}\r\n\r\n");
    HttpAnswer::stream(events.iter().map(event).collect::<String>())
}

pub fn system(content: &str) -> Message {
    Message::System {
        content: content.to_owned(),
    }
}

pub fn user(content: &str) -> Message {
    Message::User {
        content: content.to_owned(),
    }
}

/// A short conversation.
pub fn request() -> ChatRequest {
    ChatRequest::new(Arc::new(vec![system("Be brief."), user("Hello?")]))
}

/// The model's result for this answer of the server.
pub async fn ask(api: HostedApi, answer: HttpAnswer) -> Result<ModelReply, ModelFailure> {
    let server = serve([answer]).await;
    model(&server, api).chat(request()).await
}

/// The calls of a reply, each as `tool arguments`, then the unreadable ones, each as `! tool arguments`.
pub fn calls(reply: &ModelReply) -> Vec<String> {
    let good = reply
        .calls
        .iter()
        .map(|call| format!("{} {}", call.tool, call.parameters));
    let bad = reply
        .malformed_calls
        .iter()
        .map(|call| format!("! {} {}", call.name, call.arguments));
    good.chain(bad).collect()
}

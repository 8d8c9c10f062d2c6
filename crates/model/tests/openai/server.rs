//! Servers with canned answers, and models that use them.

use std::sync::Arc;

use dirigent_core::message::{Message, ModelFailure, ModelReply};
use dirigent_model::openai::{Delivery, OpenAiModel, OpenAiOptions};
use dirigent_model::{ChatModel, ChatRequest};
use dirigent_model_server::{HttpAnswer, HttpServer};

use crate::log;

pub async fn serve(answers: impl IntoIterator<Item = HttpAnswer>) -> HttpServer {
    log::listen();
    HttpServer::start(answers).await.unwrap()
}

pub fn options(server: &HttpServer, delivery: Delivery) -> OpenAiOptions {
    OpenAiOptions {
        delivery,
        ..OpenAiOptions::new(server.url("/v1"), "test-model")
    }
}

pub fn model(server: &HttpServer, delivery: Delivery) -> OpenAiModel {
    OpenAiModel::new(options(server, delivery)).unwrap()
}

/// A short conversation.
pub fn request() -> ChatRequest {
    ChatRequest::new(Arc::new(vec![
        Message::System {
            content: "Be brief.".to_owned(),
        },
        Message::User {
            content: "Hello?".to_owned(),
        },
    ]))
}

/// The model's result for this answer of the server.
pub async fn ask(delivery: Delivery, answer: HttpAnswer) -> Result<ModelReply, ModelFailure> {
    let server = serve([answer]).await;
    model(&server, delivery).chat(request()).await
}

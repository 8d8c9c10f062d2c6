//! `/v1/chat/completions` and `/v1/models`, for clients of OpenAI's API (PROMPT-3).
//!
//! Requests are not completed without their client: a client that goes away cancels the request to the model.

mod errors;
mod models;
mod stream;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use dirigent::completions::{Completion, CompletionRequest};

use crate::input::{is_json, read_long_body};
use crate::permits;
use crate::problem::Problem;
use crate::service::Service;
use errors::Refusal;
pub(crate) use errors::errors_in_openai_form;

/// The maximum length of a request's body in bytes. Images are part of the body.
const MAX_BODY_BYTES: usize = 32 << 20;

/// The header that names the base system prompt.
const SYSTEM_PROMPT: &str = "x-system-prompt-id";

/// The addresses for OpenAI clients.
pub(crate) fn router(service: &Service) -> Router<Service> {
    Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*model}", get(models::show))
        .method_not_allowed_fallback(async || Problem::wrong_method())
        .layer(from_fn_with_state(service.clone(), permits::limit_requests))
}

/// `POST /v1/chat/completions`
async fn complete(State(service): State<Service>, request: Request) -> Result<Response, Refusal> {
    let stopping = service.stopping.clone();
    tokio::select! {
        biased;
        () = stopping.cancelled() => Err(Problem::shutting_down().into()),
        response = forward(&service, request) => response,
    }
}

async fn forward(service: &Service, request: Request) -> Result<Response, Refusal> {
    if !is_json(request.headers()) {
        return Err(Problem::not_json().into());
    }
    let (parts, body) = request.into_parts();
    let system_prompt = system_prompt(&parts.headers)?;
    let body = read_long_body(body, service, MAX_BODY_BYTES).await?;
    let completion = service
        .dirigent
        .forward_completion(CompletionRequest::parse(body)?, system_prompt);
    Ok(match completion.await? {
        Completion::Whole { json, .. } => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Completion::Stream(events) => stream::respond(events, service.stopping.clone()),
    })
}

/// The name of the base system prompt that the request asks for.
fn system_prompt(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(name) = headers.get(SYSTEM_PROMPT) else {
        return Ok(None);
    };
    match name.to_str() {
        Ok(name) => Ok(Some(name.trim())),
        Err(_) => Err(Problem::invalid(
            "the header `X-System-Prompt-Id` is invalid: it must be the name of a system prompt",
        )),
    }
}

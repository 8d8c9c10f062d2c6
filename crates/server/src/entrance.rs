//! `/`: the console, and where a browser exchanges the token in its link for the cookie of a session; and `/health`.

use axum::extract::{RawQuery, State};
use axum::http::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::access::cookie_name;
use crate::console;
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;
use crate::sessions::SESSION_TIME;

/// The token in the query of the link. Tokens have no characters that a query encodes.
pub(crate) fn sent_token(query: Option<&str>) -> Option<&str> {
    query?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// `GET /`
pub(crate) async fn enter(
    State(service): State<Service>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    match sent_token(query.as_deref()) {
        None => console::page(headers).await,
        Some(token) if service.token.matches(token.as_bytes()) => begin_session(&service)
            .await
            .unwrap_or_else(IntoResponse::into_response),
        Some(_) => console::refusal(Problem::wrong_token(), "/", &headers),
    }
}

/// Sends the browser to the address without the token, with a cookie that scripts and other sites cannot use.
async fn begin_session(service: &Service) -> Result<Response, Problem> {
    let sessions = service.sessions.clone();
    let began = tokio::task::spawn_blocking(move || sessions.begin()).await;
    let secret = began
        .map_err(|error| Problem::internal(&error))?
        .map_err(|error| Problem::internal(&error))?;
    let (name, seconds) = (cookie_name(service.options.listen.port()), SESSION_TIME.as_secs());
    let cookie = format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict");
    let headers = [(SET_COOKIE, cookie), (LOCATION, "/".to_owned())];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// Returns whether the server accepts work. Needs no token.
#[utoipa::path(get, path = "/health", tag = "Service", responses((status = 200, description = "It does", body = schemas::Health)))]
pub(crate) async fn health(State(service): State<Service>) -> Response {
    if service.stopping.is_cancelled() {
        return Problem::shutting_down().into_response();
    }
    json_response(&json!({"status": "ok"}))
}

/// Adds the fields of an object to another one.
pub(crate) fn add_fields(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

/// A response with JSON.
pub(crate) fn json_response(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => Problem::internal(&error).into_response(),
    }
}

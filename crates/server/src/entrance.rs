//! `/`: where a browser exchanges the token in its link for a cookie; and `/health`.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::access::COOKIE_NAME;
use crate::problem::Problem;
use crate::service::Service;

/// How long a browser keeps the token, in seconds: 400 days, the longest time that browsers allow.
const COOKIE_SECONDS: u32 = 400 * 24 * 60 * 60;

const PAGE: &str = "Dirigent is running, and you are signed in. docs/service.md describes the API, which begins at /v1/runs and /context.\n";

/// The token in the query of the link. Tokens have no characters that a query encodes.
pub(crate) fn sent_token(query: Option<&str>) -> Option<&str> {
    query?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// `GET /`
pub(crate) async fn enter(State(service): State<Service>, RawQuery(query): RawQuery) -> Response {
    match sent_token(query.as_deref()) {
        None => ([(CONTENT_TYPE, "text/plain; charset=utf-8")], PAGE).into_response(),
        Some(token) if service.token.matches(token.as_bytes()) => {
            let token = service.token.expose();
            let cookie =
                format!("{COOKIE_NAME}={token}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Strict");
            let headers = [(SET_COOKIE, cookie), (LOCATION, "/".to_owned())];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        Some(_) => Problem::no_token().into_response(),
    }
}

/// `GET /health`: whether the server accepts work.
pub(crate) async fn health(State(service): State<Service>) -> Response {
    if service.stopping.is_cancelled() {
        return Problem::shutting_down().into_response();
    }
    json_response(&json!({"status": "ok"}))
}

/// A response with JSON.
pub(crate) fn json_response(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => Problem::internal(&error).into_response(),
    }
}

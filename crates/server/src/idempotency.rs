//! `Idempotency-Key`: a client that does not know whether its request arrived sends it again with the same key, and nothing is started twice.
//!
//! Answers of requests that succeeded are kept in the journal for 24 hours. A request that was refused had no effect, so its key is free again.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use dirigent::RequestClaim;
use dirigent::digest::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::input::read_body;
use crate::problem::Problem;
use crate::service::Service;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Tells that an answer was kept from an earlier request.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The longest key, in characters.
const LONGEST_KEY: usize = 255;

/// The longest answer that is kept, in bytes. Answers are short, except for conversations' answers.
const LONGEST_ANSWER: usize = 8 << 20;

/// The answer of a request, as it is kept.
#[derive(Serialize, Deserialize)]
struct Answer {
    status: u16,
    /// The headers, by name. Headers of the connection and of the access checks are added to each answer anew.
    headers: Vec<(String, String)>,
    body: String,
}

/// Handles a request with a key once, and repeats its answer.
pub(crate) async fn answer_once(State(service): State<Service>, request: Request, next: Next) -> Response {
    match request.headers().get(IDEMPOTENCY_KEY) {
        Some(key) if !request.method().is_safe() => {
            let key = key.to_str().map(str::to_owned).unwrap_or_default();
            let answered = handle(&service, &key, request, next).await;
            answered.unwrap_or_else(|problem| problem.into_response())
        }
        Some(_) | None => next.run(request).await,
    }
}

async fn handle(service: &Service, key: &str, request: Request, next: Next) -> Result<Response, Problem> {
    if key.is_empty() || key.len() > LONGEST_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let detail =
            format!("`Idempotency-Key` is invalid: it must have 1 to {LONGEST_KEY} visible ASCII characters");
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "invalid_idempotency_key",
            detail,
        ));
    }
    let (parts, body) = request.into_parts();
    let body = read_body(body, service).await?;
    let digest = digest(parts.method.as_str(), &parts.uri.to_string(), &body);
    match service.dirigent.claim_request(key, &digest).await? {
        RequestClaim::New => {}
        RequestClaim::Answered(answer) => return repeated(&answer),
        RequestClaim::InProgress => {
            return Err(conflict(
                "request_in_progress",
                "is still being handled: wait for its answer, or send it again later",
            ));
        }
        RequestClaim::Interrupted => return Err(interrupted()),
        RequestClaim::OtherRequest => {
            let detail = "the key was used for another request: use a new key for each request";
            return Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                detail,
            ));
        }
    }
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    keep(service, key, response).await
}

fn interrupted() -> Problem {
    conflict(
        "request_interrupted",
        "was interrupted or failed before its answer was kept, and may have had an effect: list the runs, and use another key to send it again",
    )
}

/// The kept answer of a request whose own answer cannot be repeated.
fn problem_answer(problem: &Problem) -> Answer {
    Answer {
        status: StatusCode::CONFLICT.as_u16(),
        headers: vec![(CONTENT_TYPE.to_string(), "application/problem+json".to_owned())],
        body: problem.to_json().to_string(),
    }
}

fn conflict(code: &'static str, what: &str) -> Problem {
    let detail = format!("a request with this key {what}");
    Problem::new(StatusCode::CONFLICT, code, detail)
}

fn digest(method: &str, address: &str, body: &Bytes) -> String {
    let mut hasher = Sha256::new();
    for part in [method.as_bytes(), address.as_bytes(), body] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

/// Keeps the answer of a request, and passes it on. A refused request had no effect, so its key is free again; one that failed may have had an
/// effect, so it is not repeated under its key.
async fn keep(service: &Service, key: &str, response: Response) -> Result<Response, Problem> {
    if response.status().is_client_error() {
        service.dirigent.release_request(key).await?;
        return Ok(response);
    }
    if !response.status().is_success() {
        let answer = problem_answer(&interrupted());
        service.dirigent.answer_request(key, stored(&answer)).await?;
        return Ok(response);
    }
    if is_stream(&response) {
        let problem = Problem::new(
            StatusCode::CONFLICT,
            "request_streamed",
            "the answer of the request with this key was a stream: read the events of the conversation",
        );
        let answer = problem_answer(&problem);
        service.dirigent.answer_request(key, stored(&answer)).await?;
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = match to_bytes(body, LONGEST_ANSWER).await {
        Ok(body) => body,
        Err(error) => {
            let answer = problem_answer(&interrupted());
            service.dirigent.answer_request(key, stored(&answer)).await?;
            return Err(Problem::internal(&error));
        }
    };
    let answer = Answer {
        status: parts.status.as_u16(),
        headers: kept_headers(&parts.headers),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    service.dirigent.answer_request(key, stored(&answer)).await?;
    Ok(Response::from_parts(parts, Body::from(body)))
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// The headers that the handler has set. The length is that of the body, and is set again.
fn kept_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let kept = headers.iter().filter(|(name, _)| *name != CONTENT_LENGTH);
    kept.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect()
}

fn stored(answer: &Answer) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

/// The answer of the earlier request. An answer that another version has kept in another form is not repeated.
fn repeated(answer: &str) -> Result<Response, Problem> {
    let answer: Answer = serde_json::from_str(answer).map_err(|_| interrupted())?;
    let mut response = (
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK),
        answer.body,
    )
        .into_response();
    let headers = response.headers_mut();
    headers.clear();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    Ok(response)
}

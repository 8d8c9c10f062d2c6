//! Reads what a request contains, and says what is wrong with it.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use serde::de::DeserializeOwned;

use crate::openapi::openapi;
use crate::problem::Problem;
use crate::service::Service;

/// The JSON body of a request.
pub(crate) struct Input<T>(pub(crate) T);

/// The JSON body of a request that may have none.
pub(crate) struct OptionalInput<T>(pub(crate) T);

/// The parameters in the address of a request.
pub(crate) struct Segments<T>(pub(crate) T);

/// The query of a request.
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Service> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Service) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let body = read_body(request.into_body(), service).await?;
        if body.is_empty() {
            let detail = "the request has no body: send a JSON object";
            return Err(Problem::new(StatusCode::BAD_REQUEST, "no_body", detail));
        }
        parse(is_json, &body).map(Input)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Service> for OptionalInput<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Service) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let body = read_body(request.into_body(), service).await?;
        if body.is_empty() {
            return Ok(OptionalInput(T::default()));
        }
        parse(is_json, &body).map(OptionalInput)
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Service> for Segments<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, service).await {
            Ok(Path(segments)) => Ok(Segments(segments)),
            Err(_) => Err(Problem::unknown_address()),
        }
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Service> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, service).await {
            Ok(Query(parameters)) => Ok(Parameters(parameters)),
            Err(error) => {
                let detail = format!("the query is invalid: {}", error.body_text());
                Err(Problem::new(StatusCode::BAD_REQUEST, "invalid_query", detail))
            }
        }
    }
}

/// The largest number of items of a list.
const MAX_LISTED: usize = 500;

/// Returns the number of items that a query wants of a list, from 1 to 500, or the default.
pub(crate) fn list_length(name: &str, wanted: Option<usize>, default: usize) -> Result<usize, Problem> {
    match wanted {
        None => Ok(default),
        Some(wanted) if (1..=MAX_LISTED).contains(&wanted) => Ok(wanted),
        Some(wanted) => {
            let detail =
                format!("the query is invalid: `{name}` is {wanted}, but must be from 1 to {MAX_LISTED}");
            Err(Problem::new(StatusCode::BAD_REQUEST, "invalid_query", detail))
        }
    }
}

/// Refuses a query of a request that has no parameters in its address: if they were ignored, the request would do something else than was meant. The queries of other requests are
/// checked where they are read.
pub(crate) async fn refuse_unknown_parameters(request: Request, next: Next) -> Response {
    let has_query = request.uri().query().is_some_and(|query| !query.is_empty());
    let path = request.extensions().get::<MatchedPath>();
    match path.filter(|_| has_query) {
        Some(path) if !has_parameters(path.as_str(), request.method()) => no_parameters().into_response(),
        Some(_) | None => next.run(request).await,
    }
}

fn no_parameters() -> Problem {
    let detail = "the query is invalid: this request has no parameters in its query; if it has fields, put them into the body";
    Problem::new(StatusCode::BAD_REQUEST, "invalid_query", detail)
}

/// Returns true if the description of a request has parameters in its query.
fn has_parameters(path: &str, method: &Method) -> bool {
    let method = match *method {
        Method::HEAD => "get".to_owned(),
        _ => method.as_str().to_lowercase(),
    };
    let parameters = openapi()["paths"][path][method]["parameters"].as_array();
    let mut parameters = parameters.into_iter().flatten();
    parameters.any(|parameter| parameter["in"] == "query")
}

/// Returns true if the body is declared as JSON, which pages of other sites cannot do without asking first.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let declared = headers.get(CONTENT_TYPE);
    let declared = declared.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = declared.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Reads a body, within the limits of length and time.
pub(crate) async fn read_body(body: Body, service: &Service) -> Result<Bytes, Problem> {
    read_long_body(body, service, service.options.limits.body_bytes).await
}

/// Reads a body of at most `bytes` bytes, within the limit of time.
pub(crate) async fn read_long_body(body: Body, service: &Service, bytes: usize) -> Result<Bytes, Problem> {
    let limits = &service.options.limits;
    let reading = collect(body, bytes);
    match tokio::time::timeout(limits.body_time, reading).await {
        Ok(read) => read,
        Err(_) => {
            let detail = format!(
                "the body did not arrive within {:?}: send it faster",
                limits.body_time
            );
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail))
        }
    }
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, Problem> {
    let declared = http_body::Body::size_hint(&body).lower();
    let too_large = || {
        let detail = format!("the body is longer than {limit} bytes: shorten it");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
    };
    if declared > limit as u64 {
        return Err(too_large());
    }
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| {
            let detail = "the body ended before all of it had arrived: send the request again";
            Problem::new(StatusCode::BAD_REQUEST, "body_incomplete", detail)
        })?;
        if bytes.len() + chunk.len() > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}

fn parse<T: DeserializeOwned>(is_json: bool, body: &[u8]) -> Result<T, Problem> {
    if !is_json {
        return Err(Problem::not_json());
    }
    // The fields of an array would be taken by their positions.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::invalid(
            "the body is invalid: it must be a JSON object, not an array",
        ));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let parsed = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (path, inner) = (error.path().to_string(), error.into_inner());
        if inner.is_syntax() || inner.is_eof() {
            return Problem::new(
                StatusCode::BAD_REQUEST,
                "invalid_json",
                format!("the body is not valid JSON: {inner}"),
            );
        }
        let place = match path.as_str() {
            "." => "the body".to_owned(),
            path => format!("`{path}` in the body"),
        };
        Problem::invalid(format!("{place} is invalid: {inner}"))
    })?;
    reader.end().map_err(|error| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "invalid_json",
            format!("the body is not valid JSON: {error}"),
        )
    })?;
    Ok(parsed)
}

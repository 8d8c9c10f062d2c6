//! Errors as OpenAI's API has them: `{"error": {"message", "type", "param", "code"}}`.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dirigent::Millis;
use dirigent::completions::CompletionError;

use crate::problem::Problem;

/// Why a request of an OpenAI client is not answered.
#[derive(Debug)]
pub(crate) enum Refusal {
    Problem(Problem),
    Completion(CompletionError),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Refusal::Problem(problem)
    }
}

impl From<CompletionError> for Refusal {
    fn from(error: CompletionError) -> Self {
        Refusal::Completion(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            // The middleware changes its form.
            Refusal::Problem(problem) => problem.into_response(),
            Refusal::Completion(error) => completion_error(&error),
        }
    }
}

fn completion_error(error: &CompletionError) -> Response {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [(CONTENT_TYPE, "application/json")];
    let mut response = (status, headers, error.to_json().to_string()).into_response();
    if let Some(Millis(milliseconds)) = error.retry_after() {
        let seconds = milliseconds.div_ceil(1_000);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Gives the problems at the addresses for OpenAI clients the form that these clients read.
pub(crate) async fn errors_in_openai_form(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_openai = path == "/v1/chat/completions" || path == "/v1/models" || path.starts_with("/v1/models/");
    let mut response = next.run(request).await;
    if is_openai && let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let error = from_problem(&problem);
        let (mut head, _) = response.into_parts();
        head.headers.remove(CONTENT_LENGTH);
        head.headers.insert(
            CONTENT_TYPE,
            axum::http::HeaderValue::from_static("application/json"),
        );
        return Response::from_parts(head, error.to_json().to_string().into());
    }
    response
}

/// The same error in OpenAI's words, as far as it has a word for it.
pub(super) fn from_problem(problem: &Problem) -> CompletionError {
    let status = problem.status().as_u16();
    let code = match problem.code() {
        "no_token" | "wrong_token" => "invalid_api_key",
        "too_many_requests" => "rate_limit_exceeded",
        other => other,
    };
    let class = match status {
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    CompletionError {
        class: class.to_owned(),
        ..CompletionError::invalid(None, problem.detail())
    }
    .with(status, code)
}

//! Failures are typed by how they can be handled.

use std::time::Duration;

use dirigent_core::message::{ModelFailure, ModelFailureKind};
use dirigent_core::time::Millis;
use dirigent_model::genai::{HostedApi, HostedModel, HostedOptions};
use dirigent_model::{ChatModel, ModelSetupError, Timeouts};
use dirigent_model_server::{HttpAnswer, Then};
use serde_json::{Value, json};

use super::server::{ask, gemini_stream, model, options, request, serve};

fn anthropic(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

fn gemini(code: u64, status: &str, message: &str, details: Value) -> Value {
    json!({"error": {"code": code, "message": message, "status": status, "details": details}})
}

async fn failure(provider: HostedApi, status: &str, headers: &[&str], body: &Value) -> ModelFailure {
    let headers = [&["content-type: application/json"], headers].concat();
    let answer = HttpAnswer::new(status, &headers, body.to_string());
    ask(provider, answer).await.unwrap_err()
}

const UNAVAILABLE: ModelFailureKind = ModelFailureKind::Unavailable { retry_after: None };

#[tokio::test]
async fn refusals_of_anthropic_are_classified() {
    let too_long = "prompt is too long: 210000 tokens > 200000 maximum";
    let no_room =
        "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease input length";
    let no_money =
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.";
    for (status, kind, message, expected) in [
        (
            "401 Unauthorized",
            "authentication_error",
            "invalid x-api-key",
            ModelFailureKind::Configuration,
        ),
        (
            "403 Forbidden",
            "permission_error",
            "not allowed",
            ModelFailureKind::Configuration,
        ),
        (
            "404 Not Found",
            "not_found_error",
            "model: test-model",
            ModelFailureKind::Configuration,
        ),
        (
            "400 Bad Request",
            "invalid_request_error",
            no_money,
            ModelFailureKind::Configuration,
        ),
        (
            "400 Bad Request",
            "invalid_request_error",
            too_long,
            ModelFailureKind::TooLong,
        ),
        (
            "400 Bad Request",
            "invalid_request_error",
            no_room,
            ModelFailureKind::TooLong,
        ),
        (
            "413 Too Large",
            "request_too_large",
            "Request exceeds the maximum size",
            ModelFailureKind::TooLong,
        ),
        (
            "400 Bad Request",
            "invalid_request_error",
            "messages: roles",
            ModelFailureKind::Rejected,
        ),
        ("429 Too Many", "rate_limit_error", "Slow down", UNAVAILABLE),
        ("500 Oops", "api_error", "Internal server error", UNAVAILABLE),
        ("529 Overloaded", "overloaded_error", "Overloaded", UNAVAILABLE),
    ] {
        let failure = failure(HostedApi::Anthropic, status, &[], &anthropic(kind, message)).await;
        assert_eq!(failure.kind, expected, "{failure}");
        assert!(failure.message.contains(message), "{failure}");
    }
}

#[tokio::test]
async fn refusals_of_gemini_are_classified() {
    let too_long = "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).";
    let bad_key = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
    for (status, body, expected) in [
        (
            "400 Bad Request",
            gemini(400, "INVALID_ARGUMENT", "API key not valid.", bad_key),
            ModelFailureKind::Configuration,
        ),
        (
            "400 Bad Request",
            gemini(400, "FAILED_PRECONDITION", "Please enable billing.", json!([])),
            ModelFailureKind::Configuration,
        ),
        (
            "400 Bad Request",
            gemini(400, "INVALID_ARGUMENT", too_long, json!([])),
            ModelFailureKind::TooLong,
        ),
        (
            "400 Bad Request",
            gemini(400, "INVALID_ARGUMENT", "Unknown name", json!([])),
            ModelFailureKind::Rejected,
        ),
        (
            "503 Unavailable",
            gemini(503, "UNAVAILABLE", "Overloaded.", json!([])),
            UNAVAILABLE,
        ),
    ] {
        let failure = failure(HostedApi::Gemini, status, &[], &body).await;
        assert_eq!(failure.kind, expected, "{failure}");
    }
}

#[tokio::test]
async fn the_message_of_a_failure_says_what_to_do() {
    let wrong_key = anthropic("authentication_error", "invalid x-api-key");
    let server = serve([HttpAnswer::json("401 Unauthorized", wrong_key.to_string())]).await;
    let failure = model(&server, HostedApi::Anthropic)
        .chat(request())
        .await
        .unwrap_err();
    let place = server.url("/v1");
    assert_eq!(
        failure.message,
        format!("Anthropic at {place}: it answered 401: invalid x-api-key. Check the model's API key")
    );
    let bad_key = json!([{"reason": "API_KEY_INVALID"}]);
    let body = gemini(400, "INVALID_ARGUMENT", "API key not valid.", bad_key);
    let failure = self::failure(HostedApi::Gemini, "400 Bad Request", &[], &body).await;
    assert!(
        failure
            .message
            .ends_with("it answered 400: API key not valid.. Check the model's API key"),
        "{failure}"
    );
}

#[tokio::test]
async fn host_7_the_retry_delay_of_the_server_is_passed_on() {
    let limited = anthropic("rate_limit_error", "Slow down");
    let asked = |millis| ModelFailureKind::Unavailable {
        retry_after: Some(Millis(millis)),
    };
    let failure = failure(
        HostedApi::Anthropic,
        "429 Too Many",
        &["retry-after: 20"],
        &limited,
    )
    .await;
    assert_eq!(failure.kind, asked(20_000));
    let details = json!([
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "26.5s"},
    ]);
    let limited = gemini(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota.",
        details,
    );
    let failure = self::failure(HostedApi::Gemini, "429 Too Many", &[], &limited).await;
    assert_eq!(failure.kind, asked(26_500));
    // The wait is limited to a day.
    let for_ever = limited.to_string().replace("26.5s", "1000000000s");
    let for_ever = serde_json::from_str(&for_ever).unwrap();
    let failure = self::failure(HostedApi::Gemini, "429 Too Many", &[], &for_ever).await;
    assert_eq!(failure.kind, asked(86_400_000));
    let failure = ask(HostedApi::Gemini, gemini_stream(&[limited]))
        .await
        .unwrap_err();
    assert_eq!(failure.kind, asked(26_500));
}

#[tokio::test]
async fn the_length_of_failure_messages_is_limited() {
    let long = "word ".repeat(10_000);
    let body = anthropic("invalid_request_error", &long);
    let failure = failure(HostedApi::Anthropic, "400 Bad Request", &[], &body).await;
    assert!(failure.message.len() < 700, "{}", failure.message.len());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = serve([]).await;
    let to = format!("location: {}/messages", elsewhere.url("/v1"));
    for provider in [HostedApi::Anthropic, HostedApi::Gemini] {
        let failure = ask(provider, HttpAnswer::new("307 Moved", &[&to], ""))
            .await
            .unwrap_err();
        assert_eq!(failure.kind, ModelFailureKind::Configuration);
        assert!(failure.message.contains(&elsewhere.url("/v1")), "{failure}");
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn an_unreachable_or_silent_server_is_unavailable() {
    let server = serve([HttpAnswer::stream("").then(Then::Hang)]).await;
    let mut options = options(&server, HostedApi::Anthropic);
    options.timeouts = Timeouts {
        first: Duration::from_millis(50),
        ..Timeouts::default()
    };
    let silent = HostedModel::new(options)
        .unwrap()
        .chat(request())
        .await
        .unwrap_err();
    assert_eq!(silent.kind, UNAVAILABLE);

    let nobody = HostedOptions::new(HostedApi::Anthropic, "http://127.0.0.1:1/v1", "m");
    let nobody = HostedModel::new(nobody)
        .unwrap()
        .chat(request())
        .await
        .unwrap_err();
    assert_eq!(nobody.kind, UNAVAILABLE);
    assert!(nobody.message.contains("it can't be reached"), "{nobody}");

    let torn = HttpAnswer::new("200 OK", &["content-length: 1000"], "data: ");
    let torn = ask(HostedApi::Gemini, torn).await.unwrap_err();
    assert_eq!(torn.kind, UNAVAILABLE);
    assert!(torn.message.contains("its response can't be read"), "{torn}");
}

#[test]
fn errors_in_the_options_of_a_model_are_reported() {
    let options = |base_url| HostedOptions::new(HostedApi::Anthropic, base_url, "m");
    let error = |options| HostedModel::new(options).unwrap_err();
    assert!(matches!(
        error(options("somewhere")),
        ModelSetupError::BaseUrl { .. }
    ));
    assert_eq!(
        error(options("https://me@example.com")),
        ModelSetupError::CredentialsInUrl
    );
    assert_eq!(
        error(options("https://example.com").api_key("two\nlines")),
        ModelSetupError::ApiKey
    );
}

//! Failures, by how they can be handled.

use std::time::Duration;

use dirigent_core::message::ModelFailureKind;
use dirigent_core::time::Millis;
use dirigent_model::openai::{Delivery, OpenAiModel, OpenAiOptions};
use dirigent_model::{ChatModel, ModelSetupError, Timeouts};
use dirigent_model_server::{HttpAnswer, HttpServer, Then};

use super::server::{ask, options, request, serve};

const BOTH: [Delivery; 2] = [Delivery::Streamed, Delivery::Whole];
const UNAVAILABLE: ModelFailureKind = ModelFailureKind::Unavailable { retry_after: None };

#[tokio::test]
async fn an_error_status_is_classified_and_quotes_the_server() {
    for delivery in BOTH {
        for (status, body, kind, says) in [
            (
                "401 Unauthorized",
                r#"{"error": {"message": "bad key"}}"#,
                ModelFailureKind::Configuration,
                "answered 401: bad key. Check the model's API key",
            ),
            (
                "404 Not Found",
                r#"{"error": {"message": "no such model"}}"#,
                ModelFailureKind::Configuration,
                "answered 404: no such model. Check the model's name and its base_url",
            ),
            (
                "400 Bad Request",
                r#"{"error": {"message": "x", "code": "context_length_exceeded"}}"#,
                ModelFailureKind::TooLong,
                "answered 400: x",
            ),
            (
                "400 Bad Request",
                r#"{"error": {"message": "temperature is odd"}}"#,
                ModelFailureKind::Rejected,
                "answered 400: temperature is odd",
            ),
            (
                "503 Service Unavailable",
                "",
                UNAVAILABLE,
                "answered 503: (empty)",
            ),
        ] {
            let failure = ask(delivery, HttpAnswer::json(status, body)).await.unwrap_err();
            assert_eq!(failure.kind, kind, "{status}");
            assert!(failure.message.ends_with(says), "{failure}");
        }
    }
}

#[tokio::test]
async fn host_7_a_429_says_how_long_to_wait() {
    for delivery in BOTH {
        for (header, wait) in [
            ("retry-after: 7", 7_000),
            ("retry-after: Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("retry-after-ms: 30", 30),
        ] {
            let answer = HttpAnswer::new("429 Too Many Requests", &[header], "slow down");
            let failure = ask(delivery, answer).await.unwrap_err();
            let retry_after = Some(Millis(wait));
            assert_eq!(
                failure.kind,
                ModelFailureKind::Unavailable { retry_after },
                "{header}"
            );
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let answer = HttpAnswer::new("301 Moved", &["location: https://elsewhere.example/v1"], "");
    let failure = ask(Delivery::Whole, answer).await.unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Configuration);
    assert!(
        failure
            .message
            .contains("a redirect to https://elsewhere.example/v1"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_web_page_means_a_wrong_address() {
    for delivery in BOTH {
        let answer = HttpAnswer::new("200 OK", &["content-type: text/html"], "<html>Log in</html>");
        let failure = ask(delivery, answer).await.unwrap_err();
        assert_eq!(failure.kind, ModelFailureKind::Configuration);
        assert!(failure.message.contains("Check base_url"), "{failure}");
    }
}

#[tokio::test]
async fn an_interrupted_reply_in_one_piece_counts_as_unavailable() {
    let whole = ["content-type: application/json", "content-length: 1000"];
    for answer in [
        HttpAnswer::new("200 OK", &whole, r#"{"choices": [{"#),
        HttpAnswer::json("200 OK", r#"{"choices": [{"#),
        HttpAnswer::json("200 OK", r#"{"choices": []}"#),
        HttpAnswer::json("200 OK", "null"),
    ] {
        assert_eq!(ask(Delivery::Whole, answer).await.unwrap_err().kind, UNAVAILABLE);
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_named() {
    for delivery in BOTH {
        let failure = ask(delivery, HttpAnswer::raw("")).await.unwrap_err();
        assert_eq!(failure.kind, UNAVAILABLE, "{failure}");
        assert!(
            failure.message.starts_with("model server http://127.0.0.1:"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn an_https_address_of_a_server_without_tls_is_a_configuration_error() {
    let server = HttpServer::greeting(b"I speak plainly.").await.unwrap();
    let base_url = server.url("/v1").replace("http:", "https:");
    let model = OpenAiModel::new(OpenAiOptions::new(base_url, "m")).unwrap();
    let failure = model.chat(request()).await.unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Configuration, "{failure}");
    assert!(failure.message.contains("Check base_url"), "{failure}");
}

#[tokio::test]
async fn the_whole_request_has_a_time_limit() {
    for delivery in BOTH {
        let begun = HttpAnswer::json("200 OK", r#"{"choices""#).then(Then::Hang);
        for answer in [HttpAnswer::silence(), begun] {
            let server = serve([answer]).await;
            let options = OpenAiOptions {
                timeouts: Timeouts {
                    total: Duration::from_millis(50),
                    ..Timeouts::default()
                },
                ..options(&server, delivery)
            };
            let failure = OpenAiModel::new(options)
                .unwrap()
                .chat(request())
                .await
                .unwrap_err();
            assert_eq!(failure.kind, UNAVAILABLE);
        }
    }
}

#[test]
fn options_that_cannot_work_are_refused_at_once() {
    let refused = |url: &str| OpenAiModel::new(OpenAiOptions::new(url, "m")).unwrap_err();
    assert!(matches!(
        refused("localhost:8080/v1"),
        ModelSetupError::BaseUrl { .. }
    ));
    assert!(matches!(refused("/v1"), ModelSetupError::BaseUrl { .. }));
    assert_eq!(
        refused("https://me:secret@example.com/v1"),
        ModelSetupError::CredentialsInUrl
    );
    let options = OpenAiOptions::new("https://example.com/v1", "m").api_key("line\nbreak");
    assert_eq!(OpenAiModel::new(options).unwrap_err(), ModelSetupError::ApiKey);
    let mut options = OpenAiOptions::new("https://example.com/v1", "m");
    options.extra.insert("stream".to_owned(), true.into());
    let field = "stream".to_owned();
    assert_eq!(
        OpenAiModel::new(options).unwrap_err(),
        ModelSetupError::ReservedField { field }
    );
}

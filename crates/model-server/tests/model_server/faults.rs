//! Every fault in place of a reply, as it is on the wire.

use dirigent_model_server::{Fault, ModelServer, RetryAfter, Script, Turn};
use serde_json::{Value, json};

use crate::socket::{Answer, answer_to, asking, open, post, read_until, streaming};

/// The fault for a plain request and for a stream.
async fn both(fault: Fault) -> [Answer; 2] {
    [
        answer_to(fault.clone(), asking("Hi")).await,
        answer_to(fault, streaming(asking("Hi"))).await,
    ]
}

#[tokio::test]
async fn every_refusal_has_its_status_type_and_code() {
    let invalid = "invalid_request_error";
    let context = Fault::ContextLengthExceeded {
        limit: 8192,
        requested: 9001,
    };
    let other = Fault::status(418, "I am a teapot.").unwrap();
    let cases: [(Fault, u16, &str, Value); 15] = [
        (context, 400, invalid, json!("context_length_exceeded")),
        (Fault::InvalidApiKey, 401, invalid, json!("invalid_api_key")),
        (Fault::Forbidden, 403, invalid, Value::Null),
        (Fault::ModelNotFound, 404, invalid, json!("model_not_found")),
        (Fault::RequestTimeout, 408, invalid, Value::Null),
        (Fault::Conflict, 409, invalid, Value::Null),
        (Fault::PayloadTooLarge, 413, invalid, Value::Null),
        (Fault::Unprocessable, 422, invalid, Value::Null),
        (
            Fault::RateLimited { retry_after: None },
            429,
            "requests",
            json!("rate_limit_exceeded"),
        ),
        (
            Fault::QuotaExceeded,
            429,
            "insufficient_quota",
            json!("insufficient_quota"),
        ),
        (Fault::ServerError, 500, "server_error", Value::Null),
        (Fault::BadGateway, 502, "server_error", Value::Null),
        (
            Fault::Unavailable { retry_after: None },
            503,
            "server_error",
            Value::Null,
        ),
        (Fault::Overloaded, 529, "overloaded_error", Value::Null),
        (other, 418, invalid, Value::Null),
    ];
    for (fault, status, kind, code) in cases {
        for answer in both(fault.clone()).await {
            assert_eq!(answer.status, status, "{fault:?}");
            assert_eq!(
                answer.header("content-type"),
                Some("application/json"),
                "{fault:?}"
            );
            assert_eq!(answer.header("retry-after"), None, "{fault:?}");
            assert_eq!(answer.json()["error"]["type"], kind, "{fault:?}");
            assert_eq!(answer.json()["error"]["code"], code, "{fault:?}");
            assert!(answer.complete, "{fault:?}");
        }
    }
}

#[tokio::test]
async fn messages_that_clients_read_are_worded_as_the_api_words_them() {
    let [answer, _] = both(Fault::ContextLengthExceeded {
        limit: 8192,
        requested: 9001,
    })
    .await;
    assert_eq!(
        answer.json(),
        json!({ "error": {
            "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 \
                        tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }})
    );
    let [answer, _] = both(Fault::ModelNotFound).await;
    assert_eq!(
        answer.json()["error"]["message"],
        "The model `m` does not exist or you do not have access to it."
    );
}

#[tokio::test]
async fn retry_after_is_seconds_or_a_date() {
    let seconds = Some(RetryAfter::Seconds(7));
    for fault in [
        Fault::RateLimited { retry_after: seconds },
        Fault::Unavailable { retry_after: seconds },
    ] {
        for answer in both(fault).await {
            assert_eq!(answer.header("retry-after"), Some("7"));
        }
    }

    let before = jiff::Timestamp::now().as_second();
    let date = Fault::RateLimited {
        retry_after: Some(RetryAfter::DateInSeconds(3600)),
    };
    let [answer, _] = both(date).await;
    let header = answer.header("retry-after").unwrap();
    let at = jiff::fmt::rfc2822::parse(header).unwrap().timestamp().as_second();
    assert!(header.ends_with(" GMT"), "{header}");
    assert!((before + 3600..before + 4200).contains(&at), "{header}");
}

#[tokio::test]
async fn retry_after_may_be_milliseconds_in_a_header_of_its_own() {
    let retry_after = Some(RetryAfter::Millis(250));
    for answer in both(Fault::RateLimited { retry_after }).await {
        assert_eq!(answer.header("retry-after-ms"), Some("250"));
        assert_eq!(answer.header("retry-after"), None);
    }
}

#[tokio::test]
async fn a_redirect_says_where_to() {
    let to = "https://example.test/v1".to_owned();
    for answer in both(Fault::Redirect { to }).await {
        assert_eq!(answer.status, 307);
        assert_eq!(answer.header("location"), Some("https://example.test/v1"));
        assert!(answer.complete);
    }
}

#[tokio::test]
async fn an_empty_body_comes_with_a_good_status_and_type() {
    let [plain, stream] = both(Fault::EmptyBody).await;
    assert_eq!(
        (plain.status, plain.header("content-type")),
        (200, Some("application/json"))
    );
    assert_eq!(
        (stream.status, stream.header("content-type")),
        (200, Some("text/event-stream; charset=utf-8"))
    );
    for answer in [plain, stream] {
        assert!(answer.complete && answer.bytes().is_empty());
    }
}

#[tokio::test]
async fn an_error_page_is_html() {
    for answer in both(Fault::html_page(502).unwrap()).await {
        assert_eq!(answer.status, 502);
        assert_eq!(answer.header("content-type"), Some("text/html"));
        assert!(answer.text().starts_with("<html>"));
        assert!(answer.text().contains("<h1>502 Bad Gateway</h1>"));
    }
}

#[tokio::test]
async fn only_errors_are_taken_as_a_fault_s_status() {
    assert_eq!(Fault::status(200, "fine"), None);
    assert_eq!(Fault::html_page(302), None);
    assert_eq!(Fault::html_page(200).map(|_| ()), Some(()));
    assert_eq!(Fault::status(600, "unknown"), None);
}

#[tokio::test]
async fn a_connection_closes_without_a_byte() {
    let turns = [
        Fault::ClosedBeforeHeaders.into(),
        Fault::ClosedBeforeHeaders.into(),
        Turn::text("Hi"),
    ];
    let server = ModelServer::start(Script::turns(turns)).await.unwrap();

    assert!(post(&server, &asking("Hi")).await.is_none());
    assert!(post(&server, &streaming(asking("Hi"))).await.is_none());
    assert_eq!(post(&server, &asking("Hi")).await.unwrap().status, 200);
    assert!(server.hang_ups().is_empty(), "it was the server that closed");
}

#[tokio::test]
async fn garbage_comes_with_a_good_status_and_type() {
    let [plain, stream] = both(Fault::Garbage).await;

    assert_eq!(
        (plain.status, plain.header("content-type")),
        (200, Some("application/json"))
    );
    assert_eq!(plain.text(), "<garbage>");
    assert_eq!(
        (stream.status, stream.header("content-type")),
        (200, Some("text/event-stream; charset=utf-8"))
    );
    assert_eq!(stream.text(), "data: <garbage>\n\n");
}

#[tokio::test]
async fn comments_come_for_ever_until_the_client_goes() {
    let endless = || Fault::EndlessKeepAlive { every_ms: 1 }.into();
    let server = ModelServer::start(Script::turns([endless(), endless()]))
        .await
        .unwrap();

    let mut socket = open(&server, "application/json", &streaming(asking("Hi")).to_string()).await;
    let mut read = String::new();
    for _ in 0..3 {
        read_until(&mut socket, &mut read, ": keep-alive\n\n").await;
        read.clear();
    }
    drop(socket);
    assert_eq!(server.wait_for_hang_ups(1).await, [1]);

    let mut socket = open(&server, "application/json", &asking("Hi").to_string()).await;
    let mut read = String::new();
    read_until(&mut socket, &mut read, "1\r\n\n\r\n1\r\n\n\r\n1\r\n\n\r\n").await;
    drop(socket);
    assert_eq!(server.wait_for_hang_ups(2).await, [1, 2]);
}

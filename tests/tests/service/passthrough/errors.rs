//! Errors in OpenAI's form.

use dirigent_model_server::{Fault, RetryAfter, Script, Turn};
use serde_json::{Value, json};

use super::{COMPLETIONS, Door, error, offline, says, serve, with};

/// The status, the error and the retry delay that a client gets. A stream that has not begun fails like any other request.
async fn upstream_error(fault: Fault) -> (u16, Value, String) {
    let mut replies = Vec::new();
    for stream in [false, true] {
        let fault = fault.clone();
        let door = Door::open(Script::from_fn(move |_| fault.clone().into())).await;
        let reply = door.post(&with(says("hi"), json!({"stream": stream}))).await;
        let (status, error) = error(&reply);
        replies.push((
            status,
            error["code"].clone(),
            reply.header("retry-after").to_owned(),
        ));
        door.close().await;
    }
    let streamed = replies.pop().unwrap();
    assert_eq!(replies.pop().as_ref(), Some(&streamed), "{fault:?}");
    streamed
}

#[tokio::test]
async fn host_3_errors_of_the_service_have_openais_form() {
    let server = offline().await;
    let client = &server.client;
    let stranger = client.without_token();
    for reply in [
        stranger.post(COMPLETIONS, &says("hi")).await,
        stranger.get("/v1/models").await,
        client
            .send(
                "POST",
                COMPLETIONS,
                &[("authorization", "Bearer wrong")],
                Some(&says("hi")),
            )
            .await,
    ] {
        let (status, error) = error(&reply);
        assert_eq!((status, &error["code"]), (401, &json!("invalid_api_key")));
        assert_eq!(reply.header("www-authenticate"), "Bearer realm=\"dirigent\"");
    }
    let long = [("content-length", "99999999999")];
    let form = [("content-type", "application/x-www-form-urlencoded")];
    for (reply, expected) in [
        (client.get(COMPLETIONS).await, (405, "wrong_method")),
        (
            client.send("POST", COMPLETIONS, &form, Some(&says("hi"))).await,
            (415, "not_json"),
        ),
        (
            client.send("POST", COMPLETIONS, &long, Some(&says("hi"))).await,
            (413, "body_too_large"),
        ),
        (
            client
                .send("POST", COMPLETIONS, &[("host", "evil.example")], None)
                .await,
            (421, "wrong_host"),
        ),
        (
            client
                .send("POST", COMPLETIONS, &[("origin", "http://evil.example")], None)
                .await,
            (403, "cross_site"),
        ),
        (
            client
                .post(COMPLETIONS, &with(says("hi"), json!({"model": "large"})))
                .await,
            (404, "model_not_found"),
        ),
    ] {
        let (status, error) = error(&reply);
        assert_eq!((status, error["code"].as_str().unwrap()), expected);
    }
    // Other addresses keep their form.
    assert_eq!(stranger.get("/v1/runs").await.problem().0, 401);
    server.stop().await;
}

#[tokio::test]
async fn prompt_3_invalid_requests_name_the_field() {
    let server = offline().await;
    let name = json!({"model": "default"});
    for (request, param) in [
        (json!([]), Value::Null),
        (json!({"messages": says("hi")["messages"]}), json!("model")),
        (json!({"model": "default"}), json!("messages")),
        (json!({"model": "default", "messages": []}), json!("messages")),
        (
            with(with(says("hi"), name.clone()), json!({"stream": "yes"})),
            json!("stream"),
        ),
        (with(with(says("hi"), name.clone()), json!({"n": 2})), json!("n")),
        (
            with(with(says("hi"), name.clone()), json!({"logprobs": true})),
            json!("logprobs"),
        ),
        (
            with(with(says("hi"), name), json!({"new_field": 1})),
            json!("new_field"),
        ),
    ] {
        let reply = server.client.post(COMPLETIONS, &request).await;
        let (status, error) = error(&reply);
        assert_eq!((status, &error["param"]), (400, &param), "{request}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    server.stop().await;
}

#[tokio::test]
async fn host_7_errors_of_the_models_server_keep_their_meaning() {
    let seconds = Some(RetryAfter::Seconds(7));
    for (fault, status, code, retry_after) in [
        (
            Fault::RateLimited { retry_after: seconds },
            429,
            "rate_limit_exceeded",
            "7",
        ),
        (Fault::QuotaExceeded, 429, "insufficient_quota", ""),
        (Fault::ContextLengthExceeded, 400, "context_length_exceeded", ""),
        (Fault::ModelNotFound, 404, "model_not_found", ""),
        (Fault::Status(400, "no"), 400, "upstream_rejected", ""),
        (Fault::Status(422, "no"), 422, "upstream_rejected", ""),
        // The service's own key is wrong, not the client's.
        (Fault::InvalidApiKey, 502, "upstream_misconfigured", ""),
        (
            Fault::Redirect {
                to: "http://localhost:1".to_owned(),
            },
            502,
            "upstream_misconfigured",
            "",
        ),
        (Fault::Status(500, "no"), 502, "upstream_failed", ""),
        (
            Fault::Unavailable { retry_after: seconds },
            503,
            "upstream_unavailable",
            "7",
        ),
        (Fault::Status(504, "no"), 504, "upstream_timeout", ""),
        (Fault::HtmlPage(502), 502, "upstream_failed", ""),
        (Fault::HtmlPage(200), 502, "upstream_misconfigured", ""),
        (Fault::ClosedBeforeHeaders, 502, "upstream_failed", ""),
        (Fault::Garbage, 502, "upstream_failed", ""),
        (Fault::EmptyBody, 502, "upstream_failed", ""),
    ] {
        let what = format!("{fault:?}");
        let got = upstream_error(fault).await;
        assert_eq!(
            (got.0, got.1.as_str(), got.2.as_str()),
            (status, Some(code), retry_after),
            "{what}"
        );
    }
}

#[tokio::test]
async fn prompt_3_a_server_that_cannot_be_reached_and_a_missing_key_are_told_apart() {
    // A bound port on which nothing listens.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    let server = serve(&format!(
        "[models.gone]\nprovider = \"openai\"\nname = \"x\"\nbase_url = \"http://{address}/v1\"\nattempts = 1\n\
         [models.keyless]\nprovider = \"openai\"\nname = \"x\"\napi_key_env = \"NO_SUCH_KEY\"\n"
    ))
    .await;
    for (model, expected) in [
        ("gone", (502, "upstream_failed")),
        ("keyless", (422, "model_not_set_up")),
    ] {
        let reply = server
            .client
            .post(COMPLETIONS, &with(says("hi"), json!({"model": model})))
            .await;
        let (status, error) = error(&reply);
        assert_eq!((status, error["code"].as_str().unwrap()), expected, "{error}");
    }
    server.stop().await;
}

#[tokio::test]
async fn prompt_3_a_server_that_is_silent_times_out() {
    let settings = "attempts = 1\ntimeout = \"100ms\"";
    let door = Door::with_settings(Script::from_fn(|_| Fault::EndlessKeepAlive.into()), settings).await;
    for stream in [true, false] {
        let reply = door.post(&with(says("hi"), json!({"stream": stream}))).await;
        let (status, error) = error(&reply);
        assert_eq!(
            (status, &error["code"]),
            (504, &json!("upstream_timeout")),
            "{error}"
        );
    }
    door.close().await;
}

#[tokio::test]
async fn host_7_a_request_is_repeated_only_before_its_reply_begins() {
    use dirigent_model_server::{Flaw, Matcher, Reply, Rule};
    let broken = Reply::text("A reply of several events.").with_flaw(Flaw::CutBetweenEvents);
    let script = Script::rules([
        Rule::new(
            Matcher::user("early"),
            [Fault::Status(500, "no").into(), Turn::text("Fine.")],
        ),
        Rule::new(
            Matcher::user("late"),
            [broken.into(), Turn::text("Not asked for.")],
        ),
    ]);
    let door = Door::with_settings(script, "attempts = 2").await;
    let reply = door.post(&with(says("early"), json!({"stream": true}))).await;
    assert!(reply.body.ends_with("data: [DONE]\n\n"), "{reply:?}");
    let reply = door.post(&with(says("late"), json!({"stream": true}))).await;
    assert!(
        reply.body.contains("\"error\"") && !reply.body.contains("Not"),
        "{reply:?}"
    );
    assert_eq!(door.upstream.requests().len(), 3);
    door.close().await;
}

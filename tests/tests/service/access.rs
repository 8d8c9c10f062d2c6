//! HOST-3: who may use the service, and attacks on it.

use dirigent::{Goal, OfflineModel};
use dirigent_server::ServerOptions;
use dirigent_tests::http_client::Client;
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::json;

async fn server() -> TestServer {
    TestServer::start(Stage::new(), OfflineModel).await
}

#[tokio::test]
async fn host_3_everything_but_the_health_check_needs_the_token() {
    let server = server().await;
    let stranger = server.client.without_token();
    stranger.get("/health").await.with_status(200);
    for path in [
        "/",
        "/v1/runs",
        "/v1/approvals",
        "/context",
        "/nowhere",
        "/v1/runs/../../health",
        "/health/",
        "//health",
    ] {
        assert_eq!(
            stranger.get(path).await.problem(),
            (401, "no_token".to_owned()),
            "{path}"
        );
    }
    for path in ["/health", "/?token=guessed"] {
        let changing = stranger
            .send("POST", path, &[("idempotency-key", "one")], None)
            .await;
        assert_eq!(changing.problem(), (401, "no_token".to_owned()), "{path}");
    }
    let started = stranger
        .post("/v1/runs", &json!({"goal": "Count the files"}))
        .await;
    assert_eq!(started.header("www-authenticate"), "Bearer realm=\"dirigent\"");
    assert_eq!(started.problem(), (401, "no_token".to_owned()));
    assert_eq!(server.client.get("/v1/runs").await.with_status(200)["total"], 0);
    server.stop().await;
}

#[tokio::test]
async fn host_3_a_wrong_token_is_refused_in_every_form() {
    let server = server().await;
    let token = server.client.token.clone().unwrap();
    let stranger = server.client.without_token();
    let (shorter, longer, upper) = (&token[1..], format!("{token}0"), token.to_uppercase());
    for sent in [
        format!("Bearer {shorter}"),
        format!("Bearer {longer}"),
        format!("Bearer {upper}"),
        format!("Basic {token}"),
        format!("Bearer{token}"),
        token.clone(),
        "Bearer ".to_owned(),
        String::new(),
    ] {
        let reply = stranger
            .send("GET", "/v1/runs", &[("authorization", &sent)], None)
            .await;
        let expected = match sent.strip_prefix("Bearer ") {
            Some(token) if !token.is_empty() => "wrong_token",
            _ => "no_token",
        };
        assert_eq!(reply.problem(), (401, expected.to_owned()), "{sent}");
    }
    // The token is no session.
    for (cookie, expected) in [
        ("dirigent_session_PORT=", "no_session"),
        ("dirigent_session_PORT=TOKEN", "no_session"),
        ("xdirigent_session_PORT=TOKEN", "no_token"),
        ("dirigent_session=TOKEN", "no_token"),
        ("dirigent_token=TOKEN", "no_token"),
    ] {
        let port = server.client.address.port().to_string();
        let cookie = cookie.replace("TOKEN", &token).replace("PORT", &port);
        let reply = stranger
            .send("GET", "/v1/runs", &[("cookie", &cookie)], None)
            .await;
        assert_eq!(reply.problem(), (401, expected.to_owned()), "{cookie}");
    }
    let lower_case = format!("bearer {token}");
    stranger
        .send("GET", "/v1/runs", &[("authorization", &lower_case)], None)
        .await
        .with_status(200);
    server.stop().await;
}

#[tokio::test]
async fn host_5_the_link_exchanges_the_token_for_a_session_that_scripts_cannot_read() {
    let mut server = server().await;
    let token = server.client.token.clone().unwrap();
    let browser = server.client.without_token();
    let entered = browser.get(&format!("/?token={token}")).await;
    assert_eq!((entered.status, entered.header("location")), (303, "/"));
    let cookie = entered.header("set-cookie");
    assert!(
        cookie.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    let name = format!("dirigent_session_{}=", server.client.address.port());
    assert!(cookie.starts_with(&name) && !cookie.contains(&token), "{cookie}");
    let cookie = cookie.split_once(';').unwrap().0.to_owned();
    let page = browser
        .send("GET", "/", &[("cookie", &format!("theme=dark; {cookie}"))], None)
        .await;
    assert_eq!(page.status, 200);
    assert!(!page.body.contains(&token));
    browser
        .send("GET", "/v1/runs", &[("cookie", &cookie)], None)
        .await
        .with_status(200);
    let again = browser.get(&format!("/?token={token}")).await;
    assert_ne!(again.header("set-cookie"), entered.header("set-cookie"));
    assert_eq!(
        browser.get("/?token=wrong").await.problem(),
        (401, "wrong_token".to_owned())
    );

    // A restart on the same port does not end the session; another token does.
    let address = server.client.address;
    let same_port = |options| ServerOptions {
        listen: address,
        ..options
    };
    server.begin_to_stop();
    let stage = server.stopped().await;
    let server = TestServer::with_options(stage, OfflineModel, same_port).await;
    browser
        .send("GET", "/v1/runs", &[("cookie", &cookie)], None)
        .await
        .with_status(200);
    let stage = server.stop().await;
    std::fs::remove_file(stage.journal().with_extension("token")).unwrap();
    let server = TestServer::with_options(stage, OfflineModel, same_port).await;
    let ended = browser
        .send("GET", "/v1/runs", &[("cookie", &cookie)], None)
        .await;
    assert_eq!(ended.problem(), (401, "no_session".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn host_5_requests_for_another_host_are_refused_even_with_the_token() {
    let change = |options: ServerOptions| ServerOptions {
        hosts: vec!["dirigent.example".to_owned()],
        ..options
    };
    let server = TestServer::with_options(Stage::new(), OfflineModel, change).await;
    let port = server.client.address.port();
    let status = async |host: &str| {
        server
            .client
            .send("GET", "/v1/runs", &[("host", host)], None)
            .await
            .status
    };
    for own in [
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        format!("[::1]:{port}"),
        "DIRIGENT.example".to_owned(),
    ] {
        assert_eq!(status(&own).await, 200, "{own}");
    }
    for other in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "user@localhost",
        "localhost@evil.example",
        "dirigent.example.",
        "",
    ] {
        assert_ne!(status(other).await, 200, "{other}");
    }
    assert_eq!(status("evil.example").await, 421);
    let both = [("host", "localhost"), ("host", "evil.example")];
    assert_eq!(
        server.client.send("GET", "/v1/runs", &both, None).await.status,
        421
    );
    // A request line with a host of its own.
    let absolute = server
        .client
        .request("GET", "http://evil.example/v1/runs", &[], None);
    assert_eq!(
        server.client.raw(&absolute).await.problem(),
        (421, "wrong_host".to_owned())
    );
    server.stop().await;
}

#[tokio::test]
async fn host_5_requests_by_pages_of_other_origins_are_refused() {
    let server = server().await;
    let own = format!("http://{}", server.client.address);
    let start = async |headers: &[(&str, &str)]| {
        let goal = json!({"goal": "Count the files"});
        server.client.send("POST", "/v1/runs", headers, Some(&goal)).await
    };
    for origin in [
        "http://evil.example",
        "https://evil.example",
        "null",
        "",
        "http://localhost:1",
        "file://",
    ] {
        assert_eq!(
            start(&[("origin", origin)]).await.problem(),
            (403, "cross_site".to_owned()),
            "{origin}"
        );
    }
    for site in ["cross-site", "same-site"] {
        assert_eq!(
            start(&[("sec-fetch-site", site)]).await.problem(),
            (403, "cross_site".to_owned()),
            "{site}"
        );
    }
    let asks_first = [
        ("origin", "http://evil.example"),
        ("access-control-request-method", "POST"),
    ];
    let preflight = server
        .client
        .without_token()
        .send("OPTIONS", "/v1/runs", &asks_first, None)
        .await;
    assert_eq!(preflight.status, 403);
    assert_eq!(preflight.header("access-control-allow-origin"), "");
    // A form of another site can only declare other types.
    let form = [("content-type", "text/plain")];
    assert_eq!(start(&form).await.problem(), (415, "not_json".to_owned()));
    assert_eq!(server.client.get("/v1/runs").await.json()["total"], 0);
    assert_eq!(
        start(&[("origin", &own), ("sec-fetch-site", "same-origin")])
            .await
            .status,
        201
    );
    server.stop().await;
}

#[tokio::test]
async fn host_3_paths_cannot_leave_their_address_and_headers_cannot_be_injected() {
    let server = server().await;
    for path in [
        "/v1/runs/..%2f..%2fetc%2fpasswd",
        "/v1/runs/%00",
        "/v1/runs/%ff",
        "/v1/runs/%0d%0aset-cookie:%20a=b",
        "/v1/runs/last%0d%0ax: y/events",
        "/v1//runs",
        "/context/..%2f..",
    ] {
        let path = path.replace(' ', "%20");
        let reply = server.client.get(&path).await;
        assert!([400, 404].contains(&reply.status), "{path}: {reply:?}");
        assert_eq!(reply.header("set-cookie"), "", "{path}");
        assert_eq!(reply.header("x"), "", "{path}");
    }
    let split = b"GET /v1/runs HTTP/1.1\r\nhost: localhost\r\nx: a\rb\r\n\r\n";
    assert_eq!(server.client.raw(split).await.status, 400);
    let smuggled = b"POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_ne!(server.client.raw(smuggled).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn host_3_every_response_forbids_caching_and_content_that_browsers_would_run() {
    let server = server().await;
    for path in ["/v1/runs", "/health", "/nowhere"] {
        let reply = server.client.get(path).await;
        assert_eq!(reply.header("cache-control"), "no-store");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(
            reply.header("content-security-policy"),
            "default-src 'none'; frame-ancestors 'none'"
        );
    }
    assert_eq!(
        server.client.get("/nowhere").await.problem(),
        (404, "unknown_address".to_owned())
    );
    let wrong = server.client.delete("/v1/runs").await;
    assert_eq!(
        (wrong.problem(), wrong.header("allow")),
        ((405, "wrong_method".to_owned()), "GET,HEAD,POST")
    );
    server.stop().await;
}

#[tokio::test]
async fn host_3_a_token_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let created = dirigent_server::Token::load_or_create(&path).unwrap();
    assert_eq!(created.origin, dirigent_server::TokenOrigin::Created);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(format!("{:?}", created.token), "Token(…)");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = dirigent_server::Token::load(&path).unwrap_err();
    assert!(refused.to_string().contains("chmod 600"), "{refused}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, "short\n").unwrap();
    let refused = dirigent_server::Token::load(&path).unwrap_err();
    assert!(
        refused.to_string().contains("does not contain a token"),
        "{refused}"
    );
}

#[tokio::test]
async fn host_3_another_server_does_not_accept_the_token() {
    let (one, other) = (server().await, server().await);
    let mistaken = Client {
        address: other.client.address,
        ..one.client.clone()
    };
    assert_eq!(mistaken.get("/v1/runs").await.status, 401);
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn host_5_no_request_makes_agents_work_where_the_token_or_the_journal_is() {
    let server = server().await;
    let folder = server.stage.journal().parent().unwrap().to_owned();
    let link = server.stage.workspace().join("up");
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    for folder in [folder.as_path(), std::path::Path::new("/"), &link] {
        let started = json!({"goal": "Count the files", "workspace": folder});
        let begun = json!({"workspace": folder});
        for (path, body) in [("/v1/runs", &started), ("/context", &begun)] {
            assert_eq!(
                server.client.post(path, body).await.problem(),
                (422, "unusable_workspace".to_owned()),
                "{path} {body}"
            );
        }
    }
    assert_eq!(server.client.get("/v1/runs").await.json()["total"], 0);
    assert_eq!(
        server.client.get("/context").await.json()["conversations"],
        json!([])
    );

    // Other programs of the user may work there.
    let run = server
        .dirigent
        .start(Goal::new("Count the files").workspace(&folder))
        .await
        .unwrap();
    run.outcome().await.unwrap();
    for request in ["resume", "fork"] {
        let path = format!("/v1/runs/{}/{request}", run.id());
        let refused = server.client.post(&path, &json!({})).await;
        assert_eq!(
            refused.problem(),
            (422, "unusable_workspace".to_owned()),
            "{request}"
        );
    }
    server.stop().await;
}

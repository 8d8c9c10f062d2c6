//! HOST-3: the description of the API in OpenAPI, and the reference that is made from it.

use std::fs;

use dirigent::OfflineModel;
use dirigent_server::{openapi, reference_markdown};
use dirigent_tests::cli::root;
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::json;

const HEAD: &str = "# HTTP API\n\nAll requests of [the service](service.md). Required inputs are bold. The running service has the same as a page at `/reference`, and as OpenAPI 3.1 at `/openapi.json`; \
                    errors are `application/problem+json`, as [the service](service.md#errors) describes. This page is generated: `DIRIGENT_UPDATE_HTTP_API=1 cargo test -p dirigent-tests http_api` updates it.\n\n";

#[test]
fn host_3_the_http_api_page_is_the_description() {
    let path = root().join("docs/http-api.md");
    let expected = format!("{HEAD}{}", reference_markdown()).trim_end().to_owned() + "\n";
    if std::env::var_os("DIRIGENT_UPDATE_HTTP_API").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == expected,
        "docs/http-api.md is stale: DIRIGENT_UPDATE_HTTP_API=1 updates it"
    );
}

#[tokio::test]
async fn host_3_the_server_describes_itself() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let document = server.client.get("/openapi.json").await.with_status(200);
    assert_eq!(&document, openapi());
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    // Every reference to a schema has one.
    let text = document.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let (name, _) = part.split_once('"').unwrap();
        assert!(!document["components"]["schemas"][name].is_null(), "{name}");
    }
    let page = server.client.get("/reference").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(page.body.contains("/context/{conversation}/messages"));
    for path in ["/openapi.json", "/reference"] {
        assert_eq!(server.client.without_token().get(path).await.problem().0, 401);
    }
    server.stop().await;
}

#[tokio::test]
async fn host_3_every_described_address_exists_and_no_other_method() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let all = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    for (path, item) in openapi()["paths"].as_object().unwrap() {
        let described: Vec<String> = item
            .as_object()
            .unwrap()
            .keys()
            .map(|key| key.to_uppercase())
            .collect();
        // Nothing has these names, so no request changes anything.
        let path = made_up(path);
        for method in all {
            // Without a body, requests that need one are refused.
            let reply = server
                .client
                .send(method, &path, &[("content-type", "text/plain")], Some(&json!(1)))
                .await;
            let is_described = described.contains(&method.to_owned());
            let is_wrong_method = reply.status == 405;
            assert_eq!(is_described, !is_wrong_method, "{method} {path}: {reply:?}");
            let is_openai = path.starts_with("/v1/models") || path.starts_with("/v1/chat");
            if reply.status == 404 && !is_openai {
                assert_ne!(reply.problem().1, "unknown_address", "{method} {path}");
            }
        }
    }
    server.stop().await;
}

#[test]
fn host_3_other_protocols_and_headers_are_described() {
    let paths = &openapi()["paths"];
    for (path, method) in [
        ("/v1/chat/completions", "post"),
        ("/v1/models", "get"),
        ("/v1/models/{model}", "get"),
        ("/mcp", "post"),
        ("/mcp", "get"),
        ("/mcp", "delete"),
    ] {
        assert!(!paths[path][method].is_null(), "{method} {path}");
    }
    for (path, method, name, is_required) in [
        ("/v1/system-prompts/{name}", "put", "If-Match", true),
        ("/v1/chat/completions", "post", "X-System-Prompt-Id", false),
        ("/v1/runs", "post", "Idempotency-Key", false),
        ("/v1/memory/{fact}", "delete", "Idempotency-Key", false),
        ("/v1/runs/{run}/events", "get", "Last-Event-ID", false),
        ("/context/{conversation}/events", "get", "Last-Event-ID", false),
        ("/v1/events", "get", "Last-Event-ID", false),
    ] {
        let parameters = paths[path][method]["parameters"].as_array().unwrap();
        let found = parameters
            .iter()
            .find(|parameter| parameter["name"] == name)
            .unwrap_or_else(|| panic!("{method} {path} {name}"));
        assert_eq!(
            (&found["in"], &found["required"]),
            (&json!("header"), &json!(is_required))
        );
        assert!(found["description"].as_str().is_some(), "{name}");
    }
    for (path, method, status, name) in [
        ("/v1/system-prompts/{name}", "get", "200", "ETag"),
        ("/v1/system-prompts/{name}", "put", "200", "ETag"),
        ("/v1/system-prompts", "post", "201", "ETag"),
        ("/v1/system-prompts", "post", "201", "Location"),
        ("/v1/runs", "post", "201", "Location"),
        ("/v1/runs/{run}/fork", "post", "201", "Location"),
        ("/context", "post", "201", "Location"),
        ("/v1/runs", "post", "default", "Retry-After"),
    ] {
        let header = &paths[path][method]["responses"][status]["headers"][name];
        assert!(header["schema"].is_object(), "{method} {path} {status} {name}");
    }
    let error = &paths["/v1/models"]["get"]["responses"]["default"]["content"];
    assert!(error["application/json"].is_object(), "{error}");
}

#[tokio::test]
async fn host_3_no_request_ignores_a_parameter() {
    let server = TestServer::start(Stage::new(), OfflineModel).await;
    let mut sent = 0;
    for (path, item) in openapi()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            // Other protocols have their own rules.
            if operation["tags"][0] == "OpenAI clients" || operation["tags"][0] == "MCP" {
                continue;
            }
            let path = format!("{}?colour=red", made_up(path));
            let body = operation["requestBody"].is_object().then(|| json!({}));
            let reply = server
                .client
                .send(&method.to_uppercase(), &path, &[], body.as_ref())
                .await;
            assert_eq!(
                reply.problem(),
                (400, "invalid_query".to_owned()),
                "{method} {path}"
            );
            sent += 1;
        }
    }
    assert!(sent > 40, "{sent}");
    server.stop().await;
}

/// An address with names that nothing has.
fn made_up(path: &str) -> String {
    path.replace("{run}", "0badcafe")
        .replace("{conversation}", "0badcafe")
        .replace("{name}", "none")
        .replace("{effect}", "a1.1")
        .replace("{handle}", "a1.1")
        .replace("{model}", "none")
        .replace("{fact}", "999")
        .replace("{rule}", "999")
}

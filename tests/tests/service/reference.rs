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
        let path = path
            .replace("{run}", "0badcafe")
            .replace("{conversation}", "0badcafe")
            .replace("{name}", "none")
            .replace("{call}", "a1.1")
            .replace("{fact}", "999")
            .replace("{rule}", "999");
        for method in all {
            // Without a body, requests that need one are refused.
            let reply = server
                .client
                .send(method, &path, &[("content-type", "text/plain")], Some(&json!(1)))
                .await;
            let is_described = described.contains(&method.to_owned());
            let is_wrong_method = reply.status == 405;
            assert_eq!(is_described, !is_wrong_method, "{method} {path}: {reply:?}");
            if reply.status == 404 {
                assert_ne!(reply.problem().1, "unknown_address", "{method} {path}");
            }
        }
    }
    server.stop().await;
}

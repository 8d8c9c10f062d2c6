//! HOST-5: how the service sends the console to browsers. `tests/console` tests the console in a browser.

use dirigent::OfflineModel;
use dirigent_tests::http_client::{Client, Reply};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async fn server() -> TestServer {
    TestServer::start(Stage::new(), OfflineModel).await
}

/// What a browser sends when its user opens an address.
async fn opened(browser: &Client, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut all = vec![("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    all.extend_from_slice(headers);
    browser.send("GET", path, &all, None).await
}

#[tokio::test]
async fn host_5_each_address_of_the_console_has_the_page_which_runs_only_its_own_scripts() {
    let server = server().await;
    let page = opened(&server.client, "/", &[]).await;
    assert_eq!(page.status, 200);
    for path in [
        "/waiting",
        "/runs",
        "/runs/",
        "/runs/019ac3d2?tab=plan&task=explore",
        "/chats/019ac3d2",
        "/workflows/rename_symbol?name=a",
        "/services",
        "/agents/explore",
        "/prompts/bakery",
        "/memory",
        "/usage",
        "/settings",
    ] {
        let other = opened(&server.client, path, &[]).await;
        assert_eq!((other.status, &other.body), (200, &page.body), "{path}");
    }
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(page.header(name), value, "{name}");
    }
    assert!(!page.body.contains("<style") && !page.body.contains(" style="));
    for script in page.body.split("<script").skip(1) {
        assert!(
            script.starts_with(" type=\"module\" src=\"/console/main.js\"></script>"),
            "{script}"
        );
    }
    for path in ["/nowhere", "/runs2", "/console/nowhere.js", "/console/README.md"] {
        let missing = opened(&server.client, path, &[]).await;
        assert_eq!(missing.problem(), (404, "unknown_address".to_owned()), "{path}");
    }
    let posted = server.client.post_nothing("/settings").await;
    assert_eq!(posted.problem(), (405, "wrong_method".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn host_5_files_need_no_session_are_compressed_and_are_sent_again_only_if_they_changed() {
    let server = server().await;
    let browser = server.client.without_token();
    for (path, media_type) in [
        ("/console/main.js", "text/javascript; charset=utf-8"),
        ("/console/pages/run.js", "text/javascript; charset=utf-8"),
        ("/console/console.css", "text/css; charset=utf-8"),
        ("/console/icon.svg", "image/svg+xml"),
    ] {
        let whole = browser.get(path).await;
        assert_eq!(
            (whole.status, whole.header("content-type")),
            (200, media_type),
            "{path}"
        );
        assert_eq!(whole.header("content-security-policy"), POLICY, "{path}");
        assert_eq!(whole.header("vary"), "accept-encoding", "{path}");

        let asked = [("accept-encoding", "gzip, deflate, br")];
        let compressed = browser.send("GET", path, &asked, None).await;
        assert_eq!(compressed.header("content-encoding"), "gzip", "{path}");
        let length = |reply: &Reply| reply.header("content-length").parse::<usize>().unwrap();
        assert!(length(&compressed) < length(&whole), "{path}");

        let known = whole.header("etag");
        let again = browser.send("GET", path, &[("if-none-match", known)], None).await;
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{path}");
        assert_eq!(again.header("etag"), known, "{path}");
        let older = browser
            .send("GET", path, &[("if-none-match", "W/\"older\"")], None)
            .await;
        assert_eq!((older.status, older.body), (200, whole.body), "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn host_5_without_a_session_a_browser_is_told_how_to_get_the_link() {
    let server = server().await;
    let stranger = server.client.without_token();
    for path in ["/", "/runs/019ac3d2", "/?token=guessed"] {
        let page = opened(&stranger, path, &[]).await;
        assert_eq!(page.status, 401, "{path}");
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8", "{path}");
        assert_eq!(page.header("content-security-policy"), POLICY, "{path}");
        assert!(
            page.body.contains("<code>dirigent serve</code> prints a link"),
            "{path}"
        );
        assert!(
            !page.body.contains("<script") && !page.body.contains("guessed"),
            "{path}"
        );
    }
    // Programs get a problem, as everywhere else.
    assert_eq!(stranger.get("/").await.problem(), (401, "no_token".to_owned()));
    let data = opened(&stranger, "/v1/runs", &[]).await;
    assert_eq!(data.problem(), (401, "no_token".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn host_5_a_link_of_another_site_leads_to_a_page_from_which_its_user_can_go_on() {
    let server = server().await;
    let foreign = [("sec-fetch-site", "cross-site")];
    for path in ["/", "/runs/019ac3d2?tab=plan"] {
        let page = opened(&server.client, path, &foreign).await;
        assert_eq!(page.status, 403, "{path}");
        assert!(page.body.contains("<a href=\"\">open it</a>"), "{path}");
        assert!(!page.body.contains("<script"), "{path}");
    }
    let script = server
        .client
        .send("GET", "/console/main.js", &foreign, None)
        .await;
    assert_eq!(script.problem(), (403, "cross_site".to_owned()));
    server.stop().await;
}

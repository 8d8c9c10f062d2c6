//! Which requests are sent: methods, addresses and headers, also after redirects.

use std::sync::Arc;

use dirigent_core::tool::{Access, Repeat};
use dirigent_model_server::{HttpAnswer, HttpRequest, HttpServer};
use dirigent_tools::{HttpRules, Tool, http_request};
use serde_json::{Value, json};

use super::{answer, call, failure, get, rules, serve};
use crate::folder::{Folder, text};

fn redirect(status: &str, location: &str) -> HttpAnswer {
    answer(status, &[&format!("location: {location}")], b"elsewhere")
}

/// Returns the request lines so far, without the protocol's version.
fn lines(server: &HttpServer) -> Vec<String> {
    let line = |request: Arc<HttpRequest>| request.line().trim_end_matches(" HTTP/1.1").to_owned();
    server.requests().into_iter().map(line).collect()
}

#[test]
fn approve_1_http_requests_need_approval_and_only_safe_methods_can_be_repeated() {
    let spec = http_request(&HttpRules::default()).spec();
    assert!(spec.requires_approval);
    assert_eq!(spec.access, Access::ReadOnly);
    assert!(spec.repeat.is_safe(&json!({"method": "HEAD"})));
    assert!(!spec.repeat.is_safe(&json!({"method": "POST"})));
    assert_ne!(spec.repeat, Repeat::Safe);
    let methods = json!(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
    assert_eq!(spec.parameters["properties"]["method"]["enum"], methods);
    assert_eq!(spec.parameters["required"], json!(["method", "url"]));
}

#[tokio::test]
async fn a_read_only_agent_sends_no_unsafe_requests() {
    let server = serve(|_| answer("200 OK", &[], b"")).await;
    let tool = http_request(&rules(&[&server]));
    let folder = Folder::with(&[]);
    for (access, method, allowed) in [
        (Access::ReadOnly, "GET", true),
        (Access::ReadOnly, "HEAD", true),
        (Access::ReadOnly, "OPTIONS", true),
        (Access::ReadOnly, "DELETE", false),
        (Access::Execute, "POST", false),
        (Access::ReadWrite, "DELETE", true),
    ] {
        let mut context = folder.context();
        context.access = access;
        let parameters = json!({"method": method, "url": server.url("/")});
        let result = tool.call(context, parameters).await;
        assert_eq!(result.succeeded(), allowed, "{access} {method}");
        if !allowed {
            assert_eq!(failure(&result).0, "access_denied");
        }
    }
    let expected = ["GET", "HEAD", "OPTIONS", "DELETE"].map(|method| format!("{method} /"));
    assert_eq!(lines(&server), expected);
}

#[tokio::test]
async fn non_public_addresses_are_refused_in_every_spelling() {
    let server = serve(|_| answer("200 OK", &[], b"")).await;
    let port = server.address().port();
    let hosts = [
        "127.0.0.1",
        "127.1",
        "127.99.1.2",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "1２7.0.0.1",
        "%31%32%37.0.0.1",
        "0.0.0.0",
        "0",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "api.LOCALHOST.",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::10.0.0.1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2001::1]",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "168.63.129.16",
        "100.100.100.200",
        "10.0.0.1",
        "172.31.0.1",
        "192.168.0.1",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "224.0.0.1",
        "255.255.255.255",
        "198.18.0.1",
        "192.0.2.1",
        "[2001:db8::1]",
        "[3fff::1]",
        "[4000::1]",
    ];
    let rules = HttpRules::default();
    let (folder, tool) = (Folder::with(&[]), http_request(&rules));
    for host in hosts {
        let parameters = json!({"method": "GET", "url": format!("http://{host}:{port}/")});
        let result = tool.call(folder.context(), parameters).await;
        assert_eq!(failure(&result).0, "refused_address", "{host}");
    }
    assert_eq!(lines(&server), [""; 0]);
    let result = get(&rules, "http://localhost:8080/").await;
    let expected = "`localhost` is not on the public network (this machine): only the user can allow this host, with an entry in \
                    `[http] allow`; do without the request, or report that you need it";
    assert_eq!(failure(&result).1, expected);
}

#[tokio::test]
async fn a_host_is_allowed_by_its_exact_name_with_or_without_its_port() {
    let server = serve(|_| answer("200 OK", &[], b"")).await;
    let port = server.address().port();
    let allowed = |entry: String, host: &str| {
        let rules = HttpRules {
            allow: vec![entry],
            ..HttpRules::default()
        };
        let url = format!("http://{host}:{port}/");
        async move { get(&rules, &url).await.succeeded() }
    };
    assert!(allowed("127.0.0.1".to_owned(), "127.0.0.1").await);
    assert!(allowed(format!("127.0.0.1:{port}"), "127.0.0.1").await);
    assert!(allowed("LocalHost.".to_owned(), "localhost").await);
    for (entry, host) in [
        (format!("127.0.0.1:{}", port ^ 1), "127.0.0.1"),
        ("localhost".to_owned(), "127.0.0.1"),
        ("127.0.0.1".to_owned(), "localhost"),
        ("localhost".to_owned(), "a.localhost"),
        ("*".to_owned(), "localhost"),
        (String::new(), "localhost"),
    ] {
        assert!(!allowed(entry.clone(), host).await, "{entry} {host}");
    }
    for entry in [
        "localhost",
        "localhost:80",
        "10.0.0.5",
        "[::1]:8080",
        "::1",
        "wiki.internal",
    ] {
        assert!(HttpRules::is_host(entry), "{entry}");
    }
    for entry in [
        "",
        "http://localhost",
        "localhost:",
        "localhost:http",
        "a b",
        "localhost/x",
    ] {
        assert!(!HttpRules::is_host(entry), "{entry}");
    }
}

#[tokio::test]
async fn disallowed_requests_are_refused_before_they_are_sent() {
    let rules = HttpRules::default();
    let with = |name: &str, value: &str| json!({"method": "POST", "url": "http://a.example/", "headers": {name: value}, "body": "x"});
    let to = |url: &str| json!({"method": "GET", "url": url});
    let rows = [
        (to("file:///etc/passwd"), "refused"),
        (to("ftp://a.example/"), "refused"),
        (to("gopher://127.0.0.1:6379/_x"), "refused"),
        (to("data:text/plain,x"), "refused"),
        (to("https://user:pw@a.example/"), "refused"),
        (to("https://user@a.example/"), "refused"),
        (to("a.example/x"), "bad_parameters"),
        (to("http://"), "bad_parameters"),
        (with("Host", "b.example"), "refused"),
        (with("content-length", "1"), "refused"),
        (with("Transfer-Encoding", "chunked"), "refused"),
        (with("Connection", "upgrade"), "refused"),
        (with("Proxy-Authorization", "x"), "refused"),
        (with("Accept-Encoding", "br"), "refused"),
        (with("a", "b\r\nhost: c"), "bad_parameters"),
        (with("a b", "c"), "bad_parameters"),
        (
            json!({"method": "GET", "url": "http://a.example/", "body": "x"}),
            "bad_parameters",
        ),
    ];
    for (parameters, code) in rows {
        let result = call(&rules, parameters.clone()).await;
        assert_eq!(failure(&result).0, code, "{parameters}");
    }
    let result = call(&rules, to("https://user:pw@a.example/")).await;
    let expected = "the URL was refused: it contains a user or a password; leave them out, and send an `Authorization` header if you \
                    need one";
    assert_eq!(failure(&result).1, expected);
}

#[tokio::test]
async fn a_redirect_to_a_disallowed_address_is_refused() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "http://localhost:1/",
        "//10.0.0.1/",
    ] {
        let server = serve(move |_| redirect("302 Found", location)).await;
        let result = get(&rules(&[&server]), &server.url("/")).await;
        let (code, _, output) = failure(&result);
        assert_eq!(code, "refused_address", "{location}");
        assert_eq!(*output, format!("302 {}", server.url("/")));
    }
    for location in ["file:///etc/passwd", "https://user:pw@a.example/", "http://a b/"] {
        let server = serve(move |_| redirect("302 Found", location)).await;
        let result = get(&rules(&[&server]), &server.url("/")).await;
        assert_eq!(failure(&result).0, "refused", "{location}");
    }
}

#[tokio::test]
async fn redirects_are_limited_and_reported() {
    let circle = serve(|_| redirect("301 Moved Permanently", "/again")).await;
    let result = get(&rules(&[&circle]), &circle.url("/")).await;
    assert_eq!(failure(&result).0, "too_many_redirects");
    assert_eq!(lines(&circle).len(), 11);

    let server = serve(|request| {
        if request.line().starts_with("GET /new ") {
            answer("200 OK", &[], b"here")
        } else {
            redirect("308 Permanent Redirect", "/new#part")
        }
    })
    .await;
    let result = text(get(&rules(&[&server]), &server.url("/old")).await);
    let (old, new) = (server.url("/old"), server.url("/new"));
    assert_eq!(result, format!("308 {old}\n200 OK {new}\n\nhere"));
}

#[tokio::test]
async fn headers_that_may_be_credentials_are_not_forwarded_to_another_origin() {
    let other = serve(|_| answer("200 OK", &[], b"")).await;
    let place = other.url("/there");
    let server = serve(move |_| redirect("307 Temporary Redirect", &place)).await;
    let headers = json!({
        "Authorization": "Bearer s", "Cookie": "s=1", "X-Api-Key": "s", "Accept": "text/html", "User-Agent": "me",
    });
    let parameters = json!({"method": "GET", "url": server.url("/"), "headers": headers});
    assert!(call(&rules(&[&server, &other]), parameters).await.succeeded());
    let (first, second) = (&server.requests()[0], &other.requests()[0]);
    for name in ["authorization", "cookie", "x-api-key"] {
        assert!(first.header(name).is_some(), "{name}");
        assert_eq!(second.header(name), None, "{name}");
    }
    assert_eq!(second.header("accept"), Some("text/html"));
    assert_eq!(second.header("user-agent"), Some("me"));
    assert_eq!(second.header("referer"), None);
}

#[tokio::test]
async fn unsafe_requests_are_not_redirected_to_another_origin() {
    let other = serve(|_| answer("200 OK", &[], b"")).await;
    for (status, method, body) in [
        ("307 Temporary Redirect", "POST", json!("secret")),
        ("302 Found", "DELETE", Value::Null),
    ] {
        let place = other.url("/");
        let server = serve(move |_| redirect(status, &place)).await;
        let parameters = json!({"method": method, "url": server.url("/"), "body": body});
        let result = call(&rules(&[&server, &other]), parameters).await;
        assert_eq!(failure(&result).0, "refused", "{method}");
        assert_eq!(result.changes.len(), 1, "the first one was answered");
    }
    assert_eq!(lines(&other), [""; 0]);
}

#[tokio::test]
async fn a_redirected_post_becomes_a_get_or_stays_a_post_depending_on_the_status() {
    for (status, then) in [
        ("301 Moved Permanently", "GET /done"),
        ("302 Found", "GET /done"),
        ("303 See Other", "GET /done"),
        ("307 Temporary Redirect", "POST /done"),
        ("308 Permanent Redirect", "POST /done"),
    ] {
        let server = serve(move |request| match request.line().contains(" /done ") {
            true => answer("200 OK", &[], b""),
            false => redirect(status, "/done"),
        })
        .await;
        let post =
            json!({"method": "POST", "url": server.url("/"), "body": "x", "headers": {"authorization": "s"}});
        let result = call(&rules(&[&server]), post).await;
        assert_eq!(lines(&server), ["POST /", then], "{status}");
        let again = then.starts_with("POST");
        let second = &server.requests()[1];
        assert_eq!(second.body == b"x", again, "{status}");
        assert_eq!(second.header("content-type").is_some(), again, "{status}");
        assert_eq!(second.header("authorization"), Some("s"), "{status}");
        assert_eq!(result.changes.len(), if again { 2 } else { 1 }, "{status}");
    }
}

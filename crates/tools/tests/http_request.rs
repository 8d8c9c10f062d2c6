//! The `http_request` tool with real servers on this machine, well-behaved and malicious, called as an agent calls it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::folder::{Folder, error, text};
use dirigent_core::tool::{Access, Repeat, StateChange, ToolOutcome, ToolResult};
use dirigent_model_server::{HttpAnswer, HttpRequest, HttpServer, Then};
use dirigent_tools::{HttpRules, Tool, http_request};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// Rules that allow these servers.
fn rules(servers: &[&HttpServer]) -> HttpRules {
    let host = |server: &&HttpServer| server.address().to_string();
    HttpRules {
        allow: servers.iter().map(host).collect(),
        ..HttpRules::default()
    }
}

/// Rules with a timeout that expires only in [`out_of_time`].
fn impatient(server: &HttpServer) -> HttpRules {
    HttpRules {
        timeout: Duration::from_secs(600),
        ..rules(&[server])
    }
}

async fn call(rules: &HttpRules, parameters: Value) -> ToolResult {
    Folder::with(&[]).call(http_request(rules), parameters).await
}

/// Returns the result of a call whose timeout expires once `is_far` returns true.
async fn out_of_time(rules: &HttpRules, parameters: Value, is_far: impl Fn() -> bool) -> ToolResult {
    let passing = async {
        while !is_far() {
            tokio::task::yield_now().await;
        }
        let stopped = StoppedClock::new();
        tokio::time::advance(rules.timeout).await;
        drop(stopped);
        std::future::pending().await
    };
    tokio::select! {
        result = call(rules, parameters) => result,
        never = passing => never,
    }
}

/// Pauses the clock until dropped, even if the call ends before the clock has advanced.
struct StoppedClock;

impl StoppedClock {
    fn new() -> Self {
        tokio::time::pause();
        StoppedClock
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

async fn get(rules: &HttpRules, url: &str) -> ToolResult {
    call(rules, json!({"method": "GET", "url": url})).await
}

/// The parts of the tool's output for a server with this response.
async fn got(said: impl Fn() -> HttpAnswer + Send + Sync + 'static) -> Value {
    let server = serve(move |_| said()).await;
    parts(&text(get(&rules(&[&server]), &server.url("/")).await))
}

/// The parts of an output: the status and the URL, the headers, the notes and the body, `null` if there is none.
fn parts(output: &str) -> Value {
    let (head, body) = match output.split_once("\n\n") {
        Some((head, body)) => (head, json!(body)),
        None => (output, Value::Null),
    };
    let mut lines: Vec<&str> = head.lines().collect();
    let is_field = |line: &&str| line.contains(": ");
    let fields = lines.split_off(lines.iter().position(is_field).unwrap_or(lines.len()));
    let (notes, headers): (Vec<&str>, Vec<&str>) =
        fields.into_iter().partition(|line| line.starts_with("Note: "));
    let headers = headers.into_iter().filter_map(|line| line.split_once(": "));
    let headers: serde_json::Map<String, Value> = headers
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    json!({"lines": lines, "headers": headers, "notes": notes, "body": body})
}

/// The code, error and output of a result, which must be a failure.
#[track_caller]
fn failure(result: &ToolResult) -> (&str, &str, &Value) {
    match &result.outcome {
        ToolOutcome::Failure { code, error, output } => (code, error, output),
        ToolOutcome::Success { output } => panic!("the call succeeded: {output}"),
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Starts a server that answers each request with the function's result.
async fn serve(answer: impl Fn(&HttpRequest) -> HttpAnswer + Send + Sync + 'static) -> HttpServer {
    HttpServer::from_fn(answer).await.unwrap()
}

fn answer(status: &str, headers: &[&str], body: &[u8]) -> HttpAnswer {
    HttpAnswer::new(status, headers, body)
}

fn redirect(status: &str, location: &str) -> HttpAnswer {
    answer(status, &[&format!("location: {location}")], b"elsewhere")
}

/// An endless response of plain text.
fn endless(piece: &'static [u8]) -> HttpAnswer {
    answer("200 OK", &["content-type: text/plain"], b"").then(Then::Repeat(piece))
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
async fn a_response_is_returned_with_its_relevant_headers() {
    let server = serve(|_| {
        let headers = [
            "content-type: application/json",
            "set-cookie: secret=1",
            "x-total-count: 3",
            "alt-svc: h3",
            "content-length: 8",
        ];
        answer("200 OK", &headers, b"{\"a\": 1}")
    })
    .await;
    let result = get(&rules(&[&server]), &server.url("/a?b=c#d")).await;
    let address = server.address().to_string();
    assert_eq!(result.metadata["address"], address);
    assert_eq!(result.changes, []);
    let expected = format!(
        "200 OK {}\ncontent-type: application/json\nx-total-count: 3\n\n{{\"a\": 1}}",
        server.url("/a?b=c")
    );
    assert_eq!(text(result), expected);
    let asked = &server.requests()[0];
    assert_eq!(asked.line(), "GET /a?b=c HTTP/1.1");
    assert_eq!(asked.header("host"), Some(&*address));
    assert_eq!(asked.header("referer"), None);
}

#[tokio::test]
async fn loop_8_an_answered_unsafe_request_is_reported_as_a_change() {
    let server = serve(|_| answer("201 Created", &[], b"")).await;
    let parameters = json!({
        "method": "POST",
        "url": server.url("/items?key=secret"),
        "headers": {"X-Api-Key": "k"},
        "body": {"name": "é"},
    });
    let result = call(&rules(&[&server]), parameters).await;
    let change = StateChange::RequestSent {
        method: "POST".to_owned(),
        url: server.url("/items"),
        status: 201,
    };
    assert_eq!(result.changes, [change]);
    assert!(result.succeeded());
    let asked = &server.requests()[0];
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.header("x-api-key"), Some("k"));
    assert_eq!(asked.json(), json!({"name": "é"}));
}

#[tokio::test]
async fn loop_7_a_response_with_status_400_or_above_is_a_failure_with_its_body() {
    let server = serve(|_| answer("422 Unprocessable Content", &[], b"name is missing")).await;
    let put = json!({"method": "PUT", "url": server.url("/"), "body": "x"});
    let result = call(&rules(&[&server]), put).await;
    let (code, error, output) = failure(&result);
    assert_eq!(
        (code, error),
        (
            "http_status",
            "the server responded with 422 Unprocessable Entity"
        )
    );
    assert_eq!(
        *output,
        format!("422 Unprocessable Entity {}\n\nname is missing", server.url("/"))
    );
    assert_eq!(result.changes.len(), 1);
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

#[tokio::test]
async fn a_decompression_bomb_is_unpacked_only_up_to_the_limit() {
    let bomb = packed(&vec![b'a'; 50 * 1024 * 1024]);
    assert!(bomb.len() < 100 * 1024);
    let headers = ["content-type: text/plain", "content-encoding: gzip"];
    let result = got(move || answer("200 OK", &headers, &bomb)).await;
    assert_eq!(
        result["notes"],
        json!(["Note: the body is incomplete: 524288 bytes of it were read"])
    );
    assert_eq!(result["body"].as_str().unwrap().len(), 512 * 1024);
}

#[tokio::test]
async fn a_compressed_body_is_decompressed_once_and_other_encodings_are_refused() {
    let once = packed(b"hello");
    let twice = packed(&once);
    let gzip = once.clone();
    assert_eq!(
        got(move || answer("200 OK", &["content-encoding: gzip"], &gzip)).await["body"],
        "hello"
    );
    for encoding in ["gzip, gzip", "br", "zstd"] {
        let bytes = twice.clone();
        let header = format!("content-encoding: {encoding}");
        let server = serve(move |_| answer("200 OK", &[&header], &bytes)).await;
        let result = get(&rules(&[&server]), &server.url("/")).await;
        assert_eq!(failure(&result).0, "refused", "{encoding}");
    }
    let lines = ["content-encoding: gzip", "content-encoding: gzip"];
    let result = got(move || answer("200 OK", &lines, &twice)).await;
    assert_eq!(result["body"], Value::Null);
    let broken = serve(|_| answer("200 OK", &["content-encoding: gzip"], b"no gzip at all")).await;
    let result = get(&rules(&[&broken]), &broken.url("/")).await;
    assert_eq!(failure(&result).0, "unreachable");
}

#[tokio::test]
async fn an_endless_body_is_cut() {
    let result = got(|| endless(&[b'x'; 1000])).await;
    assert_eq!(
        result["notes"],
        json!(["Note: the body is incomplete: 524288 bytes of it were read"])
    );
}

#[tokio::test]
async fn an_endless_body_ends_at_the_call_timeout() {
    let server = serve(|_| endless(&[b'x'; 16 * 1024])).await;
    let rules = HttpRules {
        max_bytes: u64::MAX,
        ..impatient(&server)
    };
    let parameters = json!({"method": "GET", "url": server.url("/")});
    // More than the buffers between server and client can hold: some of it has been read.
    let result = out_of_time(&rules, parameters, || server.repeated() > 16 * 1024 * 1024).await;
    let (code, error, output) = failure(&result);
    assert_eq!((code, error), ("timed_out", "no complete response within 600s"));
    assert!(output.as_str().unwrap().starts_with("200 OK "));
    assert!(output.as_str().unwrap().contains("\n\nxxx"));
}

#[tokio::test]
async fn a_request_without_an_answer_may_have_reached_the_server() {
    let server = serve(|_| HttpAnswer::silence()).await;
    let rules = impatient(&server);
    let look = json!({"method": "GET", "url": server.url("/")});
    let looked = out_of_time(&rules, look, || server.requests().len() == 1).await;
    assert_eq!(error(looked), "no complete response within 600s");
    let post = json!({"method": "POST", "url": server.url("/"), "body": "x"});
    let result = out_of_time(&rules, post, || server.requests().len() == 2).await;
    let expected = "no complete response within 600s; the POST request may have arrived anyway: check before you send it again";
    assert_eq!(failure(&result), ("timed_out", expected, &Value::Null));
    assert_eq!(result.changes, []);
}

#[tokio::test]
async fn endless_headers_are_not_stored() {
    let many = serve(|_| HttpAnswer::raw("HTTP/1.1 200 OK\r\n").then(Then::Repeat(b"a: b\r\n"))).await;
    let result = get(&rules(&[&many]), &many.url("/")).await;
    assert_eq!(failure(&result).0, "unreachable");
    let long = serve(|_| HttpAnswer::raw("HTTP/1.1 200 OK\r\na: ").then(Then::Repeat(&[b'x'; 1000]))).await;
    let result = get(&rules(&[&long]), &long.url("/")).await;
    assert_eq!(failure(&result).0, "unreachable");
    let length = "a".repeat(5000);
    let result = got(move || answer("200 OK", &[&format!("x-long: {length}")], b"")).await;
    assert_eq!(result["headers"]["x-long"], format!("{}…", "a".repeat(500)));
}

#[tokio::test]
async fn the_received_part_of_an_interrupted_response_is_shown() {
    let headers = ["content-type: text/plain", "content-length: 10"];
    let server = serve(move |_| answer("200 OK", &headers, b"half")).await;
    let result = get(&rules(&[&server]), &server.url("/")).await;
    let (code, error, output) = failure(&result);
    assert_eq!(code, "unreachable");
    assert!(
        error.starts_with("the response broke off after 4 bytes: "),
        "{error}"
    );
    let output = parts(output.as_str().unwrap());
    assert_eq!(output["body"], "half");
    assert_eq!(
        output["notes"],
        json!(["Note: the body is incomplete: 4 bytes of it were read"])
    );
    for said in ["", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 999999 X\r\n\r\n"] {
        let server = serve(move |_| HttpAnswer::raw(said)).await;
        let result = get(&rules(&[&server]), &server.url("/")).await;
        assert_eq!(failure(&result).0, "unreachable", "{said}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_unreachable_and_reports_no_sent_request() {
    // The socket stays bound, so that no other process can listen on the port, but does not listen itself.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let rules = HttpRules {
        allow: vec!["127.0.0.1".to_owned()],
        ..HttpRules::default()
    };
    let post = json!({"method": "POST", "url": format!("http://127.0.0.1:{port}/"), "body": "x"});
    let result = call(&rules, post).await;
    let (code, error, _) = failure(&result);
    assert_eq!(code, "unreachable");
    assert!(!error.contains("may have arrived"), "{error}");
}

#[tokio::test]
async fn a_cancelled_call_ends() {
    let server = serve(|_| HttpAnswer::silence()).await;
    let folder = Folder::with(&[]);
    let context = folder.context();
    let cancel = context.cancel.clone();
    let tool = http_request(&rules(&[&server]));
    let call = tokio::spawn(tool.call(context, json!({"method": "GET", "url": server.url("/")})));
    server.wait_for_requests(1).await;
    cancel.cancel();
    assert_eq!(failure(&call.await.unwrap()).0, "cancelled");
}

#[tokio::test]
async fn text_is_read_in_its_charset_and_what_is_not_text_is_not_shown() {
    let of = |kind: &'static str, body: &'static [u8]| async move {
        let result = got(move || answer("200 OK", &[&format!("content-type: {kind}")], body)).await;
        (result["body"].clone(), result["notes"].clone())
    };
    let text = |text: &str| (json!(text), json!([]));
    assert_eq!(
        of("text/plain; charset=ISO-8859-1", b"caf\xe9").await,
        text("café")
    );
    assert_eq!(
        of("text/plain; charset=\"utf-16le\"", b"h\0i\0").await,
        text("hi")
    );
    assert_eq!(
        of("text/html", b"<meta charset='windows-1251'>\xef").await,
        text("<meta charset='windows-1251'>п")
    );
    assert_eq!(
        of("text/plain; charset=nonsense", "é".as_bytes()).await,
        text("é")
    );
    assert_eq!(
        of("application/octet-stream", b"plain all the same").await,
        text("plain all the same")
    );
    let wrong = of("text/plain; charset=utf-8", b"caf\xe9!").await;
    let said = json!(["Note: parts of the body are not valid UTF-8; each is replaced by `\u{fffd}`"]);
    assert_eq!(wrong, (json!("caf\u{fffd}!"), said));
    for kind in ["image/png", "text/plain"] {
        let (body, notes) = of(kind, b"\x89PNG\0\xff").await;
        assert_eq!(body, Value::Null);
        let note = format!("Note: the body is not shown, because it is not text but `{kind}`, 6 bytes");
        assert_eq!(notes, json!([note]));
    }
}

#[tokio::test]
async fn the_text_of_a_page_is_extracted_on_request() {
    let page = "<!doctype html><html><head><title>A &amp; B</title><script>alert('<p>')</script></head>\
                <body><h2>News</h2><p>One <b>bold</b>\n word, <a href=\"/x?a=1&amp;b=2\">a link</a>.</p>\
                <ul><li>first<li>second</ul><!-- hidden --><table><tr><th>k<th>v<tr><td>1<td>2</table>\
                <pre>a\n  b</pre>5 &lt; 6 &#169; caf&eacute; AT&T</body></html>";
    let server = serve(move |_| answer("200 OK", &["content-type: text/html"], page.as_bytes())).await;
    let rules = rules(&[&server]);
    let parameters = json!({"method": "GET", "url": server.url("/"), "as": "text"});
    let shown = parts(&text(call(&rules, parameters).await));
    let expected = "A & B\n\n## News\n\nOne bold word, a link (/x?a=1&b=2).\n\n- first\n- second\n\nk | v\n1 | 2\n\na\n  b\n\n\
                    5 < 6 © café AT&T";
    assert_eq!(shown["body"], expected);
    let raw = parts(&text(get(&rules, &server.url("/")).await));
    assert_eq!(raw["body"], page);
}

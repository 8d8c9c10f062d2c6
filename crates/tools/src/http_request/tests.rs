//! Tests of host names whose addresses change between two lookups, and of malicious pages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dirigent_core::tool::{Access, ToolOutcome, ToolResult};
use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderValue};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::address::disallowed_reason;
use super::error::HttpError;
use super::exchange::{ExchangeRecord, ReceivedResponse};
use super::method::Method;
use super::network::Resolver;
use super::output::BodyFormat;
use super::redirect::{Hop, next_hop};
use super::rules::HttpRules;
use super::{finish, html, with_resolver};
use crate::tool::{Tool, ToolContext};

/// An unassigned address in the public range.
const NOBODY: &str = "2000::1";

/// A name server that gives each answer once, in order, and repeats the last one.
struct ChangingResolver {
    answers: Vec<Vec<&'static str>>,
    asked: Mutex<Vec<String>>,
}

impl ChangingResolver {
    fn new(answers: &[&[&'static str]]) -> Arc<Self> {
        Arc::new(ChangingResolver {
            answers: answers.iter().map(|answer| answer.to_vec()).collect(),
            asked: Mutex::default(),
        })
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Resolver for ChangingResolver {
    fn resolve_host(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let mut asked = self.asked.lock().unwrap();
        let answer = &self.answers[asked.len().min(self.answers.len() - 1)];
        asked.push(host.to_owned());
        let address = |text: &&str| SocketAddr::new(text.parse().unwrap(), 0);
        let found = answer.iter().map(address).collect();
        async move { Ok(found) }.boxed()
    }
}

/// A port on this machine that no call may connect to.
struct Bait(TcpListener);

impl Bait {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Bait(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    #[track_caller]
    fn assert_untouched(&self) {
        assert_eq!(self.0.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

async fn get(rules: &HttpRules, resolver: Arc<dyn Resolver>, url: &str) -> ToolResult {
    with_resolver(rules, resolver)
        .call(context(), json!({"method": "GET", "url": url}))
        .await
}

fn impatient(allow: &[&str]) -> HttpRules {
    HttpRules {
        allow: allow.iter().map(|host| (*host).to_owned()).collect(),
        timeout: Duration::from_millis(500),
        ..HttpRules::default()
    }
}

fn context() -> ToolContext {
    ToolContext {
        workspace: std::env::temp_dir(),
        access: Access::ReadOnly,
        run: "00000000-0000-7000-8000-000000000001".parse().unwrap(),
        effect: "a1.1".parse().unwrap(),
        seen: None,
        deadline: None,
        content_store: None,
        user: None,
        service_endpoints: Default::default(),
        cancel: CancellationToken::new(),
    }
}

#[track_caller]
fn code(result: &ToolResult) -> &str {
    match &result.outcome {
        ToolOutcome::Failure { code, .. } => code,
        ToolOutcome::Success { output } => panic!("the call succeeded: {output}"),
    }
}

#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_later_is_not_connected_to() {
    let bait = Bait::new();
    let resolver = ChangingResolver::new(&[&[NOBODY], &["127.0.0.1"]]);
    let url = format!("http://rebinding.example:{}/", bait.port());
    let result = get(&impatient(&[]), resolver.clone(), &url).await;
    assert!(matches!(code(&result), "unreachable" | "timed_out"), "{result:?}");
    assert_eq!(resolver.asked(), 1, "the name must be resolved only once");
    bait.assert_untouched();
    // Each call resolves the name again.
    let result = get(&impatient(&[]), resolver.clone(), &url).await;
    assert_eq!(code(&result), "refused_address");
    bait.assert_untouched();
}

#[tokio::test]
async fn a_name_with_private_addresses_is_refused_or_only_its_public_ones_are_tried() {
    let bait = Bait::new();
    let url = format!("http://mixed.example:{}/", bait.port());
    for addresses in [
        &["127.0.0.1"][..],
        &["::ffff:127.0.0.1", "10.0.0.1"],
        &["169.254.169.254"],
    ] {
        let result = get(&impatient(&[]), ChangingResolver::new(&[addresses]), &url).await;
        assert_eq!(code(&result), "refused_address", "{addresses:?}");
    }
    let result = get(
        &impatient(&[]),
        ChangingResolver::new(&[&["127.0.0.1", NOBODY]]),
        &url,
    )
    .await;
    assert!(matches!(code(&result), "unreachable" | "timed_out"), "{result:?}");
    bait.assert_untouched();
    let none = get(&impatient(&[]), ChangingResolver::new(&[&[]]), &url).await;
    assert_eq!(code(&none), "unreachable");
}

#[tokio::test]
async fn an_allowed_name_allows_only_this_name_and_port() {
    let bait = Bait::new();
    let port = bait.port();
    let here = || ChangingResolver::new(&[&["127.0.0.1"]]);
    for (allow, host) in [
        ("wiki.internal:1".to_owned(), "wiki.internal"),
        (format!("wiki.internal:{port}"), "other.internal"),
        (format!("internal:{port}"), "wiki.internal"),
        ("127.0.0.1".to_owned(), "wiki.internal"),
    ] {
        let result = get(&impatient(&[&allow]), here(), &format!("http://{host}:{port}/")).await;
        assert_eq!(code(&result), "refused_address", "{allow} {host}");
    }
    bait.assert_untouched();
    for (allow, host) in [
        ("wiki.internal", "WIKI.internal"),
        ("Wiki.Internal.", "wiki.internal"),
        ("localhost", "LOCALHOST."),
    ] {
        let result = get(&impatient(&[allow]), here(), &format!("http://{host}:{port}/")).await;
        assert_eq!(code(&result), "timed_out");
        assert!(
            bait.0.accept().is_ok(),
            "the call must connect; the server never responds"
        );
    }
}

#[test]
fn public_addresses_are_allowed() {
    let rows = [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:4860:4860::8888",
        "2a00::1",
        "::ffff:1.1.1.1",
        "64:ff9b::1.1.1.1",
    ];
    for address in rows {
        assert_eq!(
            disallowed_reason(address.parse::<IpAddr>().unwrap()),
            None,
            "{address}"
        );
    }
}

#[test]
fn a_redirect_from_https_to_http_is_refused() {
    let hop = Hop {
        method: Method::Get,
        url: Url::parse("https://a.example/x").unwrap(),
        headers: HeaderMap::new(),
        body: None,
    };
    let to = |location: &'static str| {
        let headers = HeaderMap::from_iter([(header::LOCATION, HeaderValue::from_static(location))]);
        next_hop(&hop, StatusCode::FOUND, &headers)
    };
    let refused = "`https://a.example/x` redirects to `http://a.example/y`; the redirect was refused: it leads from https to http, where others \
                   can read and change the data";
    assert_eq!(
        to("http://a.example/y"),
        Err(HttpError::Refused(refused.to_owned()))
    );
    assert_eq!(to("/y").unwrap().unwrap().url.as_str(), "https://a.example/y");
    assert_eq!(
        to("//b.example").unwrap().unwrap().url.as_str(),
        "https://b.example/"
    );
}

/// A parser that builds a tree would need minutes or overflow the stack for these pages.
#[test]
fn malicious_pages_are_converted() {
    let many = 20_000;
    for piece in [
        "<div>",
        "<b>",
        "<blockquote>x",
        "<ul><li>",
        "<table><tr><td>",
        "<a href=x>",
        "<a ",
        "<",
        "</",
        "<!--",
        "&",
        "&a",
        "<pre>",
        "\"",
        "<a href='",
        "<script>",
        "</script",
        "<svg",
        "é",
        "<p é=",
        "<img alt=",
    ] {
        let page = piece.repeat(many);
        let text = html::text(&page);
        assert!(text.len() <= 2 * page.len(), "{piece}");
    }
    assert_eq!(html::text(""), "");
    assert_eq!(
        html::text("a < b <3 &amp &#0; &#x41;&bogus;"),
        "a < b <3 & &#0; A&bogus;"
    );
    assert_eq!(html::text("x<script>if (a</b>c) {}</SCRIPT >y<style>"), "xy");
    assert_eq!(html::text("<a title='>' href = /z>t</a>"), "t (/z)");
}

#[tokio::test]
async fn a_response_received_before_the_cancellation_is_reported() {
    let record = ExchangeRecord {
        response: Some(ReceivedResponse {
            status: StatusCode::CREATED,
            url: "https://example.com/orders".parse().unwrap(),
            headers: HeaderMap::new(),
            address: None,
            body: b"made".to_vec(),
            truncated: false,
        }),
        ..ExchangeRecord::default()
    };
    let context = context();
    context.cancel.cancel();
    let result = finish(context, Ok(()), record, BodyFormat::Raw).await;
    let ToolOutcome::Success { output } = result.outcome else {
        panic!("{result:?}");
    };
    assert_eq!(output, "201 Created https://example.com/orders\n\nmade");
}

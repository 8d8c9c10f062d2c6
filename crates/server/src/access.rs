//! Who may use the service: checks the `Host`, the origin and the token of each request.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::Response;

use crate::console;
use crate::entrance;
use crate::problem::Problem;
use crate::service::Service;

/// The name of the cookie in which browsers keep the secret of their session, as their event streams send no other header. It includes the port, because
/// browsers send the cookies of a host to all its ports.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("dirigent_session_{port}")
}

/// How a browser says where a request comes from. Scripts cannot set it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Passes on only requests of clients that have the token and name the server by one of its own names, and that no page of another site made.
pub(crate) async fn check_access(State(service): State<Service>, request: Request, next: Next) -> Response {
    let mut response = match check(&service, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => console::refusal(problem, request.uri().path(), request.headers()),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn check(service: &Service, request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let limit = service.options.limits.header_bytes;
    if head_bytes(request.uri(), headers) > limit {
        return Err(Problem::head_too_large(limit));
    }
    let host = host(request.uri(), headers).ok_or_else(|| Problem::wrong_host(""))?;
    if !is_own_name(host.host(), &service.options.hosts) {
        return Err(Problem::wrong_host(host.host()));
    }
    if is_cross_site(headers, &host) {
        return Err(Problem::cross_site());
    }
    if request.method().is_safe() && needs_no_token(request.uri()) {
        return Ok(());
    }
    check_token(service, headers)
}

/// The length of the request's line and headers, in bytes. The connection bounds it as well, but by a multiple.
fn head_bytes(uri: &Uri, headers: &HeaderMap) -> usize {
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let headers = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    path + headers.sum::<usize>()
}

/// The health check and the files of the console say nothing about runs. The entrance checks the token in its link itself.
fn needs_no_token(uri: &Uri) -> bool {
    match uri.path() {
        "/health" => true,
        "/" => entrance::sent_token(uri.query()).is_some(),
        path => console::is_file(path),
    }
}

/// The host that the request names, if it names exactly one.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut sent = headers.get_all(HOST).into_iter();
    let (first, second) = (sent.next()?, sent.next());
    let host: Authority = first.to_str().ok()?.parse().ok()?;
    let is_only = second.is_none() && uri.authority().is_none_or(|authority| *authority == host);
    (is_only && !host.as_str().contains('@')).then_some(host)
}

/// Returns true for a name that no other site can have: a name that was configured, `localhost`, or a numeric address. A page of another site reaches the server under the site's own
/// name, even if the name was made to point here (DNS rebinding).
fn is_own_name(host: &str, names: &[String]) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok()
        || names.iter().any(|name| name.eq_ignore_ascii_case(host))
}

/// Returns true if a page of another origin made the request in a browser.
fn is_cross_site(headers: &HeaderMap, host: &Authority) -> bool {
    let is_other = |origin: &HeaderValue| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        origin.is_none_or(|(_, authority)| !authority.eq_ignore_ascii_case(host.as_str()))
    };
    let is_foreign = |site: &HeaderValue| {
        !["same-origin", "none"]
            .map(str::as_bytes)
            .contains(&site.as_bytes())
    };
    headers.get_all(ORIGIN).iter().any(is_other) || headers.get_all(FETCH_SITE).iter().any(is_foreign)
}

/// Checks the token in the header `Authorization`, or the session in the cookie.
fn check_token(service: &Service, headers: &HeaderMap) -> Result<(), Problem> {
    if let Some(sent) = headers.get(AUTHORIZATION) {
        return match bearer(sent.as_bytes()) {
            Some(token) if service.token.matches(token) => Ok(()),
            Some([]) | None => Err(Problem::no_token()),
            Some(_) => Err(Problem::wrong_token()),
        };
    }
    let name = cookie_name(service.options.listen.port());
    let cookies = headers
        .get_all(COOKIE)
        .into_iter()
        .filter_map(|sent| sent.to_str().ok())
        .flat_map(|sent| sent.split(';'));
    let secrets: Vec<&str> = cookies
        .filter_map(|cookie| cookie.trim().strip_prefix(&name)?.strip_prefix('='))
        .collect();
    if secrets.is_empty() {
        Err(Problem::no_token())
    } else if secrets.iter().any(|secret| service.sessions.has(secret)) {
        Ok(())
    } else {
        Err(Problem::no_session())
    }
}

fn bearer(sent: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = sent.split_at_checked(b"Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then_some(token.trim_ascii())
}

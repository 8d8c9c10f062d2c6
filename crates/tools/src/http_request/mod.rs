//! The `http_request` tool: sends one request to the public network, or to a host that the configuration allows.
//!
//! Addresses are checked at connection time, and again for each redirect. The host name is resolved once for
//! each request, and the connection uses only the checked addresses. The tool never uses a proxy, stores no
//! cookies, and sends no `Referer`.
//!
//! A call needs approval by default, because it sends data out of the workspace. A rule in the run's policy can allow a host:
//! `http_request(url: https://docs.rs/*)`. The rule also covers redirects from this host, except redirects that fail with `refused` (see
//! below). A redirect to another origin is followed only with GET, HEAD or OPTIONS, and without credentials.
//!
//! # Failure codes
//! | code | meaning |
//! | --- | --- |
//! | `bad_parameters` | an invalid URL, a header that cannot be sent, a body for GET, HEAD or OPTIONS |
//! | `access_denied` | a method other than GET, HEAD and OPTIONS, by an agent with read-only access |
//! | `refused_address` | the host is this machine, a private network, cloud metadata or the like, and the configuration does not allow it |
//! | `refused` | neither http nor https; a user or password in the URL; a header reserved for the tool; a redirect from https to http; a redirect to another origin, unless the method is GET, HEAD or OPTIONS; a content encoding that was not requested |
//! | `too_many_redirects` | more than 10 redirects |
//! | `unreachable` | an unknown host, no connection, a response that is not HTTP, or an interrupted response; the output contains the part that arrived |
//! | `timed_out` | [`HttpRules::timeout`] was exceeded; the output contains the part of the response that arrived |
//! | `http_status` | the server responded with a status of 400 or more; the output is the same as for a success |
//! | `cancelled` | the call was cancelled |

mod address;
mod error;
mod exchange;
mod html;
mod method;
mod network;
mod output;
mod redirect;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolResult, code};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::blocking::blocking;
use crate::tool::{Tool, ToolContext};
use crate::typed::typed;
use error::HttpError;
use exchange::{ExchangeRecord, exchange};
use method::Method;
use network::{Network, Resolver, SystemResolver};
use output::BodyFormat;
use redirect::Hop;

pub use address::disallowed_reason;
pub use rules::HttpRules;

/// Creates the tool `http_request`.
///
/// Parameters: `{"method": "GET", "url": "https://…", "headers": {"accept": "text/html"}, "body": "text or
/// JSON", "as": "raw"}`; the first two are required. The output is the response in the format of HTTP, with
/// the URL of the last request. Each redirect has a line above the response:
///
/// ```text
/// 301 https://example.com/old
/// 200 OK https://example.com/new
/// content-type: application/json
///
/// {"id": 3}
/// ```
///
/// Below the headers, lines `Note: …` say that the body is incomplete, is not text and therefore not shown, or has parts that are invalid
/// in its charset. At most 40 headers are shown; cookies, headers meant only for browsers and those of the connection are left out.
///
/// A response to a method other than GET, HEAD and OPTIONS is reported as a change (LOOP-8). A status of 400 or more is a failure with
/// the same output (LOOP-7). The failure codes are `bad_parameters`, `access_denied`, `refused_address`, `refused`, `too_many_redirects`,
/// `unreachable`, `timed_out`, `http_status` and `cancelled`.
pub fn http_request(rules: &HttpRules) -> impl Tool {
    with_resolver(rules, Arc::new(SystemResolver))
}

fn with_resolver(rules: &HttpRules, resolver: Arc<dyn Resolver>) -> impl Tool + use<> {
    let network = Arc::new(Network::new(rules, resolver));
    let safe_methods = [Method::Get, Method::Head, Method::Options];
    let example = json!({"method": "GET", "url": "https://docs.rs/serde/latest/serde/", "as": "text"});
    typed("http_request", description(rules), move |context, parameters| {
        request(network.clone(), context, parameters)
    })
    .category(ToolCategory::Web)
    .access(Access::ReadOnly)
    .repeat(Repeat::SafeWhere {
        parameter: "method".to_owned(),
        values: safe_methods.iter().map(Method::to_string).collect(),
        or_absent: false,
    })
    .changes_where("method", &["POST", "PUT", "PATCH", "DELETE"])
    .requires_approval()
    .example(example.clone())
    .read_only(
        description(rules),
        &["method", "url", "headers", "as"],
        &["GET", "HEAD", "OPTIONS"],
        example,
    )
}

/// Returns the description, with the hosts outside of the public network that the rules allow.
fn description(rules: &HttpRules) -> String {
    let reachable = if rules.allow.is_empty() {
        "only the public network can be reached".to_owned()
    } else {
        format!(
            "only the public network and {} can be reached",
            rules.allow.join(", ")
        )
    };
    format!("Sends one HTTP request and returns the response; {reachable}.")
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    method: Method,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// A string is sent unchanged, any other value as JSON.
    #[serde(default)]
    body: Value,
    /// `text` for a web page as readable text; default `raw`.
    #[serde(default, rename = "as")]
    format: BodyFormat,
}

async fn request(network: Arc<Network>, context: ToolContext, parameters: Parameters) -> ToolResult {
    let format = parameters.format;
    let mut record = ExchangeRecord::default();
    let ended = tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(HttpError::Cancelled),
        ended = run(&network, parameters, context.access, &mut record) => ended,
    };
    let changes = std::mem::take(&mut record.changes);
    let result = match ended {
        Err(HttpError::Cancelled) => failure_result(&HttpError::Cancelled, &record),
        ended => finish(context, ended, record, format).await,
    };
    result.with_changes(changes)
}

/// Renders the result with a new cancellation token, because even a cancelled call must report a request that may have changed something.
async fn finish(
    context: ToolContext,
    ended: Result<(), HttpError>,
    record: ExchangeRecord,
    format: BodyFormat,
) -> ToolResult {
    let context = ToolContext {
        cancel: CancellationToken::new(),
        ..context
    };
    blocking(context, move |_| result(ended, record, format)).await
}

async fn run(
    network: &Network,
    parameters: Parameters,
    access: Access,
    record: &mut ExchangeRecord,
) -> Result<(), HttpError> {
    let hop = initial_hop(parameters, access)?;
    let network = network.open().await?;
    let timeout = network.rules().timeout;
    let ended = tokio::time::timeout(timeout, exchange(network, hop, record)).await;
    ended.unwrap_or(Err(HttpError::TimedOut(timeout)))
}

/// Builds the first request from the parameters.
fn initial_hop(parameters: Parameters, access: Access) -> Result<Hop, HttpError> {
    let Parameters {
        method,
        url,
        headers,
        body,
        format: _,
    } = parameters;
    if !method.is_safe() && access < Access::ReadWrite {
        return Err(HttpError::AccessDenied(method.name()));
    }
    let parsed = Url::parse(&url).map_err(|error| {
        HttpError::Parameters(format!(
            "`{url}` is not a URL: {error}; give the full URL, with https://"
        ))
    })?;
    let url = redirect::check_url(parsed)
        .map_err(|why| HttpError::Refused(format!("the URL was refused: it {why}")))?;
    let mut headers = parse_headers(headers)?;
    let (body, kind) = match body {
        Value::Null => (None, None),
        Value::String(text) => (Some(text.into_bytes()), Some("text/plain; charset=utf-8")),
        json @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            (Some(json.to_string().into_bytes()), Some("application/json"))
        }
    };
    if body.is_some() && method.is_safe() {
        return Err(HttpError::Parameters(format!(
            "a {method} request cannot have a `body`; put the data into the URL's query, or use POST"
        )));
    }
    if let Some(kind) = kind {
        headers
            .entry(header::CONTENT_TYPE)
            .or_insert(HeaderValue::from_static(kind));
    }
    Ok(Hop {
        method,
        url,
        headers,
        body,
    })
}

/// Returns true for headers that only the tool may set. Most of them control how the request is framed.
/// Servers that disagree about where a request ends could read it as two requests (request smuggling).
fn is_reserved_header(name: &HeaderName) -> bool {
    let ours = [
        header::HOST,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONNECTION,
        header::TE,
        header::TRAILER,
        header::UPGRADE,
        header::EXPECT,
        header::ACCEPT_ENCODING,
    ];
    ours.contains(name) || name.as_str() == "keep-alive" || name.as_str().starts_with("proxy-")
}

fn parse_headers(given: BTreeMap<String, String>) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| HttpError::Parameters(format!("`{name}` is not a valid header name")))?;
        if is_reserved_header(&name) {
            return Err(HttpError::Refused(format!(
                "the header `{name}` is set by the tool itself; leave it out"
            )));
        }
        let value = HeaderValue::from_str(&value).map_err(|_| {
            HttpError::Parameters(format!(
                "the header `{name}` contains characters that cannot be sent"
            ))
        })?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn result(ended: Result<(), HttpError>, record: ExchangeRecord, format: BodyFormat) -> ToolResult {
    let Some(response) = &record.response else {
        return match ended {
            Err(error) => failure_result(&error, &record),
            Ok(()) => failure_result(
                &HttpError::Unreachable("the server sent no response".to_owned()),
                &record,
            ),
        };
    };
    let output = output::render(response, &record.redirects, format);
    let result = match ended {
        Err(error) => failure_result(&error, &record),
        Ok(()) if response.status.as_u16() >= 400 => {
            ToolResult::failure(format!("the server responded with {}", response.status))
                .with_code(code::HTTP_STATUS)
        }
        Ok(()) => ToolResult::success(Value::Null),
    };
    let result = result.with_output(output.into());
    match response.address {
        Some(address) => result.with_metadata("address", address.to_string()),
        None => result,
    }
}

fn failure_result(error: &HttpError, record: &ExchangeRecord) -> ToolResult {
    let message = match record.unanswered {
        Some(method) => {
            format!("{error}; the {method} request may have arrived anyway: check before you send it again")
        }
        None => error.to_string(),
    };
    let result = ToolResult::failure(message).with_code(error.code());
    if record.redirects.is_empty() {
        result
    } else {
        result.with_output(record.redirects.join("\n").into())
    }
}

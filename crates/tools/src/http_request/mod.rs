//! The `http_request` tool: one request to the public network, or to what the configuration names.
//!
//! Where a request goes is decided by the address that its connection is made to, for each redirect anew: what a name is resolved
//! to is looked at and connected to, and not resolved again. It never uses a proxy, keeps cookies, or says where it comes from.
//!
//! A call asks for approval by default, as it carries things out of the workspace. A rule of the run's policy allows a host:
//! `http_request(url: https://docs.rs/*)`; with it, what that host redirects to is allowed as well, but for what the rules below
//! refuse, and nothing but a GET, HEAD or OPTIONS without credentials leaves its origin.
//!
//! # Codes of failures
//! | code | when |
//! | --- | --- |
//! | `bad_parameters` | no URL, a header that can't be sent, a body where the method has none |
//! | `access_denied` | a method other than GET, HEAD and OPTIONS, by an agent that may only look |
//! | `refused_address` | it leads to this machine, a private network, cloud metadata or the like, and is not allowed by name |
//! | `refused` | neither http nor https; a user or password in the URL; a header that is the tool's own; a redirect from https to http, or of what may change something to another origin; an encoding that was not asked for |
//! | `too_many_redirects` | more than 10 |
//! | `unreachable` | no such name, no connection, no HTTP, or an answer that broke off; what there is of it is the output |
//! | `timed_out` | [`HttpRules::timeout`] was over; what there is of an answer is the output |
//! | `http_status` | the server answered with 400 or more; the output is that of a success |
//! | `cancelled` | nobody waits for it any more |

mod address;
mod error;
mod exchange;
mod html;
mod network;
mod output;
mod redirect;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dirigent_core::tool::{Access, Repeat, ToolResult, code};
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
use network::{Network, Resolver, SystemResolver};
use redirect::Hop;

/// What `http_request` may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRules {
    /// Hosts of the user's own machine and network that may be reached all the same: `localhost:8080`, `10.0.0.5`, `[::1]:8080`,
    /// `wiki.internal`. With a port only that port; without one each. An entry is about the host as it stands in a URL, whatever its
    /// name is resolved to: `localhost` does not allow `127.0.0.1`. What [`HttpRules::is_host`] says no to allows nothing.
    pub allow: Vec<String>,
    /// How long a request may take, redirects and body included.
    pub timeout: Duration,
    /// How much of a body is read, in bytes, unpacked: 512 KiB by default. What a call returns beyond 1 MiB is cut by the runtime.
    pub max_bytes: u64,
}

impl HttpRules {
    /// Whether a text can be an entry of [`HttpRules::allow`].
    pub fn is_host(text: &str) -> bool {
        address::is_host_pattern(text)
    }
}

impl Default for HttpRules {
    fn default() -> Self {
        HttpRules {
            allow: Vec::new(),
            timeout: Duration::from_secs(30),
            max_bytes: 512 * 1024,
        }
    }
}

/// The tool `http_request`.
///
/// Parameters: `{"method": "GET", "url": "https://…", "headers": {"accept": "text/html"}, "body": "text or JSON", "as": "raw"}`, of
/// which the first two are required. Output: `{"status": 200, "url": "…", "headers": {…}, "body": "…", "truncated": false, "bytes":
/// 12, "redirects": [{"status": 301, "url": "…"}]}`. The URL is the last one. `bytes` are those that were read, unpacked; `truncated`
/// says that there are more. A body that is no text is not shown: `not_shown` stands for `body`. `lossy` says that not all of it is in
/// the charset that it is said to have. Of headers up to 40 are shown, cookies and what only browsers need left out.
///
/// What was answered to methods other than GET, HEAD and OPTIONS is a change (LOOP-8). An answer of 400 or more is a failure with the
/// same output (LOOP-7); its codes and those of the other failures are in a table at the top of the module: `bad_parameters`,
/// `access_denied`, `refused_address`, `refused`, `too_many_redirects`, `unreachable`, `timed_out`, `http_status`, `cancelled`.
pub fn http_request(rules: &HttpRules) -> impl Tool {
    with_resolver(rules, Arc::new(SystemResolver))
}

fn with_resolver(rules: &HttpRules, resolver: Arc<dyn Resolver>) -> impl Tool + use<> {
    let network = Arc::new(Network::new(rules, resolver));
    let safe_methods = [Method::Get, Method::Head, Method::Options];
    typed(
        "http_request",
        "Sends one HTTP request and returns the answer. Only the public network can be reached, and hosts that the user's configuration \
         allows. Redirects are followed; credentials and bodies are never sent on to another origin. Web pages are shortest with `as` \
         `text`.",
        move |context, parameters| request(network.clone(), context, parameters),
    )
    .access(Access::ReadOnly)
    .repeat(Repeat::SafeWhere {
        parameter: "method".to_owned(),
        values: safe_methods.iter().map(Method::to_string).collect(),
    })
    .requires_approval()
    .example(json!({"method": "GET", "url": "https://docs.rs/serde/latest/serde/", "as": "text"}))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// GET, HEAD and OPTIONS only look; the others may change something and need more access.
    method: Method,
    /// The whole URL, http or https, without user and password.
    url: String,
    /// Further headers by name. Length, connection and compression are taken care of.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// What to send: a string as it is, anything else as JSON. Not with GET, HEAD and OPTIONS.
    #[serde(default)]
    body: Value,
    /// How to return the body.
    #[serde(default, rename = "as")]
    format: BodyFormat,
}

/// How a body is returned.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum BodyFormat {
    /// As it came.
    #[default]
    Raw,
    /// A web page as readable text; anything else as it came.
    Text,
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl Method {
    /// Whether it changes nothing elsewhere, as far as HTTP goes.
    fn is_safe(self) -> bool {
        match self {
            Method::Get | Method::Head | Method::Options => true,
            Method::Post | Method::Put | Method::Patch | Method::Delete => false,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Method> for reqwest::Method {
    fn from(method: Method) -> Self {
        match method {
            Method::Get => reqwest::Method::GET,
            Method::Head => reqwest::Method::HEAD,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            Method::Patch => reqwest::Method::PATCH,
            Method::Delete => reqwest::Method::DELETE,
            Method::Options => reqwest::Method::OPTIONS,
        }
    }
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

/// What has happened is told even to who does not wait for it any more: it may have changed something.
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

/// The request that the parameters ask for.
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
            "`{url}` is no URL: {error}; write it whole, with https://"
        ))
    })?;
    let url =
        redirect::check_url(parsed).map_err(|why| HttpError::Refused(format!("that is a URL {why}")))?;
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
            "a {method} has no `body`; put it in the URL's query, or use POST"
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

/// Headers that say how a message is sent, which is not the model's to say: two readings of where it ends make two requests of one.
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
            .map_err(|_| HttpError::Parameters(format!("`{name}` is no header's name")))?;
        if is_reserved_header(&name) {
            return Err(HttpError::Refused(format!(
                "the header `{name}` is the tool's own; leave it out"
            )));
        }
        let value = HeaderValue::from_str(&value).map_err(|_| {
            HttpError::Parameters(format!("the header `{name}` has characters that can't be sent"))
        })?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn result(ended: Result<(), HttpError>, record: ExchangeRecord, format: BodyFormat) -> ToolResult {
    let Some(answer) = &record.response else {
        return match ended {
            Err(error) => failure_result(&error, &record),
            Ok(()) => failure_result(&HttpError::Unreachable("there was no answer".to_owned()), &record),
        };
    };
    let output = output::render(answer, &record.redirects, format);
    let result = match ended {
        Err(error) => failure_result(&error, &record),
        Ok(()) if answer.status.as_u16() >= 400 => {
            ToolResult::failure(format!("the server answered {}", answer.status)).with_code(code::HTTP_STATUS)
        }
        Ok(()) => ToolResult::success(Value::Null),
    };
    let result = result.with_output(output);
    match answer.address {
        Some(address) => result.with_metadata("address", address.to_string()),
        None => result,
    }
}

fn failure_result(error: &HttpError, record: &ExchangeRecord) -> ToolResult {
    let message = match record.unanswered {
        Some(method) => {
            format!("{error}; the {method} may have arrived all the same: find out before you send it again")
        }
        None => error.to_string(),
    };
    let result = ToolResult::failure(message).with_code(error.code());
    if record.redirects.is_empty() {
        result
    } else {
        result.with_output(json!({"redirects": record.redirects}))
    }
}

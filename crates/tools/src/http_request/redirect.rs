//! Redirects (RFC 9110, section 15.4).
//!
//! A request with an unsafe method is never forwarded to another origin, nor is a header that may contain credentials.

use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderName};
use url::Url;

use super::error::HttpError;
use super::method::Method;

/// One request of a call: the first one, or one that follows a redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
}

/// Headers that are forwarded to another origin. Every other header may be a credential.
const CROSS_ORIGIN_HEADERS: [HeaderName; 3] = [header::ACCEPT, header::ACCEPT_LANGUAGE, header::USER_AGENT];

/// Headers that describe the body and are dropped together with it.
const BODY_HEADERS: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
];

/// Returns the request that a response redirects to. `None` if the response does not redirect. Does not check whether the target host is
/// allowed.
pub(super) fn next_hop(hop: &Hop, status: StatusCode, headers: &HeaderMap) -> Result<Option<Hop>, HttpError> {
    let method = match (status.as_u16(), hop.method) {
        (303, Method::Head) => Method::Head,
        (303, _) | (301 | 302, Method::Post) => Method::Get,
        (301 | 302 | 307 | 308, method) => method,
        (_, _) => return Ok(None),
    };
    let Some(location) = headers.get(header::LOCATION) else {
        return Ok(None);
    };
    let url = redirect_target(&hop.url, &String::from_utf8_lossy(location.as_bytes()))?;
    let same_origin = url.origin() == hop.url.origin();
    if !same_origin && !method.is_safe() {
        return Err(HttpError::Refused(format!(
            "the server responded with {status} and redirects to `{url}`, but a {method} request is not forwarded to another origin; to \
             send it there, call this tool with that URL"
        )));
    }
    let mut next = Hop {
        method,
        url,
        headers: hop.headers.clone(),
        body: hop.body.clone(),
    };
    if method != hop.method {
        next.body = None;
        BODY_HEADERS.iter().for_each(|name| {
            next.headers.remove(name);
        });
    }
    if !same_origin {
        let forwarded = CROSS_ORIGIN_HEADERS
            .iter()
            .filter_map(|name| Some((name.clone(), hop.headers.get(name)?.clone())));
        next.headers = forwarded.collect();
    }
    Ok(Some(next))
}

/// Resolves a `Location` against the URL of the request, and checks the result.
fn redirect_target(from: &Url, location: &str) -> Result<Url, HttpError> {
    let refused = |reason: &str| {
        let shown: String = location.chars().take(200).collect();
        HttpError::Refused(format!(
            "`{}` redirects to `{shown}`; the redirect was refused: it {reason}",
            redacted_url(from)
        ))
    };
    let to = from
        .join(location)
        .map_err(|error| refused(&format!("is not a URL ({error})")))?;
    let to = check_url(to).map_err(|reason| refused(&reason))?;
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(refused(
            "leads from https to http, where others can read and change the data",
        ));
    }
    Ok(to)
}

/// Returns the URL without its fragment if it can be requested. Otherwise returns the reason as the end of a sentence about the URL
/// (`is …`, `contains …`).
pub(super) fn check_url(mut url: Url) -> Result<Url, String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("is neither http nor https but `{}`", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("contains a user or a password; leave them out, and send an `Authorization` header if you need one".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// Returns a URL without user, password, query and fragment, for records.
pub(super) fn redacted_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Fails only for URLs without a host, which are never requested.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

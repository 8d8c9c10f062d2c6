//! A request, and where it goes on to when it is redirected (RFC 9110, 15.4).
//!
//! What may change something is never carried to another origin, and neither is a header that may say who asks.

use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderName};
use url::Url;

use super::Method;
use super::error::HttpError;

/// One request of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
}

/// What another origin is told. Everything else, of whatever name, may be a credential.
const CROSS_ORIGIN_HEADERS: [HeaderName; 3] = [header::ACCEPT, header::ACCEPT_LANGUAGE, header::USER_AGENT];

/// What is said of a body, and goes with it.
const BODY_HEADERS: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
];

/// The request that an answer leads to; none where it is the last one. The address is not looked at here.
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
            "the server answered {status} and redirects to `{url}`, but a {method} is not sent on to another origin; if it is meant \
             for that one, call this tool with that URL"
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
        let kept = CROSS_ORIGIN_HEADERS
            .iter()
            .filter_map(|name| Some((name.clone(), hop.headers.get(name)?.clone())));
        next.headers = kept.collect();
    }
    Ok(Some(next))
}

/// Where a `Location` leads from a URL.
fn redirect_target(from: &Url, location: &str) -> Result<Url, HttpError> {
    let refused = |why: &str| {
        let shown: String = location.chars().take(200).collect();
        HttpError::Refused(format!("`{}` redirects to `{shown}`, {why}", redacted_url(from)))
    };
    let to = from
        .join(location)
        .map_err(|error| refused(&format!("which is no URL ({error})")))?;
    let to = check_url(to).map_err(|why| refused(&why))?;
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(refused("from https to http, where others can read and change it"));
    }
    Ok(to)
}

/// A URL that can be asked, without its fragment; an error says why it can't, to be read after the URL.
pub(super) fn check_url(mut url: Url) -> Result<Url, String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("which is neither http nor https but `{}`", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("which has a user or a password in it; leave them out, and send an `Authorization` header if one is needed".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// A URL without user, password, query and fragment, for what is kept.
pub(super) fn redacted_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Only URLs without a host refuse these, and those are not asked.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

//! Sending a request, following its redirects, and reading the last response.

use dirigent_core::tool::StateChange;
use reqwest::header::{self, HeaderMap};
use reqwest::{Response, StatusCode};
use std::net::SocketAddr;
use url::Url;

use super::error::HttpError;
use super::method::Method;
use super::network::{ReadyNetwork, request_error};
use super::redirect::{Hop, next_hop, redacted_url};

/// Maximum number of redirects of a call.
const MAX_REDIRECTS: usize = 10;

/// The requests and responses of a call so far. Reported even if the call fails.
#[derive(Debug, Default)]
pub(super) struct ExchangeRecord {
    /// Requests that received a response and may have changed something.
    pub(super) changes: Vec<StateChange>,
    /// A line `301 URL` for each response that redirected, with the URL of its request.
    pub(super) redirects: Vec<String>,
    /// The final response, possibly with an incomplete body. `None` until its headers have arrived.
    pub(super) response: Option<ReceivedResponse>,
    /// Method of an unsafe request that may have reached the server but received no response, if any.
    pub(super) unanswered: Option<Method>,
}

/// A response that does not redirect.
#[derive(Debug)]
pub(super) struct ReceivedResponse {
    pub(super) status: StatusCode,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// Address of the server.
    pub(super) address: Option<SocketAddr>,
    /// The body, decompressed.
    pub(super) body: Vec<u8>,
    /// Whether the body is incomplete.
    pub(super) truncated: bool,
}

/// Sends a request, follows its redirects, and reads the last response.
pub(super) async fn exchange(
    network: ReadyNetwork<'_>,
    mut hop: Hop,
    record: &mut ExchangeRecord,
) -> Result<(), HttpError> {
    loop {
        let response = send(network, &hop, record).await?;
        match next_hop(&hop, response.status(), response.headers())? {
            Some(next) => {
                if record.redirects.len() == MAX_REDIRECTS {
                    return Err(HttpError::TooManyRedirects(MAX_REDIRECTS, next.url.into()));
                }
                let redirect = format!("{} {}", response.status().as_u16(), hop.url);
                record.redirects.push(redirect);
                hop = next;
            }
            None => return read(network.rules().max_bytes, &hop, response, record).await,
        }
    }
}

async fn send(
    network: ReadyNetwork<'_>,
    hop: &Hop,
    record: &mut ExchangeRecord,
) -> Result<Response, HttpError> {
    let client = network.client(&hop.url)?;
    let mut request = client
        .request(hop.method.into(), hop.url.clone())
        .headers(hop.headers.clone());
    if let Some(body) = &hop.body {
        request = request.body(body.clone());
    }
    record.unanswered = Some(hop.method).filter(|method| !method.is_safe());
    let response = request.send().await.map_err(|error| {
        if error.is_connect() || error.is_builder() {
            record.unanswered = None;
        }
        request_error(error)
    })?;
    if record.unanswered.take().is_some() {
        record.changes.push(StateChange::RequestSent {
            method: hop.method.to_string(),
            url: redacted_url(&hop.url),
            status: response.status().as_u16(),
        });
    }
    Ok(response)
}

/// Reads the body up to `max_bytes`, counted after decompression.
async fn read(
    max_bytes: u64,
    hop: &Hop,
    mut response: Response,
    record: &mut ExchangeRecord,
) -> Result<(), HttpError> {
    let received = record.response.insert(ReceivedResponse {
        status: response.status(),
        url: hop.url.clone(),
        headers: response.headers().clone(),
        address: response.remote_addr(),
        body: Vec::new(),
        truncated: false,
    });
    if hop.method == Method::Head {
        return Ok(());
    }
    let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    while let Some(chunk) = response.chunk().await.map_err(|error| {
        received.truncated = true;
        body_error(received.body.len(), request_error(error))
    })? {
        // The client removes this header when it decompresses the body, so if it is still present, the client cannot decode the body.
        if let Some(encoding) = received.headers.get(header::CONTENT_ENCODING) {
            let encoding = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
            received.truncated = true;
            return Err(HttpError::Refused(format!(
                "the response is encoded as `{encoding}`, which was not requested and cannot be decoded"
            )));
        }
        let room = max - received.body.len();
        received.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            received.truncated = true;
            return Ok(());
        }
    }
    Ok(())
}

/// Adds the number of bytes read to an error while reading the body.
fn body_error(bytes_read: usize, error: HttpError) -> HttpError {
    match error {
        HttpError::Unreachable(reason) => HttpError::Unreachable(format!(
            "the response broke off after {bytes_read} bytes: {reason}"
        )),
        HttpError::Parameters(_)
        | HttpError::AccessDenied(_)
        | HttpError::DisallowedAddress(_)
        | HttpError::Refused(_)
        | HttpError::TooManyRedirects(..)
        | HttpError::TimedOut(_)
        | HttpError::Cancelled => error,
    }
}

//! Sending a request and what it is redirected to, and reading the last answer.

use dirigent_core::tool::StateChange;
use reqwest::header::{self, HeaderMap};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use std::net::SocketAddr;
use url::Url;

use super::Method;
use super::error::HttpError;
use super::network::{ReadyNetwork, request_error};
use super::redirect::{Hop, next_hop, redacted_url};

/// How often a call is redirected at most.
const MAX_REDIRECTS: usize = 10;

/// What came of a call so far, however it ends.
#[derive(Debug, Default)]
pub(super) struct ExchangeRecord {
    /// What was answered and may have changed something.
    pub(super) changes: Vec<StateChange>,
    /// `{"status": 301, "url": "…"}` of each answer that redirected.
    pub(super) redirects: Vec<Value>,
    /// The last answer, as far as it was read.
    pub(super) response: Option<ReceivedResponse>,
    /// What may have arrived, and was not answered.
    pub(super) unanswered: Option<Method>,
}

/// An answer that redirects no further.
#[derive(Debug)]
pub(super) struct ReceivedResponse {
    pub(super) status: StatusCode,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// Whom the connection was with.
    pub(super) address: Option<SocketAddr>,
    /// The body, unpacked.
    pub(super) body: Vec<u8>,
    /// Whether the body goes on.
    pub(super) truncated: bool,
}

/// Sends a request and reads the answer to it, or to what it is redirected to.
pub(super) async fn exchange(
    network: ReadyNetwork<'_>,
    mut hop: Hop,
    record: &mut ExchangeRecord,
) -> Result<(), HttpError> {
    loop {
        let response = send(network, &hop, record).await?;
        match next_hop(&hop, response.status(), response.headers())? {
            Some(to) => {
                if record.redirects.len() == MAX_REDIRECTS {
                    return Err(HttpError::TooManyRedirects(MAX_REDIRECTS, to.url.into()));
                }
                let redirect = json!({"status": response.status().as_u16(), "url": hop.url.as_str()});
                record.redirects.push(redirect);
                hop = to;
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

/// Reads a body until it is as long as may be: one that is packed grows while it is read.
async fn read(
    max_bytes: u64,
    hop: &Hop,
    mut response: Response,
    record: &mut ExchangeRecord,
) -> Result<(), HttpError> {
    let answer = record.response.insert(ReceivedResponse {
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
        answer.truncated = true;
        body_error(answer.body.len(), request_error(error))
    })? {
        // What the client has unpacked is no longer said to be packed.
        if let Some(encoding) = answer.headers.get(header::CONTENT_ENCODING) {
            let encoding = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
            answer.truncated = true;
            return Err(HttpError::Refused(format!(
                "the answer is packed as `{encoding}`, which was not asked for and is not unpacked"
            )));
        }
        let room = max - answer.body.len();
        answer.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            answer.truncated = true;
            return Ok(());
        }
    }
    Ok(())
}

/// An error while the body came.
fn body_error(read: usize, error: HttpError) -> HttpError {
    match error {
        HttpError::Unreachable(why) => {
            HttpError::Unreachable(format!("the answer broke off after {read} bytes: {why}"))
        }
        HttpError::Parameters(_)
        | HttpError::AccessDenied(_)
        | HttpError::DisallowedAddress(_)
        | HttpError::Refused(_)
        | HttpError::TooManyRedirects(..)
        | HttpError::TimedOut(_)
        | HttpError::Cancelled => error,
    }
}

//! Client of one server: its connection settings, and helpers for all HTTP requests to it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dirigent_core::message::{ModelFailure, ModelFailureKind};
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Response, Url};
use tokio::time::{Instant, timeout_at};

use super::options::{self, OpenAiOptions};
use crate::failure::FailureClassifier;
use crate::http::{self, HttpClient, error_chain};
use crate::options::ModelSetupError;
use crate::secrets::Secrets;
use crate::time::deadline_after;

/// Maximum number of bytes that are read from the body of an error response.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// Time limit for reading an error response's body.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of one server.
pub(super) struct Client {
    pub(super) http: reqwest::Client,
    pub(super) options: OpenAiOptions,
    pub(super) chat_url: Url,
    pub(super) models_url: Url,
    authorization: Option<HeaderValue>,
    pub(super) failures: FailureClassifier,
    /// Fields that the server has refused so far, by model.
    unsupported: Mutex<BTreeMap<String, BTreeSet<OptionalField>>>,
}

/// A field of a request that some servers refuse, and that can be left out or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OptionalField {
    /// `response_format`.
    ResponseFormat,
    /// `stream_options`, which asks for a chunk with the usage.
    StreamOptions,
    /// `max_tokens`, which newer servers replace by `max_completion_tokens`.
    MaxTokens,
    /// The role `tool` without a call id (CALL-3), replaced by the role `user`.
    ToolRole,
}

/// A response with an error status, and its classification.
pub(super) struct ErrorResponse {
    pub(super) status: u16,
    /// The beginning of the body.
    pub(super) body: String,
    pub(super) failure: ModelFailure,
}

/// Result of reading a body.
pub(super) enum BodyRead {
    Complete(Vec<u8>),
    /// The body exceeds [`OpenAiOptions::max_reply_bytes`].
    TooLong,
}

impl Client {
    pub(super) fn new(options: OpenAiOptions, client: &HttpClient) -> Result<Self, ModelSetupError> {
        options::check_extra(&options.extra)?;
        let base = http::parse_base_url(&options.base_url)?;
        let (api_key, authorization) = options::authorization(options.api_key.as_ref())?.unzip();
        let server = format!("model server {}", http::redacted_url(&options.base_url));
        let secrets = Secrets::new(http::url_secrets(&base).iter().chain(&api_key));
        Ok(Client {
            http: client.for_server(&base).clone(),
            chat_url: http::endpoint(&base, &["chat", "completions"]),
            models_url: http::endpoint(&base, &["models"]),
            authorization,
            failures: FailureClassifier { server, secrets },
            unsupported: Mutex::default(),
            options,
        })
    }

    /// Returns the fields that the server is known to refuse for this model.
    pub(super) fn unsupported_by(&self, model: &str) -> BTreeSet<OptionalField> {
        let unsupported = self.unsupported.lock().unwrap_or_else(PoisonError::into_inner);
        unsupported.get(model).cloned().unwrap_or_default()
    }

    /// Records fields that the server refuses for this model.
    pub(super) fn remember_unsupported(&self, model: &str, fields: BTreeSet<OptionalField>) {
        let mut unsupported = self.unsupported.lock().unwrap_or_else(PoisonError::into_inner);
        unsupported.entry(model.to_owned()).or_default().extend(fields);
    }

    /// Sends a request and waits for the response's status and headers.
    pub(super) async fn send(
        &self,
        mut builder: reqwest::RequestBuilder,
        until: Instant,
    ) -> Result<Response, ModelFailure> {
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        match timeout_at(until, builder.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.connection_failure(error)),
            Err(_) => Err(self.failures.unavailable("no response before the timeout")),
        }
    }

    /// Classifies the failure of a request that got no response. A TLS error counts as a configuration error, because retries do not help; an
    /// unreachable server may become reachable again.
    fn connection_failure(&self, error: reqwest::Error) -> ModelFailure {
        let configuration = |message: &str| self.failures.failure(ModelFailureKind::Configuration, message);
        match (error.is_builder(), error.is_connect()) {
            (true, _) => configuration(&error_chain(error)),
            (false, true) if is_tls(&error) => configuration(&format!(
                "no secure connection can be made ({}). Check base_url and the server's certificate",
                error_chain(error)
            )),
            (false, true) => self.failures.unavailable(&format!(
                "it can't be reached ({}). Check base_url, and that the server is running",
                error_chain(error)
            )),
            (false, false) => self
                .failures
                .unavailable(&format!("it can't be reached ({})", error_chain(error))),
        }
    }

    /// Reads a response with an error status.
    pub(super) async fn read_error_response(&self, mut response: Response) -> ErrorResponse {
        let until = deadline_after(ERROR_BODY_TIMEOUT);
        let mut body = Vec::new();
        while body.len() < MAX_ERROR_BODY_BYTES
            && let Ok(Ok(Some(piece))) = timeout_at(until, response.chunk()).await
        {
            body.extend_from_slice(&piece);
        }
        body.truncate(MAX_ERROR_BODY_BYTES);
        let body = String::from_utf8_lossy(&body).into_owned();
        let status = response.status().as_u16();
        ErrorResponse {
            status,
            failure: self.failures.status(status, response.headers(), &body),
            body,
        }
    }

    /// Reads a body of at most [`OpenAiOptions::max_reply_bytes`].
    pub(super) async fn read_body(
        &self,
        mut response: Response,
        until: Instant,
    ) -> Result<BodyRead, ModelFailure> {
        let mut body = Vec::new();
        loop {
            match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(piece))) => body.extend_from_slice(&piece),
                Ok(Ok(None)) => return Ok(BodyRead::Complete(body)),
                Ok(Err(error)) => {
                    let message = format!("its response can't be read ({})", error_chain(error));
                    return Err(self.failures.unavailable(&message));
                }
                Err(_) => return Err(self.failures.unavailable("its response timed out")),
            }
            if body.len() > self.options.max_reply_bytes {
                return Ok(BodyRead::TooLong);
            }
        }
    }
}

/// Returns true if TLS caused the error.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
    let inner = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>()
        || inner.is_some_and(|error| is_tls(error))
        || error.source().is_some_and(is_tls)
}

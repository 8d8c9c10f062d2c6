//! Classification of `genai`'s errors, and of errors from Anthropic and Gemini.

use dirigent_core::message::{ModelFailure, ModelFailureKind};
use dirigent_core::time::Millis;
use genai::{BoxError, Error};
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::frame_sink::StreamMetadata;
use crate::completion::CompletionError;
use crate::failure::{FailureClassifier, retry_after_seconds};
use crate::http::error_chain;

/// A failure, and the status of the response that caused it; `None` if there was no response.
pub(super) struct HostedFailure {
    pub(super) failure: ModelFailure,
    pub(super) status: Option<u16>,
}

impl From<ModelFailure> for HostedFailure {
    fn from(failure: ModelFailure) -> Self {
        HostedFailure {
            failure,
            status: None,
        }
    }
}

impl From<HostedFailure> for CompletionError {
    fn from(HostedFailure { failure, status }: HostedFailure) -> Self {
        CompletionError::from_failure(failure, status)
    }
}

/// Converts the errors of one server to failures.
pub(super) struct GenaiFailureClassifier(pub(super) FailureClassifier);

impl GenaiFailureClassifier {
    /// Creates a failure for a server that can't be reached or that sent no usable reply.
    pub(super) fn unavailable(&self, message: &str) -> ModelFailure {
        self.0.unavailable(message)
    }

    /// Classifies an error that `genai` returns in place of an event.
    pub(super) fn classify_genai(&self, error: Error, metadata: &StreamMetadata) -> HostedFailure {
        let failure = match error {
            Error::WebStream { error, .. } => return self.classify_transport(error),
            Error::ChatResponse { body, .. } => match (&body["error"], &metadata.block_reason) {
                (Value::Null, Some(reason)) => {
                    let reason = self.0.excerpt(reason);
                    let message = format!("it refuses to answer this conversation ({reason})");
                    self.0.failure(ModelFailureKind::Rejected, &message)
                }
                (Value::Null, None) => {
                    self.unavailable("an event has neither a part of a reply nor an error")
                }
                (error, _) => refine(self.0.error_object(error), &error.to_string()),
            },
            Error::StreamParse { serde_error, .. } => {
                self.unavailable(&format!("an event is not valid JSON: {serde_error}"))
            }
            Error::JsonValueExt(error) => {
                let excerpt = self.0.excerpt(&error.to_string());
                self.unavailable(&format!("an event has an unexpected format: {excerpt}"))
            }
            // All other errors concern the request, and occur before it is sent.
            other => {
                let excerpt = self.0.excerpt(&other.to_string());
                self.0.failure(ModelFailureKind::Rejected, &excerpt)
            }
        };
        failure.into()
    }

    /// Classifies a response with an error status.
    pub(super) fn classify_status(&self, status: u16, headers: &HeaderMap, body: &str) -> ModelFailure {
        refine(self.0.status(status, headers, body), body)
    }

    /// Classifies an error of the HTTP client.
    pub(super) fn classify_http(&self, error: reqwest::Error) -> ModelFailure {
        let message = if error.is_body() || error.is_decode() {
            "its response can't be read"
        } else {
            "it can't be reached"
        };
        match error.is_builder() {
            true => self
                .0
                .failure(ModelFailureKind::Configuration, &error_chain(error)),
            false => self.unavailable(&format!("{message} ({})", error_chain(error))),
        }
    }

    fn classify_transport(&self, error: BoxError) -> HostedFailure {
        let error = match error.downcast::<Error>() {
            Ok(error) => match *error {
                Error::HttpError {
                    status,
                    body,
                    headers,
                    ..
                } => {
                    return HostedFailure {
                        failure: self.classify_status(status.as_u16(), &headers, &body),
                        status: Some(status.as_u16()),
                    };
                }
                other => other.into(),
            },
            Err(error) => error,
        };
        match error.downcast::<reqwest::Error>() {
            Ok(error) => self.classify_http(*error).into(),
            Err(error) => {
                let cause = error
                    .source()
                    .map(|cause| format!(": {cause}"))
                    .unwrap_or_default();
                self.unavailable(&self.0.excerpt(&format!("{error}{cause}")))
                    .into()
            }
        }
    }
}

/// Refines a failure by phrases and retry delays in the body that are specific to Anthropic and Gemini.
fn refine(mut failure: ModelFailure, body: &str) -> ModelFailure {
    const KEY: &str = ". Check the model's API key";
    const ACCOUNT: &str = ". Check the account that the API key belongs to";
    const PHRASES: [(&str, ModelFailureKind, &str); 5] = [
        ("API_KEY_INVALID", ModelFailureKind::Configuration, KEY),
        ("FAILED_PRECONDITION", ModelFailureKind::Configuration, ACCOUNT),
        (
            "credit balance is too low",
            ModelFailureKind::Configuration,
            ACCOUNT,
        ),
        (
            "exceeds the maximum number of tokens",
            ModelFailureKind::TooLong,
            "",
        ),
        ("exceed context limit", ModelFailureKind::TooLong, ""),
    ];
    match failure.kind {
        ModelFailureKind::Rejected => {
            if let Some((_, kind, hint)) = PHRASES.into_iter().find(|(phrase, ..)| body.contains(phrase)) {
                failure.kind = kind;
                failure.message.push_str(hint);
            }
        }
        ModelFailureKind::Unavailable { retry_after: None } => {
            let retry_after = retry_delay(body);
            failure.kind = ModelFailureKind::Unavailable { retry_after };
        }
        ModelFailureKind::Unavailable { retry_after: Some(_) }
        | ModelFailureKind::TooLong
        | ModelFailureKind::Configuration
        | ModelFailureKind::Panicked => {}
    }
    failure
}

/// Reads Gemini's retry delay from the body: `{"error": {"details": [{"retryDelay": "26s"}]}}`.
fn retry_delay(body: &str) -> Option<Millis> {
    let body: Value = serde_json::from_str(body).ok()?;
    let details = body.pointer("/error/details").or_else(|| body.get("details"))?;
    let delay = details
        .as_array()?
        .iter()
        .find_map(|detail| detail["retryDelay"].as_str())?;
    retry_after_seconds(delay.strip_suffix('s')?.parse().ok()?)
}

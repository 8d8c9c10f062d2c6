//! What is made of what went wrong: `genai`'s errors, and what these two providers say in their own ways.

use dirigent_core::message::{ModelFailure, ModelFailureKind};
use dirigent_core::time::Millis;
use genai::{BoxError, Error};
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::frame_sink::StreamMetadata;
use crate::openai::exchange::error_chain;
use crate::openai::failure::{FailureClassifier, retry_after_seconds};

/// Says of errors what can be done about them.
pub(super) struct GenaiFailureClassifier(pub(super) FailureClassifier);

impl GenaiFailureClassifier {
    /// Nothing came that can be used.
    pub(super) fn unavailable(&self, message: &str) -> ModelFailure {
        self.0.unavailable(message)
    }

    /// An error in place of an event.
    pub(super) fn classify_genai(&self, error: Error, metadata: &StreamMetadata) -> ModelFailure {
        match error {
            Error::WebStream { error, .. } => self.classify_transport(error),
            Error::ChatResponse { body, .. } => match (&body["error"], &metadata.block_reason) {
                (Value::Null, Some(why)) => {
                    let why = self.0.excerpt(why);
                    let message = format!("it refuses to answer this conversation ({why})");
                    self.0.failure(ModelFailureKind::Rejected, &message)
                }
                (Value::Null, None) => self.unavailable("an event holds no part of a reply"),
                (error, _) => refine(self.0.error_object(error), &error.to_string()),
            },
            Error::StreamParse { serde_error, .. } => {
                self.unavailable(&format!("an event is no JSON: {serde_error}"))
            }
            Error::JsonValueExt(error) => {
                let said = self.0.excerpt(&error.to_string());
                self.unavailable(&format!("an event is not as it should be: {said}"))
            }
            // What is left is about the request, and comes before anything is sent.
            other => {
                let said = self.0.excerpt(&other.to_string());
                self.0.failure(ModelFailureKind::Rejected, &said)
            }
        }
    }

    /// An answer that is no success.
    pub(super) fn classify_status(&self, status: u16, headers: &HeaderMap, body: &str) -> ModelFailure {
        refine(self.0.status(status, headers, body), body)
    }

    /// An error of the HTTP client's.
    pub(super) fn classify_http(&self, error: reqwest::Error) -> ModelFailure {
        let message = if error.is_body() || error.is_decode() {
            "its answer broke off"
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

    fn classify_transport(&self, error: BoxError) -> ModelFailure {
        let error = match error.downcast::<Error>() {
            Ok(error) => match *error {
                Error::HttpError {
                    status,
                    body,
                    headers,
                    ..
                } => return self.classify_status(status.as_u16(), &headers, &body),
                other => other.into(),
            },
            Err(error) => error,
        };
        match error.downcast::<reqwest::Error>() {
            Ok(error) => self.classify_http(*error),
            Err(error) => {
                let cause = error
                    .source()
                    .map(|cause| format!(": {cause}"))
                    .unwrap_or_default();
                self.unavailable(&self.0.excerpt(&format!("{error}{cause}")))
            }
        }
    }
}

/// A failure with what only these providers say, and say in the text.
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

/// How long Gemini asks to wait: in the body, as in `{"error": {"details": [{"retryDelay": "26s"}]}}`.
fn retry_delay(body: &str) -> Option<Millis> {
    let body: Value = serde_json::from_str(body).ok()?;
    let details = body.pointer("/error/details").or_else(|| body.get("details"))?;
    let delay = details
        .as_array()?
        .iter()
        .find_map(|detail| detail["retryDelay"].as_str())?;
    retry_after_seconds(delay.strip_suffix('s')?.parse().ok()?)
}

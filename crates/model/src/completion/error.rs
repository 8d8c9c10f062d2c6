//! Errors in the form of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`.

use dirigent_core::message::{ModelFailure, ModelFailureKind};
use dirigent_core::time::Millis;
use serde_json::{Value, json};

use crate::secrets::Secrets;

/// Longest `type`, `param` or `code` of a model server's error that is passed on, in characters. A longer one is left out.
const MAX_WORD_CHARS: usize = 100;

/// Why an OpenAI client gets no reply, or only a part of one. `Display` shows the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompletionError {
    /// The HTTP status.
    pub status: u16,
    /// What failed, why, and what to do; without secrets.
    pub message: String,
    /// The class of the error: `type` in JSON.
    pub class: String,
    /// The field of the request that has the error; `None` if it is not about one field.
    pub param: Option<String>,
    /// The code of the error.
    pub code: Option<String>,
    /// Whether a retry or another model can help.
    pub kind: ModelFailureKind,
}

impl CompletionError {
    /// Creates the error for an invalid request: status 400.
    pub fn invalid(param: impl Into<Option<&'static str>>, message: impl Into<String>) -> Self {
        CompletionError {
            status: 400,
            message: message.into(),
            class: "invalid_request_error".to_owned(),
            param: param.into().map(str::to_owned),
            code: None,
            kind: ModelFailureKind::Rejected,
        }
    }

    /// Creates an error of the service itself: status 500, or another status and code by [`Self::with`].
    pub fn internal(message: impl Into<String>) -> Self {
        CompletionError {
            status: 500,
            class: "server_error".to_owned(),
            code: Some("internal".to_owned()),
            kind: ModelFailureKind::Panicked,
            ..CompletionError::invalid(None, message)
        }
    }

    /// Changes the status and the code.
    pub fn with(mut self, status: u16, code: &str) -> Self {
        self.status = status;
        self.code = Some(code.to_owned());
        self
    }

    /// Creates the error for a failed model request. `status` is that of the server's response, 504 if a wait timed out, and `None` if
    /// there was no response.
    pub(crate) fn from_failure(failure: ModelFailure, status: Option<u16>) -> Self {
        let ModelFailure { kind, message } = failure;
        let (status, class, code) = match (kind, status) {
            (ModelFailureKind::Unavailable { .. }, status) => unavailable(status),
            (ModelFailureKind::TooLong, _) => (400, "invalid_request_error", "context_length_exceeded"),
            (ModelFailureKind::Configuration, Some(404)) => (404, "invalid_request_error", "model_not_found"),
            (ModelFailureKind::Configuration, Some(402 | 429)) => {
                (429, "insufficient_quota", "insufficient_quota")
            }
            (ModelFailureKind::Configuration, _) => (502, "server_error", "upstream_misconfigured"),
            (ModelFailureKind::Rejected, status) => {
                let status = status.filter(|status| (400..500).contains(status)).unwrap_or(400);
                (status, "invalid_request_error", "upstream_rejected")
            }
            (ModelFailureKind::Panicked, _) => (500, "server_error", "internal"),
        };
        CompletionError {
            status,
            message,
            class: class.to_owned(),
            param: None,
            code: Some(code.to_owned()),
            kind,
        }
    }

    /// Takes over the class, the field and the code of a server's error about the request or about rate limits. Errors of other kinds
    /// concern the server, and not the client.
    pub(crate) fn with_upstream_words(mut self, body: &str, secrets: &Secrets) -> Self {
        if !matches!(self.status, 400 | 422 | 429) {
            return self;
        }
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let word = |field: &str| {
            let word = body["error"][field].as_str().map(|word| secrets.redact(word));
            word.filter(|word| !word.is_empty() && word.chars().count() <= MAX_WORD_CHARS)
        };
        if let Some(class) = word("type") {
            self.class = class;
        }
        self.param = word("param").or(self.param);
        self.code = word("code").or(self.code);
        self
    }

    /// Returns the time after which the client may try again; `None` if unknown.
    pub fn retry_after(&self) -> Option<Millis> {
        match self.kind {
            ModelFailureKind::Unavailable { retry_after } => retry_after,
            ModelFailureKind::TooLong
            | ModelFailureKind::Configuration
            | ModelFailureKind::Rejected
            | ModelFailureKind::Panicked => None,
        }
    }

    /// Returns the JSON for the client.
    pub fn to_json(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.class,
            "param": self.param,
            "code": self.code,
        }})
    }
}

/// Returns the status, the class and the code for a server that is busy, down or unreachable.
fn unavailable(status: Option<u16>) -> (u16, &'static str, &'static str) {
    match status {
        Some(429) => (429, "rate_limit_error", "rate_limit_exceeded"),
        Some(503 | 529) => (503, "server_error", "upstream_unavailable"),
        Some(408 | 504) => (504, "server_error", "upstream_timeout"),
        Some(_) | None => (502, "server_error", "upstream_failed"),
    }
}

impl From<ModelFailure> for CompletionError {
    fn from(failure: ModelFailure) -> Self {
        let status = match failure.kind {
            ModelFailureKind::Unavailable { .. } => Some(503),
            ModelFailureKind::TooLong
            | ModelFailureKind::Configuration
            | ModelFailureKind::Rejected
            | ModelFailureKind::Panicked => None,
        };
        CompletionError::from_failure(failure, status)
    }
}

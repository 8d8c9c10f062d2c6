//! Options of an [`OpenAiModel`](super::OpenAiModel).

use std::fmt;

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use crate::http::redacted_url;
use crate::options::{ModelSetupError, Timeouts};

/// Base URL, name and request options of a model. `Debug` output contains neither the key nor the query of the URL, which may contain
/// a key.
#[derive(Clone)]
pub struct OpenAiOptions {
    /// Base URL of the API, such as `https://api.openai.com/v1` or `http://localhost:11434/v1`.
    pub base_url: String,
    /// API key; `None` if the server needs no key. It is removed from everything that the server sends back, unless it is shorter than 16
    /// characters: such a short key is taken for a placeholder like `none`.
    pub api_key: Option<SecretString>,
    /// Default model, for requests without a model name.
    pub model: String,
    /// How the server sends replies.
    pub delivery: Delivery,
    /// Time limits of a request.
    pub timeouts: Timeouts,
    /// Maximum size of a reply's text and calls, in bytes. A larger reply is cut off and ends as
    /// [`FinishReason::Oversized`](dirigent_core::message::FinishReason::Oversized).
    pub max_reply_bytes: usize,
    /// Extra fields of the request's body, such as `temperature`. Fields that Dirigent sets itself are refused.
    pub extra: Map<String, Value>,
}

impl OpenAiOptions {
    /// Creates options for a model at this base URL, streamed and without a key.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        OpenAiOptions {
            base_url: base_url.into(),
            api_key: None,
            model: model.into(),
            delivery: Delivery::Streamed,
            timeouts: Timeouts::default(),
            max_reply_bytes: 16 * 1024 * 1024,
            extra: Map::new(),
        }
    }

    /// Sets the API key. Surrounding whitespace is removed, and an empty key counts as no key.
    pub fn api_key(mut self, key: impl Into<SecretString>) -> Self {
        self.api_key = Some(key.into());
        self
    }
}

impl fmt::Debug for OpenAiOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiOptions")
            .field("base_url", &redacted_url(&self.base_url))
            .field("api_key", &self.api_key)
            .field("model", &self.model)
            .field("delivery", &self.delivery)
            .field("timeouts", &self.timeouts)
            .field("max_reply_bytes", &self.max_reply_bytes)
            .field("extra", &self.extra)
            .finish()
    }
}

/// How a server sends replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The reply arrives as events while the model generates it.
    Streamed,
    /// The reply arrives in one piece.
    Whole,
}

/// Fields of a request's body that Dirigent sets itself.
const RESERVED: [&str; 8] = [
    "model",
    "messages",
    "tools",
    "response_format",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
];

/// Returns an error if the extra fields contain a field that Dirigent sets itself.
pub(super) fn check_extra(extra: &Map<String, Value>) -> Result<(), ModelSetupError> {
    match RESERVED.iter().find(|field| extra.contains_key(**field)) {
        Some(field) => Err(ModelSetupError::ReservedField {
            field: (*field).to_owned(),
        }),
        None => Ok(()),
    }
}

/// Returns the key without surrounding whitespace and the header that carries it; `None` for an empty key.
pub(super) fn authorization(
    key: Option<&SecretString>,
) -> Result<Option<(SecretString, HeaderValue)>, ModelSetupError> {
    let Some(key) = key
        .map(|key| key.expose_secret().trim())
        .filter(|key| !key.is_empty())
    else {
        return Ok(None);
    };
    // Other characters come from copying errors, such as the `…` of a shortened key.
    if !key.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(ModelSetupError::ApiKey);
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| ModelSetupError::ApiKey)?;
    header.set_sensitive(true);
    Ok(Some((key.into(), header)))
}

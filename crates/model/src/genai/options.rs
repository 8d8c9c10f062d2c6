//! Options of a [`HostedModel`](super::HostedModel).

use std::fmt;

use genai::adapter::AdapterKind;
use reqwest::Url;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::http::{endpoint, parse_base_url, redacted_url};
use crate::options::{ModelSetupError, Timeouts};

/// A provider's own API, as opposed to OpenAI's chat completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostedApi {
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's Gemini API: `streamGenerateContent`.
    Gemini,
}

impl HostedApi {
    /// Name of the provider in messages to users.
    pub fn name(self) -> &'static str {
        match self {
            HostedApi::Anthropic => "Anthropic",
            HostedApi::Gemini => "Gemini",
        }
    }

    /// Default limit of a reply's tokens. Anthropic requires a limit in each request; its default
    /// suffices for a whole source file.
    fn max_output_tokens(self) -> Option<u64> {
        match self {
            HostedApi::Anthropic => Some(16_384),
            HostedApi::Gemini => None,
        }
    }

    /// Name of the header with the key.
    pub(super) fn key_header(self) -> &'static str {
        match self {
            HostedApi::Anthropic => "x-api-key",
            HostedApi::Gemini => "x-goog-api-key",
        }
    }

    pub(super) fn adapter(self) -> AdapterKind {
        match self {
            HostedApi::Anthropic => AdapterKind::Anthropic,
            HostedApi::Gemini => AdapterKind::Gemini,
        }
    }
}

/// API, base URL, name and request options of a model. `Debug` output contains neither the key nor the query of the URL, which may
/// contain a key.
#[derive(Clone)]
pub struct HostedOptions {
    /// The API that the server speaks.
    pub api: HostedApi,
    /// Base URL of the API, such as [`Provider::base_url`](crate::Provider::base_url).
    pub base_url: String,
    /// API key; `None` to send an empty key.
    pub api_key: Option<SecretString>,
    /// Default model, for requests without a model name.
    pub model: String,
    /// Maximum number of a reply's tokens, for requests without a limit. If `None`, Gemini decides, and a request to Anthropic contains
    /// the model's maximum, according to `genai`.
    pub max_output_tokens: Option<u64>,
    /// Time limits of a request.
    pub timeouts: Timeouts,
    /// Maximum size of a reply's text and calls, in bytes. A larger reply is cut off and ends as
    /// [`FinishReason::Oversized`](dirigent_core::message::FinishReason::Oversized).
    pub max_reply_bytes: usize,
}

impl HostedOptions {
    /// Creates options for a model at this base URL, without a key. Replies of Anthropic's models are limited to 16,384 tokens.
    pub fn new(api: HostedApi, base_url: impl Into<String>, model: impl Into<String>) -> Self {
        HostedOptions {
            api,
            base_url: base_url.into(),
            api_key: None,
            model: model.into(),
            max_output_tokens: api.max_output_tokens(),
            timeouts: Timeouts::default(),
            max_reply_bytes: 16 * 1024 * 1024,
        }
    }

    /// Sets the API key. Surrounding whitespace is removed, and an empty key counts as no key.
    pub fn api_key(mut self, key: impl Into<SecretString>) -> Self {
        self.api_key = Some(key.into());
        self
    }
}

impl fmt::Debug for HostedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedOptions")
            .field("api", &self.api)
            .field("base_url", &redacted_url(&self.base_url))
            .field("api_key", &self.api_key)
            .field("model", &self.model)
            .field("max_output_tokens", &self.max_output_tokens)
            .field("timeouts", &self.timeouts)
            .field("max_reply_bytes", &self.max_reply_bytes)
            .finish()
    }
}

/// Parses the base URL for `genai`, which appends paths to it. The result ends in `/` and has no query or fragment.
pub(super) fn base_url(text: &str) -> Result<Url, ModelSetupError> {
    let mut url = endpoint(&parse_base_url(text)?, &[""]);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// Returns the key without surrounding whitespace; `None` if it is empty.
pub(super) fn api_key(key: Option<&SecretString>) -> Result<Option<SecretString>, ModelSetupError> {
    let Some(key) = key
        .map(|key| key.expose_secret().trim())
        .filter(|key| !key.is_empty())
    else {
        return Ok(None);
    };
    HeaderValue::from_str(key).map_err(|_| ModelSetupError::ApiKey)?;
    Ok(Some(key.into()))
}

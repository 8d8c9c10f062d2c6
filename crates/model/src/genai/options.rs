//! What a [`HostedModel`](super::HostedModel) is set up with.

use std::fmt;

use genai::adapter::AdapterKind;
use reqwest::Url;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::openai::options::{endpoint, parse_base_url, redacted_url};
use crate::openai::{ModelSetupError, Timeouts};

/// A provider's own API, as opposed to OpenAI's chat completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostedApi {
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini API: `streamGenerateContent`.
    Gemini,
}

impl HostedApi {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            HostedApi::Anthropic => "Anthropic",
            HostedApi::Gemini => "Gemini",
        }
    }

    /// Anthropic wants a limit in each request. This one is more than a whole file of source takes.
    fn max_output_tokens(self) -> Option<u64> {
        match self {
            HostedApi::Anthropic => Some(16_384),
            HostedApi::Gemini => None,
        }
    }

    /// The header that carries the key.
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

/// Which model is asked, where and how. `Debug` shows neither the key nor what may hold one in the address.
#[derive(Clone)]
pub struct HostedOptions {
    /// The API that the server speaks.
    pub api: HostedApi,
    /// Address at which the API begins, such as [`Provider::base_url`](crate::Provider::base_url).
    pub base_url: String,
    /// The key. Without one the server is asked with an empty one.
    pub api_key: Option<SecretString>,
    /// The model that is asked where a request names none.
    pub model: String,
    /// At most how many tokens a reply may have where a request doesn't say. `None` leaves it to Gemini, and asks Anthropic for what
    /// `genai` knows as the model's most.
    pub max_output_tokens: Option<u64>,
    /// How long is waited for what. `connect` counts where a client is made.
    pub timeouts: Timeouts,
    /// A reply with more bytes of text and calls counts as interrupted, and no more of it is read.
    pub max_reply_bytes: usize,
}

impl HostedOptions {
    /// Options for a model at this address, without a key. Replies of Anthropic's models have at most 16,384 tokens.
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

    /// With that key. White space around it is no part of it, and an empty one is none.
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

/// The address to which `genai` appends: its path ends in `/`, and nothing follows it.
pub(super) fn base_url(text: &str) -> Result<Url, ModelSetupError> {
    let mut url = endpoint(&parse_base_url(text)?, &[""]);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// The key without white space around it, if anything is left.
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

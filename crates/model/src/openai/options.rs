//! What an [`OpenAiModel`](super::OpenAiModel) is set up with.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

/// Where a model is and how it is asked. `Debug` shows neither the key nor what may hold one in the address.
#[derive(Clone)]
pub struct OpenAiOptions {
    /// Where the API begins, such as `https://api.openai.com/v1` or `http://localhost:11434/v1`.
    pub base_url: String,
    /// The key, where the server wants one. It is taken out of all that the server sends back, unless it is shorter than 8
    /// characters: then it counts as a placeholder, such as `none`.
    pub api_key: Option<SecretString>,
    /// The model that is asked where a request names none.
    pub model: String,
    /// How replies come.
    pub delivery: Delivery,
    /// How long is waited for what.
    pub timeouts: Timeouts,
    /// A reply with more bytes of text and calls counts as interrupted, and no more of it is read.
    pub max_reply_bytes: usize,
    /// Further fields of the request, such as `temperature`; none of those that Dirigent sets itself.
    pub extra: Map<String, Value>,
}

impl OpenAiOptions {
    /// A model at that address: streamed, without a key.
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

    /// With that key. White space around it is no part of it, and an empty one is none.
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

/// How replies come from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// As events while the model speaks.
    Streamed,
    /// In one piece.
    Whole,
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the server is connected. It counts where a client is made: models that share one share this.
    pub connect: Duration,
    /// Until a stream's first event. Where a reply comes in one piece only `total` counts, as nothing comes before the end.
    pub first: Duration,
    /// From one event of a stream to the next. Comments, which servers send to keep a connection open, are no events.
    pub between: Duration,
    /// For the whole request.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            first: Duration::from_secs(180),
            between: Duration::from_secs(60),
            total: Duration::from_secs(900),
        }
    }
}

/// Why a model can't be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelSetupError {
    /// The address is none.
    #[error(
        "the model's base_url is not an address ({problem}): it must look like `https://api.openai.com/v1`"
    )]
    BaseUrl {
        /// What is wrong with it.
        problem: String,
    },
    /// The address holds a user's name or password, which would end up in logs.
    #[error("the model's base_url holds credentials: leave them out, and give the key as api_key")]
    CredentialsInUrl,
    /// The key can't be sent in a header.
    #[error("the model's API key holds characters that can't be sent in a header: copy it again")]
    ApiKey,
    /// A further field of the request is one that Dirigent sets itself.
    #[error("`{field}` can't be among the further fields of a model's requests: Dirigent sets it")]
    ReservedField {
        /// Which.
        field: String,
    },
    /// There can be no HTTPS client on this system.
    #[error("an HTTPS client can't be made: {problem}")]
    Client {
        /// Why.
        problem: String,
    },
}

/// What of an address may be shown: no user, no query.
pub(crate) fn redacted_url(url: &str) -> String {
    match Url::parse(url) {
        Ok(url) => {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            let host = url.host_str().unwrap_or_default();
            format!("{}://{host}{port}{}", url.scheme(), url.path())
        }
        Err(_) => "(not an address)".to_owned(),
    }
}

/// The address at which the API begins.
pub(crate) fn parse_base_url(text: &str) -> Result<Url, ModelSetupError> {
    let problem = |problem: &str| ModelSetupError::BaseUrl {
        problem: problem.to_owned(),
    };
    let url = Url::parse(text.trim()).map_err(|error| problem(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(problem("it begins with neither http:// nor https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ModelSetupError::CredentialsInUrl);
    }
    Ok(url)
}

/// Whether the address names this machine: `localhost`, a name below it, or an address of the loopback interface.
pub(crate) fn is_loopback(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default();
    let host = host.trim_matches(['[', ']']).trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// That address with something appended to its path.
pub(crate) fn endpoint(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    // Addresses of http and https always have a path.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// The fields of a request that are set here.
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

/// Refuses further fields that would stand twice in a request.
pub(super) fn check_extra(extra: &Map<String, Value>) -> Result<(), ModelSetupError> {
    match RESERVED.iter().find(|field| extra.contains_key(**field)) {
        Some(field) => Err(ModelSetupError::ReservedField {
            field: (*field).to_owned(),
        }),
        None => Ok(()),
    }
}

/// What of an address's query may be secret: some servers want their key there.
pub(crate) fn url_secrets(url: &Url) -> Vec<SecretString> {
    url.query_pairs()
        .filter(|(name, _)| name != "api-version")
        .map(|(_, value)| value.into_owned().into())
        .collect()
}

/// The key without white space around it, if anything is left, and the header that carries it.
pub(super) fn authorization(
    key: Option<&SecretString>,
) -> Result<Option<(SecretString, HeaderValue)>, ModelSetupError> {
    let Some(key) = key
        .map(|key| key.expose_secret().trim())
        .filter(|key| !key.is_empty())
    else {
        return Ok(None);
    };
    // What is no ASCII came with a wrong copy, as the `…` of a shortened key.
    if !key.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(ModelSetupError::ApiKey);
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| ModelSetupError::ApiKey)?;
    header.set_sensitive(true);
    Ok(Some((key.into(), header)))
}

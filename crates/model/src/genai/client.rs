//! Client of one server: its connection settings.

use reqwest::Url;
use secrecy::SecretString;

use super::failure::GenaiFailureClassifier;
use super::options::{self, HostedOptions};
use crate::failure::FailureClassifier;
use crate::http::{HttpClient, parse_base_url, redacted_url, url_secrets};
use crate::options::ModelSetupError;
use crate::secrets::Secrets;

/// A client of one server.
pub(super) struct Client {
    pub(super) genai: ::genai::Client,
    /// HTTP client for requests without `genai`; shares its connections with `genai`.
    pub(super) http: reqwest::Client,
    pub(super) options: HostedOptions,
    /// Base URL of the API; its path ends in `/`.
    pub(super) base_url: Url,
    pub(super) api_key: Option<SecretString>,
    pub(super) failures: GenaiFailureClassifier,
}

impl Client {
    pub(super) fn new(options: HostedOptions, client: &HttpClient) -> Result<Self, ModelSetupError> {
        let base_url = options::base_url(&options.base_url)?;
        let api_key = options::api_key(options.api_key.as_ref())?;
        let http = client.for_server(&base_url).clone();
        let genai = ::genai::Client::builder()
            .with_reqwest(http.clone())
            .build()
            .map_err(|error| ModelSetupError::Client {
                problem: error.to_string(),
            })?;
        let url_secrets = url_secrets(&parse_base_url(&options.base_url)?);
        let failures = GenaiFailureClassifier(FailureClassifier {
            server: format!("{} at {}", options.api.name(), redacted_url(&options.base_url)),
            secrets: Secrets::new(url_secrets.iter().chain(&api_key)),
        });
        Ok(Client {
            genai,
            http,
            options,
            base_url,
            api_key,
            failures,
        })
    }
}

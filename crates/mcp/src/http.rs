//! The transport to a service behind a URL: Streamable HTTP.

use std::collections::HashMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use secrecy::ExposeSecret as _;

use crate::config::UrlEndpoint;
use crate::error::StartError;
use crate::expand::expand;

/// The time within which a connection must be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Creates the transport. Nothing is sent yet.
pub(crate) fn transport(
    endpoint: &UrlEndpoint,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, StartError> {
    // Fails only if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirect would take the headers, and their secrets, elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| StartError::Protocol(format!("no HTTP client can be made: {error}")))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str());
    config = config.custom_headers(headers(endpoint)?);
    if let Some(token) = bearer_token(endpoint)? {
        config = config.auth_header(token);
    }
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn bearer_token(endpoint: &UrlEndpoint) -> Result<Option<String>, StartError> {
    let Some(variable) = &endpoint.bearer_token_env else {
        return Ok(None);
    };
    match std::env::var(variable) {
        Ok(token) if !token.is_empty() => Ok(Some(token)),
        Ok(_) | Err(_) => Err(StartError::Setting {
            setting: "bearer_token_env",
            problem: format!("the variable {variable} is not set: set it to the service's token"),
        }),
    }
}

fn headers(endpoint: &UrlEndpoint) -> Result<HashMap<HeaderName, HeaderValue>, StartError> {
    let variable = |name: &str| std::env::var(name).ok();
    let mut headers = HashMap::new();
    for (name, value) in &endpoint.headers {
        let problem = |problem: String| StartError::Setting {
            setting: "headers",
            problem: format!("{name}: {problem}"),
        };
        let value = expand(value.expose_secret(), variable).map_err(|error| problem(error.to_string()))?;
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| problem("the value has characters that no header may have".to_owned()))?;
        value.set_sensitive(true);
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| problem("this is not a header name".to_owned()))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

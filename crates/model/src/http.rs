//! HTTP clients, and the URLs of model servers.

use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::Url;
use secrecy::SecretString;

use crate::options::ModelSetupError;

/// An HTTP and HTTPS client. Models that share a client share its connections.
///
/// Requests go through the proxy that the environment names (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`). Requests to a server
/// on this machine bypass the proxy, which could not reach it.
#[derive(Clone, Debug)]
pub struct HttpClient {
    proxied: reqwest::Client,
    direct: reqwest::Client,
}

impl HttpClient {
    /// Creates a client with this time limit for connecting. Redirects are not followed: they would drop the request's body or send
    /// the key elsewhere.
    pub fn new(connect_timeout: Duration) -> Result<Self, ModelSetupError> {
        // reqwest uses the process's default cryptography provider. If the process has installed one already, this call changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            reqwest::Client::builder()
                .connect_timeout(connect_timeout)
                .redirect(reqwest::redirect::Policy::none())
                .user_agent(concat!("dirigent/", env!("CARGO_PKG_VERSION")))
        };
        let build = |builder: reqwest::ClientBuilder| {
            builder.build().map_err(|error| ModelSetupError::Client {
                problem: error_chain(error),
            })
        };
        Ok(HttpClient {
            proxied: build(builder())?,
            direct: build(builder().no_proxy())?,
        })
    }

    /// Returns the client for requests to the server with this URL.
    pub(crate) fn for_server(&self, address: &Url) -> &reqwest::Client {
        if is_loopback(address) {
            &self.direct
        } else {
            &self.proxied
        }
    }
}

/// Returns true if the URL's host is this machine: `localhost`, a subdomain of it, or a loopback address.
fn is_loopback(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default();
    let host = host.trim_matches(['[', ']']).trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Parses an API's base URL.
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

/// Appends segments to a URL's path.
pub(crate) fn endpoint(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    // This always succeeds: an HTTP URL has a path.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// Returns a URL without the parts that may be secret: user, password, query and fragment.
pub(crate) fn redacted_url(url: &str) -> String {
    match Url::parse(url) {
        Ok(url) => {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            let host = url.host_str().unwrap_or_default();
            format!("{}://{host}{port}{}", url.scheme(), url.path())
        }
        Err(_) => "(invalid URL)".to_owned(),
    }
}

/// Returns the values of a URL's query parameters, except `api-version`. They may be secret: some servers expect their key in the query.
pub(crate) fn url_secrets(url: &Url) -> Vec<SecretString> {
    url.query_pairs()
        .filter(|(name, _)| name != "api-version")
        .map(|(_, value)| value.into_owned().into())
        .collect()
}

/// Returns the messages of an error and its causes, without the URL.
pub(crate) fn error_chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let message = next.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = next.source();
    }
    text
}

//! The transport to a service behind a URL: Streamable HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use secrecy::ExposeSecret as _;
use sse_stream::{Error as SseError, Sse};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config::UrlEndpoint;
use crate::error::StartError;
use crate::expand::expand;

/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// The time that a service has to open the stream for its own messages. After this time, the service is used without the stream.
const STREAM_TIMEOUT: Duration = Duration::from_secs(5);

/// The stream on which a service sends its own messages, such as questions to the user. Messages that it sends before the stream is open
/// are lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageStream(Arc<watch::Sender<StreamState>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StreamState {
    /// Not requested: the service has no session, so it has no stream.
    #[default]
    None,
    Requested,
    /// The service has opened or refused the stream.
    Answered,
}

impl MessageStream {
    /// Waits until the service has opened or refused the stream, if it was requested.
    pub(crate) async fn answered(&self) {
        let mut state = self.0.subscribe();
        let answered = state.wait_for(|state| *state != StreamState::Requested);
        // A service that never answers is used without the stream.
        let _ = timeout(STREAM_TIMEOUT, answered).await;
    }
}

/// An HTTP client that reports when the stream for the service's own messages is open.
#[derive(Clone)]
pub(crate) struct HttpClient {
    inner: reqwest::Client,
    stream: MessageStream,
}

/// A failure of an HTTP request.
pub(crate) type HttpError = StreamableHttpError<reqwest::Error>;

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.inner
            .post_message(uri, message, session, token, headers)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.inner
            .post_message_with_max_sse_event_size(uri, message, session, token, headers, max)
            .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        self.inner.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        self.inner
            .get_stream(uri, session, last_event, token, headers)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        self.stream.0.send_if_modified(|state| {
            let is_first = *state == StreamState::None;
            if is_first {
                *state = StreamState::Requested;
            }
            is_first
        });
        let opened = self
            .inner
            .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, max)
            .await;
        self.stream.0.send_replace(StreamState::Answered);
        opened
    }
}

/// Creates the transport. Nothing is sent yet.
pub(crate) fn transport(
    endpoint: &UrlEndpoint,
    stream: &MessageStream,
) -> Result<StreamableHttpClientTransport<HttpClient>, StartError> {
    // Fails only if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirect would send the headers, with their secrets, to another server.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| StartError::Protocol(format!("no HTTP client can be made: {error}")))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str());
    config = config.custom_headers(headers(endpoint)?);
    if let Some(token) = bearer_token(endpoint)? {
        config = config.auth_header(token);
    }
    let client = HttpClient {
        inner: client,
        stream: stream.clone(),
    };
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

//! One request and what comes back, each wait bounded.
//!
//! A reply that broke off after something of it had come is a reply, an interrupted one: it was paid for. Where nothing had come it
//! is a failure.

use std::error::Error;
use std::time::Duration;

use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use dirigent_core::time::Millis;
use reqwest::Response;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use tokio::time::{Instant, timeout_at};

use super::reply::{Chunk, Collector, ReplyEnd};
use super::sse::SseParser;
use super::{Delivery, Shared};
use crate::ChatRequest;
use crate::request::deadline_after;

/// How long the end of a stream is waited for when the reply is complete: its usage comes last.
const TRAILER_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of an error's body is read, in bytes, and for how long.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// What is asked, and of which model.
#[derive(Clone, Copy)]
pub(super) struct ResolvedRequest<'a> {
    pub(super) request: &'a ChatRequest,
    /// By its server's name.
    pub(super) model: &'a str,
}

/// An answer that is no success.
pub(super) struct ErrorResponse {
    pub(super) status: u16,
    /// The beginning of what the server said.
    pub(super) body: String,
    pub(super) failure: ModelFailure,
}

/// What was read of a body.
pub(super) enum BodyRead {
    /// All of it.
    Complete(Vec<u8>),
    /// It has more bytes than a reply may have.
    TooLong,
}

/// Why no more of a stream is read.
enum StreamOutcome {
    /// The server has said that it is done.
    Done,
    /// The connection was closed.
    Closed,
    /// Nothing came in time, the connection broke, or what came can't be used.
    Interrupted(String),
    /// More came than a reply may have.
    Oversized,
    /// The server has said that something went wrong.
    Failed(ModelFailure),
}

/// In which form an answer comes.
enum ResponseKind {
    Events,
    Json,
    /// A page for people: whoever answers is no model server.
    Html,
}

impl Shared {
    /// Sends a request and reads its reply. The inner error is for what the server refused.
    pub(super) async fn exchange(
        &self,
        body: Vec<u8>,
        resolved: ResolvedRequest<'_>,
        total: Instant,
    ) -> Result<Result<ModelReply, ErrorResponse>, ModelFailure> {
        let times = &self.options.timeouts;
        let first = match self.options.delivery {
            Delivery::Streamed => total.min(deadline_after(times.first)),
            Delivery::Whole => total,
        };
        let builder = self
            .client
            .post(self.chat_url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let response = self.send(builder, first).await?;
        if !response.status().is_success() {
            return Ok(Err(self.read_error_response(response).await));
        }
        match self.response_kind(&response) {
            ResponseKind::Events => self.read_stream(response, resolved, first, total).await,
            ResponseKind::Json => self.read_whole(response, resolved, total).await,
            ResponseKind::Html => Err(self.failures.failure(
                ModelFailureKind::Configuration,
                "a web page came instead of a model's reply. Check base_url: it usually ends in /v1",
            )),
        }
        .map(Ok)
    }

    /// Sends a request and waits for the answer's head.
    pub(super) async fn send(
        &self,
        mut builder: reqwest::RequestBuilder,
        until: Instant,
    ) -> Result<Response, ModelFailure> {
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        match timeout_at(until, builder.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.connection_failure(error)),
            Err(_) => Err(self.failures.unavailable("no answer came in time")),
        }
    }

    /// A request that got no answer. A server with whom no secure connection can be made will not do better the next time; one that is
    /// not there may.
    fn connection_failure(&self, error: reqwest::Error) -> ModelFailure {
        let configuration = |message: &str| self.failures.failure(ModelFailureKind::Configuration, message);
        match (error.is_builder(), error.is_connect()) {
            (true, _) => configuration(&error_chain(error)),
            (false, true) if is_tls(&error) => configuration(&format!(
                "no secure connection to it can be made ({}). Check base_url and the server's certificate",
                error_chain(error)
            )),
            (false, true) => self.failures.unavailable(&format!(
                "it can't be reached ({}). Check that it runs, and base_url",
                error_chain(error)
            )),
            (false, false) => self
                .failures
                .unavailable(&format!("it can't be reached ({})", error_chain(error))),
        }
    }

    /// Reads an answer that is no success.
    pub(super) async fn read_error_response(&self, mut response: Response) -> ErrorResponse {
        let until = deadline_after(ERROR_BODY_TIMEOUT);
        let mut body = Vec::new();
        while body.len() < MAX_ERROR_BODY_BYTES
            && let Ok(Ok(Some(piece))) = timeout_at(until, response.chunk()).await
        {
            body.extend_from_slice(&piece);
        }
        body.truncate(MAX_ERROR_BODY_BYTES);
        let body = String::from_utf8_lossy(&body).into_owned();
        let status = response.status().as_u16();
        ErrorResponse {
            status,
            failure: self.failures.status(status, response.headers(), &body),
            body,
        }
    }

    /// Reads a body of at most as many bytes as a reply may have.
    pub(super) async fn read_body(
        &self,
        mut response: Response,
        until: Instant,
    ) -> Result<BodyRead, ModelFailure> {
        let mut body = Vec::new();
        loop {
            match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(piece))) => body.extend_from_slice(&piece),
                Ok(Ok(None)) => return Ok(BodyRead::Complete(body)),
                Ok(Err(error)) => {
                    let message = format!("its answer broke off ({})", error_chain(error));
                    return Err(self.failures.unavailable(&message));
                }
                Err(_) => return Err(self.failures.unavailable("its answer did not end in time")),
            }
            if body.len() > self.options.max_reply_bytes {
                return Ok(BodyRead::TooLong);
            }
        }
    }

    fn response_kind(&self, response: &Response) -> ResponseKind {
        let media_type = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let media_type = media_type.unwrap_or_default().to_ascii_lowercase();
        match self.options.delivery {
            _ if media_type.starts_with("text/html") => ResponseKind::Html,
            _ if media_type.starts_with("text/event-stream") => ResponseKind::Events,
            _ if media_type.starts_with("application/json") => ResponseKind::Json,
            Delivery::Streamed => ResponseKind::Events,
            Delivery::Whole => ResponseKind::Json,
        }
    }

    async fn read_whole(
        &self,
        response: Response,
        resolved: ResolvedRequest<'_>,
        until: Instant,
    ) -> Result<ModelReply, ModelFailure> {
        let mut collector = Collector::new(&self.failures.secrets);
        let body = match self.read_body(response, until).await? {
            BodyRead::Complete(body) => body,
            BodyRead::TooLong => {
                let mut reply = collector.finish(self.warn_oversized(), resolved);
                let read = u64::try_from(self.options.max_reply_bytes).unwrap_or(u64::MAX);
                reply.usage.output_tokens = read.div_ceil(4);
                return Ok(reply);
            }
        };
        let said = || self.failures.excerpt(&String::from_utf8_lossy(&body));
        let chunk = Chunk::read(&body).map_err(|_| {
            self.failures
                .unavailable(&format!("its answer is no JSON: {}", said()))
        })?;
        if !chunk.error.is_null() {
            return Err(self.failures.error_object(&chunk.error));
        }
        collector.add_whole(chunk, resolved.request.deltas.as_ref());
        if collector.is_empty() {
            let message = format!("its answer holds no reply: {}", said());
            return Err(self.failures.unavailable(&message));
        }
        Ok(collector.finish(ReplyEnd::Complete, resolved))
    }

    async fn read_stream(
        &self,
        mut response: Response,
        resolved: ResolvedRequest<'_>,
        first: Instant,
        total: Instant,
    ) -> Result<ModelReply, ModelFailure> {
        let mut reader = SseParser::default();
        let mut collector = Collector::new(&self.failures.secrets);
        let mut events = Vec::new();
        let (mut since, mut until) = (Instant::now(), first);
        let outcome = 'stream: loop {
            match timeout_at(until, response.chunk()).await {
                Err(_) => break StreamOutcome::Interrupted(timeout_message(since, until)),
                Ok(Ok(Some(piece))) => reader.feed(&piece, &mut events),
                Ok(Ok(None)) => break StreamOutcome::Closed,
                Ok(Err(error)) => break StreamOutcome::Interrupted(error_chain(error)),
            }
            let came = events.iter().any(|event| !event.trim().is_empty());
            for event in events.drain(..) {
                if let Some(outcome) = self.handle_event(&event, &mut collector, resolved) {
                    break 'stream outcome;
                }
            }
            if collector.buffered_bytes().saturating_add(reader.buffered_bytes())
                > self.options.max_reply_bytes
            {
                break StreamOutcome::Oversized;
            }
            if came {
                since = Instant::now();
                until = total.min(deadline_after(self.event_timeout(&collector)));
            }
            // The wait above ends only where there is nothing to read: a server that sends comments without end is caught here.
            if Instant::now() >= until {
                break StreamOutcome::Interrupted(timeout_message(since, until));
            }
        };
        let outcome = match outcome {
            StreamOutcome::Closed => reader
                .finish()
                .and_then(|event| self.handle_event(&event, &mut collector, resolved))
                .unwrap_or(StreamOutcome::Closed),
            StreamOutcome::Done
            | StreamOutcome::Interrupted(_)
            | StreamOutcome::Oversized
            | StreamOutcome::Failed(_) => outcome,
        };
        self.end_stream(outcome, collector, resolved)
    }

    fn event_timeout(&self, collector: &Collector) -> Duration {
        let between = self.options.timeouts.between;
        if collector.has_finish_reason() {
            between.min(TRAILER_TIMEOUT)
        } else {
            between
        }
    }

    /// Takes an event; it may be the last one.
    fn handle_event(
        &self,
        event: &str,
        collector: &mut Collector,
        resolved: ResolvedRequest<'_>,
    ) -> Option<StreamOutcome> {
        let event = event.trim();
        if event.is_empty() {
            return None;
        }
        if event == "[DONE]" {
            return Some(StreamOutcome::Done);
        }
        match Chunk::read(event.as_bytes()) {
            Ok(chunk) if chunk.error.is_null() => {
                collector.add(chunk, resolved.request.deltas.as_ref());
                None
            }
            Ok(chunk) => Some(StreamOutcome::Failed(self.failures.error_object(&chunk.error))),
            Err(_) => Some(StreamOutcome::Interrupted(format!(
                "an event is no JSON: {}",
                self.failures.excerpt(event)
            ))),
        }
    }

    fn end_stream(
        &self,
        outcome: StreamOutcome,
        collector: Collector,
        resolved: ResolvedRequest<'_>,
    ) -> Result<ModelReply, ModelFailure> {
        let ended = match outcome {
            _ if collector.buffered_bytes() > self.options.max_reply_bytes => self.warn_oversized(),
            StreamOutcome::Oversized => self.warn_oversized(),
            StreamOutcome::Done if !collector.is_empty() => ReplyEnd::Complete,
            StreamOutcome::Done => {
                return Err(self
                    .failures
                    .unavailable("its stream ended without a reply in it"));
            }
            // A server that has said why the reply ended has said all of it.
            StreamOutcome::Closed | StreamOutcome::Interrupted(_) if collector.has_finish_reason() => {
                ReplyEnd::Complete
            }
            StreamOutcome::Closed if collector.is_empty() => {
                return Err(self
                    .failures
                    .unavailable("its stream ended without a reply in it"));
            }
            StreamOutcome::Interrupted(why) if collector.is_empty() => {
                return Err(self.failures.unavailable(&format!("no reply came: {why}")));
            }
            StreamOutcome::Failed(failure) if collector.is_empty() => return Err(failure),
            StreamOutcome::Closed => self.warn_interrupted("the stream ended before the reply did"),
            StreamOutcome::Interrupted(why) => self.warn_interrupted(&why),
            StreamOutcome::Failed(failure) => self.warn_interrupted(&failure.message),
        };
        Ok(collector.finish(ended, resolved))
    }

    /// The reply itself can't say why it was cut.
    fn warn_interrupted(&self, why: &str) -> ReplyEnd {
        tracing::warn!(server = self.failures.server, "a model's reply broke off: {why}");
        ReplyEnd::Interrupted
    }

    fn warn_oversized(&self) -> ReplyEnd {
        tracing::warn!(
            server = self.failures.server,
            max_reply_bytes = self.options.max_reply_bytes,
            "a model's reply is longer than max_reply_bytes"
        );
        ReplyEnd::Oversized
    }
}

fn timeout_message(since: Instant, until: Instant) -> String {
    let span = Millis::from(until.saturating_duration_since(since));
    format!("it was not done after {span}")
}

/// Whether an error comes of TLS.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
    let within = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>()
        || within.is_some_and(|error| is_tls(error))
        || error.source().is_some_and(is_tls)
}

/// An error with its causes, and without the address.
pub(crate) fn error_chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = next.source();
    }
    text
}

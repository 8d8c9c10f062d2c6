//! Sending of one request and reading of its reply. Each wait has a timeout.
//!
//! If the transfer stops after the reply began, the partial reply is returned as interrupted, because it is charged. If the transfer
//! stops before the reply began, the request fails.

use std::time::Duration;

use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use dirigent_core::time::Millis;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use tokio::time::{Instant, timeout_at};

use super::chunk::Chunk;
use super::client::{BodyRead, Client, ErrorResponse};
use super::options::Delivery;
use super::reply::{Collector, ReplyEnd};
use super::sse::SseParser;
use super::wire::ResolvedRequest;
use crate::http::error_chain;
use crate::time::deadline_after;

/// Time to wait for each event after the finish reason. The usage comes last.
pub(super) const TRAILER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a web page is no reply.
pub(super) const WEB_PAGE: &str =
    "it answered with a web page instead of a model's reply. Check base_url: it usually ends in /v1";

/// Why reading a stream ended.
enum StreamOutcome {
    /// The server marked the end.
    Done,
    /// The connection was closed.
    Closed,
    /// A timeout passed, the connection broke, or an event can't be parsed.
    Interrupted(String),
    /// The reply exceeds the size limit.
    Oversized,
    /// The server sent an error.
    Failed(ModelFailure),
}

/// Format of a response's body.
enum ResponseKind {
    Events,
    Json,
    /// A web page, so the server is not a model server.
    Html,
}

/// Returns the media type of a response in lower case, with its parameters; empty if it has none.
pub(super) fn media_type(response: &Response) -> String {
    let declared = response.headers().get(CONTENT_TYPE);
    let declared = declared.and_then(|value| value.to_str().ok());
    declared.unwrap_or_default().to_ascii_lowercase()
}

impl Client {
    /// Sends a request and reads its reply. The inner `Err` is a response with an error status; the outer `Err` is a failed exchange.
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
            .http
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
            ResponseKind::Html => Err(self.failures.failure(ModelFailureKind::Configuration, WEB_PAGE)),
        }
        .map(Ok)
    }

    fn response_kind(&self, response: &Response) -> ResponseKind {
        let media_type = media_type(response);
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
                let bytes = u64::try_from(self.options.max_reply_bytes).unwrap_or(u64::MAX);
                reply.usage.output_tokens = bytes.div_ceil(4);
                return Ok(reply);
            }
        };
        let excerpt = || self.failures.excerpt(&String::from_utf8_lossy(&body));
        let chunk = Chunk::read(&body).map_err(|_| {
            self.failures
                .unavailable(&format!("its answer is not valid JSON: {}", excerpt()))
        })?;
        if !chunk.error.is_null() {
            return Err(self.failures.error_object(&chunk.error));
        }
        collector.add_whole(chunk, resolved.request.deltas.as_ref());
        if collector.is_empty() {
            let message = format!("its answer contains no reply: {}", excerpt());
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
        let mut parser = SseParser::default();
        let mut collector = Collector::new(&self.failures.secrets);
        let mut events = Vec::new();
        let (mut since, mut until) = (Instant::now(), first);
        let outcome = 'stream: loop {
            match timeout_at(until, response.chunk()).await {
                Err(_) => break StreamOutcome::Interrupted(timeout_message(since, until)),
                Ok(Ok(Some(piece))) => parser.feed(&piece, &mut events),
                Ok(Ok(None)) => break StreamOutcome::Closed,
                Ok(Err(error)) => break StreamOutcome::Interrupted(error_chain(error)),
            }
            let has_event = events.iter().any(|event| !event.trim().is_empty());
            for event in events.drain(..) {
                if let Some(outcome) = self.handle_event(&event, &mut collector, resolved) {
                    break 'stream outcome;
                }
            }
            if collector.buffered_bytes().saturating_add(parser.buffered_bytes())
                > self.options.max_reply_bytes
            {
                break StreamOutcome::Oversized;
            }
            if has_event {
                since = Instant::now();
                until = total.min(deadline_after(self.event_timeout(&collector)));
            }
            // Waiting for a chunk never times out if the server keeps sending comments, so the deadline is checked here, too.
            if Instant::now() >= until {
                break StreamOutcome::Interrupted(timeout_message(since, until));
            }
        };
        let outcome = match outcome {
            StreamOutcome::Closed => parser
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

    /// Processes an event; returns the outcome if it is the last one.
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
                "an event is not valid JSON: {}",
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
        let end = match outcome {
            _ if collector.buffered_bytes() > self.options.max_reply_bytes => self.warn_oversized(),
            StreamOutcome::Oversized => self.warn_oversized(),
            StreamOutcome::Done if !collector.is_empty() => ReplyEnd::Complete,
            StreamOutcome::Done => {
                return Err(self.failures.unavailable("its stream ended without a reply"));
            }
            // After the finish reason, the reply is complete.
            StreamOutcome::Closed | StreamOutcome::Interrupted(_) if collector.has_finish_reason() => {
                ReplyEnd::Complete
            }
            StreamOutcome::Closed if collector.is_empty() => {
                return Err(self.failures.unavailable("its stream ended without a reply"));
            }
            StreamOutcome::Interrupted(why) if collector.is_empty() => {
                return Err(self.failures.unavailable(&format!("no reply received: {why}")));
            }
            StreamOutcome::Failed(failure) if collector.is_empty() => return Err(failure),
            StreamOutcome::Closed => self.warn_interrupted("the stream ended before the reply was complete"),
            StreamOutcome::Interrupted(why) => self.warn_interrupted(&why),
            StreamOutcome::Failed(failure) => self.warn_interrupted(&failure.message),
        };
        Ok(collector.finish(end, resolved))
    }

    fn warn_interrupted(&self, why: &str) -> ReplyEnd {
        tracing::warn!(
            server = self.failures.server,
            "a model's reply was cut off: {why}"
        );
        ReplyEnd::Interrupted
    }

    fn warn_oversized(&self) -> ReplyEnd {
        tracing::warn!(
            server = self.failures.server,
            max_reply_bytes = self.options.max_reply_bytes,
            "a model's reply was cut off: it is longer than max_reply_bytes"
        );
        ReplyEnd::Oversized
    }
}

fn timeout_message(since: Instant, until: Instant) -> String {
    let span = Millis::from(until.saturating_duration_since(since));
    format!("timed out after {span}")
}

//! Sending of one request and reading of its stream. Each wait has a timeout.
//!
//! If the transfer stops after the reply began, the partial reply is returned as interrupted, because it is charged. If the transfer
//! stops before the reply began, the request fails.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use dirigent_core::message::{FinishReason, ModelFailure, ModelFailureKind, ModelReply};
use dirigent_core::time::Millis;
use futures::{Stream, StreamExt};
use genai::chat::{ChatStream, ChatStreamEvent, StreamEnd};
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget};
use secrecy::ExposeSecret;
use tokio::time::{Instant, timeout_at};
use tracing::dispatcher::{Dispatch, with_default};

use super::client::Client;
use super::failure::HostedFailure;
use super::frame_sink::RawFrameSink;
use super::reply::Collector;
use super::wire;
use crate::ChatRequest;
use crate::completion::Sampling;
use crate::names::WireNames;
use crate::time::deadline_after;

/// Why reading a stream ended.
enum StreamOutcome {
    /// The provider marked the end.
    Done(StreamEnd),
    /// The connection was closed.
    Closed,
    /// A timeout passed.
    Interrupted(String),
    /// The reply exceeds the size limit.
    Oversized,
    /// The provider sent an error, the connection broke, or an event can't be parsed.
    Failed(HostedFailure),
}

impl Client {
    /// Sends a request and reads its reply.
    pub(super) async fn chat(&self, request: &ChatRequest) -> Result<ModelReply, ModelFailure> {
        let reply = self.exchange(request, &Sampling::default()).await;
        reply.map_err(|failed| failed.failure)
    }

    /// Sends a request with sampling parameters and reads its reply.
    pub(super) async fn exchange(
        &self,
        request: &ChatRequest,
        sampling: &Sampling,
    ) -> Result<ModelReply, HostedFailure> {
        let api = self.options.api;
        let wire_names = WireNames::new(&request.tools).map_err(|(one, other)| {
            let message = format!(
                "the API can't tell the tools `{one}` and `{other}` apart by name: rename one of them"
            );
            self.failures.0.failure(ModelFailureKind::Rejected, &message)
        })?;
        let frame_sink = Arc::new(RawFrameSink::new(api));
        let model = request.model.as_deref().unwrap_or(&self.options.model);
        let chat = wire::chat_request(api, request);
        let options = wire::chat_options(&self.options, request, frame_sink.clone());
        let options = wire::with_sampling(options, api, sampling);
        // The request is sent when the stream is first polled.
        let stream = self
            .genai
            .exec_chat_stream(self.target(model), chat, Some(&options));
        let stream = stream
            .await
            .map_err(|error| self.failures.classify_genai(error, &frame_sink.metadata()))?;
        let mut reply = Collector::new(api, &self.failures.0.secrets);
        let outcome = self
            .read(UntracedStream(stream.stream), &frame_sink, &mut reply, request)
            .await;
        reply.end_text(request.deltas.as_ref());
        let mut reply = self.end(outcome, reply, &frame_sink, request)?;
        wire_names.restore(&mut reply);
        Ok(reply)
    }

    /// Returns the target of a request with its URL and key, so that `genai` does not read a key from the environment.
    fn target(&self, model: &str) -> ServiceTarget {
        let key = self.api_key.as_ref().map(ExposeSecret::expose_secret);
        ServiceTarget {
            endpoint: Endpoint::from_owned(self.base_url.as_str()),
            auth: AuthData::from_single(key.unwrap_or_default()),
            model: ModelIden::new(self.options.api.adapter(), model),
        }
    }

    async fn read(
        &self,
        mut stream: UntracedStream,
        frame_sink: &RawFrameSink,
        reply: &mut Collector,
        request: &ChatRequest,
    ) -> StreamOutcome {
        let times = &self.options.timeouts;
        let total = deadline_after(times.total);
        let (mut since, mut until) = (Instant::now(), total.min(deadline_after(times.first)));
        loop {
            let next = timeout_at(until, stream.next()).await;
            match next {
                Ok(Some(Ok(event))) => {
                    if let Some(end) = handle_event(event, reply, request) {
                        return StreamOutcome::Done(end);
                    }
                }
                Ok(Some(Err(error))) => {
                    return StreamOutcome::Failed(
                        self.failures.classify_genai(error, &frame_sink.metadata()),
                    );
                }
                Ok(None) => return StreamOutcome::Closed,
                // Not yet a timeout: the frame sink may have seen an event that `genai` does not pass on.
                Err(_) => {}
            }
            if reply.buffered_bytes() > self.options.max_reply_bytes {
                return StreamOutcome::Oversized;
            }
            if let Some(latest) = frame_sink.last_event_at().filter(|latest| *latest > since) {
                since = latest;
                until = total.min(latest.checked_add(times.between).unwrap_or(total));
            }
            if Instant::now() >= until {
                let span = Millis::from(until.saturating_duration_since(since));
                return StreamOutcome::Interrupted(format!("timed out after {span}"));
            }
        }
    }

    fn end(
        &self,
        outcome: StreamOutcome,
        reply: Collector,
        frame_sink: &RawFrameSink,
        request: &ChatRequest,
    ) -> Result<ModelReply, HostedFailure> {
        let metadata = frame_sink.metadata();
        let is_oversized = matches!(outcome, StreamOutcome::Oversized);
        let end = match outcome {
            StreamOutcome::Oversized => {
                self.warn_interrupted("it is longer than max_reply_bytes");
                None
            }
            StreamOutcome::Done(end) if metadata.garbled => {
                self.warn_interrupted("its events had no names or came in a wrong order");
                Some(end)
            }
            StreamOutcome::Done(end) if end.captured_stop_reason.is_some() => Some(end),
            StreamOutcome::Done(_) | StreamOutcome::Closed if reply.is_empty() => {
                return Err(self
                    .failures
                    .unavailable("its stream ended without a reply")
                    .into());
            }
            StreamOutcome::Interrupted(why) if reply.is_empty() => {
                return Err(HostedFailure {
                    failure: self.failures.unavailable(&format!("no reply received: {why}")),
                    status: Some(504),
                });
            }
            StreamOutcome::Failed(failure) if reply.is_empty() => return Err(failure),
            StreamOutcome::Done(_) | StreamOutcome::Closed => {
                self.warn_interrupted("the stream ended before the reply was complete");
                None
            }
            StreamOutcome::Interrupted(why) => {
                self.warn_interrupted(&why);
                None
            }
            StreamOutcome::Failed(failed) => {
                self.warn_interrupted(&failed.failure.message);
                None
            }
        };
        let mut reply = reply.finish(end.as_ref(), metadata, request);
        if is_oversized {
            reply.finish = FinishReason::Oversized;
        }
        Ok(reply)
    }

    fn warn_interrupted(&self, why: &str) {
        tracing::warn!(
            server = self.failures.0.server,
            "a model's reply was cut off: {why}"
        );
    }
}

/// Processes an event; returns the end of the stream if it is the last one.
fn handle_event(event: ChatStreamEvent, reply: &mut Collector, request: &ChatRequest) -> Option<StreamEnd> {
    match event {
        ChatStreamEvent::Chunk(chunk) => reply.add_text(&chunk.content, request.deltas.as_ref()),
        ChatStreamEvent::ToolCallChunk(chunk) => reply.add_call(chunk.tool_call),
        ChatStreamEvent::End(end) => return Some(end),
        // `Start` comes before the request is sent.
        ChatStreamEvent::Start
        | ChatStreamEvent::Heartbeat
        | ChatStreamEvent::ReasoningChunk(_)
        | ChatStreamEvent::ThoughtSignatureChunk(_) => {}
    }
    None
}

/// A stream with logging disabled, because `genai` logs text from servers, which may repeat the key.
struct UntracedStream(ChatStream);

impl Stream for UntracedStream {
    type Item = genai::Result<ChatStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = Pin::new(&mut self.0);
        with_default(&Dispatch::none(), || stream.poll_next(context))
    }
}

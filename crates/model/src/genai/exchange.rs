//! One request and its stream, each wait bounded.
//!
//! A reply that broke off after something of it had come is a reply, an interrupted one: it was paid for. Where nothing had come it
//! is a failure.

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

use super::reply::Collector;
use super::tap::Tap;
use super::{Shared, wire};
use crate::ChatRequest;
use crate::openai::names::Renamed;
use crate::request::after;

/// Why no more of a stream is read.
enum Stop {
    /// The provider has said that it is done.
    Done(StreamEnd),
    /// The connection was closed.
    Closed,
    /// Nothing came in time.
    Cut(String),
    /// More came than a reply may have.
    Oversized,
    /// The provider has said that something went wrong, the connection broke, or what came can't be used.
    Failed(ModelFailure),
}

impl Shared {
    /// Sends a request and reads its reply.
    pub(super) async fn chat(&self, request: &ChatRequest) -> Result<ModelReply, ModelFailure> {
        let provider = self.options.provider;
        let renamed = Renamed::among(&request.tools).map_err(|(one, other)| {
            let message = format!("the tools `{one}` and `{other}` would have one name: rename one of them");
            self.failures.0.failure(ModelFailureKind::Rejected, &message)
        })?;
        let tap = Arc::new(Tap::new(provider));
        let model = request.model.as_deref().unwrap_or(&self.options.model);
        let chat = wire::chat_request(provider, request);
        let options = wire::chat_options(&self.options, request, tap.clone());
        // Nothing is sent before the stream is read.
        let stream = self
            .client
            .exec_chat_stream(self.target(model), chat, Some(&options));
        let stream = stream
            .await
            .map_err(|error| self.failures.of(error, &tap.seen()))?;
        let mut reply = Collector::new(provider, &self.failures.0.secrets);
        let stop = self.read(Quiet(stream.stream), &tap, &mut reply, request).await;
        reply.end_text(request.deltas.as_ref());
        let mut reply = self.end(stop, reply, &tap, request)?;
        renamed.restore(&mut reply);
        Ok(reply)
    }

    /// Where a request goes. With a target that is complete, `genai` looks for no key itself.
    fn target(&self, model: &str) -> ServiceTarget {
        let key = self.api_key.as_ref().map(ExposeSecret::expose_secret);
        ServiceTarget {
            endpoint: Endpoint::from_owned(self.base_url.as_str()),
            auth: AuthData::from_single(key.unwrap_or_default()),
            model: ModelIden::new(self.options.provider.adapter(), model),
        }
    }

    async fn read(&self, mut stream: Quiet, tap: &Tap, reply: &mut Collector, request: &ChatRequest) -> Stop {
        let times = &self.options.timeouts;
        let total = after(times.total);
        let (mut since, mut until) = (Instant::now(), total.min(after(times.first)));
        loop {
            let next = timeout_at(until, stream.next()).await;
            match next {
                Ok(Some(Ok(event))) => {
                    if let Some(end) = take(event, reply, request) {
                        return Stop::Done(end);
                    }
                }
                Ok(Some(Err(error))) => return Stop::Failed(self.failures.of(error, &tap.seen())),
                Ok(None) => return Stop::Closed,
                // What came last may have been an event that is not passed on.
                Err(_) => {}
            }
            if reply.held() > self.options.max_reply_bytes {
                return Stop::Oversized;
            }
            if let Some(latest) = tap.latest().filter(|latest| *latest > since) {
                since = latest;
                until = total.min(latest.checked_add(times.between).unwrap_or(total));
            }
            if Instant::now() >= until {
                let span = Millis::from(until.saturating_duration_since(since));
                return Stop::Cut(format!("it was not done after {span}"));
            }
        }
    }

    fn end(
        &self,
        stop: Stop,
        reply: Collector,
        tap: &Tap,
        request: &ChatRequest,
    ) -> Result<ModelReply, ModelFailure> {
        let seen = tap.seen();
        let is_oversized = matches!(stop, Stop::Oversized);
        let end = match stop {
            Stop::Oversized => {
                self.warn_of_cut("it is longer than max_reply_bytes");
                None
            }
            Stop::Done(end) if seen.garbled => {
                self.warn_of_cut("its events did not come as they should");
                Some(end)
            }
            Stop::Done(end) if end.captured_stop_reason.is_some() => Some(end),
            Stop::Done(_) | Stop::Closed if reply.is_empty() => {
                return Err(self
                    .failures
                    .unavailable("its stream ended without a reply in it"));
            }
            Stop::Cut(why) if reply.is_empty() => {
                return Err(self.failures.unavailable(&format!("no reply came: {why}")));
            }
            Stop::Failed(failure) if reply.is_empty() => return Err(failure),
            Stop::Done(_) | Stop::Closed => {
                self.warn_of_cut("the stream ended before the reply did");
                None
            }
            Stop::Cut(why) => {
                self.warn_of_cut(&why);
                None
            }
            Stop::Failed(failure) => {
                self.warn_of_cut(&failure.message);
                None
            }
        };
        let mut reply = reply.finish(end.as_ref(), seen, request);
        if is_oversized {
            reply.finish = FinishReason::Oversized;
        }
        Ok(reply)
    }

    /// The reply itself can't say why it was cut.
    fn warn_of_cut(&self, why: &str) {
        tracing::warn!(server = self.failures.0.place, "a model's reply broke off: {why}");
    }
}

/// Takes an event; it may be the last one.
fn take(event: ChatStreamEvent, reply: &mut Collector, request: &ChatRequest) -> Option<StreamEnd> {
    match event {
        ChatStreamEvent::Chunk(chunk) => reply.add_text(&chunk.content, request.deltas.as_ref()),
        ChatStreamEvent::ToolCallChunk(chunk) => reply.add_call(chunk.tool_call),
        ChatStreamEvent::End(end) => return Some(end),
        // The first of these comes before anything is sent.
        ChatStreamEvent::Start
        | ChatStreamEvent::Heartbeat
        | ChatStreamEvent::ReasoningChunk(_)
        | ChatStreamEvent::ThoughtSignatureChunk(_) => {}
    }
    None
}

/// A stream that says nothing to `tracing`: it would say what a server said, and a server may repeat the key.
struct Quiet(ChatStream);

impl Stream for Quiet {
    type Item = genai::Result<ChatStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = Pin::new(&mut self.0);
        with_default(&Dispatch::none(), || stream.poll_next(context))
    }
}

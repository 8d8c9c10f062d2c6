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

use super::reply::{Chunk, Collector, Ended};
use super::sse::EventReader;
use super::{Delivery, Shared};
use crate::ChatRequest;
use crate::request::after;

/// How long the end of a stream is waited for when the reply is complete: its usage comes last.
const TRAILER: Duration = Duration::from_secs(5);

/// How much of an error's body is read, in bytes, and for how long.
const ERROR_BODY: usize = 64 * 1024;
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);

/// What is asked, and of which model.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) request: &'a ChatRequest,
    /// By its server's name.
    pub(super) model: &'a str,
}

/// An answer that is no success.
pub(super) struct Refusal {
    pub(super) status: u16,
    /// The beginning of what the server said.
    pub(super) body: String,
    pub(super) failure: ModelFailure,
}

/// What was read of a body.
pub(super) enum Body {
    /// All of it.
    Whole(Vec<u8>),
    /// It has more bytes than a reply may have.
    TooLong,
}

/// Why no more of a stream is read.
enum Stop {
    /// The server has said that it is done.
    Done,
    /// The connection was closed.
    Closed,
    /// Nothing came in time, the connection broke, or what came can't be used.
    Cut(String),
    /// More came than a reply may have.
    Oversized,
    /// The server has said that something went wrong.
    Failed(ModelFailure),
}

/// In which form an answer comes.
enum Form {
    Events,
    Json,
    /// A page for people: whoever answers is no model server.
    Page,
}

impl Shared {
    /// Sends a request and reads its reply. The inner error is for what the server refused.
    pub(super) async fn exchange(
        &self,
        body: Vec<u8>,
        asked: Asked<'_>,
        total: Instant,
    ) -> Result<Result<ModelReply, Refusal>, ModelFailure> {
        let times = &self.options.timeouts;
        let first = match self.options.delivery {
            Delivery::Streamed => total.min(after(times.first)),
            Delivery::Whole => total,
        };
        let builder = self
            .client
            .post(self.chat_url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let response = self.send(builder, first).await?;
        if !response.status().is_success() {
            return Ok(Err(self.refusal(response).await));
        }
        match self.form(&response) {
            Form::Events => self.read_stream(response, asked, first, total).await,
            Form::Json => self.read_whole(response, asked, total).await,
            Form::Page => Err(self.diagnosis.failure(
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
            Ok(Err(error)) => Err(self.unreached(error)),
            Err(_) => Err(self.diagnosis.unavailable("no answer came in time")),
        }
    }

    /// A request that got no answer. A server with whom no secure connection can be made will not do better the next time; one that is
    /// not there may.
    fn unreached(&self, error: reqwest::Error) -> ModelFailure {
        let configuration = |message: &str| self.diagnosis.failure(ModelFailureKind::Configuration, message);
        match (error.is_builder(), error.is_connect()) {
            (true, _) => configuration(&causes(error)),
            (false, true) if is_tls(&error) => configuration(&format!(
                "no secure connection to it can be made ({}). Check base_url and the server's certificate",
                causes(error)
            )),
            (false, true) => self.diagnosis.unavailable(&format!(
                "it can't be reached ({}). Check that it runs, and base_url",
                causes(error)
            )),
            (false, false) => self
                .diagnosis
                .unavailable(&format!("it can't be reached ({})", causes(error))),
        }
    }

    /// Reads an answer that is no success.
    pub(super) async fn refusal(&self, mut response: Response) -> Refusal {
        let until = after(ERROR_BODY_TIME);
        let mut body = Vec::new();
        while body.len() < ERROR_BODY
            && let Ok(Ok(Some(piece))) = timeout_at(until, response.chunk()).await
        {
            body.extend_from_slice(&piece);
        }
        body.truncate(ERROR_BODY);
        let body = String::from_utf8_lossy(&body).into_owned();
        let status = response.status().as_u16();
        Refusal {
            status,
            failure: self.diagnosis.status(status, response.headers(), &body),
            body,
        }
    }

    /// Reads a body of at most as many bytes as a reply may have.
    pub(super) async fn read_body(
        &self,
        mut response: Response,
        until: Instant,
    ) -> Result<Body, ModelFailure> {
        let mut body = Vec::new();
        loop {
            match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(piece))) => body.extend_from_slice(&piece),
                Ok(Ok(None)) => return Ok(Body::Whole(body)),
                Ok(Err(error)) => {
                    let message = format!("its answer broke off ({})", causes(error));
                    return Err(self.diagnosis.unavailable(&message));
                }
                Err(_) => return Err(self.diagnosis.unavailable("its answer did not end in time")),
            }
            if body.len() > self.options.max_reply_bytes {
                return Ok(Body::TooLong);
            }
        }
    }

    fn form(&self, response: &Response) -> Form {
        let media_type = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let media_type = media_type.unwrap_or_default().to_ascii_lowercase();
        match self.options.delivery {
            _ if media_type.starts_with("text/html") => Form::Page,
            _ if media_type.starts_with("text/event-stream") => Form::Events,
            _ if media_type.starts_with("application/json") => Form::Json,
            Delivery::Streamed => Form::Events,
            Delivery::Whole => Form::Json,
        }
    }

    async fn read_whole(
        &self,
        response: Response,
        asked: Asked<'_>,
        until: Instant,
    ) -> Result<ModelReply, ModelFailure> {
        let mut collector = Collector::new(&self.diagnosis.secrets);
        let body = match self.read_body(response, until).await? {
            Body::Whole(body) => body,
            Body::TooLong => {
                let mut reply = collector.finish(self.warn_of_size(), asked);
                let read = u64::try_from(self.options.max_reply_bytes).unwrap_or(u64::MAX);
                reply.usage.output_tokens = read.div_ceil(4);
                return Ok(reply);
            }
        };
        let said = || self.diagnosis.excerpt(&String::from_utf8_lossy(&body));
        let chunk = Chunk::read(&body).map_err(|_| {
            self.diagnosis
                .unavailable(&format!("its answer is no JSON: {}", said()))
        })?;
        if !chunk.error.is_null() {
            return Err(self.diagnosis.error_object(&chunk.error));
        }
        collector.add_whole(chunk, asked.request.deltas.as_ref());
        if collector.is_empty() {
            let message = format!("its answer holds no reply: {}", said());
            return Err(self.diagnosis.unavailable(&message));
        }
        Ok(collector.finish(Ended::Complete, asked))
    }

    async fn read_stream(
        &self,
        mut response: Response,
        asked: Asked<'_>,
        first: Instant,
        total: Instant,
    ) -> Result<ModelReply, ModelFailure> {
        let mut reader = EventReader::default();
        let mut collector = Collector::new(&self.diagnosis.secrets);
        let mut events = Vec::new();
        let (mut since, mut until) = (Instant::now(), first);
        let stop = 'stream: loop {
            match timeout_at(until, response.chunk()).await {
                Err(_) => break Stop::Cut(overdue(since, until)),
                Ok(Ok(Some(piece))) => reader.read(&piece, &mut events),
                Ok(Ok(None)) => break Stop::Closed,
                Ok(Err(error)) => break Stop::Cut(causes(error)),
            }
            let came = events.iter().any(|event| !event.trim().is_empty());
            for event in events.drain(..) {
                if let Some(stop) = self.take(&event, &mut collector, asked) {
                    break 'stream stop;
                }
            }
            if collector.held().saturating_add(reader.held()) > self.options.max_reply_bytes {
                break Stop::Oversized;
            }
            if came {
                since = Instant::now();
                until = total.min(after(self.next_event_within(&collector)));
            }
            // The wait above ends only where there is nothing to read: a server that sends comments without end is caught here.
            if Instant::now() >= until {
                break Stop::Cut(overdue(since, until));
            }
        };
        let stop = match stop {
            Stop::Closed => reader
                .end()
                .and_then(|event| self.take(&event, &mut collector, asked))
                .unwrap_or(Stop::Closed),
            Stop::Done | Stop::Cut(_) | Stop::Oversized | Stop::Failed(_) => stop,
        };
        self.end_stream(stop, collector, asked)
    }

    fn next_event_within(&self, collector: &Collector) -> Duration {
        let between = self.options.timeouts.between;
        if collector.has_finish_reason() {
            between.min(TRAILER)
        } else {
            between
        }
    }

    /// Takes an event; it may be the last one.
    fn take(&self, event: &str, collector: &mut Collector, asked: Asked<'_>) -> Option<Stop> {
        let event = event.trim();
        if event.is_empty() {
            return None;
        }
        if event == "[DONE]" {
            return Some(Stop::Done);
        }
        match Chunk::read(event.as_bytes()) {
            Ok(chunk) if chunk.error.is_null() => {
                collector.add(chunk, asked.request.deltas.as_ref());
                None
            }
            Ok(chunk) => Some(Stop::Failed(self.diagnosis.error_object(&chunk.error))),
            Err(_) => Some(Stop::Cut(format!(
                "an event is no JSON: {}",
                self.diagnosis.excerpt(event)
            ))),
        }
    }

    fn end_stream(
        &self,
        stop: Stop,
        collector: Collector,
        asked: Asked<'_>,
    ) -> Result<ModelReply, ModelFailure> {
        let ended = match stop {
            _ if collector.held() > self.options.max_reply_bytes => self.warn_of_size(),
            Stop::Oversized => self.warn_of_size(),
            Stop::Done if !collector.is_empty() => Ended::Complete,
            Stop::Done => {
                return Err(self
                    .diagnosis
                    .unavailable("its stream ended without a reply in it"));
            }
            // A server that has said why the reply ended has said all of it.
            Stop::Closed | Stop::Cut(_) if collector.has_finish_reason() => Ended::Complete,
            Stop::Closed if collector.is_empty() => {
                return Err(self
                    .diagnosis
                    .unavailable("its stream ended without a reply in it"));
            }
            Stop::Cut(why) if collector.is_empty() => {
                return Err(self.diagnosis.unavailable(&format!("no reply came: {why}")));
            }
            Stop::Failed(failure) if collector.is_empty() => return Err(failure),
            Stop::Closed => self.warn_of_cut("the stream ended before the reply did"),
            Stop::Cut(why) => self.warn_of_cut(&why),
            Stop::Failed(failure) => self.warn_of_cut(&failure.message),
        };
        Ok(collector.finish(ended, asked))
    }

    /// The reply itself can't say why it was cut.
    fn warn_of_cut(&self, why: &str) -> Ended {
        tracing::warn!(server = self.diagnosis.place, "a model's reply broke off: {why}");
        Ended::CutOff
    }

    fn warn_of_size(&self) -> Ended {
        tracing::warn!(
            server = self.diagnosis.place,
            max_reply_bytes = self.options.max_reply_bytes,
            "a model's reply is longer than max_reply_bytes"
        );
        Ended::Oversized
    }
}

fn overdue(since: Instant, until: Instant) -> String {
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
pub(crate) fn causes(error: reqwest::Error) -> String {
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

//! Passing requests of OpenAI clients on, and the replies back, in their own words (PROMPT-3).
//!
//! The events of a stream are parsed only to know when the reply is complete. A stream is complete after `[DONE]`, or if it ends after
//! the finish reasons of all choices; otherwise it ends in an error. Secrets are removed from everything that is passed on.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dirigent_core::message::{ModelFailure, ModelFailureKind};
use dirigent_core::time::Millis;
use futures::StreamExt as _;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::chunk::{Chunk, WireUsage};
use super::client::{BodyRead, Client};
use super::exchange::{TRAILER_TIMEOUT, WEB_PAGE, media_type};
use super::sse::SseParser;
use crate::completion::{Completion, CompletionError, CompletionEvent, CompletionOutcome, CompletionRequest};
use crate::http::error_chain;
use crate::time::deadline_after;

/// Time to wait for the end of a response after the last event. A connection whose response has ended can be used again.
const TAIL_TIMEOUT: Duration = Duration::from_millis(100);

/// Sends a request, and returns the reply or its stream from the first event on.
pub(super) async fn forward(
    client: Arc<Client>,
    request: &CompletionRequest,
) -> Result<Completion, CompletionError> {
    let model = request.upstream_name().unwrap_or(&client.options.model);
    let body = request.body_for(model, &client.options.extra);
    let times = &client.options.timeouts;
    let total = deadline_after(times.total);
    let first = match request.is_streamed() {
        true => total.min(deadline_after(times.first)),
        false => total,
    };
    let builder = client.http.post(client.chat_url.clone());
    let builder = builder.header(CONTENT_TYPE, "application/json").body(body);
    let response = client
        .send(builder, first)
        .await
        .map_err(|failure| timed(failure, first))?;
    if !response.status().is_success() {
        let error = client.read_error_response(response).await;
        return Err(CompletionError::from_failure(error.failure, Some(error.status))
            .with_upstream_words(&error.body, &client.failures.secrets));
    }
    client.check_content_type(&response, request)?;
    if !request.is_streamed() {
        return client.forward_whole(response, total).await;
    }
    let mut stream = ForwardedStream::new(client, response, first, total);
    match stream.next().await {
        Some(Err(error)) => Err(error),
        event => {
            let rest =
                futures::stream::unfold(stream, async |mut stream| Some((stream.next().await?, stream)));
            Ok(Completion::Stream(
                futures::stream::iter(event).chain(rest).boxed(),
            ))
        }
    }
}

/// Returns the error of a failed wait. A wait whose deadline has passed timed out.
fn timed(failure: ModelFailure, until: Instant) -> CompletionError {
    let status = (Instant::now() >= until).then_some(504);
    CompletionError::from_failure(failure, status)
}

impl Client {
    /// Refuses a response that is not what the client of the service can read.
    fn check_content_type(
        &self,
        response: &Response,
        request: &CompletionRequest,
    ) -> Result<(), CompletionError> {
        let media_type = media_type(response);
        let problem = match request.is_streamed() {
            _ if media_type.starts_with("text/html") => WEB_PAGE,
            true if media_type.starts_with("application/json") => {
                "it answered without a stream, although one was asked for. Ask without `stream`"
            }
            false if media_type.starts_with("text/event-stream") => {
                "it answered with a stream, although none was asked for. Ask with `stream`"
            }
            true | false => return Ok(()),
        };
        let failure = self.failures.failure(ModelFailureKind::Configuration, problem);
        Err(CompletionError::from_failure(failure, None))
    }

    async fn forward_whole(&self, response: Response, until: Instant) -> Result<Completion, CompletionError> {
        let unusable =
            |problem: &str| CompletionError::from_failure(self.failures.unavailable(problem), None);
        let body = match self.read_body(response, until).await {
            Ok(BodyRead::Complete(body)) => body,
            Ok(BodyRead::TooLong) => {
                let problem = "its reply is longer than max_reply_bytes";
                let failure = self.failures.failure(ModelFailureKind::Rejected, problem);
                return Err(CompletionError::from_failure(failure, None).with(502, "upstream_failed"));
            }
            Err(failure) => return Err(timed(failure, until)),
        };
        let text = String::from_utf8(body).map_err(|_| unusable("its answer is not UTF-8"))?;
        let summary = Summary::read(&text).map_err(|_| {
            unusable(&format!(
                "its answer is not valid JSON: {}",
                self.failures.excerpt(&text)
            ))
        })?;
        if let Some(error) = &summary.error {
            let error = serde_json::from_str(error).unwrap_or_default();
            return Err(CompletionError::from_failure(
                self.failures.error_object(&error),
                None,
            ));
        }
        if summary.choices.is_empty() {
            return Err(unusable(&format!(
                "its answer contains no reply: {}",
                self.failures.excerpt(&text)
            )));
        }
        let mut outcome = CompletionOutcome::default();
        summary.add_to(&mut outcome);
        let json = self
            .without_secrets(text)
            .ok_or_else(|| unusable("its answer contains the key"))?;
        Ok(Completion::Whole { json, outcome })
    }

    /// Removes secrets from JSON; `None` if the rest is not JSON.
    fn without_secrets(&self, json: String) -> Option<String> {
        let clean = self.failures.secrets.redact(&json);
        if clean == json {
            return Some(json);
        }
        serde_json::from_str::<IgnoredAny>(&clean)
            .is_ok()
            .then_some(clean)
    }
}

/// A stream of a reply that is passed on.
struct ForwardedStream {
    client: Arc<Client>,
    response: Response,
    parser: SseParser,
    /// The events that were received and not yet passed on.
    events: std::vec::IntoIter<String>,
    /// The time limit for the first event, and for all.
    first: Instant,
    total: Instant,
    progress: Progress,
    state: State,
}

/// How far the transfer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Receiving,
    /// The server has closed the response; some events may not have been passed on.
    Closed,
    /// The last event was passed on.
    Ended,
    /// Nothing more is read.
    Finished,
}

/// What was passed on so far.
#[derive(Default)]
struct Progress {
    has_begun: bool,
    begun: BTreeSet<u64>,
    finished: BTreeSet<u64>,
    outcome: CompletionOutcome,
}

impl Progress {
    /// Returns true if every choice has its finish reason.
    fn is_complete(&self) -> bool {
        !self.finished.is_empty() && self.begun.is_subset(&self.finished)
    }
}

impl ForwardedStream {
    fn new(client: Arc<Client>, response: Response, first: Instant, total: Instant) -> Self {
        ForwardedStream {
            client,
            response,
            parser: SseParser::default(),
            events: Vec::new().into_iter(),
            first,
            total,
            progress: Progress::default(),
            state: State::Receiving,
        }
    }

    /// Returns the next event; `None` after the last one.
    async fn next(&mut self) -> Option<Result<CompletionEvent, CompletionError>> {
        loop {
            if self.state == State::Ended {
                self.state = State::Finished;
                // Without an error there is nothing more to say about this.
                let _ = timeout_at(deadline_after(TAIL_TIMEOUT), self.response.chunk()).await;
            }
            if self.state == State::Finished {
                return None;
            }
            while let Some(event) = self.events.next() {
                if let Some(event) = self.handle(event) {
                    return Some(event);
                }
            }
            match self.state {
                State::Receiving => {
                    if let Err(error) = self.receive().await {
                        return Some(self.end_early(error));
                    }
                }
                State::Closed | State::Ended | State::Finished => {
                    let problem = "the stream ended before the reply was complete";
                    let error = self.interrupted(problem, None);
                    return Some(self.end_early(error));
                }
            }
        }
    }

    /// Waits for at least one event, or the end of the response.
    async fn receive(&mut self) -> Result<(), CompletionError> {
        let until = self.deadline();
        let mut events = Vec::new();
        while events.is_empty() {
            let since = Instant::now();
            match timeout_at(until, self.response.chunk()).await {
                // Waiting for a chunk never times out if the server keeps sending comments, so the deadline is checked here, too.
                Ok(Ok(Some(_))) if since >= until => return Err(self.timed_out()),
                Ok(Ok(Some(piece))) => self.parser.feed(&piece, &mut events),
                Ok(Ok(None)) => {
                    self.state = State::Closed;
                    events.extend(std::mem::take(&mut self.parser).finish());
                    break;
                }
                Ok(Err(error)) => return Err(self.interrupted(&error_chain(error), None)),
                Err(_) => return Err(self.timed_out()),
            }
            if self.parser.buffered_bytes() > self.client.options.max_reply_bytes {
                return Err(self.interrupted("an event is longer than max_reply_bytes", None));
            }
        }
        self.events = events.into_iter();
        Ok(())
    }

    /// The latest time for the next event. The time in which the client of the service did not read does not count.
    fn deadline(&self) -> Instant {
        let between = self.client.options.timeouts.between;
        match (self.progress.has_begun, self.progress.is_complete()) {
            (false, _) => self.first,
            (true, false) => self.total.min(deadline_after(between)),
            (true, true) => self.total.min(deadline_after(between.min(TRAILER_TIMEOUT))),
        }
    }

    /// Returns what to pass on for an event; `None` for nothing.
    fn handle(&mut self, event: String) -> Option<Result<CompletionEvent, CompletionError>> {
        let text = event.trim();
        if text.is_empty() {
            return None;
        }
        if text == "[DONE]" {
            if !self.progress.has_begun {
                let error = self.interrupted("its stream ended without a reply", None);
                return Some(self.end_early(error));
            }
            return Some(Ok(self.done()));
        }
        let Ok(summary) = Summary::read(text) else {
            let problem = format!(
                "an event is not valid JSON: {}",
                self.client.failures.excerpt(text)
            );
            let error = self.interrupted(&problem, None);
            return Some(self.fail(error));
        };
        if let Some(error) = &summary.error {
            let error = serde_json::from_str(error).unwrap_or_default();
            let failure = self.client.failures.error_object(&error);
            return Some(self.fail(CompletionError::from_failure(failure, None)));
        }
        self.progress.has_begun = true;
        for choice in &summary.choices {
            self.progress.begun.insert(choice.index);
            if choice.finish_reason.is_some() {
                self.progress.finished.insert(choice.index);
            }
        }
        summary.add_to(&mut self.progress.outcome);
        // Line breaks are part of the JSON's layout: within strings they are escaped.
        let line = match event.contains(['\n', '\r']) {
            true => event.replace(['\n', '\r'], " "),
            false => event,
        };
        match self.client.without_secrets(line) {
            Some(json) => Some(Ok(CompletionEvent::Chunk(json))),
            None => {
                let error = self.interrupted("an event contains the key", None);
                Some(self.fail(error))
            }
        }
    }

    fn done(&mut self) -> CompletionEvent {
        self.state = State::Ended;
        CompletionEvent::Done(std::mem::take(&mut self.progress.outcome))
    }

    /// Ends the stream although the server did not mark its end. After the finish reasons the reply is complete.
    fn end_early(&mut self, error: CompletionError) -> Result<CompletionEvent, CompletionError> {
        if !self.progress.is_complete() {
            return self.fail(error);
        }
        let done = self.done();
        self.state = State::Finished;
        Ok(done)
    }

    fn fail(&mut self, error: CompletionError) -> Result<CompletionEvent, CompletionError> {
        self.state = State::Finished;
        Err(error)
    }

    fn interrupted(&self, problem: &str, status: Option<u16>) -> CompletionError {
        CompletionError::from_failure(self.client.failures.unavailable(problem), status)
    }

    fn timed_out(&self) -> CompletionError {
        let times = &self.client.options.timeouts;
        let waited = match self.progress.has_begun {
            false => Millis::from(times.first.min(times.total)),
            true => Millis::from(times.between.min(times.total)),
        };
        self.interrupted(&format!("no event arrived for {waited}"), Some(504))
    }
}

/// What a chunk or a reply says about itself.
#[derive(Default)]
struct Summary {
    /// JSON of the error object; `None` if there is no error.
    error: Option<String>,
    choices: Vec<ChoiceSummary>,
    usage: WireUsage,
    model: String,
}

#[derive(Deserialize)]
struct ChoiceSummary {
    #[serde(default)]
    index: u64,
    finish_reason: Option<String>,
}

impl Summary {
    /// Reads JSON as servers commonly write it. Other JSON is read tolerantly.
    fn read(json: &str) -> Result<Summary, serde_json::Error> {
        #[derive(Deserialize)]
        struct Common<'a> {
            #[serde(borrow)]
            error: Option<&'a RawValue>,
            #[serde(borrow, default)]
            object: Cow<'a, str>,
            choices: Vec<ChoiceSummary>,
            usage: Option<&'a RawValue>,
            #[serde(borrow, default)]
            model: Cow<'a, str>,
        }
        match serde_json::from_str::<Common<'_>>(json) {
            Ok(common) if common.object != "error" && common.error.is_none() => Ok(Summary {
                error: None,
                choices: common.choices,
                usage: common
                    .usage
                    .and_then(|usage| serde_json::from_str(usage.get()).ok())
                    .unwrap_or_default(),
                model: common.model.into_owned(),
            }),
            Ok(_) | Err(_) => {
                let chunk = Chunk::read(json.as_bytes())?;
                Ok(Summary {
                    error: (!chunk.error.is_null()).then(|| chunk.error.to_string()),
                    choices: chunk
                        .choices
                        .into_iter()
                        .map(|choice| ChoiceSummary {
                            index: choice.index,
                            finish_reason: Some(choice.finish_reason).filter(|reason| !reason.is_empty()),
                        })
                        .collect(),
                    usage: chunk.usage,
                    model: chunk.model,
                })
            }
        }
    }

    fn add_to(self, outcome: &mut CompletionOutcome) {
        let counts = self.usage.counts();
        outcome.input_tokens = counts.input.or(outcome.input_tokens);
        outcome.output_tokens = counts.output.or(outcome.output_tokens);
        if outcome.model.is_none() && !self.model.is_empty() {
            outcome.model = Some(self.model);
        }
        let mut finished = self.choices.into_iter().filter_map(|choice| choice.finish_reason);
        outcome.finish_reason = finished.next_back().or_else(|| outcome.finish_reason.take());
    }
}

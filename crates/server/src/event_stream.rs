//! The events of a run as server-sent events.
//!
//! The id of an event is the number of its journal entry, a dot, and its number among the events of this entry, as an entry may cause several. A client that
//! connects again sends the last id that it has got, so it misses no event and gets none twice.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use dirigent::{Delta, Event, RunHandle, RunId, RuntimeError};
use futures::stream::{BoxStream, iter, unfold};
use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;
use crate::service::Service;

/// The time without events after which a comment is sent, so that proxies keep the connection open and a client that has gone is noticed.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The number of previews that are sent in a row although an event is ready, so that previews mostly come before the event that completes
/// their reply, and never hold events back.
const MAX_PREVIEWS_IN_A_ROW: u32 = 16;

const LAST_EVENT_ID: &str = "last-event-id";

/// The last event that a client has. Text form: `12` for all events of entry 12, `12.1` for the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    seq: u64,
    /// The number of the event within its entry, from 1.
    index: u32,
}

impl Position {
    /// All events of an entry, and of the entries before it.
    pub(crate) fn after_entry(seq: u64) -> Self {
        Position { seq, index: u32::MAX }
    }

    /// The position of the next event of a run, which an entry caused.
    pub(crate) fn next(self, seq: u64) -> Self {
        match self.seq == seq && self.index != u32::MAX {
            true => Position {
                index: self.index + 1,
                ..self
            },
            false => Position { seq, index: 1 },
        }
    }

    /// The journal entry after which the events are read: some events of the entry of this position may still be missing.
    fn last_complete_entry(self) -> u64 {
        match self.index {
            u32::MAX => self.seq,
            _ => self.seq.saturating_sub(1),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            u32::MAX => write!(f, "{}", self.seq),
            index => write!(f, "{}.{index}", self.seq),
        }
    }
}

impl FromStr for Position {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let invalid = || invalid_position(text);
        let number = |text: &str| text.parse().map_err(|_| invalid());
        match text.split_once('.') {
            None => Ok(Position::after_entry(number(text)?)),
            Some((seq, index)) => Ok(Position {
                seq: number(seq)?,
                index: index.parse().map_err(|_| invalid())?,
            }),
        }
    }
}

/// The error for a text that is not the place of an event.
pub(crate) fn invalid_position(text: &str) -> Problem {
    let detail = format!(
        "`{text}` is not the place of an event: use the number of a journal entry, such as 12, or the id of an event of this stream, such as 12.1"
    );
    Problem::new(StatusCode::BAD_REQUEST, "invalid_position", detail)
}

/// Returns true if a client asks for a stream of events.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    accepts(headers, "text/event-stream")
}

/// Returns true if a client names this type in `Accept`.
pub(crate) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains(kind))
}

/// The id of the last event that a client which connects again has got.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(LAST_EVENT_ID)?
        .to_str()
        .ok()
        .filter(|id| !id.is_empty())
}

/// The previews of a run's replies, from its next request on. Only the process that owns the run has them.
pub(crate) struct Previews {
    deltas: broadcast::Receiver<Delta>,
    /// The channel is open while there is a handle.
    _handle: RunHandle,
}

impl Previews {
    /// Subscribes to the previews of a run.
    pub(crate) fn of(handle: RunHandle) -> Self {
        Previews {
            deltas: handle.deltas(),
            _handle: handle,
        }
    }

    /// Subscribes to the previews of a run if the query has `deltas=true`.
    pub(crate) fn from_query(service: &Service, run: RunId, deltas: bool) -> Option<Self> {
        service.dirigent.run(run).filter(|_| deltas).map(Previews::of)
    }
}

/// What a client watches.
pub(crate) struct Watched {
    pub(crate) run: RunId,
    /// The last event that the client has.
    pub(crate) after: Position,
    /// The number of the turn, with which the ids begin; `None` for a run that is watched by itself.
    pub(crate) turn: Option<u32>,
    /// `None` if the client does not want them.
    pub(crate) previews: Option<Previews>,
}

/// Streams the events of a run after a position.
pub(crate) fn stream(service: &Service, watched: Watched) -> Response {
    respond(None, RunStream::new(service, watched))
}

/// Streams the events of a run after a position. The first message is the rule that a decision has saved, if any.
pub(crate) fn stream_with_rule(service: &Service, watched: Watched, rule: Option<&Value>) -> Response {
    let first = rule.map(|rule| Message::default().event("rule").data(rule.to_string()));
    respond(first, RunStream::new(service, watched))
}

/// Streams the rest of the events of a run that no process owns, to a client that connects again. If it has all of them, the status 204 tells it not to connect another time.
pub(crate) async fn stream_rest(service: &Service, watched: Watched) -> Response {
    let mut state = RunStream::new(service, watched);
    let first = state.next().await;
    match state.is_complete {
        true => StatusCode::NO_CONTENT.into_response(),
        false => respond(first, state),
    }
}

fn respond(first: Option<Message>, state: RunStream) -> Response {
    let rest = unfold(state, async |mut state| {
        let message = state.next().await?;
        Some((message, state))
    });
    stream_of(iter(first).chain(rest))
}

/// Streams messages, with a comment whenever there is none for a while.
pub(crate) fn stream_of(messages: impl Stream<Item = Message> + Send + 'static) -> Response {
    Sse::new(Box::pin(messages.map(Ok::<_, Infallible>)))
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}

struct RunStream {
    /// Keeps the progress of reading the next event while something else is sent.
    events: BoxStream<'static, ReadEvent>,
    previews: Option<Previews>,
    /// The number of previews that were sent since the last event.
    previews_in_a_row: u32,
    stopping: CancellationToken,
    /// The last event that the client had before.
    known: Position,
    /// The last event that was read.
    last: Position,
    turn: Option<u32>,
    has_ended: bool,
    /// True if the client has got all events of a run that has ended or stopped.
    is_complete: bool,
}

type ReadEvent = Result<Arc<Event>, RuntimeError>;

enum Next {
    Event(Option<ReadEvent>),
    Delta(Delta),
    Stopping,
}

impl RunStream {
    fn new(service: &Service, watched: Watched) -> Self {
        let after = watched.after.last_complete_entry();
        let events = unfold(service.dirigent.events(watched.run, after), async |mut events| {
            let read = events.next().await?;
            Some((read, events))
        });
        RunStream {
            events: events.boxed(),
            previews: watched.previews,
            previews_in_a_row: 0,
            stopping: service.stopping.clone(),
            known: watched.after,
            last: Position { seq: 0, index: 0 },
            turn: watched.turn,
            has_ended: false,
            is_complete: false,
        }
    }

    /// Returns the next message; `None` after the last one.
    async fn next(&mut self) -> Option<Message> {
        while !self.has_ended {
            match self.wait().await {
                Next::Event(Some(Ok(event))) => match self.event(&event) {
                    Some(message) => return Some(message),
                    None => continue,
                },
                Next::Event(Some(Err(error))) => return Some(self.end("failed", Some(error.into()))),
                Next::Event(None) => {
                    self.is_complete = true;
                    return Some(self.end("ended", None));
                }
                Next::Delta(delta) => {
                    return Some(Message::default().event("delta").data(json!(delta).to_string()));
                }
                Next::Stopping => return Some(self.end("shutting_down", None)),
            }
        }
        None
    }

    /// Waits for what is to be sent next. Of a preview and an event that are both ready, the preview is sent, but only for a limited number of
    /// times in a row.
    async fn wait(&mut self) -> Next {
        let next = if self.previews_in_a_row < MAX_PREVIEWS_IN_A_ROW {
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => Next::Stopping,
                delta = next_delta(&mut self.previews) => Next::Delta(delta),
                event = self.events.next() => Next::Event(event),
            }
        } else {
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => Next::Stopping,
                event = self.events.next() => Next::Event(event),
                delta = next_delta(&mut self.previews) => Next::Delta(delta),
            }
        };
        self.previews_in_a_row = match next {
            Next::Delta(_) => self.previews_in_a_row.saturating_add(1),
            Next::Event(_) | Next::Stopping => 0,
        };
        next
    }

    /// The message for an event; `None` if the client has it.
    fn event(&mut self, event: &Event) -> Option<Message> {
        self.last = self.last.next(event.seq);
        if self.last <= self.known {
            return None;
        }
        let turn = self.turn.map_or_else(String::new, |turn| format!("{turn}."));
        let message = Message::default().id(format!("{turn}{}", self.last));
        Some(message.data(json!(event).to_string()))
    }

    /// The last message: why no more events follow.
    fn end(&mut self, reason: &str, problem: Option<Problem>) -> Message {
        self.has_ended = true;
        let mut data = json!({"reason": reason});
        if let Some(problem) = problem {
            data["problem"] = problem.to_json();
        }
        Message::default().event("end").data(data.to_string())
    }
}

/// Waits for the next preview; for ever if there are none.
async fn next_delta(previews: &mut Option<Previews>) -> Delta {
    while let Some(open) = previews {
        match open.deltas.recv().await {
            Ok(delta) => return delta,
            // Each preview says where it begins, so the client sees what is missing.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => *previews = None,
        }
    }
    std::future::pending().await
}

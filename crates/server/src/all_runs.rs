//! `/v1/events`: one stream, or a snapshot, of the states of all runs.

use std::collections::VecDeque;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event as Message;
use futures::stream::unfold;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use crate::board::{Board, Watcher};
use crate::entrance::json_response;
use crate::event_stream::{last_event_id, stream_of, wants_events};
use crate::input::Parameters;
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// The query of `GET /v1/events`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// The id of the snapshot or the event that the client has.
    after: Option<String>,
}

/// Streams the states of all runs as they change, with `Accept: text/event-stream`; otherwise returns all as a snapshot, with the sequence number after which the stream
/// goes on.
#[utoipa::path(get, path = "/v1/events", tag = "Runs", params(EventsQuery, schemas::LastEventHeader),
    responses((status = 200, description = "The snapshot, or the stream", body = schemas::RunStates)))]
pub(crate) async fn events(
    State(service): State<Service>,
    Parameters(query): Parameters<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let watcher = service.board.watch().await?;
    if !wants_events(&headers) {
        let (_, snapshot) = snapshot(&service.board, &watcher);
        return Ok(json_response(&snapshot));
    }
    let after = last_event_id(&headers).or(query.after.as_deref());
    let known = after.and_then(|id| service.board.seq_of(id));
    let state = AllRuns {
        board: service.board.clone(),
        watcher,
        stopping: service.stopping.clone(),
        known,
        ready: VecDeque::new(),
        has_ended: false,
    };
    let messages = unfold(state, async |mut state| {
        let message = state.next().await?;
        Some((message, state))
    });
    Ok(stream_of(messages))
}

/// The states of all runs, with the sequence number of the last change that they include.
fn snapshot(board: &Board, watcher: &Watcher) -> (u64, Value) {
    let changes = watcher.changes_since(0);
    let seq = changes.last().map_or(0, |change| change.seq);
    let mut runs: Vec<Value> = changes
        .into_iter()
        .map(|change| change.run)
        .filter(|run| run["removed"].is_null())
        .collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run["created_at"].as_u64()));
    let states = json!({"id": board.id(seq), "runs": runs, "counts": board.counts()});
    (seq, states)
}

struct AllRuns {
    board: Board,
    watcher: Watcher,
    stopping: CancellationToken,
    /// The sequence number up to which the client knows the changes; `None` if it needs a snapshot.
    known: Option<u64>,
    ready: VecDeque<Message>,
    has_ended: bool,
}

impl AllRuns {
    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            if self.has_ended {
                return None;
            }
            let Some(known) = self.known else {
                let (seq, snapshot) = snapshot(&self.board, &self.watcher);
                self.known = Some(seq);
                return Some(
                    Message::default()
                        .event("snapshot")
                        .id(self.board.id(seq))
                        .data(snapshot.to_string()),
                );
            };
            let changes = self.watcher.changes_since(known);
            if let Some(last) = changes.last() {
                self.known = Some(last.seq);
                let counts = self.board.counts();
                let messages = changes.into_iter().map(|change| {
                    let data = json!({"run": change.run, "counts": counts});
                    Message::default()
                        .event("run")
                        .id(self.board.id(change.seq))
                        .data(data.to_string())
                });
                self.ready = messages.collect();
                continue;
            }
            let end = tokio::select! {
                () = self.stopping.cancelled() => Some(json!({"reason": "shutting_down"})),
                changed = self.watcher.changed() => changed.err().map(|problem| {
                    json!({"reason": "failed", "problem": problem.to_json()})
                }),
            };
            if let Some(data) = end {
                self.has_ended = true;
                return Some(Message::default().event("end").data(data.to_string()));
            }
        }
    }
}

//! The events of a reply as OpenAI's API sends them: `data: CHUNK`, and in the end `data: [DONE]`. A reply that breaks off ends with
//! `data: {"error": …}` instead.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use dirigent::completions::{CompletionError, CompletionEvent, CompletionStream};
use futures::StreamExt as _;
use futures::stream::unfold;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::errors::from_problem;
use crate::event_stream::KEEP_ALIVE;
use crate::problem::Problem;

/// Streams the events of a reply. Dropping the response's body cancels the request to the model.
pub(super) fn respond(events: CompletionStream, stopping: CancellationToken) -> Response {
    let frames = unfold(Some((events, stopping)), async |state| {
        let (mut events, stopping) = state?;
        let next = tokio::select! {
            biased;
            () = stopping.cancelled() => return Some((Ok(shutting_down()), None)),
            next = timeout(KEEP_ALIVE, events.next()) => next,
        };
        let frame = match next {
            Err(_) => Bytes::from_static(b": keep-alive\n\n"),
            Ok(Some(Ok(CompletionEvent::Chunk(json)))) => frame(&json),
            Ok(Some(Ok(CompletionEvent::Done(_)))) => Bytes::from_static(b"data: [DONE]\n\n"),
            Ok(Some(Err(error))) => error_frame(&error),
            Ok(None) => return None,
        };
        Some((Ok::<_, Infallible>(frame), Some((events, stopping))))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream; charset=utf-8")];
    (headers, Body::from_stream(frames)).into_response()
}

fn shutting_down() -> Bytes {
    error_frame(&from_problem(&Problem::shutting_down()))
}

fn error_frame(error: &CompletionError) -> Bytes {
    frame(&error.to_json().to_string())
}

fn frame(json: &str) -> Bytes {
    const FIELD: &str = "data: ";
    const END: &str = "\n\n";
    let mut frame = String::with_capacity(FIELD.len() + json.len() + END.len());
    frame.push_str(FIELD);
    frame.push_str(json);
    frame.push_str(END);
    frame.into()
}

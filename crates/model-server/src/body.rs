//! Replies on the wire: events, frames and breaks.
//!
//! This module splits bytes into frames; `completion` creates the content.

use serde_json::{Value, json};

use crate::completion::Completion;
use crate::flaw::Flaw;
use crate::http::HttpAnswer;
use crate::reply::Reply;
use crate::request::Request;

/// Frames of a body, and whether the body is complete. If it is not, the connection breaks after the last frame.
type Frames = (Vec<Vec<u8>>, bool);

/// Returns the response with a reply, streamed or whole as requested.
pub(crate) fn answer(reply: &Reply, request: &Request) -> HttpAnswer {
    let completion = Completion { reply, request };
    let (content_type, frames) = if request.wants_stream() {
        (
            "text/event-stream; charset=utf-8",
            stream_frames(reply, completion.chunks()),
        )
    } else {
        ("application/json", plain_frames(reply, &completion.whole()))
    };
    let content_type = if reply.has(Flaw::WrongContentType) {
        "text/plain"
    } else {
        content_type
    };
    let (frames, complete) = into_small_frames(reply, frames);
    HttpAnswer::new(200, &[&format!("content-type: {content_type}")], "").with_chunks(&frames, complete)
}

/// Returns the frames of an event stream, one per event.
fn stream_frames(reply: &Reply, chunks: Vec<Value>) -> Frames {
    let mut events: Vec<String> = chunks.iter().map(|chunk| event(reply, chunk)).collect();
    let half = events.len() / 2;
    if reply.has(Flaw::ErrorObject) {
        events.truncate(half);
        events.push(event(reply, &mid_reply_error()));
    }
    if reply.has(Flaw::GarbageEvent) {
        events.insert(half, "{\"choices\": [{\"delta\": garbage".to_owned());
    }
    if reply.has(Flaw::DuplicatedEvents) {
        events = events
            .into_iter()
            .flat_map(|event| [event.clone(), event])
            .collect();
    }
    if !reply.has(Flaw::MissingDone) && !reply.has(Flaw::ErrorObject) {
        events.push("[DONE]".to_owned());
    }
    let line_end = if reply.has(Flaw::CrlfLines) { "\r\n" } else { "\n" };
    let field = if reply.has(Flaw::NoSpaceAfterColon) {
        "data:"
    } else {
        "data: "
    };
    let mut blocks = Vec::new();
    for event in events {
        if reply.has(Flaw::KeepAliveComments) {
            blocks.push(format!(": keep-alive{line_end}{line_end}"));
        }
        let lines: String = event
            .lines()
            .map(|line| format!("{field}{line}{line_end}"))
            .collect();
        blocks.push(format!("{lines}{line_end}"));
    }
    cut_stream(reply, blocks.into_iter().map(String::into_bytes).collect())
}

/// Returns the frames of a plain JSON body: two halves.
fn plain_frames(reply: &Reply, completion: &Value) -> Frames {
    let body = if reply.has(Flaw::ErrorObject) {
        mid_reply_error()
    } else {
        completion.clone()
    };
    let mut first = body.to_string().into_bytes();
    let second = first.split_off(first.len() / 2);
    let mut frames = vec![first, second];
    if reply.has(Flaw::KeepAliveComments) {
        frames.insert(0, b"\n\n".to_vec());
    }
    let half = frames.len() - 1;
    if reply.has(Flaw::CutMidCharacter) {
        return (cut_character(frames), false);
    }
    if reply.has(Flaw::CutMidEvent) || reply.has(Flaw::EndsEarly) {
        frames.truncate(half);
    }
    (frames, !reply.has(Flaw::CutMidEvent))
}

fn cut_stream(reply: &Reply, mut frames: Vec<Vec<u8>>) -> Frames {
    let half = frames.len() / 2;
    if reply.has(Flaw::CutMidCharacter) {
        return (cut_character(frames), false);
    }
    if reply.has(Flaw::CutMidEvent) {
        let event = frames[half].len();
        frames[half].truncate(event / 2);
        frames.truncate(half + 1);
    } else if reply.has(Flaw::CutBetweenEvents) || reply.has(Flaw::EndsEarly) {
        frames.truncate(half);
    }
    let breaks = reply.has(Flaw::CutMidEvent) || reply.has(Flaw::CutBetweenEvents);
    (frames, !breaks)
}

/// Cuts after the first byte of the first multi-byte character.
fn cut_character(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let cut = frames.iter().enumerate().find_map(|(index, frame)| {
        let byte = frame.iter().position(|byte| !byte.is_ascii())?;
        Some((index, byte + 1))
    });
    if let Some((index, length)) = cut {
        frames.truncate(index + 1);
        frames[index].truncate(length);
    }
    frames
}

/// Splits the body into frames of the size in [`Flaw::SmallFrames`], regardless of events.
fn into_small_frames(reply: &Reply, (frames, complete): Frames) -> Frames {
    let size = reply.flaws.iter().find_map(|flaw| match flaw {
        Flaw::SmallFrames { bytes } => Some((*bytes).max(1)),
        _ => None,
    });
    let Some(size) = size else {
        return (frames, complete);
    };
    (
        frames.concat().chunks(size).map(<[u8]>::to_vec).collect(),
        complete,
    )
}

fn event(reply: &Reply, json: &Value) -> String {
    if reply.has(Flaw::MultiLineData) {
        format!("{json:#}")
    } else {
        json.to_string()
    }
}

fn mid_reply_error() -> Value {
    let message = "The server had an error while processing your request. Sorry about that!";
    json!({ "error": { "message": message, "type": "server_error", "param": null, "code": null } })
}

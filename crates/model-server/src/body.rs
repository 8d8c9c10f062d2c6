//! Bodies on the wire: events, frames, pauses and breaks.
//!
//! This module cuts and delays bytes; the content is `completion`'s.

use std::io;
use std::iter::Peekable;

use axum::body::{Body, Bytes};
use futures::stream;
use serde_json::Value;

use crate::fault::error_object;
use crate::flaw::Flaw;
use crate::gate::Wait;
use crate::reply::Reply;
use crate::response_guard::ResponseGuard;

/// A part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A frame of its own.
    Bytes(Bytes),
    /// The connection breaks here, and the rest is not sent.
    Break,
}

/// Returns the parts of an event stream.
pub(crate) fn stream_parts(reply: &Reply, chunks: Vec<Value>) -> Vec<Part> {
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
    into_frames(
        reply,
        cut_stream(reply, blocks.into_iter().map(String::into_bytes).collect()),
    )
}

/// Returns the parts of a plain JSON body.
pub(crate) fn plain_parts(reply: &Reply, completion: &Value) -> Vec<Part> {
    let body = if reply.has(Flaw::ErrorObject) {
        mid_reply_error()
    } else {
        completion.clone()
    };
    let mut blocks = halves(body.to_string().into_bytes());
    if reply.has(Flaw::KeepAliveComments) {
        blocks.insert(0, b"\n\n".to_vec());
    }
    let half = blocks.len() - 1;
    let parts = if reply.has(Flaw::CutMidCharacter) {
        broken_parts(cut_character(blocks))
    } else if reply.has(Flaw::CutMidEvent) {
        broken_parts(blocks[..half].to_vec())
    } else if reply.has(Flaw::EndsEarly) {
        complete_parts(blocks[..half].to_vec())
    } else {
        complete_parts(blocks)
    };
    into_frames(reply, parts)
}

/// Returns the two halves of a body.
pub(crate) fn two_halves(body: Vec<u8>) -> Vec<Part> {
    complete_parts(halves(body))
}

fn cut_stream(reply: &Reply, mut blocks: Vec<Vec<u8>>) -> Vec<Part> {
    let half = blocks.len() / 2;
    if reply.has(Flaw::CutMidCharacter) {
        broken_parts(cut_character(blocks))
    } else if reply.has(Flaw::CutMidEvent) {
        blocks.truncate(half + 1);
        if let Some(last) = blocks.last_mut() {
            last.truncate(last.len() / 2);
        }
        broken_parts(blocks)
    } else if reply.has(Flaw::CutBetweenEvents) {
        blocks.truncate(half);
        broken_parts(blocks)
    } else if reply.has(Flaw::EndsEarly) {
        blocks.truncate(half);
        complete_parts(blocks)
    } else {
        complete_parts(blocks)
    }
}

/// Cuts after the first byte of the first multi-byte character.
fn cut_character(mut blocks: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let cut = blocks.iter().enumerate().find_map(|(index, block)| {
        block
            .iter()
            .position(|byte| !byte.is_ascii())
            .map(|byte| (index, byte + 1))
    });
    if let Some((index, length)) = cut {
        blocks.truncate(index + 1);
        blocks[index].truncate(length);
    }
    blocks
}

fn halves(mut body: Vec<u8>) -> Vec<Vec<u8>> {
    let rest = body.split_off(body.len() / 2);
    vec![body, rest]
}

fn complete_parts(blocks: Vec<Vec<u8>>) -> Vec<Part> {
    blocks
        .into_iter()
        .map(|block| Part::Bytes(block.into()))
        .collect()
}

fn broken_parts(blocks: Vec<Vec<u8>>) -> Vec<Part> {
    complete_parts(blocks).into_iter().chain([Part::Break]).collect()
}

/// Splits the parts into frames of the size in [`Flaw::SmallFrames`], regardless of events.
fn into_frames(reply: &Reply, parts: Vec<Part>) -> Vec<Part> {
    let size = reply.flaws.iter().find_map(|flaw| {
        if let Flaw::SmallFrames { bytes } = flaw {
            Some((*bytes).max(1))
        } else {
            None
        }
    });
    let Some(size) = size else { return parts };
    let mut bytes = Vec::new();
    let mut breaks = false;
    for part in parts {
        match part {
            Part::Bytes(block) => bytes.extend_from_slice(&block),
            Part::Break => breaks = true,
        }
    }
    let frames = bytes.chunks(size).map(<[u8]>::to_vec).collect();
    if breaks {
        broken_parts(frames)
    } else {
        complete_parts(frames)
    }
}

fn event(reply: &Reply, json: &Value) -> String {
    if reply.has(Flaw::MultiLineData) {
        format!("{json:#}")
    } else {
        json.to_string()
    }
}

fn mid_reply_error() -> Value {
    error_object(
        "The server had an error while processing your request. Sorry about that!",
        "server_error",
        None,
        None,
    )
}

/// Streams these parts as a body, each flushed before the next.
pub(crate) fn body<I>(parts: I, wait: Option<Wait>, guard: ResponseGuard) -> Body
where
    I: Iterator<Item = Part> + Send + 'static,
{
    let stream = BodyStream {
        parts: parts.peekable(),
        wait,
        guard,
        started: false,
    };
    Body::from_stream(stream::unfold(stream, BodyStream::next))
}

struct BodyStream<I: Iterator<Item = Part>> {
    parts: Peekable<I>,
    wait: Option<Wait>,
    guard: ResponseGuard,
    started: bool,
}

impl<I: Iterator<Item = Part>> BodyStream<I> {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if self.started {
            // The connection flushes its buffer while the body is pending.
            tokio::task::yield_now().await;
            if let Some(wait) = &self.wait {
                wait.wait().await;
            }
        }
        self.started = true;
        let part = self.parts.next()?;
        // A body of known length is not polled after its last byte, so it is complete here.
        if self.parts.peek().is_none() {
            self.guard.mark_complete();
        }
        match part {
            Part::Bytes(bytes) => Some((Ok(bytes), self)),
            Part::Break => Some((
                Err(io::Error::other("the script breaks the connection here")),
                self,
            )),
        }
    }
}

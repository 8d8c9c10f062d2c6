//! A reply's JSON, whole or as the chunks of a stream.
//!
//! This module only creates the content; `body` sends it.

use serde_json::{Value, json};

use crate::flaw::Flaw;
use crate::reply::{Reply, Usage};
use crate::request::{Request, words};

/// Maximum number of pieces into which a text is split.
const MAX_PIECES: usize = 64;
/// Smallest size of a piece, in characters.
const MIN_PIECE_CHARS: usize = 4;

/// A reply to a request.
pub(crate) struct Completion<'a> {
    pub(crate) reply: &'a Reply,
    pub(crate) request: &'a Request,
}

impl Completion<'_> {
    /// Returns the `chat.completion` object.
    pub(crate) fn whole(&self) -> Value {
        let mut completion = self.envelope("chat.completion");
        completion["choices"] = if self.reply.has(Flaw::EmptyChoices) {
            json!([])
        } else {
            json!([{
                "index": 0,
                "message": self.message(),
                "logprobs": null,
                "finish_reason": self.finish(),
            }])
        };
        if let Some(usage) = self.usage() {
            completion["usage"] = usage;
        }
        completion
    }

    /// Returns the `chat.completion.chunk` objects, in order.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        let text = self.reply.text_on_wire();
        let mut deltas = vec![json!({ "role": "assistant", "content": text.as_ref().map(|_| "") })];
        if self.reply.has(Flaw::NullContent) {
            deltas.push(json!({ "content": null }));
        }
        deltas.extend(
            pieces(&text.unwrap_or_default())
                .into_iter()
                .map(|piece| json!({ "content": piece })),
        );
        deltas.extend(self.call_deltas());
        let mut chunks: Vec<Value> = deltas
            .into_iter()
            .map(|delta| self.chunk(delta, Value::Null))
            .collect();
        chunks.push(self.chunk(json!({}), self.finish()));
        if self.reply.has(Flaw::EmptyChoices) {
            chunks.insert(0, self.bare_chunk());
        }
        if self.request.wants_usage()
            && let Some(usage) = self.usage()
        {
            let mut last = self.bare_chunk();
            last["usage"] = usage;
            chunks.push(last);
        }
        chunks
    }

    fn message(&self) -> Value {
        let content = if self.reply.has(Flaw::NullContent) {
            None
        } else {
            self.reply.text_on_wire()
        };
        let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
        if !self.reply.tool_calls.is_empty() {
            let calls = self.reply.tool_calls.iter().enumerate().map(|(index, call)| {
                let function = json!({ "name": call.name, "arguments": call.arguments });
                self.call_head(None, index, function)
            });
            message["tool_calls"] = calls.collect();
        }
        message
    }

    /// Returns the deltas of all calls, in the order of sending.
    fn call_deltas(&self) -> Vec<Value> {
        let calls = self.reply.tool_calls.iter().enumerate();
        let mut calls: Vec<Vec<Value>> = calls.map(|(index, _)| self.deltas_of_call(index)).collect();
        if self.reply.has(Flaw::ReversedCalls) {
            calls.reverse();
        }
        if self.reply.has(Flaw::InterleavedCalls) {
            calls = vec![interleave(calls)];
        }
        calls
            .into_iter()
            .flatten()
            .map(|call| json!({ "tool_calls": [call] }))
            .collect()
    }

    fn deltas_of_call(&self, index: usize) -> Vec<Value> {
        let call = &self.reply.tool_calls[index];
        let wire_index = (!self.reply.has(Flaw::CallIndexMissing)).then_some(index);
        let head = self.call_head(wire_index, index, json!({ "name": call.name, "arguments": "" }));
        let fragments = if self.reply.has(Flaw::SplitArguments) {
            call.arguments.chars().map(String::from).collect()
        } else {
            pieces(&call.arguments)
        };
        let rest = fragments.into_iter().map(|fragment| {
            let function = json!({ "arguments": fragment });
            match wire_index {
                Some(index) => json!({ "index": index, "function": function }),
                None => json!({ "function": function }),
            }
        });
        std::iter::once(head).chain(rest).collect()
    }

    /// Returns a call's `index` (in chunks), `id`, `type` and `function`.
    fn call_head(&self, wire_index: Option<usize>, index: usize, function: Value) -> Value {
        let mut call = json!({});
        if let Some(wire_index) = wire_index {
            call["index"] = wire_index.into();
        }
        if !self.reply.has(Flaw::CallIdsMissing) {
            let id_index = if self.reply.has(Flaw::CallIdsReused) {
                0
            } else {
                index
            };
            call["id"] = format!("call_{}_{id_index}", self.request.number).into();
        }
        call["type"] = "function".into();
        call["function"] = function;
        call
    }

    fn finish(&self) -> Value {
        if self.reply.has(Flaw::FinishReasonMissing) {
            Value::Null
        } else {
            self.reply.finish_reason_name().into()
        }
    }

    fn usage(&self) -> Option<Value> {
        let (prompt, completion) = match self.reply.usage {
            Usage::Absent => return None,
            Usage::Tokens { prompt, completion } => (prompt, completion),
            Usage::Counted => {
                let calls = self.reply.tool_calls.iter();
                let called: u64 = calls.map(|call| words(&call.name) + words(&call.arguments)).sum();
                (
                    self.request.words(),
                    called + words(&self.reply.text_on_wire().unwrap_or_default()),
                )
            }
        };
        Some(json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt.saturating_add(completion),
        }))
    }

    fn chunk(&self, delta: Value, finish: Value) -> Value {
        let mut chunk = self.bare_chunk();
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]);
        chunk
    }

    /// Returns a chunk without choices. If the client requests usage, every chunk has the field.
    fn bare_chunk(&self) -> Value {
        let mut chunk = self.envelope("chat.completion.chunk");
        chunk["choices"] = json!([]);
        if self.request.wants_usage() {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn envelope(&self, object: &str) -> Value {
        json!({
            "id": format!("chatcmpl-{}", self.request.number),
            "object": object,
            "created": 0,
            "model": self.request.model(),
            "system_fingerprint": null,
        })
    }
}

/// Splits the text into pieces with equal numbers of characters.
fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let length = characters.len().div_ceil(MAX_PIECES).max(MIN_PIECE_CHARS);
    characters
        .chunks(length)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// Returns the first item of each list, then the second of each, and so on.
fn interleave(lists: Vec<Vec<Value>>) -> Vec<Value> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let row: Vec<Value> = lists.iter_mut().filter_map(Iterator::next).collect();
        if row.is_empty() {
            return all;
        }
        all.extend(row);
    }
}

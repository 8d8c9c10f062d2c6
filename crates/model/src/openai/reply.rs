//! From what a server sends to a [`ModelReply`]: the wire's types, and what is made of them. A whole reply is one chunk here.
//!
//! Fields that nobody knows are passed over; one that is missing, null or of another type than expected counts as missing.

use dirigent_core::message::{FinishReason, ModelReply};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::calls::Assembly;
use crate::request::{Deltas, estimated_tokens, usage};

/// A chunk of a stream, or a whole reply.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk {
    #[serde(default, deserialize_with = "tolerant")]
    choices: Vec<Choice>,
    #[serde(default, deserialize_with = "tolerant")]
    usage: WireUsage,
    /// What went wrong at the server, though it had answered that all is well.
    #[serde(default)]
    pub(super) error: Value,
}

impl Chunk {
    /// Reads a chunk or a whole reply: a JSON object.
    pub(super) fn read(json: &[u8]) -> Result<Chunk, serde_json::Error> {
        let value: Value = serde_json::from_slice(json)?;
        if value["object"] == "error" {
            return Ok(Chunk {
                error: value,
                ..Chunk::default()
            });
        }
        Chunk::deserialize(value)
    }
}

#[derive(Debug, Default, Deserialize)]
struct Choice {
    #[serde(default, deserialize_with = "tolerant")]
    index: u64,
    /// In a stream.
    #[serde(default, deserialize_with = "tolerant")]
    delta: Option<Said>,
    /// In a whole reply.
    #[serde(default, deserialize_with = "tolerant")]
    message: Option<Said>,
    #[serde(default, deserialize_with = "tolerant")]
    finish_reason: String,
}

#[derive(Debug, Default, Deserialize)]
struct Said {
    #[serde(default, deserialize_with = "tolerant")]
    content: Content,
    #[serde(default, deserialize_with = "tolerant")]
    refusal: String,
    #[serde(default, deserialize_with = "tolerant")]
    tool_calls: Vec<CallPiece>,
}

/// A text, or a list of parts of which those of the type `text` count.
#[derive(Debug, Default)]
struct Content(String);

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Content(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
        }))
    }
}

/// A native call, or a piece of one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CallPiece {
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) index: Option<u64>,
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) id: String,
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) function: FunctionPiece,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionPiece {
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) arguments: Arguments,
}

/// The text of arguments, or of a piece of them. Some servers send the object itself.
#[derive(Debug, Default)]
pub(super) struct Arguments(pub(super) String);

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Arguments(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        }))
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct WireUsage {
    #[serde(default, deserialize_with = "tolerant")]
    prompt_tokens: u64,
    #[serde(default, deserialize_with = "tolerant")]
    completion_tokens: u64,
}

/// A value of another type counts as missing.
fn tolerant<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// How a server came to the end of what it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It said that this is all.
    Complete,
    /// It stopped, or was stopped, before it had said so.
    CutOff,
}

/// A reply that is under way.
#[derive(Debug, Default)]
pub(super) struct Collector {
    content: String,
    refusal: String,
    calls: Assembly,
    finish_reason: String,
    usage: WireUsage,
}

impl Collector {
    /// Takes a chunk; the text in it is told.
    pub(super) fn add(&mut self, chunk: Chunk, deltas: Option<&Deltas>) {
        if chunk.usage.prompt_tokens > 0 || chunk.usage.completion_tokens > 0 {
            self.usage = chunk.usage;
        }
        // One choice is asked for.
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            let said = choice.delta.or(choice.message).unwrap_or_default();
            if let Some(deltas) = deltas {
                deltas.tell(&said.content.0);
            }
            self.content.push_str(&said.content.0);
            self.refusal.push_str(&said.refusal);
            for piece in said.tool_calls {
                self.calls.add(piece);
            }
            if !choice.finish_reason.is_empty() {
                self.finish_reason = choice.finish_reason;
            }
        }
    }

    /// Takes a whole reply, whose calls are whole as well: each is one of its own, whatever index it has.
    pub(super) fn add_whole(&mut self, mut chunk: Chunk, deltas: Option<&Deltas>) {
        for choice in &mut chunk.choices {
            let calls = choice.message.iter_mut().flat_map(|said| &mut said.tool_calls);
            for (index, call) in (0..).zip(calls) {
                call.index = Some(index);
            }
        }
        self.add(chunk, deltas);
    }

    /// Whether the server has said why the reply ended.
    pub(super) fn has_finish_reason(&self) -> bool {
        !self.finish_reason.is_empty()
    }

    /// Whether nothing has come that a model said.
    pub(super) fn is_empty(&self) -> bool {
        self.content.is_empty()
            && self.refusal.is_empty()
            && self.calls.is_empty()
            && self.finish_reason.is_empty()
    }

    /// The bytes that are held.
    pub(super) fn held(&self) -> usize {
        (self.content.len() + self.refusal.len()).saturating_add(self.calls.held())
    }

    /// The reply. `asked` estimates the tokens of the request, for servers that count none.
    pub(super) fn finish(self, ended: Ended, asked: impl FnOnce() -> u64) -> ModelReply {
        let content = if self.content.is_empty() {
            self.refusal
        } else {
            self.content
        };
        let estimated = || estimated_tokens(content.chars().count() + self.calls.characters());
        let usage = match self.usage {
            WireUsage {
                prompt_tokens: 0,
                completion_tokens: 0,
            } => usage(asked(), estimated()),
            counted => usage(counted.prompt_tokens, counted.completion_tokens),
        };
        let finish = match ended {
            Ended::CutOff => FinishReason::Interrupted,
            Ended::Complete => reason(&self.finish_reason, self.calls.is_empty()),
        };
        let (calls, malformed_calls) = self.calls.finish();
        ModelReply {
            content,
            calls,
            malformed_calls,
            finish,
            usage,
            model: None,
        }
    }
}

/// Servers use words of their own, and several say `stop` with calls present: so whether there are calls decides, and only an end
/// that was none of the model's is taken from the word.
fn reason(word: &str, no_calls: bool) -> FinishReason {
    match word {
        "length" | "max_tokens" | "max_output_tokens" | "model_length" => FinishReason::Length,
        "content_filter" | "safety" | "error" | "abort" | "cancelled" => FinishReason::Interrupted,
        _ if no_calls => FinishReason::Stop,
        _ => FinishReason::ToolCalls,
    }
}

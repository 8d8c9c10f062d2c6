//! From what a server sends to a [`ModelReply`]: the wire's types, and what is made of them. A whole reply is one chunk here.
//!
//! Fields that nobody knows are passed over; one that is missing, null or of another type than expected counts as missing.

use dirigent_core::message::{FinishReason, ModelReply};
use dirigent_core::token_ratio::estimated_tokens;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::calls::CallAssembler;
use super::exchange::ResolvedRequest;
use crate::request::DeltaSink;
use crate::secrets::{Redactor, Secrets};
use crate::usage::TokenCounts;

/// A longer name of a model is none.
const MAX_MODEL_NAME_CHARS: usize = 200;

/// A chunk of a stream, or a whole reply.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk {
    #[serde(default, deserialize_with = "tolerant")]
    choices: Vec<Choice>,
    #[serde(default, deserialize_with = "tolerant")]
    usage: WireUsage,
    /// The model that answers.
    #[serde(default, deserialize_with = "tolerant")]
    model: String,
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
    delta: Option<ChoiceMessage>,
    /// In a whole reply.
    #[serde(default, deserialize_with = "tolerant")]
    message: Option<ChoiceMessage>,
    #[serde(default, deserialize_with = "tolerant")]
    finish_reason: String,
}

#[derive(Debug, Default, Deserialize)]
struct ChoiceMessage {
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
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tolerant")]
    completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tolerant")]
    prompt_tokens_details: PromptDetails,
    /// DeepSeek's word for the tokens that were read before.
    #[serde(default, deserialize_with = "tolerant")]
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct PromptDetails {
    #[serde(default, deserialize_with = "tolerant")]
    cached_tokens: Option<u64>,
}

impl WireUsage {
    fn counts(self) -> TokenCounts {
        TokenCounts {
            input: self.prompt_tokens,
            cached: self
                .prompt_tokens_details
                .cached_tokens
                .max(self.prompt_cache_hit_tokens),
            output: self.completion_tokens,
        }
    }
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
pub(super) enum ReplyEnd {
    /// It said that this is all.
    Complete,
    /// It stopped, or was stopped, before it had said so.
    Interrupted,
    /// It was stopped, as the reply is longer than a reply may be.
    Oversized,
}

/// A reply that is under way. What comes out of it holds no secret.
#[derive(Debug)]
pub(super) struct Collector {
    redactor: Redactor,
    secrets: Secrets,
    content: String,
    refusal: String,
    calls: CallAssembler,
    finish_reason: String,
    model: String,
    usage: WireUsage,
}

impl Collector {
    /// A reply of which nothing has come, from a server that knows those secrets.
    pub(super) fn new(secrets: &Secrets) -> Self {
        Collector {
            redactor: Redactor::new(secrets),
            secrets: secrets.clone(),
            content: String::new(),
            refusal: String::new(),
            calls: CallAssembler::default(),
            finish_reason: String::new(),
            model: String::new(),
            usage: WireUsage::default(),
        }
    }

    /// Takes a chunk; the text in it is told.
    pub(super) fn add(&mut self, chunk: Chunk, deltas: Option<&DeltaSink>) {
        if chunk.usage.prompt_tokens > Some(0) || chunk.usage.completion_tokens > Some(0) {
            self.usage = chunk.usage;
        }
        if self.model.is_empty() && is_model_name(&chunk.model) {
            self.model = chunk.model;
        }
        // One choice is asked for.
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            let message = choice.delta.or(choice.message).unwrap_or_default();
            let clean = self.redactor.push(&message.content.0);
            self.push_text(&clean, deltas);
            self.refusal.push_str(&message.refusal);
            for piece in message.tool_calls {
                self.calls.add(piece);
            }
            // Once cut, always cut: whatever a server says of the end after that, the reply is not whole.
            if !choice.finish_reason.is_empty() && early_finish(&self.finish_reason).is_none() {
                self.finish_reason = choice.finish_reason;
            }
        }
    }

    fn push_text(&mut self, text: &str, deltas: Option<&DeltaSink>) {
        if let Some(deltas) = deltas {
            deltas.send(text);
        }
        self.content.push_str(text);
    }

    /// Takes a whole reply, whose calls are whole as well: each is one of its own, whatever index it has.
    pub(super) fn add_whole(&mut self, mut chunk: Chunk, deltas: Option<&DeltaSink>) {
        for choice in &mut chunk.choices {
            let calls = choice
                .message
                .iter_mut()
                .flat_map(|message| &mut message.tool_calls);
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
            && self.redactor.buffered_bytes() == 0
            && self.refusal.is_empty()
            && self.calls.is_empty()
            && self.finish_reason.is_empty()
    }

    /// The bytes that are held.
    pub(super) fn buffered_bytes(&self) -> usize {
        let text = self.content.len() + self.redactor.buffered_bytes() + self.refusal.len();
        text.saturating_add(self.calls.buffered_bytes())
    }

    /// The reply.
    pub(super) fn finish(mut self, ended: ReplyEnd, resolved: ResolvedRequest<'_>) -> ModelReply {
        let rest = self.redactor.finish();
        self.push_text(&rest, resolved.request.deltas.as_ref());
        let content = if self.content.is_empty() {
            self.secrets.redact(&self.refusal)
        } else {
            self.content
        };
        let said = estimated_tokens(&content).saturating_add(self.calls.estimated_tokens());
        let usage = self.usage.counts().usage(resolved.request, said);
        let finish = match ended {
            ReplyEnd::Interrupted => FinishReason::Interrupted,
            ReplyEnd::Oversized => FinishReason::Oversized,
            ReplyEnd::Complete => finish_reason(&self.finish_reason, self.calls.is_empty()),
        };
        let model = match self.model.as_str() {
            "" => resolved.model.to_owned(),
            named => self.secrets.redact(named),
        };
        let (calls, malformed_calls) = self.calls.finish(&self.secrets);
        ModelReply {
            content,
            calls,
            malformed_calls,
            finish,
            usage,
            model: Some(model),
        }
    }
}

/// Whether a text can be a model's name: one short line that can be shown.
pub(crate) fn is_model_name(text: &str) -> bool {
    !text.trim().is_empty()
        && text.chars().count() <= MAX_MODEL_NAME_CHARS
        && text.chars().all(|c| !c.is_control() && !is_invisible(c))
}

/// Characters that hide or reorder what stands around them.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Why a reply ended. Servers use words of their own, and several say `stop` with calls present: calls decide, then the word. A word that
/// nobody knows, or none, is the end of a whole reply.
fn finish_reason(word: &str, no_calls: bool) -> FinishReason {
    match early_finish(word) {
        Some(reason) => reason,
        None if no_calls && !announces_calls(word) => FinishReason::Stop,
        None => FinishReason::ToolCalls,
    }
}

/// The words for an end that was none of the model's.
fn early_finish(word: &str) -> Option<FinishReason> {
    match word.to_ascii_lowercase().as_str() {
        "length"
        | "max_tokens"
        | "max_output_tokens"
        | "max_length"
        | "model_length"
        | "model_context_window_exceeded" => Some(FinishReason::Length),
        "content_filter"
        | "content_filtered"
        | "safety"
        | "sensitive"
        | "refusal"
        | "recitation"
        | "blocklist"
        | "prohibited_content"
        | "spii"
        | "guardrail_intervened" => Some(FinishReason::Filtered),
        "error" | "abort" | "cancelled" | "network_error" | "insufficient_system_resource" => {
            Some(FinishReason::Interrupted)
        }
        _ => None,
    }
}

/// The words for a reply that ended in order to call tools.
fn announces_calls(word: &str) -> bool {
    let words = [
        "tool_calls",
        "tool_call",
        "tool_use",
        "function_call",
        "function_calls",
    ];
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

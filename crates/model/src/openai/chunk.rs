//! The wire types of a reply. A reply in one piece is read as a single chunk.
//!
//! Unknown fields are ignored. A field that is missing, null or of an unexpected type counts as missing.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::usage::TokenCounts;

/// A chunk of a stream, or a reply in one piece.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk {
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) choices: Vec<Choice>,
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) usage: WireUsage,
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) model: String,
    /// Error object from a server that responded with status 200; null if there is no error.
    #[serde(default)]
    pub(super) error: Value,
}

impl Chunk {
    /// Parses a JSON object.
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
pub(super) struct Choice {
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) index: u64,
    /// The message's next piece, in a stream.
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) delta: Option<ChoiceMessage>,
    /// The whole message, outside a stream.
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) message: Option<ChoiceMessage>,
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) finish_reason: String,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ChoiceMessage {
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) content: Content,
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) refusal: String,
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) tool_calls: Vec<CallPiece>,
}

/// A string, or the `text` fields of a list of parts.
#[derive(Debug, Default)]
pub(super) struct Content(pub(super) String);

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Content(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
        }))
    }
}

/// A native call, or a piece of it.
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

/// JSON text of a call's arguments, or a piece of it. Some servers send the object itself.
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
pub(super) struct WireUsage {
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tolerant")]
    pub(super) completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "tolerant")]
    prompt_tokens_details: PromptDetails,
    /// DeepSeek's field for cached tokens.
    #[serde(default, deserialize_with = "tolerant")]
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct PromptDetails {
    #[serde(default, deserialize_with = "tolerant")]
    cached_tokens: Option<u64>,
}

impl WireUsage {
    pub(super) fn counts(self) -> TokenCounts {
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

/// Deserializes a value, or returns the default if it has an unexpected type.
fn tolerant<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

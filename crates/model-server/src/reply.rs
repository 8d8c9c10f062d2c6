//! What a scripted model says: text, tool calls, why it ended and what it cost.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::flaw::Flaw;

/// An answer of the model, and what is wrong with its delivery.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// The text; none where the model only calls tools.
    pub text: Option<String>,
    /// The tools it calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended. By default `tool_calls` where there are any, else `stop`.
    pub finish_reason: Option<FinishReason>,
    /// What the reply says it cost.
    pub usage: Usage,
    /// What is wrong with it. They add up: chunks are changed first, then events, then the bytes.
    pub flaws: Vec<Flaw>,
}

impl Reply {
    /// A reply of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// A reply that calls tools.
    pub fn calls(tool_calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self {
            tool_calls: tool_calls.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Adds text to a reply that calls tools.
    pub fn with_text(self, text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..self
        }
    }

    /// Ends for this reason.
    pub fn with_finish_reason(self, reason: FinishReason) -> Self {
        Self {
            finish_reason: Some(reason),
            ..self
        }
    }

    /// Says it cost this.
    pub fn with_usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    /// Goes wrong on the wire in this way too.
    pub fn with_flaw(mut self, flaw: Flaw) -> Self {
        self.flaws.push(flaw);
        self
    }

    /// Whether it has this flaw.
    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaws.contains(&flaw)
    }

    /// The reason it gives for its end.
    pub(crate) fn finish_reason_name(&self) -> &str {
        match &self.finish_reason {
            Some(reason) => reason.as_str(),
            None if self.tool_calls.is_empty() => "stop",
            None => "tool_calls",
        }
    }

    /// Its text as it goes out, flaws included.
    pub(crate) fn text_on_wire(&self) -> Option<String> {
        let mut text = self.text.clone();
        for flaw in &self.flaws {
            if let Flaw::Padded { bytes } = flaw {
                text.get_or_insert_default()
                    .extend(". ".chars().cycle().take(*bytes));
            }
        }
        // There must be a character to cut through.
        if self.has(Flaw::CutMidCharacter) && text.as_deref().is_none_or(str::is_ascii) {
            text.get_or_insert_default().push('é');
        }
        text
    }
}

/// A tool call of the model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The call's id; by default a new one, as `call_3_0`: the request's number and the call's index.
    #[serde(default)]
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments as they go out, valid JSON or not. In a script file a string goes out as it is, anything
    /// else as JSON.
    #[serde(deserialize_with = "as_text")]
    pub arguments: String,
}

impl ToolCall {
    /// A call with these arguments.
    pub fn new(name: impl Into<String>, arguments: &Value) -> Self {
        Self::raw(name, arguments.to_string())
    }

    /// A call whose arguments go out exactly as given: not JSON, cut short, empty.
    pub fn raw(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self {
            id: None,
            name: name.into(),
            arguments: arguments.into(),
        }
    }

    /// With this id.
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            ..self
        }
    }
}

fn as_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

/// Why a reply ended.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It reached its limit of tokens.
    Length,
    /// It calls tools.
    ToolCalls,
    /// A filter ended it.
    ContentFilter,
    /// A word that only one provider knows.
    #[serde(untagged)]
    Other(String),
}

impl FinishReason {
    fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other(word) => word,
        }
    }
}

/// What a reply says it cost. A stream says so only where `stream_options.include_usage` asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Usage {
    /// As many tokens as the request's messages and the reply have words.
    #[default]
    Counted,
    /// Nothing, although asked.
    Absent,
    /// These numbers.
    Tokens {
        /// Tokens of the request.
        prompt: u64,
        /// Tokens of the reply.
        completion: u64,
    },
}

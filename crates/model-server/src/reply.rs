//! A scripted model's reply: text, tool calls, finish reason and usage.

use serde_json::Value;

use crate::flaw::Flaw;

/// A reply of the model, and the flaws of its delivery.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The text; `None` if the model only calls tools.
    pub text: Option<String>,
    /// The tool calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The finish reason; `None` for `tool_calls` if there are any, else `stop`.
    pub finish_reason: Option<FinishReason>,
    /// The reported usage.
    pub usage: Usage,
    /// Flaws of the delivery. They combine: chunks are changed first, then events, then bytes.
    pub flaws: Vec<Flaw>,
}

impl Reply {
    /// Creates a text reply.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// Creates a reply that calls tools.
    pub fn calls(tool_calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self {
            tool_calls: tool_calls.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets the text.
    pub fn with_text(self, text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..self
        }
    }

    /// Sets the finish reason.
    pub fn with_finish_reason(self, reason: FinishReason) -> Self {
        Self {
            finish_reason: Some(reason),
            ..self
        }
    }

    /// Sets the reported usage.
    pub fn with_usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    /// Adds a flaw of the delivery.
    pub fn with_flaw(mut self, flaw: Flaw) -> Self {
        self.flaws.push(flaw);
        self
    }

    /// Returns true if the reply has this flaw.
    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaws.contains(&flaw)
    }

    /// Returns the finish reason on the wire.
    pub(crate) fn finish_reason_name(&self) -> &str {
        match &self.finish_reason {
            Some(FinishReason::Length) => "length",
            Some(FinishReason::ContentFilter) => "content_filter",
            None if self.tool_calls.is_empty() => "stop",
            None => "tool_calls",
        }
    }

    /// Returns the text on the wire, including flaws.
    pub(crate) fn text_on_wire(&self) -> Option<String> {
        let mut text = self.text.clone();
        for flaw in &self.flaws {
            if let Flaw::Padded { bytes } = flaw {
                text.get_or_insert_default()
                    .extend(". ".chars().cycle().take(*bytes));
            }
        }
        // Only a multi-byte character can be cut.
        if self.has(Flaw::CutMidCharacter) && text.as_deref().is_none_or(str::is_ascii) {
            text.get_or_insert_default().push('é');
        }
        text
    }
}

/// A tool call of the model. Its id is made of the request's number and its index, such as `call_3_0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// The arguments on the wire, valid JSON or not.
    pub arguments: String,
}

impl ToolCall {
    /// Creates a call with these arguments.
    pub fn new(name: impl Into<String>, arguments: &Value) -> Self {
        Self::raw(name, arguments.to_string())
    }

    /// Creates a call whose arguments are sent unchanged, valid JSON or not.
    pub fn raw(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            arguments: arguments.into(),
        }
    }
}

/// Finish reason of a reply that did not end by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// `length`: the reply reached its limit of tokens.
    Length,
    /// `content_filter`: a filter ended the reply.
    ContentFilter,
}

/// Usage that a reply reports. A stream reports it only if `stream_options.include_usage` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    /// One token per word of the request's messages and of the reply.
    #[default]
    Counted,
    /// No usage, even if requested.
    Absent,
    /// The given counts.
    Tokens {
        /// Tokens of the request.
        prompt: u64,
        /// Tokens of the reply.
        completion: u64,
    },
}

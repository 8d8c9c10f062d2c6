//! A request to a model. Cloning a request shares the conversation.

use std::sync::Arc;

use dirigent_core::call::CallForm;
use dirigent_core::message::Message;
use dirigent_core::token_ratio::estimated_tokens;
use dirigent_core::tool::ToolSpec;
use serde_json::Value;

use crate::deltas::DeltaSink;

/// A request to a model: the conversation to continue, and how.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The provider's name of the model; `None` for the default model.
    pub model: Option<String>,
    /// The conversation, shared with the agent.
    pub messages: Arc<Vec<Message>>,
    /// Form of tool calls (CALL-4): how calls in the conversation are written, and whether tools are offered natively.
    pub call_form: CallForm,
    /// The tools to offer natively (CALL-2); empty if the system prompt describes them and calls come in the text.
    pub tools: Arc<Vec<ToolSpec>>,
    /// Required format of the reply's text.
    pub format: ReplyFormat,
    /// Maximum number of tokens of the reply; `None` for the provider's own limit.
    pub max_output_tokens: Option<u64>,
    /// The caller's estimate of the request's tokens; `None` to estimate them from its parts.
    pub input_tokens: Option<u64>,
    /// Receiver of the reply's text while the model generates it.
    pub deltas: Option<DeltaSink>,
}

impl ChatRequest {
    /// Creates a request for a text reply from the default model, without native tools.
    pub fn new(messages: Arc<Vec<Message>>) -> Self {
        ChatRequest {
            model: None,
            messages,
            call_form: CallForm::Json,
            tools: Arc::default(),
            format: ReplyFormat::Text,
            max_output_tokens: None,
            input_tokens: None,
            deltas: None,
        }
    }

    /// Sets the provider's name of the model; `None` for the default model.
    pub fn model(mut self, model: impl Into<Option<String>>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the form of tool calls.
    pub fn call_form(mut self, call_form: CallForm) -> Self {
        self.call_form = call_form;
        self
    }

    /// Offers tools natively (CALL-2).
    pub fn tools(mut self, tools: Arc<Vec<ToolSpec>>) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the required format of the reply's text.
    pub fn format(mut self, format: ReplyFormat) -> Self {
        self.format = format;
        self
    }

    /// Limits the reply's tokens.
    pub fn max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Sets the receiver of the reply's text.
    pub fn deltas(mut self, deltas: DeltaSink) -> Self {
        self.deltas = Some(deltas);
        self
    }

    /// Sets the caller's estimate of the request's tokens.
    pub fn input_tokens(mut self, tokens: u64) -> Self {
        self.input_tokens = Some(tokens);
        self
    }

    /// Estimates the request's tokens, including tool definitions and the reply's schema.
    pub(crate) fn estimated_tokens(&self) -> u64 {
        self.input_tokens.unwrap_or_else(|| {
            let messages = self.messages.iter().map(Message::estimated_tokens);
            let tools = self.tools.iter().map(ToolSpec::estimated_tokens);
            let schema = match &self.format {
                ReplyFormat::Text => 0,
                ReplyFormat::JsonSchema { schema, .. } => estimated_tokens(&schema.to_string()),
            };
            messages.chain(tools).fold(schema, u64::saturating_add)
        })
    }
}

/// Required format of a reply's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ReplyFormat {
    /// Any text.
    #[default]
    Text,
    /// JSON that matches a schema. A provider that cannot enforce a schema ignores it, so validate the reply in any case.
    JsonSchema {
        /// Name of the described value, such as `plan`: letters, digits, `_` and `-`.
        name: String,
        /// JSON Schema that the reply's text must match.
        schema: Arc<Value>,
    },
}

//! What is asked of a model. Cloning a request shares the conversation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dirigent_core::call::CallForm;
use dirigent_core::message::Message;
use dirigent_core::token_ratio::estimated_tokens;
use dirigent_core::tool::ToolSpec;
use serde_json::Value;
use tokio::time::Instant;

/// What is asked of a model.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// Which of the provider's models, where the agent names one.
    pub model: Option<String>,
    /// The conversation. Shared, not copied, with the agent.
    pub messages: Arc<Vec<Message>>,
    /// How calls are made: how those of the conversation are written down, and whether tools are offered natively (CALL-4).
    pub call_form: CallForm,
    /// The tools offered natively (CALL-2). Empty where the system prompt tells of them and calls come in the text.
    pub tools: Arc<Vec<ToolSpec>>,
    /// What the text of the reply must look like.
    pub format: ReplyFormat,
    /// At most how many tokens the reply may have; the provider's own limit where not said.
    pub max_output_tokens: Option<u64>,
    /// About how many tokens the request has, where the caller knows; otherwise they are estimated from its parts.
    pub input_tokens: Option<u64>,
    /// Who is told the text as it comes.
    pub deltas: Option<DeltaSink>,
}

impl ChatRequest {
    /// A conversation to be continued with text, by the provider's default model and without native tools.
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

    /// Asks that model of the provider's; `None` for its default.
    pub fn model(mut self, model: impl Into<Option<String>>) -> Self {
        self.model = model.into();
        self
    }

    /// Has calls made in that form.
    pub fn call_form(mut self, call_form: CallForm) -> Self {
        self.call_form = call_form;
        self
    }

    /// Offers those tools natively (CALL-2).
    pub fn tools(mut self, tools: Arc<Vec<ToolSpec>>) -> Self {
        self.tools = tools;
        self
    }

    /// Asks for a text of that form.
    pub fn format(mut self, format: ReplyFormat) -> Self {
        self.format = format;
        self
    }

    /// Allows the reply at most so many tokens.
    pub fn max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Tells the text as it comes.
    pub fn deltas(mut self, deltas: DeltaSink) -> Self {
        self.deltas = Some(deltas);
        self
    }

    /// Says about how many tokens the request has.
    pub fn input_tokens(self, tokens: u64) -> Self {
        ChatRequest {
            input_tokens: Some(tokens),
            ..self
        }
    }

    /// About how many tokens the request has, the tools' definitions and the reply's schema included.
    pub(crate) fn estimated_tokens(&self) -> u64 {
        self.input_tokens.unwrap_or_else(|| {
            let said = self.messages.iter().map(Message::estimated_tokens);
            let tools = self.tools.iter().map(ToolSpec::estimated_tokens);
            let schema = match &self.format {
                ReplyFormat::Text => 0,
                ReplyFormat::JsonSchema { schema, .. } => estimated_tokens(&schema.to_string()),
            };
            said.chain(tools).fold(schema, u64::saturating_add)
        })
    }
}

/// The moment after that span from now; in practice never, where the span is too long to be told.
pub(crate) fn deadline_after(span: Duration) -> Instant {
    const YEARS: Duration = Duration::from_secs(30 * 365 * 86_400);
    let now = Instant::now();
    now.checked_add(span.min(YEARS)).unwrap_or(now)
}

/// What the text of a reply must look like.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ReplyFormat {
    /// Any text.
    #[default]
    Text,
    /// JSON of a schema. It is a wish: a provider that can't hold a model to it leaves it out, so the reply is checked all the same.
    JsonSchema {
        /// What the schema describes, such as `plan`: letters, digits, `_` and `-`.
        name: String,
        /// The JSON Schema.
        schema: Arc<Value>,
    },
}

/// Who is told a reply's text as it comes. It is called from the task that asks the model, so it must not block.
///
/// What it is told is a preview: a model that is asked again, because it broke off, begins anew. What counts is the reply.
#[derive(Clone)]
pub struct DeltaSink(Arc<dyn Fn(&str) + Send + Sync>);

impl DeltaSink {
    /// Calls `told` with each piece of the text, in order.
    pub fn new(told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        DeltaSink(Arc::new(told))
    }

    /// Tells a piece of the text. An empty one is not told.
    pub fn send(&self, text: &str) {
        if !text.is_empty() {
            (self.0)(text);
        }
    }
}

impl fmt::Debug for DeltaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeltaSink")
    }
}

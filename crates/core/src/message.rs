//! Messages to models, their replies and their usage, in one form for all providers.

use serde::{Deserialize, Serialize};

use crate::price::Cost;
use crate::time::Millis;
use crate::token_ratio::estimated_tokens;
use serde_json::Value;

/// A call of a tool, independent of the form in which the model wrote it (CALL-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id or, without one, an id that the machine assigns. The result refers to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The parameters, an object.
    pub parameters: Value,
    /// Whether the result of this call is the agent's answer (CALL-1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
}

/// One message of a conversation. JSON: `{"role": "system" | "user" | "assistant" | "tool", "content": …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// The agent's system prompt: always the first message.
    System {
        /// Its text.
        content: String,
    },
    /// The task, guidance, or a correction of a malformed reply.
    User {
        /// Its text.
        content: String,
    },
    /// A reply of the model.
    Assistant {
        /// The unchanged text, including calls in the JSON form.
        content: String,
        /// The parsed calls, whatever their form.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// The result of a call, as the JSON text of [`crate::tool::ToolResult::for_model`].
    Tool {
        /// The [`ToolCall::id`] of the call.
        call_id: String,
        /// The tool's name.
        name: String,
        /// The result.
        content: String,
    },
}

impl Message {
    /// The text of the message.
    pub fn content(&self) -> &str {
        match self {
            Message::System { content }
            | Message::User { content }
            | Message::Assistant { content, .. }
            | Message::Tool { content, .. } => content,
        }
    }

    /// The estimated number of tokens, including calls.
    pub fn estimated_tokens(&self) -> u64 {
        let each =
            |call: &ToolCall| estimated_tokens(&call.tool) + estimated_tokens(&call.parameters.to_string());
        let calls: u64 = self.native_calls().map(each).sum();
        estimated_tokens(self.content())
            .saturating_add(calls)
            .saturating_add(self.overhead_tokens())
    }

    /// Estimated tokens of the message besides text and parameters: role, delimiters, and the fields around a call or a tool's name.
    pub(crate) fn overhead_tokens(&self) -> u64 {
        /// The role and the delimiters of a message.
        const MESSAGE: u64 = 4;
        /// `{"id": …, "type": "function", "function": {"name": …, "arguments": …}}`.
        const CALL: u64 = 24;
        let named: u64 = match self {
            Message::Tool { name, .. } => MESSAGE.saturating_add(estimated_tokens(name)),
            Message::Assistant { .. } => self.native_calls().map(|_| CALL).sum(),
            Message::System { .. } | Message::User { .. } => 0,
        };
        named.saturating_add(MESSAGE)
    }

    /// The calls that the text does not contain.
    fn native_calls(&self) -> impl Iterator<Item = &ToolCall> {
        let calls: &[ToolCall] = match self {
            Message::Assistant { calls, .. } => calls,
            Message::System { .. } | Message::User { .. } | Message::Tool { .. } => &[],
        };
        calls.iter().filter(|call| !names_call(self.content(), call))
    }
}

/// Returns true if the text probably contains the call: an opening brace, and the tool's name after it.
pub fn names_call(text: &str, call: &ToolCall) -> bool {
    let object = text.find('{').and_then(|begin| text.get(begin..));
    object.is_some_and(|object| object.contains(call.tool.as_str()))
}

/// A model's complete reply to one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text.
    pub content: String,
    /// Native calls: those that the provider delivered apart from the text (CALL-2). Empty in the JSON form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Native calls that cannot be parsed. If there are any, nothing in the reply is executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed_calls: Vec<MalformedCall>,
    /// Why the reply ended.
    pub finish: FinishReason,
    /// Usage as the model driver reports it; [`ModelReply::metered_usage`] is what counts.
    pub usage: Usage,
    /// The provider's name of the model that answered; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A native call that cannot be parsed, as received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MalformedCall {
    /// The tool's name; empty if there was none.
    pub name: String,
    /// The text of its arguments.
    pub arguments: String,
    /// What is wrong with the call, in words for the model.
    pub problem: String,
}

impl ModelReply {
    /// The usage that counts for the reply: exactly one model call, no tool call, and the reported tokens.
    pub fn metered_usage(&self) -> Usage {
        Usage {
            model_calls: 1,
            tool_calls: 0,
            estimated_calls: self.usage.estimated_calls.min(1),
            ..self.usage
        }
    }

    /// A complete text reply, which may contain a call in the JSON form (CALL-1). Sets no tokens and no cost.
    pub fn text(content: impl Into<String>) -> Self {
        ModelReply {
            content: content.into(),
            calls: Vec::new(),
            malformed_calls: Vec::new(),
            finish: FinishReason::Stop,
            usage: Usage {
                model_calls: 1,
                ..Usage::default()
            },
            model: None,
        }
    }
}

/// Why a model's reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model finished its reply.
    Stop,
    /// The model waits for the results of native calls.
    ToolCalls,
    /// The reply was cut at the token limit; nothing in it is executed (CALL-7).
    Length,
    /// The stream broke off; nothing in it is executed (CALL-7).
    Interrupted,
    /// The provider withheld all or part of the reply, or refused to answer. A retry would not help.
    Filtered,
    /// The reply exceeds the maximum size. A retry would cost as much again.
    Oversized,
}

/// Requests, calls, tokens and money used by one reply, an agent or a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Answered model requests.
    pub model_calls: u32,
    /// Model requests whose tokens are wholly or partly estimated, because the provider's counts were missing or implausible.
    #[serde(default, skip_serializing_if = "is_zero_calls")]
    pub estimated_calls: u32,
    /// Executed tool calls.
    pub tool_calls: u32,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens sent that the provider reads from its cache, at a lower price; part of `input_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Cost in nano-dollars; zero if no price is known.
    #[serde(default, skip_serializing_if = "Cost::is_zero")]
    pub cost: Cost,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero_calls(calls: &u32) -> bool {
    *calls == 0
}

impl Usage {
    /// Tokens sent and received.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
        self.estimated_calls = self.estimated_calls.saturating_add(other.estimated_calls);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(other.cached_input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost += other.cost;
    }
}

impl std::ops::Sub for Usage {
    type Output = Usage;

    /// Subtracts each count, saturating at zero.
    fn sub(self, part: Usage) -> Usage {
        Usage {
            model_calls: self.model_calls.saturating_sub(part.model_calls),
            estimated_calls: self.estimated_calls.saturating_sub(part.estimated_calls),
            tool_calls: self.tool_calls.saturating_sub(part.tool_calls),
            input_tokens: self.input_tokens.saturating_sub(part.input_tokens),
            cached_input_tokens: self.cached_input_tokens.saturating_sub(part.cached_input_tokens),
            output_tokens: self.output_tokens.saturating_sub(part.output_tokens),
            cost: Cost(self.cost.0.saturating_sub(part.cost.0)),
        }
    }
}

/// A failed model request, after all retries of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    /// The kind of failure, which decides what happens next.
    pub kind: ModelFailureKind,
    /// What went wrong, where, and what to do, in words for people.
    pub message: String,
}

/// The kind of a failed model request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailureKind {
    /// The model cannot be reached or is overloaded; a later retry may succeed.
    Unavailable {
        /// The delay that the provider asks for.
        retry_after: Option<Millis>,
    },
    /// The conversation exceeds the model's context window; a shorter one may succeed.
    TooLong,
    /// The configured key, address or model name is wrong.
    Configuration,
    /// The provider rejects the request; a retry would fail again.
    Rejected,
    /// The model driver panicked.
    Panicked,
}

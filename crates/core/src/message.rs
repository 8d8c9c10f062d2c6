//! Messages to models, their replies and their usage, in the same form for all providers.

use serde::{Deserialize, Serialize};

use crate::price::Cost;
use crate::time::Millis;
use crate::token_ratio::estimated_tokens;
use serde_json::Value;

/// A tool call, independent of the form in which the model wrote it (CALL-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id for the call or, if there is none, an id assigned by the machine. The result refers to the call by this id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The parameters, as a JSON object.
    pub parameters: Value,
    /// True if the result of this call is the agent's answer (CALL-1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
}

/// One message of a conversation. JSON: `{"role": "system" | "user" | "assistant" | "tool", "content": …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// The agent's system prompt, which is always the first message.
    System {
        /// The text of the message.
        content: String,
    },
    /// The task, guidance, or the correction of a malformed reply.
    User {
        /// The text of the message.
        content: String,
    },
    /// A reply of the model.
    Assistant {
        /// The unmodified text, including any calls in the JSON form.
        content: String,
        /// The parsed calls, regardless of their form.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// The result of a call.
    Tool {
        /// The [`ToolCall::id`] of the call.
        call_id: String,
        /// The tool's name.
        name: String,
        /// The text of [`crate::tool::ToolResult::for_model`].
        content: String,
    },
}

impl Message {
    /// Returns the text of the message.
    pub fn content(&self) -> &str {
        match self {
            Message::System { content }
            | Message::User { content }
            | Message::Assistant { content, .. }
            | Message::Tool { content, .. } => content,
        }
    }

    /// Estimates the number of tokens of the message, including its native calls.
    pub fn estimated_tokens(&self) -> u64 {
        let each =
            |call: &ToolCall| estimated_tokens(&call.tool) + estimated_tokens(&call.parameters.to_string());
        let calls: u64 = self.native_calls().map(each).sum();
        estimated_tokens(self.content())
            .saturating_add(calls)
            .saturating_add(self.overhead_tokens())
    }

    /// Estimates the tokens of the message apart from its text and the parameters of calls: the role, delimiters, and the fields around
    /// calls and tool names.
    pub(crate) fn overhead_tokens(&self) -> u64 {
        /// Tokens of the role and the delimiters of a message.
        const MESSAGE: u64 = 4;
        /// Tokens of the fields around a call: `{"id": …, "type": "function", "function": {"name": …, "arguments": …}}`.
        const CALL: u64 = 24;
        let named: u64 = match self {
            Message::Tool { name, .. } => MESSAGE.saturating_add(estimated_tokens(name)),
            Message::Assistant { .. } => self.native_calls().map(|_| CALL).sum(),
            Message::System { .. } | Message::User { .. } => 0,
        };
        named.saturating_add(MESSAGE)
    }

    /// Returns the calls that are not part of the message's text, because the provider delivered them separately.
    fn native_calls(&self) -> impl Iterator<Item = &ToolCall> {
        let calls: &[ToolCall] = match self {
            Message::Assistant { calls, .. } => calls,
            Message::System { .. } | Message::User { .. } | Message::Tool { .. } => &[],
        };
        calls.iter().filter(|call| !names_call(self.content(), call))
    }
}

/// Returns true if the text probably contains the call: an opening brace, followed by the tool's name.
pub fn names_call(text: &str, call: &ToolCall) -> bool {
    let object = text.find('{').and_then(|begin| text.get(begin..));
    object.is_some_and(|object| object.contains(call.tool.as_str()))
}

/// A model's complete reply to one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text of the reply.
    pub content: String,
    /// Native calls, which the provider delivered separately from the text (CALL-2). Empty in the JSON form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Native calls that cannot be parsed. If there are any, none of the reply's calls are executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed_calls: Vec<MalformedCall>,
    /// The reason why the reply ended.
    pub finish: FinishReason,
    /// The usage as reported by the model driver. Use [`ModelReply::metered_usage`] for accounting.
    pub usage: Usage,
    /// The provider's name for the model that replied; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A native call that cannot be parsed, as received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MalformedCall {
    /// The tool's name; empty if the call has none.
    pub name: String,
    /// The text of the call's arguments.
    pub arguments: String,
    /// The error in the call, as a message for the model.
    pub problem: String,
}

impl ModelReply {
    /// Returns the usage to account for the reply: exactly one model call, no tool calls, and the reported tokens and cost.
    pub fn metered_usage(&self) -> Usage {
        Usage {
            model_calls: 1,
            tool_calls: 0,
            estimated_calls: self.usage.estimated_calls.min(1),
            ..self.usage
        }
    }

    /// Creates a complete text reply without tokens and cost. The text may contain a call in the JSON form (CALL-1).
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

/// The reason why a model's reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model finished its reply.
    Stop,
    /// The model is waiting for the results of its native calls.
    ToolCalls,
    /// The reply was truncated at the token limit; none of its calls are executed (CALL-7).
    Length,
    /// The stream was interrupted; none of the reply's calls are executed (CALL-7).
    Interrupted,
    /// The provider withheld all or part of the reply, or refused to reply. A retry would not help.
    Filtered,
    /// The reply exceeds the maximum size. A retry would cost as much again.
    Oversized,
}

/// Requests, calls, tokens and cost of one reply, one agent or one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Number of answered model requests.
    pub model_calls: u32,
    /// Number of model requests with estimated tokens, because some of the provider's counts were missing or implausible.
    #[serde(default, skip_serializing_if = "is_zero_calls")]
    pub estimated_calls: u32,
    /// Number of executed tool calls.
    pub tool_calls: u32,
    /// Input tokens.
    pub input_tokens: u64,
    /// Input tokens that the provider read from its cache, at a lower price; included in `input_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Cost in nano-dollars; zero if the price is unknown.
    #[serde(default, skip_serializing_if = "Cost::is_zero")]
    pub cost: Cost,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero_calls(calls: &u32) -> bool {
    *calls == 0
}

impl Usage {
    /// Returns the sum of input and output tokens.
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

/// A model request that failed after all retries of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    /// The kind of failure, which determines how the agent continues.
    pub kind: ModelFailureKind,
    /// A message for the user: what failed, where, and what to do.
    pub message: String,
}

/// The kind of a failed model request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailureKind {
    /// The model cannot be reached or is overloaded; a later request may succeed.
    Unavailable {
        /// The delay that the provider requests; `None` if it requests none.
        retry_after: Option<Millis>,
    },
    /// The conversation exceeds the model's context window; a shorter conversation may succeed.
    TooLong,
    /// The configured key, address or model name is wrong.
    Configuration,
    /// The provider rejects the request; a retry would fail as well.
    Rejected,
    /// The model driver panicked.
    Panicked,
}

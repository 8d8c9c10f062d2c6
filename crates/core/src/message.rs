//! What goes to a model and what comes back, the same for every provider.

use serde::{Deserialize, Serialize};

use crate::price::Cost;
use crate::time::Millis;
use crate::token_ratio::estimated_tokens;
use serde_json::Value;

/// A call of a tool, in the one inner form (CALL-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id, or one that the machine gave it; the result carries it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// Its parameters, an object.
    pub parameters: Value,
    /// Whether the result of this call is the agent's final one (CALL-1).
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
    /// The brief, guidance, or what was wrong with a malformed reply.
    User {
        /// Its text.
        content: String,
    },
    /// What the model said.
    Assistant {
        /// Its text as it was said, calls in the JSON form included.
        content: String,
        /// The calls that were understood, whichever form they came in.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// The result of a call, as JSON text: see [`crate::tool::ToolResult::for_model`].
    Tool {
        /// The [`ToolCall::id`] it answers.
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

    /// About how many tokens it has, calls included.
    pub fn estimated_tokens(&self) -> u64 {
        let each =
            |call: &ToolCall| estimated_tokens(&call.tool) + estimated_tokens(&call.parameters.to_string());
        let calls: u64 = self.native_calls().map(each).sum();
        estimated_tokens(self.content())
            .saturating_add(calls)
            .saturating_add(self.overhead_tokens())
    }

    /// Those of its tokens that nobody said: its role, and what names a call or the tool of a result.
    pub(crate) fn overhead_tokens(&self) -> u64 {
        /// Its role, and where it begins and ends.
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

    /// Its calls that do not stand in its text.
    fn native_calls(&self) -> impl Iterator<Item = &ToolCall> {
        let calls: &[ToolCall] = match self {
            Message::Assistant { calls, .. } => calls,
            Message::System { .. } | Message::User { .. } | Message::Tool { .. } => &[],
        };
        calls.iter().filter(|call| !names_call(self.content(), call))
    }
}

/// Whether a text has an object with the tool's name in it, which is taken for the call.
pub fn names_call(text: &str, call: &ToolCall) -> bool {
    let object = text.find('{').and_then(|begin| text.get(begin..));
    object.is_some_and(|object| object.contains(call.tool.as_str()))
}

/// A model's whole reply to one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// What it said.
    pub content: String,
    /// Calls that the provider delivered apart from the text (CALL-2). Empty in the JSON form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Calls that the provider delivered apart from the text and that can't be read. One is enough that nothing in the reply is
    /// acted on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed_calls: Vec<MalformedCall>,
    /// Why it ended.
    pub finish: FinishReason,
    /// What it cost: [`ModelReply::metered_usage`] says what it counts as.
    pub usage: Usage,
    /// The model that answered, by its provider's name; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A call that can't be read, as it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MalformedCall {
    /// The tool's name; empty where there was none.
    pub name: String,
    /// The text of its arguments.
    pub arguments: String,
    /// What is wrong with it, for the model.
    pub problem: String,
}

impl ModelReply {
    /// What it counts as: one model call and its tokens, whatever else its model says of calls.
    pub fn metered_usage(&self) -> Usage {
        Usage {
            model_calls: 1,
            tool_calls: 0,
            estimated_calls: self.usage.estimated_calls.min(1),
            ..self.usage
        }
    }

    /// A whole reply of text, in which a call may stand in the JSON form (CALL-1). What it cost is left for the model to say.
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
    /// The model had said what it wanted to say.
    Stop,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The reply was cut at the token limit: nothing in it is acted on (CALL-7).
    Length,
    /// The stream broke off: nothing in it is acted on (CALL-7).
    Interrupted,
    /// The provider withheld the reply or a part of it, or refused to answer. Asking again would not help.
    Filtered,
    /// The reply is longer than a reply may be. Asking again would cost as much again.
    Oversized,
}

/// What was used: of one reply, an agent or a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Model requests answered.
    pub model_calls: u32,
    /// Those of the model requests whose tokens are an estimate in whole or in part, as the provider's counts were missing or can't be
    /// right.
    #[serde(default, skip_serializing_if = "is_zero_calls")]
    pub estimated_calls: u32,
    /// Tool calls carried out.
    pub tool_calls: u32,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Those of the tokens sent that the provider had read before, and reads again at a lower price.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Money, in nano-dollars; zero where no price is known.
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

    /// What is left of it without `part`; nothing where `part` is more.
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

/// Why a model could not answer, after whatever retries its driver makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    /// What can be done about it.
    pub kind: ModelFailureKind,
    /// For people: what was wrong, where, and what to do.
    pub message: String,
}

/// What can be done about a model that did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailureKind {
    /// Nothing is wrong with the request: trying later may do.
    Unavailable {
        /// How long the provider asks to wait.
        retry_after: Option<Millis>,
    },
    /// The conversation is longer than the model can read: a shorter one, or a model with a larger context, may do.
    TooLong,
    /// The configuration is wrong: key, address or model's name.
    Configuration,
    /// The request can't be answered as it is.
    Rejected,
    /// The model's code panicked.
    Panicked,
}

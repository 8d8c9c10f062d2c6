//! The specification of an agent, which is part of a run's setup.

use serde::{Deserialize, Serialize};

use crate::call::CallForm;
use crate::limits::AgentLimits;
use crate::loop_tools::is_control_tool;
use crate::price::Price;
use crate::text::one_line;
use crate::tool::Access;

pub use crate::answer_form::AnswerForm;
pub use crate::loop_tools::DELEGATE;

/// The specification of an agent: its purpose, tools, prompt, model and limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// The name used in plans, such as `explore`.
    pub name: String,
    /// The agent's strengths, described for the lead.
    pub description: String,
    /// The complete system prompt, rendered by [`crate::prompt`].
    pub system_prompt: String,
    /// The base system prompt with which `system_prompt` begins (PROMPT-1); `None` if it begins with the agent's role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_prompt: Option<BasePrompt>,
    /// The system prompt at the maximum depth ([`RunLimits::max_depth`](crate::limits::RunLimits::max_depth)), where the agent may not delegate; `None` if the agent may never
    /// delegate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deepest_prompt: Option<String>,
    /// Names of the tools that the agent may call.
    pub tools: Vec<String>,
    /// The agent's access level.
    pub access: Access,
    /// Name of the agent's model; `None` for the run's default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model to which the name referred when the run started, as text for the user: `openai gpt-4.1-mini at https://api.openai.com/v1`.
    /// A resumed run must use the same model. `None` if the model was not configured by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Properties of the agent's model.
    pub profile: ModelProfile,
    /// The limits of the agent.
    pub limits: AgentLimits,
    /// The form of the answer that ends the agent.
    pub answer: AnswerForm,
}

/// A base system prompt (PROMPT-1): the user's text with which the system prompt of an agent begins. JSON: `{"name": "support", "version": 2,
/// "text": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BasePrompt {
    /// The prompt's name.
    pub name: String,
    /// The version of the text, from 1.
    pub version: u32,
    /// The text.
    pub text: String,
}

impl AgentSpec {
    /// Returns true if the agent may delegate.
    pub fn may_delegate(&self) -> bool {
        self.tools.iter().any(|tool| tool == DELEGATE)
    }

    /// Returns a one-line description of the agent's access and tools, for another agent that may assign work to it. Omits the tools in
    /// `known`, which that agent has itself: `may change the workspace; tools that you lack: change; may delegate`.
    pub fn capabilities(&self, known: &[String]) -> String {
        let mut tools = self.tools.iter().filter(|tool| !is_control_tool(tool)).peekable();
        let no_tools = tools.peek().is_none();
        let lacking: Vec<&str> = tools
            .filter(|tool| !known.contains(tool))
            .map(String::as_str)
            .collect();
        let tools = match lacking.as_slice() {
            [] if no_tools => "; no tools".to_owned(),
            [] => String::new(),
            lacking => format!("; tools that you lack: {}", lacking.join(", ")),
        };
        let access = match self.access {
            Access::ReadOnly => "changes nothing",
            Access::Execute => "may run commands",
            Access::ReadWrite => "may change the workspace",
        };
        let delegates = if self.may_delegate() { "; may delegate" } else { "" };
        one_line(&format!("{access}{tools}{delegates}"))
    }
}

/// The properties of a model that affect the machines. Journaled with the run, so that later configuration changes do not affect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// The form in which the model calls tools (CALL-4).
    pub calls: CallForm,
    /// Context window in tokens, for input and output together; `None` if unknown (LOOP-11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Maximum number of tokens of a reply; `None` for the provider's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// The price of the model; the highest price if several models may reply. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Maximum number of characters of a tool result that the model sees. The middle of a longer result is omitted and replaced by a handle
    /// with which `read_output` can read it. `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_result: Option<usize>,
}

impl Default for ModelProfile {
    fn default() -> Self {
        ModelProfile {
            calls: CallForm::default(),
            context_window: None,
            max_output_tokens: None,
            price: None,
            max_result: Some(16 * 1024),
        }
    }
}

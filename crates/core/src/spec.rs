//! What a run is started with. All of it is journaled, so that a run is a function of its journal alone: neither the
//! configuration nor the prompts of a later day change what a resumed or replayed run does.

use crate::call::CallForm;
use crate::limits::{AgentLimits, RunLimits};
use crate::policy::Policy;
use crate::price::Price;
use crate::text::one_line;
use crate::tool::{Access, ToolSpec};
use serde::{Deserialize, Serialize};

/// A run's goal and everything that decides how it is pursued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// What the user wants, in the user's words.
    pub goal: String,
    /// The absolute path of the folder that tools work in.
    pub workspace: String,
    /// The run's limits.
    pub limits: RunLimits,
    /// Who plans.
    pub planner: AgentSpec,
    /// Who reflects.
    pub reflector: AgentSpec,
    /// Who can be given sub-tasks.
    pub agents: Vec<AgentSpec>,
    /// The tools that there are: sub-tasks may call any, an agent those that its spec names.
    pub tools: Vec<ToolSpec>,
    /// Which calls must be approved, and which are never made.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
}

impl RunSpec {
    /// The sub-agent of that name.
    pub fn agent(&self, name: &str) -> Option<&AgentSpec> {
        self.agents.iter().find(|agent| agent.name == name)
    }
}

/// An agent: what it is for, what it may do and how it is prompted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// Its name in plans: `explore`.
    pub name: String,
    /// What it is good for, for the planner.
    pub description: String,
    /// Its whole system prompt, as rendered by [`crate::prompt`].
    pub system_prompt: String,
    /// The same for where it may not delegate, as it is as deep as agents may be ([`RunLimits::max_depth`]); `None` for one that never may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deepest_prompt: Option<String>,
    /// The names of the tools it may call.
    pub tools: Vec<String>,
    /// What those tools may do.
    pub access: Access,
    /// The model it asks; `None` for the run's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What that name stood for when the run was started, for people: `openai gpt-4.1-mini at https://api.openai.com/v1`. A run that goes
    /// on asks no other. `None` where it was not configured by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// What is known of that model.
    pub profile: ModelProfile,
    /// Its limits.
    pub limits: AgentLimits,
    /// What it ends with.
    pub answer: AnswerForm,
}

/// The name of the tool by which an agent has another one do something. An agent that lists it among its tools may delegate.
pub const DELEGATE: &str = "delegate";

impl AgentSpec {
    /// Whether it may have others do something.
    pub fn may_delegate(&self) -> bool {
        self.tools.iter().any(|tool| tool == DELEGATE)
    }

    /// What it can do, in a line for those who choose among agents: `tools: look, change; may change the workspace; may
    /// delegate`.
    pub fn capabilities(&self) -> String {
        let tools: Vec<&str> = self
            .tools
            .iter()
            .map(String::as_str)
            .filter(|tool| *tool != DELEGATE)
            .collect();
        let tools = match tools.as_slice() {
            [] => "no tools".to_owned(),
            tools => format!("tools: {}", tools.join(", ")),
        };
        let access = match self.access {
            Access::ReadOnly => "changes nothing",
            Access::Execute => "may run commands",
            Access::ReadWrite => "may change the workspace",
        };
        let delegates = if self.may_delegate() { "; may delegate" } else { "" };
        one_line(&format!("{tools}; {access}{delegates}"))
    }
}

/// What a run knows of a model: what the machines decide by. Journaled with the run, so that another configuration of a later
/// day changes nothing in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// How it calls tools (CALL-4).
    pub calls: CallForm,
    /// Tokens that it can read and write in one request; `None` where that is not known (LOOP-11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Tokens that one of its replies may have; `None` for the provider's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// What it costs; of several that may answer the dearest. `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Characters of a tool result that the model sees at once; the middle of a longer one is left out, with the handle by which
    /// `read_output` reads it. `None` for no limit.
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

/// What an agent's loop ends with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerForm {
    /// A reply without a call (LOOP-4): a sub-agent's findings.
    #[default]
    Text,
    /// A valid `submit_plan`, or text that answers the goal at once.
    Plan,
    /// A valid `submit_reflection`.
    Reflection,
}

impl AnswerForm {
    /// Whether a reply without a call can be the agent's answer.
    pub(crate) fn allows_text(self) -> bool {
        match self {
            AnswerForm::Text | AnswerForm::Plan => true,
            AnswerForm::Reflection => false,
        }
    }
}

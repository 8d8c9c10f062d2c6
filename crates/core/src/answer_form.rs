//! The form in which an agent gives its answer.

use serde::{Deserialize, Serialize};

/// The form of an agent's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerForm {
    /// Text: a reply without a call (LOOP-4), such as the findings of a sub-agent.
    #[default]
    Text,
    /// A valid call of `submit_plan`, or text that answers the goal directly.
    Plan,
    /// A valid call of `submit_reflection`.
    Reflection,
}

impl AnswerForm {
    /// Returns true if a reply without a call can be the agent's answer.
    pub(crate) fn allows_text(self) -> bool {
        match self {
            AnswerForm::Text | AnswerForm::Plan => true,
            AnswerForm::Reflection => false,
        }
    }
}

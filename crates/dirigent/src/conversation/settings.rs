//! The settings of a conversation.

use dirigent_core::limits::RunLimits;
use dirigent_core::message::Usage;
use dirigent_core::mode::Mode;
use dirigent_core::price::Cost;
use serde::{Deserialize, Serialize};

use crate::DirigentError;

/// The settings of a conversation's turns. JSON: an object with the fields that are set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConversationSettings {
    /// Which actions the lead may take itself, and whether its plans wait for the user (LEAD-2).
    pub mode: Mode,
    /// The default model, by its reference in the configuration, as for [`crate::Goal::default_model`]; `None` for the configured default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The base system prompt with which the lead's system prompt begins (PROMPT-1), by its name in [`crate::Dirigent::system_prompts`];
    /// `None` for the configured prompt or, without one, the default prompt. The prompt may be edited between turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The maximum number of tokens of all turns together; `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The maximum cost of all turns together; `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Cost>,
}

/// Changes of a conversation, which are applied together. A field that is `None` stays as it is; in a setting that may be absent, `Some(None)` removes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConversationChanges {
    /// The title, as for [`crate::Conversation::rename`].
    #[serde(skip)]
    pub title: Option<String>,
    /// [`ConversationSettings::mode`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// [`ConversationSettings::model`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Option<String>>,
    /// [`ConversationSettings::system_prompt`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<Option<String>>,
    /// [`ConversationSettings::max_tokens`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<Option<u64>>,
    /// [`ConversationSettings::max_cost`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Option<Cost>>,
}

impl ConversationChanges {
    /// The changes of the settings as a JSON merge patch (RFC 7396).
    pub(super) fn settings_patch(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl ConversationSettings {
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Restricts the limits of the next turn to what remains of the conversation's own limits.
    ///
    /// # Errors
    /// [`DirigentError::ConversationBudget`] if nothing remains.
    pub(super) fn bound(&self, mut limits: RunLimits, spent: &Usage) -> Result<RunLimits, DirigentError> {
        if let Some(max) = self.max_tokens {
            let left = max.saturating_sub(spent.tokens());
            if left == 0 {
                let limit = format!("{max} tokens");
                return Err(DirigentError::ConversationBudget { limit });
            }
            limits.max_tokens = Some(limits.max_tokens.map_or(left, |limit| limit.min(left)));
        }
        if let Some(max) = self.max_cost {
            let left = Cost(max.0.saturating_sub(spent.cost.0));
            if left.is_zero() {
                let limit = max.to_string();
                return Err(DirigentError::ConversationBudget { limit });
            }
            limits.max_cost = Some(limits.max_cost.map_or(left, |limit| limit.min(left)));
        }
        Ok(limits)
    }
}

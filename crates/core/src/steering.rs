//! Messages from the user to a run. Any process may send one; it stays pending until the process that owns the run handles it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::approval::Decision;
use crate::id::{AgentId, EffectId, RunId};
use crate::policy::CallPattern;
use crate::tools_change::ToolsChange;

/// A message from the user to a run. JSON: an object with the field `kind`, such as `{"kind": "guide", "guidance": "…"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Steering {
    /// Guidance for the next plan (PAOR-8).
    Guide {
        /// The guidance text.
        guidance: String,
    },
    /// Guidance that stops running work and starts a new plan at once (PAOR-8).
    Redirect {
        /// The guidance text.
        guidance: String,
    },
    /// Guidance for one agent, sent with its next model request.
    GuideAgent {
        /// The agent's id.
        agent: AgentId,
        /// The guidance text.
        guidance: String,
    },
    /// A decision about a call that waits for approval (APPROVE-2).
    Decide {
        /// The effect id of the call.
        effect: EffectId,
        /// The user's decision.
        decision: Decision,
    },
    /// The answer to a question of the run (PAOR-9) or of an agent (LEAD-4).
    Answer {
        /// The effect id of the question.
        effect: EffectId,
        /// The answer text, or the number of one of the question's choices, counted from 1.
        answer: String,
    },
    /// Allows calls that match a pattern from now on, including calls that are already waiting for approval (APPROVE-1). Never approves a
    /// plan. Never overrides a rule that denies, or an equally specific rule that asks.
    AllowCalls {
        /// The calls to allow.
        calls: CallPattern,
    },
    /// Tells the run how the tools of a service have changed since it started (MCP-2).
    ChangeTools {
        /// The change.
        change: Arc<ToolsChange>,
    },
    /// Tells the run that other runs work in its workspace. Only watchers of the run see it.
    ShareWorkspace {
        /// The ids of the other runs.
        runs: Vec<RunId>,
    },
    /// Cancels the run (HOST-8).
    Cancel,
}

//! Messages from people to a run, for any process: they may wait until a process owns the run.

use serde::{Deserialize, Serialize};

use crate::approval::Decision;
use crate::id::{AgentId, EffectId};

/// A message from a person to a run. JSON: `{"kind": "guide", "guidance": "…"}` and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Steering {
    /// Guidance for the next plan (PAOR-8).
    Guide {
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// Guidance that stops running work; the next plan is made at once (PAOR-8).
    Redirect {
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// Guidance for one agent, from its next model request on.
    GuideAgent {
        /// The agent's id.
        agent: AgentId,
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// A decision about a call that waits for approval (APPROVE-2).
    Decide {
        /// The call's id.
        effect: EffectId,
        /// The decision.
        decision: Decision,
    },
    /// The answer to the run's question (PAOR-9).
    Answer {
        /// The question's id.
        effect: EffectId,
        /// The user's words, or the number of one of the question's choices.
        answer: String,
    },
    /// Cancels the run (HOST-8).
    Cancel,
}

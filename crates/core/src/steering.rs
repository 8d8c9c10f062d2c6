//! What people say to a run while it goes on, or before it goes on again: plain data, as it comes by another way than a model's or
//! a tool's answers and may wait until a process carries the run out.

use serde::{Deserialize, Serialize};

use crate::approval::Decision;
use crate::id::{AgentId, EffectId};

/// Something that a person says to a run. JSON: `{"kind": "guide", "guidance": "…"}` and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Steering {
    /// The next plan takes it into account (PAOR-8).
    Guide {
        /// The user's words.
        guidance: String,
    },
    /// What is under way is stopped for it, and the next plan is made now (PAOR-8).
    Redirect {
        /// The user's words.
        guidance: String,
    },
    /// The agent's next model request takes it into account.
    GuideAgent {
        /// Which.
        agent: AgentId,
        /// The user's words.
        guidance: String,
    },
    /// About a call that waits for an approval (APPROVE-2).
    Decide {
        /// Which.
        effect: EffectId,
        /// What was decided.
        decision: Decision,
    },
    /// The answer to the run's question (PAOR-9).
    Answer {
        /// Which question.
        effect: EffectId,
        /// The user's words, or the number of one of the question's choices.
        answer: String,
    },
    /// The run is to end (HOST-8).
    Cancel,
}

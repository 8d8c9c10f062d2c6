//! Approvals: a call that a person must see before it runs (APPROVE-1 to APPROVE-3).
//!
//! What is shown is what runs: an [`Approval`] has a digest of all that a person decides about, and a [`Decision`] names the digest that
//! it was made for. It counts once, for that call, unchanged and before it expires.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::EffectId;
use crate::time::Timestamp;

/// A call that waits for a person. JSON: as the fields are named, times in milliseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The handle of the call, by which it is answered; its try does not count, so that it is the same after a restart.
    pub effect: EffectId,
    /// The name of the agent that makes the call; none where the plan itself does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// What it is given.
    pub parameters: Value,
    /// The absolute path of the folder that it works in.
    pub workspace: String,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it is too late to answer; none where it waits for as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Of all that the person decides about.
    pub digest: Digest,
}

/// 64 hexadecimal digits that stand for a call: another tool, other parameters, another folder, another place in the run or
/// another moment give others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub String);

/// What a person decides about a call (APPROVE-2). Journaled. JSON: `{"digest": "…", "answer": "approve"}`, `"edit"` with
/// `"parameters"`, `"reject"` with `"reason"` where there is one, `"guide"` with `"guidance"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// What the person saw.
    pub digest: Digest,
    /// What is to be done.
    #[serde(flatten)]
    pub answer: ApprovalAnswer,
}

/// What is to become of a call (APPROVE-2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ApprovalAnswer {
    /// It runs as it was shown.
    Approve,
    /// It runs with these parameters.
    Edit {
        /// All of them.
        parameters: Value,
    },
    /// It does not run, and its loop ends: no later call runs either.
    Reject {
        /// Why, in the user's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// It does not run, and the model is told this instead.
    Guide {
        /// The user's words.
        guidance: String,
    },
}

/// Why a decision does not count (APPROVE-3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecisionFault {
    /// No call waits there: it was decided already, its agent has ended, or it was never asked for.
    #[error("no call `{effect}` waits for an approval: it was decided, has ended, or was never asked for")]
    NotPending {
        /// Which.
        effect: EffectId,
    },
    /// It was made for another call than the one that waits.
    #[error("the decision was made for another call than `{effect}` is now; look at it again")]
    Altered {
        /// Which.
        effect: EffectId,
    },
    /// It came too late.
    #[error("the approval of `{effect}` has expired")]
    Expired {
        /// Which.
        effect: EffectId,
    },
    /// The parameters that the person wants do not fit the tool.
    #[error("the parameters do not fit: {0}")]
    Parameters(String),
    /// The policy denies the call with the parameters that the person wants.
    #[error("{0}")]
    Denied(String),
}

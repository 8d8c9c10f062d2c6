//! Approvals: a call that a person must see before it runs (APPROVE-1 to APPROVE-3).
//!
//! What is shown is what runs: an [`Approval`] has a digest of all that a person decides about, and a [`Decision`] names the digest that
//! it was made for. It counts once, for that call, unchanged and before it expires.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::digest::{canonical, sha256_hex};
use crate::id::EffectId;
use crate::message::ToolCall;
use crate::policy::{Policy, Ruling};
use crate::spec::RunSpec;
use crate::time::{Millis, Timestamp};

/// A call that waits for a person. JSON: as the fields are named, times in milliseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The effect id of the call, by which it is answered; its try does not count, so that it is the same after a restart.
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
pub enum DecisionError {
    /// No call waits there: it was decided already, its agent has ended, or it was never asked for.
    #[error("no call `{effect}` waits for an approval: it was decided, has ended, or was never asked for")]
    NotPending {
        /// Which.
        effect: EffectId,
    },
    /// It was made for another call than the one that waits.
    #[error("the decision was made for another call than `{effect}` is now; look at it again")]
    DigestMismatch {
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

/// What is to be done with a call about which a person has decided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ResolvedDecision {
    /// It runs as it was shown.
    Run,
    /// It runs with these parameters, which fit the tool and are not denied.
    RunWith(Value),
    /// It does not run, and its loop ends.
    Reject(Option<String>),
    /// It does not run; these are the user's words.
    Guide(String),
}

impl Approval {
    /// An approval to ask for now, with its digest: of a call of the agent of that name or, without one, of a plan's own.
    pub fn new(
        effect: EffectId,
        agent: Option<String>,
        call: &ToolCall,
        spec: &RunSpec,
        now: Timestamp,
    ) -> Self {
        let mut approval = Approval {
            effect,
            agent,
            tool: call.tool.clone(),
            parameters: call.parameters.clone(),
            workspace: spec.workspace.clone(),
            asked_at: now,
            expires_at: spec.limits.approval_timeout.map(|timeout| now + timeout),
            digest: Digest(String::new()),
        };
        approval.digest = approval.computed_digest();
        approval
    }

    /// Whether its digest is that of what it shows: one that came from elsewhere may have been altered on the way.
    pub fn is_intact(&self) -> bool {
        self.digest == self.computed_digest()
    }

    fn computed_digest(&self) -> Digest {
        let shown = json!({
            "scope": self.effect.scope,
            "step": self.effect.step,
            "tool": self.tool,
            "parameters": self.parameters,
            "workspace": self.workspace,
            "asked_at": self.asked_at,
        });
        Digest(sha256_hex(canonical(&shown).to_string().as_bytes()))
    }

    /// The same with as much more time to answer: no process was there to take one.
    pub(crate) fn extend_expiry(&mut self, by: Millis) {
        self.expires_at = self.expires_at.map(|expires_at| expires_at + by);
    }

    /// Asks anew, about the call as it is now: a decision about the earlier one does not count (APPROVE-3).
    pub(crate) fn renewed(&self, effect: EffectId, call: &ToolCall, spec: &RunSpec, now: Timestamp) -> Self {
        // The moment tells them apart, even where the clock has not moved.
        let now = now.max(self.asked_at + Millis(1));
        Approval::new(effect, self.agent.clone(), call, spec, now)
    }

    /// Whether it is too late to answer.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| now >= expires_at)
    }
}

/// What a decision about the call `effect` leads to (APPROVE-3): the one place that says whether it counts. `pending` is what waits
/// under that handle, if anything does; `check` says what is wrong with other parameters.
pub(crate) fn resolve(
    pending: Option<&Approval>,
    now: Timestamp,
    effect: EffectId,
    decision: Decision,
    policy: &Policy,
    check: impl FnOnce(&Value) -> Result<Value, String>,
) -> Result<ResolvedDecision, DecisionError> {
    let approval = pending.ok_or(DecisionError::NotPending { effect })?;
    if approval.has_expired(now) {
        return Err(DecisionError::Expired { effect });
    }
    if decision.digest != approval.digest || !approval.is_intact() {
        return Err(DecisionError::DigestMismatch { effect });
    }
    match decision.answer {
        ApprovalAnswer::Approve => Ok(ResolvedDecision::Run),
        ApprovalAnswer::Edit { parameters } => {
            let parameters = check(&parameters).map_err(DecisionError::Parameters)?;
            match policy.rule(&approval.tool, &parameters, &approval.workspace) {
                Some(rule) if rule.ruling == Ruling::Deny => Err(DecisionError::Denied(rule.to_string())),
                // The person who decides has seen them.
                Some(_) | None => Ok(ResolvedDecision::RunWith(parameters)),
            }
        }
        ApprovalAnswer::Reject { reason } => Ok(ResolvedDecision::Reject(reason)),
        ApprovalAnswer::Guide { guidance } => Ok(ResolvedDecision::Guide(guidance)),
    }
}

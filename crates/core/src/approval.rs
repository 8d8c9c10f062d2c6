//! Approvals: calls that a person must decide about before they run (APPROVE-1 to APPROVE-3).
//!
//! A call runs exactly as shown. An [`Approval`] has a digest of everything that the person sees, and a [`Decision`] names the digest that it
//! was made for. A decision counts once, for this unchanged call and before the approval expires.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::digest::{canonical, sha256_hex};
use crate::id::EffectId;
use crate::message::ToolCall;
use crate::policy::{Policy, Ruling};
use crate::spec::RunSpec;
use crate::time::{Millis, Timestamp};

/// A call that waits for a person's decision. In JSON, times are milliseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The effect id of the call, by which decisions refer to it. The attempt is ignored, so that the id stays valid after a restart.
    pub effect: EffectId,
    /// The name of the calling agent; `None` for a call of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// The parameters of the call.
    pub parameters: Value,
    /// Absolute path of the workspace.
    pub workspace: String,
    /// When the approval was requested.
    pub asked_at: Timestamp,
    /// When the approval expires; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Digest of everything that the person decides about.
    pub digest: Digest,
}

/// SHA-256 over the tool, parameters, workspace, position in the run and time of an approval, as 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub String);

/// A person's decision about a call (APPROVE-2), which is journaled. JSON: `{"digest": "…", "answer": "approve"}`, `"edit"` with
/// `"parameters"`, `"reject"` with an optional `"reason"`, or `"guide"` with `"guidance"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Digest of the approval that the person saw.
    pub digest: Digest,
    /// The decision itself.
    #[serde(flatten)]
    pub answer: ApprovalAnswer,
}

/// The answer to an approval request (APPROVE-2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ApprovalAnswer {
    /// Runs the call as shown.
    Approve,
    /// Runs the call with other parameters.
    Edit {
        /// The complete parameters.
        parameters: Value,
    },
    /// Does not run the call and ends the agent or the sub-task; no later call runs either.
    Reject {
        /// The user's reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Does not run the call and gives guidance to the model instead.
    Guide {
        /// The user's guidance.
        guidance: String,
    },
}

/// The reason for which a decision does not count (APPROVE-3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecisionError {
    /// No call waits under this id: it was decided already, its agent has ended, or no approval was requested.
    #[error(
        "no call `{effect}` waits for an approval: it was already decided, has ended, or never needed one"
    )]
    NotPending {
        /// The named effect.
        effect: EffectId,
    },
    /// The call has changed since the person saw it.
    #[error("the call `{effect}` has changed since it was shown; review it and decide again")]
    DigestMismatch {
        /// The effect id of the call.
        effect: EffectId,
    },
    /// The approval has expired.
    #[error("the approval of `{effect}` has expired")]
    Expired {
        /// The effect id of the call.
        effect: EffectId,
    },
    /// The edited parameters are invalid for the tool.
    #[error("the edited parameters are invalid: {0}")]
    Parameters(String),
    /// The policy denies the call with the edited parameters.
    #[error("{0}")]
    Denied(String),
}

/// A valid decision, resolved to what happens with the call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ResolvedDecision {
    /// The call runs as shown.
    Run,
    /// The call runs with these parameters, which are valid for the tool and not denied.
    RunWith(Value),
    /// The call does not run, and its agent or sub-task ends.
    Reject(Option<String>),
    /// The call does not run, and the model receives this guidance.
    Guide(String),
}

impl Approval {
    /// Creates an approval request for a call, made by the agent of this name or, without one, by the plan.
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

    /// Returns true if the digest matches the contents. An approval from another process may have been altered.
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

    /// Extends the deadline by the time during which no process could take a decision.
    pub(crate) fn extend_expiry(&mut self, by: Millis) {
        self.expires_at = self.expires_at.map(|expires_at| expires_at + by);
    }

    /// Creates a new approval request for the call as it is now. Decisions about the earlier one do not count (APPROVE-3).
    pub(crate) fn renewed(&self, effect: EffectId, call: &ToolCall, spec: &RunSpec, now: Timestamp) -> Self {
        // A later time changes the digest, even if the clock has not advanced.
        let now = now.max(self.asked_at + Millis(1));
        Approval::new(effect, self.agent.clone(), call, spec, now)
    }

    /// Returns true if the approval has expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| now >= expires_at)
    }
}

/// Resolves a decision about the call `effect`; the only place that decides whether it counts (APPROVE-3). `pending` is the approval that
/// waits under this id, if any. `check` validates edited parameters and returns those to run with.
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
                // The person has seen the edited parameters.
                Some(_) | None => Ok(ResolvedDecision::RunWith(parameters)),
            }
        }
        ApprovalAnswer::Reject { reason } => Ok(ResolvedDecision::Reject(reason)),
        ApprovalAnswer::Guide { guidance } => Ok(ResolvedDecision::Guide(guidance)),
    }
}

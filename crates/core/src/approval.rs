//! Approvals: calls that the user must approve before they run (APPROVE-1 to APPROVE-3).
//!
//! A call runs exactly as shown. An [`Approval`] contains a digest of everything that is shown to the user, and a [`Decision`] contains the
//! digest of the approval that it refers to. A decision is valid only once, only for the unchanged call, and only before the approval
//! expires.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::SUBMIT_PLAN;
use crate::digest::{canonical, sha256_hex};
use crate::id::EffectId;
use crate::message::ToolCall;
use crate::policy::{CallPattern, Policy, Ruling};
use crate::time::{Millis, Timestamp};

/// A call that waits for the user's decision. In JSON, times are milliseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The effect id of the call, to which decisions refer. The attempt in the id is ignored, so that the id stays valid after a restart.
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
    /// The time at which the approval was requested.
    pub asked_at: Timestamp,
    /// The time at which the approval expires; `None` if it never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Digest of everything that is shown to the user.
    pub digest: Digest,
}

/// SHA-256 of an approval's tool, parameters, workspace, position in the run and time, as 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub String);

/// The user's decision about a call (APPROVE-2). Decisions are journaled. JSON: `{"digest": "…", "answer": "approve"}`, `"edit"` with
/// `"parameters"`, `"reject"` with an optional `"reason"`, or `"guide"` with `"guidance"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Digest of the approval that was shown to the user.
    pub digest: Digest,
    /// The user's answer.
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
        /// The complete new parameters.
        parameters: Value,
    },
    /// Rejects the call and ends the agent or the sub-task, so that none of its later calls run.
    Reject {
        /// The user's reason, if given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Does not run the call, and sends guidance to the model instead.
    Guide {
        /// The user's guidance.
        guidance: String,
    },
}

/// The reason why a decision is not valid (APPROVE-3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// No call with this id waits for approval: it was already decided, its agent has ended, or no approval was requested.
    #[error("call `{effect}` is not waiting for approval: it was already decided, has ended, or needed none")]
    NotPending {
        /// The effect id in the decision.
        effect: EffectId,
    },
    /// The call has changed since it was shown to the user.
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

/// The effect of a valid decision on the call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ResolvedDecision {
    /// The call runs as shown.
    Run,
    /// The call runs with these parameters, which are valid for the tool and not denied.
    RunWith(Value),
    /// The call does not run, and its agent or sub-task ends. Contains the user's reason, if any.
    Reject(Option<String>),
    /// The call does not run, and the model receives this guidance.
    Guide(String),
}

impl Approval {
    /// Creates an approval request for a call. `agent` is the name of the calling agent; `None` for a call of the plan. `workspace` is an
    /// absolute path. The request expires after `timeout`, or never.
    pub fn new(
        effect: EffectId,
        agent: Option<String>,
        call: &ToolCall,
        workspace: &str,
        timeout: Option<Millis>,
        now: Timestamp,
    ) -> Self {
        let mut approval = Approval {
            effect,
            agent,
            tool: call.tool.clone(),
            parameters: call.parameters.clone(),
            workspace: workspace.to_owned(),
            asked_at: now,
            expires_at: timeout.map(|timeout| now + timeout),
            digest: Digest(String::new()),
        };
        approval.digest = approval.computed_digest();
        approval
    }

    /// Returns true if the digest matches the content. An approval from another process may have been altered.
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

    /// Extends the deadline by the time in which no process could accept a decision.
    pub(crate) fn extend_expiry(&mut self, by: Millis) {
        self.expires_at = self.expires_at.map(|expires_at| expires_at + by);
    }

    /// Creates a new approval request for the call in its current form. Decisions about the earlier request are no longer valid
    /// (APPROVE-3).
    pub(crate) fn renewed(
        &self,
        effect: EffectId,
        call: &ToolCall,
        timeout: Option<Millis>,
        now: Timestamp,
    ) -> Self {
        // A later time changes the digest, even if the clock has not advanced.
        let now = now.max(self.asked_at + Millis(1));
        Approval::new(effect, self.agent.clone(), call, &self.workspace, timeout, now)
    }

    /// Returns true if a rule that allows `calls` approves the call, in addition to `policy`. Such a rule never approves a plan (LEAD-2).
    pub fn is_approved_by(&self, calls: &CallPattern, policy: &Policy) -> bool {
        self.tool != SUBMIT_PLAN && policy.allows_with(calls, &self.tool, &self.parameters, &self.workspace)
    }

    /// Returns patterns with which the user can allow the call, and calls like it from now on, narrowest first. Empty if no rule can allow
    /// the call: for a plan, or if a rule of the policy asks about exactly these calls.
    pub fn suggestions(&self, policy: &Policy) -> Vec<CallPattern> {
        let mut patterns = CallPattern::suggestions(&self.tool, &self.parameters);
        patterns.retain(|calls| self.is_approved_by(calls, policy));
        patterns
    }

    /// Returns true if the approval has expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| now >= expires_at)
    }
}

/// Resolves a decision about the call `effect`. This is the only place that determines whether a decision is valid (APPROVE-3). `pending`
/// is the approval that waits under this id, if any. `check` validates edited parameters and returns the parameters to run the call with.
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
                // The user has seen the edited parameters, so an `ask` rule requires no second approval.
                Some(_) | None => Ok(ResolvedDecision::RunWith(parameters)),
            }
        }
        ApprovalAnswer::Reject { reason } => Ok(ResolvedDecision::Reject(reason)),
        ApprovalAnswer::Guide { guidance } => Ok(ResolvedDecision::Guide(guidance)),
    }
}

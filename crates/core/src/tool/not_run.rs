//! Results of calls that did not run or did not finish. Each is a failure with a code and an error message for the model.

use super::{ToolOutcome, ToolResult, code};

/// The beginning of the error message of a call that the user rejected.
const REJECTED: &str = "the user rejected the call";

/// The beginning of the error message of a call that the user answered with guidance.
const GUIDED: &str = "the user did not approve this call and says: ";

/// The end of the error message of a call that the user answered with guidance. Tells the model what to do next.
const GUIDED_NEXT: &str =
    "\nThe call did not run. Go another way by these words, or finish and say what is left.";

impl ToolResult {
    /// Creates the result of a call that was running when the process ended, and may have taken effect (HOST-2).
    pub(crate) fn interrupted(tool: &str) -> Self {
        ToolResult::failure(format!(
            "`{tool}` was interrupted: the process ended while it ran, so it may or may not have taken effect. Check the current \
             state before you decide whether to call it again"
        ))
        .with_code(code::INTERRUPTED)
    }

    /// Creates the result of a call that was running when its run ended at a limit.
    pub(crate) fn run_ended() -> Self {
        ToolResult::failure(
            "the run ended at a limit before this call finished, so it may or may not have taken effect. Check the current state before \
             you decide whether to call it again",
        )
        .with_code(code::INTERRUPTED)
    }

    /// Creates the result of a call that was waiting for approval when its run ended at a limit.
    pub(crate) fn undecided() -> Self {
        ToolResult::failure("the call did not run: the run ended at a limit before the user decided about it")
            .with_code(code::INTERRUPTED)
    }

    /// Creates the result of a call that was stopped, or never started, because the user's guidance changes the plan (PAOR-8).
    pub(crate) fn redirected() -> Self {
        ToolResult::failure("the call did not finish, because the user gave guidance that changes the plan")
            .with_code(code::REDIRECTED)
    }

    /// Creates the result of a call beyond the maximum number of calls of a reply, `max` (LOOP-10).
    pub(crate) fn too_many_calls(max: u32) -> Self {
        ToolResult::failure(format!(
            "the call did not run: only the first {max} calls of a reply are executed. Call it again if it is still needed"
        ))
        .with_code(code::REFUSED)
    }

    /// Creates the result of a call that a rule of the policy denies.
    pub(crate) fn denied(rule: String) -> Self {
        ToolResult::failure(rule).with_code(code::DENIED_BY_RULE)
    }

    /// Creates the result of a call whose approval expired (APPROVE-3).
    pub(crate) fn approval_expired() -> Self {
        ToolResult::failure(
            "the call did not run: the user neither approved nor rejected it in time. Go another way, or finish and say what needs approval",
        )
        .with_code(code::NOT_APPROVED)
    }

    /// Creates the result of a question without an answer.
    pub(crate) fn not_answered(why: &str) -> Self {
        ToolResult::failure(format!("the question was not answered: {why}")).with_code(code::NOT_ANSWERED)
    }

    /// Creates the result of a call that the user rejected (APPROVE-2).
    pub(crate) fn rejected(reason: Option<&str>) -> Self {
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        ToolResult::failure(format!("{REJECTED}{reason}")).with_code(code::NOT_APPROVED)
    }

    /// Returns the user's reason for rejecting the call: `Some(None)` if the user gave no reason, `None` if the user did not reject the
    /// call.
    pub(crate) fn rejection_reason(&self) -> Option<Option<&str>> {
        match &self.outcome {
            ToolOutcome::Failure { error, .. } => {
                let reason = error.strip_prefix(REJECTED)?;
                Some(reason.strip_prefix(": "))
            }
            ToolOutcome::Success { .. } => None,
        }
    }

    /// Returns true if the user ended the call: by a decision about it, or by immediate guidance.
    pub(crate) fn was_stopped_by_user(&self) -> bool {
        match &self.outcome {
            ToolOutcome::Failure { error, code, .. } => {
                let was_decided = error.starts_with(REJECTED) || error.starts_with(GUIDED);
                code == code::REDIRECTED || code == code::NOT_APPROVED && was_decided
            }
            ToolOutcome::Success { .. } => false,
        }
    }

    /// Returns true if the call was not executed because of the user: it was not approved or answered, or other guidance came first. Such a
    /// call is not a failure of the tool or the model.
    pub(crate) fn was_withheld(&self) -> bool {
        match &self.outcome {
            ToolOutcome::Failure { code, .. } => {
                [code::NOT_APPROVED, code::NOT_ANSWERED, code::REDIRECTED].contains(&code.as_str())
            }
            ToolOutcome::Success { .. } => false,
        }
    }

    /// Creates the result of a plan that the user did not approve but answered with guidance for the run (LEAD-2).
    pub(crate) fn plan_not_approved() -> Self {
        ToolResult::failure(
            "the plan was not carried out: the user gave guidance instead of approving it. Plan again, or answer, by the guidance that follows",
        )
            .with_code(code::NOT_APPROVED)
    }

    /// Creates the result of a call that the user did not approve but answered with guidance (APPROVE-2).
    pub(crate) fn guided(guidance: &str) -> Self {
        ToolResult::failure(format!("{GUIDED}{guidance}{GUIDED_NEXT}")).with_code(code::NOT_APPROVED)
    }
}

/// Returns the guidance that the user gave instead of approving a call, from the call's error; `None` for any other error.
pub fn guidance_from_error(error: &str) -> Option<&str> {
    let guidance = error.strip_prefix(GUIDED)?;
    Some(guidance.strip_suffix(GUIDED_NEXT).unwrap_or(guidance))
}

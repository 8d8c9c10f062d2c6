//! The results of calls that did not run, or not to their end. Each is a failure with a code and the reason, written for models.

use super::{ToolOutcome, ToolResult, code};

/// How the error of a rejected call begins.
const REJECTED: &str = "the user rejected the call";

/// How the error of a call begins that the user answered with guidance.
const GUIDED: &str = "the user did not approve this call: ";

impl ToolResult {
    /// A call that was running when the process ended, and may have taken effect (HOST-2).
    pub(crate) fn interrupted(tool: &str) -> Self {
        ToolResult::failure(format!(
            "`{tool}` was interrupted: the process ended while it ran, so it may or may not have happened. Look at the present \
             state before you decide whether to call it again"
        ))
        .with_code(code::INTERRUPTED)
    }

    /// A call that was running when its run ended at a limit.
    pub(crate) fn run_ended() -> Self {
        ToolResult::failure(
            "the run ended at a limit before this call had a result: it may or may not have happened. Look at the present state before \
             you decide whether to call it again",
        )
        .with_code(code::INTERRUPTED)
    }

    /// A call that waited for an approval when its run ended at a limit.
    pub(crate) fn undecided() -> Self {
        ToolResult::failure(
            "the run ended at a limit before a person had decided about this call: it did not run",
        )
        .with_code(code::INTERRUPTED)
    }

    /// A call that was stopped, or never started, because the user's guidance changes the plan (PAOR-8).
    pub(crate) fn redirected() -> Self {
        ToolResult::failure("it did not run to its end, as the user gave guidance that changes the plan")
            .with_code(code::REDIRECTED)
    }

    /// A call of a reply with more calls than the limit `max`, beyond the limit (LOOP-10).
    pub(crate) fn too_many_calls(max: u32) -> Self {
        ToolResult::failure(format!(
            "it did not run: of one reply only the first {max} calls run. Make it again if it is still needed"
        ))
        .with_code(code::REFUSED)
    }

    /// A call that a rule of the policy denies.
    pub(crate) fn denied(rule: String) -> Self {
        ToolResult::failure(rule).with_code(code::DENIED_BY_RULE)
    }

    /// A call whose approval expired (APPROVE-3).
    pub(crate) fn approval_expired() -> Self {
        ToolResult::failure("nobody approved it in time; it did not run").with_code(code::NOT_APPROVED)
    }

    /// A call that the user rejected (APPROVE-2).
    pub(crate) fn rejected(reason: Option<&str>) -> Self {
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        ToolResult::failure(format!("{REJECTED}{reason}")).with_code(code::NOT_APPROVED)
    }

    /// The user's reason, if any, for rejecting the call; `None` if the user did not reject it.
    pub(crate) fn rejection_reason(&self) -> Option<Option<&str>> {
        match &self.outcome {
            ToolOutcome::Failure { error, .. } => {
                let reason = error.strip_prefix(REJECTED)?;
                Some(reason.strip_prefix(": "))
            }
            ToolOutcome::Success { .. } => None,
        }
    }

    /// A call that the user answered with guidance instead of a decision (APPROVE-2).
    pub(crate) fn guided(guidance: &str) -> Self {
        ToolResult::failure(format!("{GUIDED}{guidance}")).with_code(code::NOT_APPROVED)
    }
}

/// The user's guidance in the error of a [guided](ToolResult::guided) call; `None` for any other error.
pub(crate) fn guidance_from_error(error: &str) -> Option<&str> {
    error.strip_prefix(GUIDED)
}

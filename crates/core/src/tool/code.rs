//! The codes of failures that Dirigent itself makes, and of those that many tools have: a word that says what kind of failure it is
//! and stays the same for ever, whatever the text says ([`ToolOutcome::Failure`](super::ToolOutcome::Failure)). A tool may have others
//! of its own.

/// The parameters do not fit the tool (CALL-6), or a plan or a judgement has faults.
pub const BAD_PARAMETERS: &str = "bad_parameters";
/// There is no tool of that name.
pub const UNKNOWN_TOOL: &str = "unknown_tool";
/// The agent may not do that: the tool is not among its own, or needs more [`Access`](super::Access) than it has.
pub const ACCESS_DENIED: &str = "access_denied";
/// A rule of the user's [policy](crate::policy) denies the call.
pub const DENIED_BY_RULE: &str = "denied_by_rule";
/// A person was asked and did not approve it, or nobody did in time; or a call before it in the same reply was not approved.
pub const NOT_APPROVED: &str = "not_approved";
/// The process ended while it ran: it may or may not have happened (HOST-2).
pub const INTERRUPTED: &str = "interrupted";
/// It did not run, or not to its end, as the user's guidance changed the plan (PAOR-8).
pub const REDIRECTED: &str = "redirected";
/// It took longer than it may.
pub const TIMED_OUT: &str = "timed_out";
/// Nobody waits for it any more.
pub const CANCELLED: &str = "cancelled";
/// The tool's own code panicked, or the schema of its parameters is invalid.
pub const BROKE_DOWN: &str = "broke_down";
/// A rule or a limit of the run is in the way.
pub const REFUSED: &str = "refused";
/// The agent that the call started ended without findings (PAOR-5).
pub const AGENT_FAILED: &str = "agent_failed";

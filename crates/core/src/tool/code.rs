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

/// There is nothing of that name.
pub const NOT_FOUND: &str = "not_found";
/// Something of that name is there already.
pub const EXISTS: &str = "exists";
/// A path leads out of the workspace.
pub const OUTSIDE_WORKSPACE: &str = "outside_workspace";
/// The workspace itself cannot be opened.
pub const WORKSPACE: &str = "workspace";
/// A folder, a pipe, a device or the like where a file is needed.
pub const NOT_A_FILE: &str = "not_a_file";
/// A file where a folder is needed.
pub const NOT_A_FOLDER: &str = "not_a_folder";
/// A folder that something is in.
pub const NOT_EMPTY: &str = "not_empty";
/// More than a tool takes, or more than it can work through.
pub const TOO_BIG: &str = "too_big";
/// A file is no text.
pub const BINARY: &str = "binary";
/// A character that the encoding of a file does not have.
pub const NOT_ENCODABLE: &str = "not_encodable";
/// A file belongs to git, or says what Dirigent and its agents may do.
pub const PROTECTED: &str = "protected";
/// The system does not let it: permissions, a full or a read-only disk, a limit.
pub const DENIED: &str = "denied";
/// The file is not as the agent last saw it, or the agent has not seen it (PAOR-5).
pub const STALE: &str = "stale";
/// Somebody else changed it while the call ran.
pub const CHANGED: &str = "changed";
/// What was there could not be recorded for `undo`, so that it is left as it is.
pub const NOT_KEPT: &str = "not_kept";
/// Anything else that the system says about a file.
pub const IO: &str = "io";
/// The text to be changed is not there.
pub const NO_MATCH: &str = "no_match";
/// The text to be changed is there more than once.
pub const AMBIGUOUS: &str = "ambiguous";
/// The command cannot be confined here, and so does not run.
pub const NO_SANDBOX: &str = "no_sandbox";
/// A command ended with a status that is not 0.
pub const EXITED: &str = "exited";
/// Nobody answers there, or not so that it could be understood.
pub const UNREACHABLE: &str = "unreachable";
/// A server answered a request with a status of 400 or more.
pub const HTTP_STATUS: &str = "http_status";
/// What the database said.
pub const DATABASE: &str = "database";

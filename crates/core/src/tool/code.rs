//! Codes of failures ([`ToolOutcome::Failure`](super::ToolOutcome::Failure)): stable identifiers for the failures of Dirigent and of many
//! tools. Tools may define further codes.

/// The parameters are invalid for the tool (CALL-6), or a submitted plan or reflection has errors.
pub const BAD_PARAMETERS: &str = "bad_parameters";
/// The tool does not exist.
pub const UNKNOWN_TOOL: &str = "unknown_tool";
/// The tool is not among the agent's tools, or needs more [`Access`](super::Access) than the agent has.
pub const ACCESS_DENIED: &str = "access_denied";
/// A rule of the user's [policy](crate::policy) denies the call.
pub const DENIED_BY_RULE: &str = "denied_by_rule";
/// The user did not approve the call, its approval expired, or an earlier call in the same reply was not approved.
pub const NOT_APPROVED: &str = "not_approved";
/// The user did not answer the question that the call asked (LEAD-4).
pub const NOT_ANSWERED: &str = "not_answered";
/// The process ended during the call, so the call may or may not have taken effect (HOST-2).
pub const INTERRUPTED: &str = "interrupted";
/// The user's guidance changed the plan before the call ran or finished (PAOR-8).
pub const REDIRECTED: &str = "redirected";
/// The call exceeded its time limit.
pub const TIMED_OUT: &str = "timed_out";
/// The caller was cancelled.
pub const CANCELLED: &str = "cancelled";
/// The tool panicked, or the schema of its parameters is invalid.
pub const BROKE_DOWN: &str = "broke_down";
/// A rule or a limit of the run prevents the call.
pub const REFUSED: &str = "refused";
/// The agent that the call started failed (PAOR-5).
pub const AGENT_FAILED: &str = "agent_failed";

/// The requested item does not exist.
pub const NOT_FOUND: &str = "not_found";
/// The item to create already exists.
pub const EXISTS: &str = "exists";
/// The path leads out of the workspace.
pub const OUTSIDE_WORKSPACE: &str = "outside_workspace";
/// The workspace cannot be opened.
pub const WORKSPACE: &str = "workspace";
/// The path is not a regular file but a folder, a pipe, a device or similar.
pub const NOT_A_FILE: &str = "not_a_file";
/// The path is not a folder but a file.
pub const NOT_A_FOLDER: &str = "not_a_folder";
/// The folder is not empty.
pub const NOT_EMPTY: &str = "not_empty";
/// The input exceeds what the tool accepts or can process.
pub const TOO_BIG: &str = "too_big";
/// The file is not text.
pub const BINARY: &str = "binary";
/// The file's encoding cannot represent a character of the text to write.
pub const NOT_ENCODABLE: &str = "not_encodable";
/// The file belongs to Git, or configures Dirigent or its agents.
pub const PROTECTED: &str = "protected";
/// The operating system denies the operation because of permissions, a full or read-only disk, or a limit.
pub const DENIED: &str = "denied";
/// The file differs from what the agent last saw, or the agent has not seen the file (PAOR-5).
pub const STALE: &str = "stale";
/// Another process changed the file during the call.
pub const CHANGED: &str = "changed";
/// The old content could not be recorded for undo, so the file was left unchanged.
pub const NOT_KEPT: &str = "not_kept";
/// Any other I/O error.
pub const IO: &str = "io";
/// The text to replace was not found.
pub const NO_MATCH: &str = "no_match";
/// The text to replace occurs more than once.
pub const AMBIGUOUS: &str = "ambiguous";
/// The system cannot sandbox the command, so it did not run.
pub const NO_SANDBOX: &str = "no_sandbox";
/// The command exited with a nonzero status.
pub const EXITED: &str = "exited";
/// The server does not respond, or its response is malformed.
pub const UNREACHABLE: &str = "unreachable";
/// The server responded with an HTTP status of 400 or more.
pub const HTTP_STATUS: &str = "http_status";
/// The database reported an error.
pub const DATABASE: &str = "database";

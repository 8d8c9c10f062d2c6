//! Errors of the `execute_sql` tool, with messages that a model can act on and that contain no secrets.

use std::time::Duration;

use dirigent_core::name::nearest;
use dirigent_core::tool::{ToolResult, code};

use super::secrets::Secrets;
use crate::workspace::FileError;

/// Reason why a statement must not change anything.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadOnlyReason {
    /// The connection is read-only for all agents.
    Connection,
    /// The agent has read-only access.
    Agent,
    /// The call's operation is `query`.
    Query,
}

/// Reason why a statement failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SqlError {
    #[error("{0}")]
    Parameters(String),
    #[error("there is no connection `{name}`{}; the connections are: {}", did_you_mean(name, .known), .known.join(", "))]
    UnknownConnection { name: String, known: Vec<String> },
    #[error("the database file of `{connection}` does not exist{}", not_created_hint(*.read_only))]
    FileNotFound {
        connection: String,
        read_only: Option<ReadOnlyReason>,
    },
    #[error("the database file: {0}")]
    File(FileError),
    /// `detail` is the database's own message.
    #[error("{}: {detail}; nothing was changed", read_only_message(*.reason))]
    ReadOnly { reason: ReadOnlyReason, detail: String },
    #[error("{0}; nothing was run")]
    Refused(String),
    #[error("{0}")]
    Database(String),
    #[error(
        "a single row is too large to show: select fewer columns, or parts of them, for example with substr"
    )]
    RowTooBig,
    #[error(
        "the statement took longer than {} s and was ended; its transaction is rolled back, unless it was already being committed. Check \
         before you repeat a statement that changes something; narrow a query with WHERE and LIMIT",
        .limit.as_secs_f64()
    )]
    TimedOut { limit: Duration },
    #[error(
        "the statement never ran: {running} other statements were still running on this connection after {} s. Call again later",
        .limit.as_secs_f64()
    )]
    QueueTimedOut { limit: Duration, running: usize },
    #[error("{0}")]
    ResourceLimit(&'static str),
    #[error("SQLite could not be confined to the database's folder, so nothing was run: {0}")]
    SandboxUnavailable(String),
    #[error("no thread could be started for the statement, so it never ran: {0}")]
    ThreadSpawnFailed(String),
    #[error("the tool failed internally: whether the statement was executed is unknown")]
    BrokeDown,
    #[error("cancelled: its transaction is rolled back, unless it was already being committed")]
    Cancelled,
    #[error("{0}; the operator must fix this")]
    Unreachable(String),
}

fn did_you_mean(name: &str, known: &[String]) -> String {
    let nearest = nearest(name, known.iter().map(String::as_str));
    nearest.map_or_else(String::new, |nearest| format!(" (did you mean `{nearest}`?)"))
}

fn not_created_hint(read_only: Option<ReadOnlyReason>) -> &'static str {
    match read_only {
        Some(ReadOnlyReason::Query) => ", and a query does not create it",
        Some(ReadOnlyReason::Connection | ReadOnlyReason::Agent) => {
            ", and it is not created because access is read-only"
        }
        None => "",
    }
}

fn read_only_message(reason: ReadOnlyReason) -> &'static str {
    match reason {
        ReadOnlyReason::Connection => "this connection is read-only",
        ReadOnlyReason::Agent => "this agent has read-only access",
        ReadOnlyReason::Query => {
            "the operation `query` only reads: use the operation `change` if the statement is meant to change something"
        }
    }
}

impl SqlError {
    /// Returns the error for SQL that is empty or only a comment.
    pub(super) fn no_statement() -> Self {
        SqlError::Parameters("`sql` contains no statement".to_owned())
    }

    /// Returns the error for several statements in one call.
    pub(super) fn multiple_statements() -> Self {
        SqlError::Parameters(
            "`sql` contains several statements: call the tool once for each; nothing was run".to_owned(),
        )
    }

    /// Returns the error for a number of values that differs from the number of placeholders.
    pub(super) fn placeholder_count(placeholders: usize, given: usize) -> Self {
        SqlError::Parameters(format!(
            "the statement has {placeholders} placeholders and `parameters` has {given} values; nothing was run"
        ))
    }

    /// Converts an error that occurred while connecting. The server's own message is omitted because it contains users and hosts.
    pub(super) fn from_connect_error(error: &sqlx::Error) -> Self {
        let reason = match error {
            sqlx::Error::Io(error) => format!(
                "the server of this connection cannot be reached ({})",
                error.kind()
            ),
            sqlx::Error::Tls(_) => "the TLS connection to the server could not be established".to_owned(),
            sqlx::Error::Database(_) => "the server of this connection rejects Dirigent's login".to_owned(),
            sqlx::Error::Configuration(_) => "the URL of this connection is invalid".to_owned(),
            _ => "the server of this connection does not respond like a database".to_owned(),
        };
        SqlError::Unreachable(reason)
    }

    /// Converts an error that does not come from the database, such as a lost connection.
    pub(super) fn from_driver_error(error: &sqlx::Error, secrets: &Secrets) -> Self {
        match error {
            sqlx::Error::Io(error) => SqlError::Unreachable(format!(
                "the connection to the server was lost ({}), and whether the statement was executed is unknown",
                error.kind()
            )),
            error => SqlError::Database(secrets.redact(&error.to_string())),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            SqlError::Parameters(_) => code::BAD_PARAMETERS,
            SqlError::UnknownConnection { .. } | SqlError::FileNotFound { .. } => "not_found",
            SqlError::File(error) => error.code(),
            SqlError::ReadOnly { .. } => code::ACCESS_DENIED,
            SqlError::Refused(_) => code::REFUSED,
            SqlError::Database(_) => "database",
            SqlError::RowTooBig | SqlError::ResourceLimit(_) => "too_big",
            SqlError::TimedOut { .. } | SqlError::QueueTimedOut { .. } => code::TIMED_OUT,
            SqlError::SandboxUnavailable(_) => "no_sandbox",
            SqlError::ThreadSpawnFailed(_) => "denied",
            SqlError::BrokeDown => code::BROKE_DOWN,
            SqlError::Cancelled => code::CANCELLED,
            SqlError::Unreachable(_) => "unreachable",
        }
    }

    pub(super) fn into_result(self) -> ToolResult {
        ToolResult::failure(self.to_string()).with_code(self.code())
    }
}
